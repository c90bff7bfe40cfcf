"""How strength is measured: duplicate deals and rotated seats, ratings, the judge of a training."""

import dataclasses

import numpy as np
import pytest
import torch

from playmill.cli.main import main
from playmill.games import PlaymillError, UnknownName, registry
from playmill.league.evaluate import Z95, evaluate, interval, play_tables, win_shares
from playmill.league.exploitability import TINY, InformationStates, exploitability
from playmill.league.ratings import fit, rate
from playmill.policies import Network, Policy
from playmill.pools import FIRST_BOT, NativePool
from playmill.replays import ReplayFile, ReplayWriter
from playmill.training.config import Evaluation, Plateau, Train
from playmill.training.judge import Judge, exact_exploitability, metrics_of

SKULL_KING = registry.spec("skull_king")


def untrained(spec, seed=0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Policy(spec, Network(hidden=(16,)))


# Evaluation


@pytest.mark.parametrize("bot", ["easy", "medium", "hard", "greedy"])
@pytest.mark.parametrize("players", [2, 4])
def test_a_bot_against_itself_is_exactly_fair(bot, players):
    """The four rotations of a deal are the same game: every deal gives away exactly one win."""
    spec = registry.spec("skull_king", {"players": players})
    result = evaluate(spec, bot, bot, deals=20)
    assert result.fair == 1 / players
    assert result.win_share == pytest.approx(1 / players, abs=1e-12)
    assert result.low == pytest.approx(result.high, abs=1e-12)
    assert result.games == 20 * players
    assert result.score == result.opponent_score


def test_hard_beats_random_soundly():
    result = evaluate(SKULL_KING, "hard", "random", deals=40)
    assert result.win_share > 0.9
    assert result.fair < result.low < result.win_share < result.high
    assert result.score > result.opponent_score + 100
    assert result.reward == pytest.approx(result.score / 100, abs=0.01)
    assert 0.3 < result.bid_made < 1.0
    assert set(result.bid_made_by_cards) == set(range(1, 11))
    assert all(0 <= share <= 1 for share in result.bid_made_by_cards.values())
    assert evaluate(SKULL_KING, "random", "hard", deals=40).win_share < 0.1


def test_the_same_seed_names_the_same_deals():
    first, again = (evaluate(SKULL_KING, "hard", "greedy", deals=15, seed=4) for _ in range(2))
    other = evaluate(SKULL_KING, "hard", "greedy", deals=15, seed=5)
    assert first == again
    assert first.score != other.score


def test_the_number_of_threads_changes_no_result():
    one, three = (evaluate(SKULL_KING, untrained(SKULL_KING), "hard", deals=9, threads=t) for t in (1, 3))
    for field in dataclasses.fields(one):
        if field.name != "turns":
            assert getattr(three, field.name) == pytest.approx(getattr(one, field.name)), field.name


def test_the_statistics_are_the_players_own():
    spec = registry.spec("generals", {"width": 8, "height": 8, "max_ticks": 200})
    found = evaluate(spec, "expander", "random", deals=40, seed=2)
    assert found.stats["win"] + found.stats["draw"] / 2 == pytest.approx(found.win_share)
    assert found.stats["win"] > 0.5


def test_the_interval_is_over_deals():
    result = evaluate(SKULL_KING, "hard", "greedy", deals=50)
    order = np.arange(4)
    tables = play_tables(
        SKULL_KING,
        ("hard", "greedy"),
        np.tile(np.where(order[None] == order[:, None], 0, 1), (50, 1)),
        np.repeat(np.random.SeedSequence(1).generate_state(50, np.uint64), 4),
    )
    shares = win_shares(tables.totals)[np.arange(200), np.tile(order, 50)].reshape(50, 4).mean(axis=1)
    half = Z95 * shares.std(ddof=1) / 50**0.5
    assert (result.low, result.high) == pytest.approx((shares.mean() - half, shares.mean() + half))
    assert 0 < result.low < result.win_share < result.high < 1


def test_the_interval_of_known_values():
    assert interval(np.array([0.25])) == (0.25, 0.25)
    assert interval(np.array([0.5, 0.5, 0.5])) == (0.5, 0.5)
    low, high = interval(np.array([0.0, 1.0] * 50))
    assert (low, high) == pytest.approx((0.5 - Z95 * 0.0502519, 0.5 + Z95 * 0.0502519), abs=1e-6)
    assert interval(np.array([1.0] * 9 + [0.8]))[1] == 1.0
    assert interval(np.array([0.0] * 9 + [0.2]))[0] == 0.0


def test_seats_that_tie_share_the_win():
    totals = np.array([[3.0, 1.0, 2.0], [5.0, 5.0, 1.0], [0.0, 0.0, 0.0], [-2.0, -1.0, -1.00001]])
    thirds = [1 / 3] * 3
    np.testing.assert_allclose(win_shares(totals), [[1, 0, 0], [0.5, 0.5, 0], thirds, [0, 0.5, 0.5]])


def test_bots_that_surface_play_as_those_inside():
    """A table of bots only needs one that surfaces; it makes no difference which one does."""
    seeds = np.arange(30, dtype=np.uint64)
    seats = np.tile([0, 1, 1, 0], (30, 1))
    tables = play_tables(SKULL_KING, ("hard", "greedy"), seats, seeds)
    pool = NativePool(SKULL_KING, 30, stagger=False)
    drivers = np.array([SKULL_KING.bot("hard"), SKULL_KING.bot("greedy")])[seats] + FIRST_BOT
    drivers[:, 2] = 0
    pool.set_drivers(drivers)
    pool.reset(seeds)
    totals, done = np.zeros((30, 4)), np.zeros(30, bool)
    while not done.all():
        pool.turns()
        outcome = pool.act(pool.bot_actions("greedy"))
        totals[~done] += outcome.rewards[~done]
        done |= outcome.over.astype(bool)
    np.testing.assert_allclose(tables.totals, totals, atol=1e-5)
    score, count = tables.stats[0]["score"]
    assert count == 60
    assert score / count == pytest.approx(100 * totals[:, [0, 3]].mean(), abs=0.01)


def test_a_policy_sits_in_every_seat_of_every_deal():
    policy = untrained(SKULL_KING)
    result = evaluate(SKULL_KING, policy, "random", deals=10)
    assert result.games == 40
    assert result.turns > 40 * 60
    same = evaluate(SKULL_KING, policy, policy, deals=10)
    assert same.win_share == pytest.approx(0.25, abs=1e-12)


def test_sampling_plays_other_games_than_the_likeliest_actions():
    policy = untrained(SKULL_KING)
    results = [evaluate(SKULL_KING, policy, "hard", deals=10, sample=s) for s in (False, True)]
    assert results[0].score != results[1].score


def test_an_unknown_bot_is_offered_the_nearest():
    with pytest.raises(UnknownName, match="did you mean 'greedy'"):
        evaluate(SKULL_KING, "gredy", "hard", deals=1)


def test_more_policies_than_drivers_are_refused():
    policies = [untrained(SKULL_KING)] * 17
    with pytest.raises(PlaymillError, match="at most 16 policies can meet at once, got 17"):
        play_tables(SKULL_KING, policies, np.zeros((1, 4), np.int64), np.zeros(1, np.uint64))


# Ratings


def test_fitted_ratings_are_the_strengths_behind_the_wins():
    strengths = np.array([1000.0, 1100.0, 1300.0, 900.0])
    odds = 10 ** (strengths / 400)
    wins = 1e6 * odds[:, None] / (odds[:, None] + odds[None, :])
    np.fill_diagonal(wins, 0)
    np.testing.assert_allclose(fit(wins), strengths, atol=0.1)


def test_a_clean_sweep_stays_finite():
    ratings = fit(np.array([[0.0, 0.0], [50.0, 0.0]]))
    assert ratings[0] == 1000.0
    assert 1200 < ratings[1] < 2500


def test_random_is_below_hard_is_below_greedy():
    bots = {bot: bot for bot in SKULL_KING.bots}
    table = rate(SKULL_KING, bots, deals=150, seed=2)
    names = [row.name for row in table]
    assert [row.rating for row in table] == sorted((row.rating for row in table), reverse=True)
    assert names.index("greedy") < names.index("hard") < names.index("random")
    by_name = {row.name: row for row in table}
    assert by_name["random"].rating == pytest.approx(1000.0)
    assert by_name["random"].low == by_name["random"].high == pytest.approx(1000.0)
    for row in table:
        assert row.low <= row.rating <= row.high
        assert row.games > 0
    assert by_name["greedy"].low > by_name["random"].high


def test_two_seats_and_an_own_policy_can_be_rated():
    spec = registry.spec("leduc")
    table = rate(spec, {"random": "random", "tight": "tight", "net": untrained(spec)}, deals=60)
    assert {row.name for row in table} == {"random", "tight", "net"}
    with pytest.raises(PlaymillError, match="at least two entrants"):
        rate(spec, {"random": "random"})


# The judge


def judge_of(**plateau):
    config = Train(game="skull_king", plateau=Plateau(on=True, **plateau))
    return Judge(config, SKULL_KING, untrained(SKULL_KING))


def hourly(scores, hours=0.1):
    return [(3600 * hours * i, score) for i, score in enumerate(scores)]


def test_a_plateau_is_scores_that_no_longer_move():
    judge = judge_of(after=6, window=4, span=3.0, times=100)
    judge.scores = hourly([0, 50, 80, 100, 101, 99])
    assert not judge.plateau()  # the window still holds the climb
    judge.scores = hourly([0, 50, 100, 101, 99, 101.5])
    assert judge.plateau()
    judge.scores = hourly([100, 101, 99, 101.5])
    assert not judge.plateau()  # too early to tell
    judge.scores = hourly([0, 50, 100, 101, 99, 102.5])
    assert not judge.plateau()  # more than the span


def test_a_plateau_is_too_little_gain_an_hour():
    judge = judge_of(after=2, window=100, times=3, gain_per_hour=15.0)
    judge.scores = hourly([0, 10, 11, 12, 13])  # ten points an hour, three times
    assert judge.plateau()
    judge.scores = hourly([0, 10, 11, 12, 14])  # the last gain is twenty an hour
    assert not judge.plateau()
    judge.scores = hourly([0, 1, 2])
    assert not judge.plateau()


def test_the_plateau_is_off_unless_asked_for():
    judge = Judge(Train(game="skull_king"), SKULL_KING, untrained(SKULL_KING))
    judge.scores = hourly([100] * 100)
    assert not judge.plateau()


def test_the_best_is_said_once():
    judge = judge_of()
    assert not judge.is_best()
    for score, best in [(0.2, True), (0.2, False), (0.1, False), (0.3, True)]:
        judge.score = score
        assert judge.is_best() == best


def test_evaluations_are_due_by_turns():
    config = Train(game="kuhn", evaluation=Evaluation(every=100, deals=2, exploitability=False))
    judge = Judge(config, config.spec, untrained(config.spec))
    assert [turns for turns in (0, 60, 99, 100, 150) if judge.due(turns)] == [100, 150]
    judge.judge(150, 1.0, final=False)
    assert not judge.due(199)
    assert judge.due(200)
    never = Judge(Train(game="kuhn", evaluation=Evaluation(every=0)), config.spec, judge.policy)
    assert not never.due(10**9)


def test_the_judge_remembers_over_a_restart():
    config = Train(game="skull_king", evaluation=Evaluation(deals=2, against=("random", "easy"), every=10))
    judge = Judge(config, SKULL_KING, untrained(SKULL_KING))
    values = judge.judge(12, 3.5, final=False)
    assert judge.is_best()
    assert {"eval/random/win_share", "eval/easy/low", "eval/easy/bid_made_10"} <= values.keys()
    assert judge.scores == [(3.5, judge.latest["easy"].score)]
    other = Judge(config, SKULL_KING, judge.policy)
    other.load_state(judge.state())
    assert other.state() == judge.state()
    assert not other.due(19)
    other.score = judge.score
    assert not other.is_best()


def test_metrics_leave_out_what_a_game_does_not_have():
    spec = registry.spec("kuhn")
    values = metrics_of("eval/random", evaluate(spec, "random", "random", deals=5))
    assert "eval/random/bid_made" not in values
    assert values["eval/random/fair"] == 0.5


# Exact exploitability


@pytest.mark.parametrize("game", [g for g in TINY if g != "liars_dice"])
def test_an_untrained_policy_is_about_as_exploitable_as_uniform_play(game):
    states = InformationStates(game)
    uniform = exploitability(game, states.uniform(), states)
    found = exact_exploitability(untrained(registry.spec(game)), states)
    assert found == pytest.approx(uniform, rel=0.05)
    assert found != uniform


def test_the_judge_ranks_tiny_games_by_exploitability():
    config = Train(game="kuhn", evaluation=Evaluation(deals=2))
    judge = Judge(config, config.spec, untrained(config.spec))
    values = judge.judge(1, 1.0, final=True)
    assert judge.score == -values["eval/exploitability"]
    assert judge.extras["exploitability"] == pytest.approx(0.4583, rel=0.05)


def test_judging_again_at_one_place_replaces_the_point():
    config = Train(game="kuhn", evaluation=Evaluation(deals=2, final_deals=50, exploitability=False))
    judge = Judge(config, config.spec, untrained(config.spec))
    judge.judge(1000, 1.0, final=False)
    judge.judge(2000, 2.0, final=False)
    judge.judge(2000, 2.0, final=True)
    assert [turns for turns, _ in judge.history["random"]] == [1000, 2000]
    assert judge.history["random"][-1][1] == judge.latest["random"].win_share
    assert judge.latest["random"].games == 100


def test_the_judge_ranks_others_by_what_is_sure_of_the_wins():
    config = Train(game="leduc", evaluation=Evaluation(deals=40, exploitability=False))
    judge = Judge(config, config.spec, untrained(config.spec))
    judge.judge(1000, 1.0, final=False)
    result = judge.latest[config.bots[-1]]
    assert judge.score == result.low < result.win_share


# Replays


def test_every_game_of_an_evaluation_can_be_kept_and_nothing_else_changes(tmp_path):
    path = tmp_path / "games.replays"
    for player, other in (("hard", "greedy"), (untrained(SKULL_KING), "hard")):
        bare = evaluate(SKULL_KING, player, other, deals=4, threads=2)
        path.unlink(missing_ok=True)
        with ReplayWriter(path) as writer:
            kept = evaluate(
                SKULL_KING, player, other, deals=4, threads=2, replays=writer, names=("me", "them")
            )
        assert dataclasses.replace(kept, turns=bare.turns) == bare
        file = ReplayFile(path)
        assert len(file) == kept.games == 16
        mine = [file[number].replay.names.index("me") for number in range(16)]
        assert mine == [0, 1, 2, 3] * 4
        rewards = [file.play(number).rewards[seat] for number, seat in enumerate(mine)]
        assert np.mean(rewards) == pytest.approx(kept.reward, abs=1e-5)


def test_the_command_keeps_the_games_against_every_bot(tmp_path, capsys):
    path = tmp_path / "games.replays"
    main(["evaluate", "random", "--game", "kuhn", "--deals", "3", "--replays", str(path)])
    assert "win share" in capsys.readouterr().out
    file = ReplayFile(path)
    assert len(file) == 6 * len(registry.spec("kuhn").bots)
    for number in range(len(file)):
        file.play(number)
