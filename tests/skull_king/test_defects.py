"""The seven defects found in an older Skull King environment, each as a test of our engine."""

import random

import numpy as np
import pytest

from playmill.games import Game, IllegalAction, registry
from playmill.pools import NativePool

from . import rules as r
from .driver import Case, members
from .library import Recorder
from .staging import action, stage


def fresh(seed: int, **options: int | str) -> Game:
    return Game("skull_king", options=options, seed=seed)


def test_defect_1_bidding_sees_a_dealt_hand_and_a_bid_can_miss() -> None:
    """The old bidding environment never dealt: an empty sight, and bid 0 always exact."""
    for seed in range(50):
        game = fresh(seed, first_round=8)
        schema = game.spec.schema
        assert game.role == "bid"
        for seat in range(4):
            assert len(members(schema.unpack(game.observe(seat))["hand"])) == 8
    missed = 0
    for seed in range(20):
        game = fresh(seed, first_round=10)
        while not game.over:
            rewards = game.act(r.BID if game.role == "bid" else game.legal()[0])
        missed += int((rewards < 0).sum())
    assert missed > 0, "in twenty rounds of ten cards somebody took a trick against a bid of 0"


def test_defect_2_the_current_trick_is_visible_to_later_seats() -> None:
    """The old environment gave the sight before the earlier seats had played."""
    for seed in range(20):
        game = fresh(seed, first_round=9)
        schema, dice = game.spec.schema, random.Random(seed)
        table: dict[int, int] = {}
        while not game.over:
            seat, role = int(game.seat), game.role
            choice = dice.choice(game.legal())
            if role == "play":
                shown = schema.unpack(game.observe(seat))["trick"].reshape(-1).tolist()
                assert shown == [table.get((seat + k) % 4, 255) for k in range(4)]
                table[seat] = choice
                if len(table) == 4:
                    table = {}
            game.act(choice)


def test_defect_2_an_illegal_pick_raises_and_changes_nothing() -> None:
    """The old environment replaced illegal picks in silence."""
    dice = random.Random(2)
    for seed in range(5):
        game = fresh(seed, first_round=9)
        while not game.over:
            before = [game.observe(seat).tobytes() for seat in range(4)]
            illegal = sorted(set(range(r.ACTIONS)) - set(game.legal()))
            with pytest.raises(IllegalAction):
                game.act(dice.choice(illegal))
            assert before == [game.observe(seat).tobytes() for seat in range(4)]
            game.act(dice.choice(game.legal()))


@pytest.mark.parametrize("bot", registry.spec("skull_king").bots[1:])
def test_defect_3_bots_never_revoke(bot: str) -> None:
    """The old bots got no legal set and revoked in one following play of six."""
    followed = 0
    for number in range(12):
        case = Case.numbered(number, fuzz_seed=5)
        for trick in Recorder(Case(case.options, case.seed, (bot,) * len(case.drivers))).record().tricks:
            for k, play in enumerate(trick.plays):
                if play.place not in trick.hands:
                    continue
                led = r.lead_suit(trick.plays[:k])
                able = any(r.is_number(card) and r.suit(card) == led for card in trick.hands[play.place])
                followed += able
                assert not (able and r.is_number(play.card) and r.suit(play.card) != led)
    assert followed > 200


def test_defect_3_opponents_bids_are_visible_once_in() -> None:
    """In the old environments opponents' bids read 0 for ever."""
    game = fresh(4, first_round=7)
    schema = game.spec.schema
    bids = {}
    for bid in (1, 5, 3, 7):
        bids[int(game.seat)] = bid
        game.act(r.BID + bid)
    for seat in range(4):
        shown = schema.unpack(game.observe(seat))["bid"].reshape(-1).tolist()
        assert shown == [bids[(seat + k) % 4] for k in range(4)]


def test_defect_4_a_game_lasts_ten_rounds_and_scores_accumulate() -> None:
    """The old game ended at the first decision of round ten and never added a score."""
    for seed in range(10):
        game = fresh(seed, powers="off")
        decisions, total = 0, np.zeros(4)
        dice = random.Random(seed)
        while not game.over:
            total += game.act(dice.choice(game.legal()))
            decisions += 1
        assert decisions == 4 * (10 + 55)
        scores = game.spec.schema.unpack(game.observe(0))["score"].reshape(-1)
        assert np.array_equal(np.round(100 * total).astype(int), scores)
        assert scores.any()


def test_defect_5_suits_and_beasts_are_told_apart_in_the_observation() -> None:
    """The old sight had no suits, and black, kraken and whale looked alike."""
    spec = registry.spec("skull_king", {"first_round": 1})
    hand = next(field for field in spec.schema.fields if field.name == "hand")
    seen: dict[bytes, int] = {}
    for seed in range(3000):
        game = fresh(seed, first_round=1)
        row = game.observe(int(game.seat))
        (held,) = members(spec.schema.unpack(row)["hand"])
        floats = spec.schema.expand(row[None])[0, hand.feature : hand.feature + hand.features]
        assert seen.setdefault(floats.tobytes(), held) == held
    assert sorted(seen.values()) == list(range(r.CARDS)), "every card has a look of its own"


def test_defect_5_the_suit_to_follow_is_in_the_observation() -> None:
    for words, lead in (("b3", 1), ("g3", 2), ("p3", 3), ("y3", 4), ("rosie", 5), ("escape", 0)):
        game = fresh(0, players=3, first_round=9)
        for seed in range(2000):
            game = fresh(seed, players=3, first_round=9)
            for _ in range(3):
                game.act(r.BID)
            if action(words) in game.legal():
                break
        game.act(action(words))
        for seat in range(3):
            assert game.spec.schema.unpack(game.observe(seat))["lead"].item() == lead


def test_defect_6_black_cannot_be_played_while_able_to_follow() -> None:
    met = 0
    for number in range(15):
        case = Case.numbered(number, fuzz_seed=6)
        for trick in Recorder(case).record().tricks:
            for k, play in enumerate(trick.plays):
                led = r.lead_suit(trick.plays[:k])
                hand = trick.hands.get(play.place, frozenset())
                black = {card for card in hand if r.is_number(card) and r.suit(card) == r.BLACK}
                if (
                    led not in (None, r.BLACK)
                    and black
                    and any(r.is_number(card) and r.suit(card) == led for card in hand)
                ):
                    met += 1
                    assert not black & trick.legal[play.place]
    assert met > 20


def test_defect_6_no_suit_is_set_after_a_character_lead() -> None:
    assert stage("rosie, g9, b2").winner == 0
    assert stage("mermaid, g9, p2").winner == 0
    assert stage("whale, g3, p9").winner == 2


def test_defect_6_the_right_player_leads_after_the_kraken() -> None:
    assert stage("g5, kraken, g9").next_leader == 2
    assert stage("skull king, kraken, mermaid").next_leader == 2
    assert stage("b14, escape, kraken").next_leader == 0


def test_defect_6_the_tigress_as_a_pirate_earns_and_gives_bonuses() -> None:
    assert stage("tigress!, mermaid, g2").bonus == [20, 0, 0]
    assert stage("skull king, tigress!, g2").bonus == [30, 0, 0]


def test_defect_7_the_pool_counts_turns_honestly() -> None:
    """The old speed counted what was never played. Here every row a pool hands out is one
    decision of one game: the same answers, given one by one to single games, end them at the
    same moment with the same rewards."""
    seeds = np.arange(100, 116, dtype=np.uint64)
    pool = NativePool("skull_king", len(seeds), options={"first_round": 8})
    pool.reset(seeds)
    games = [fresh(int(seed), first_round=8) for seed in seeds]
    done = [False] * len(games)
    rows = 0
    answered = 0
    while not all(done):
        turns = pool.turns()
        actions = pool.bot_actions("random").copy()
        for slot, game in enumerate(games):
            if not done[slot]:
                assert turns.seat[slot] == game.seat
                assert turns.observation[slot].tobytes() == game.observe(int(game.seat)).tobytes()
        outcome = pool.act(actions)
        for slot, game in enumerate(games):
            if done[slot]:
                continue
            rows += 1
            rewards = game.act(int(actions[slot]))
            answered += 1
            assert np.allclose(rewards, outcome.rewards[slot], atol=1e-6)
            assert bool(outcome.over[slot]) == game.over
            done[slot] = game.over
    least = 4 * (3 + 8 + 9 + 10)  # bids and cards; powers only add to it
    assert rows == answered >= least * len(games)


def test_defect_7_turns_in_the_statistics_are_turns_applied() -> None:
    """Where the game keeps a statistic of turns, it equals the decisions given."""
    pool = NativePool("skull_king", 8, options={"schedule": "past_your_bedtime"}, stagger=False)
    over, steps = 0, 0
    pool.turns()
    while steps < 400:
        over += int(pool.act(pool.bot_actions("random")).over.sum())
        pool.turns()
        steps += 1
    assert over >= 8 * steps // (4 * 2 + 1), "a game of one card is at most nine decisions long"
    stats = pool.stats()
    if "turns" in pool.spec.stats:
        total = sum(
            mean * count for by in stats.values() for name, (mean, count) in by.items() if name == "turns"
        )
        assert abs(total - 8 * steps) <= 8 * 9, "only games in flight may be missing"
