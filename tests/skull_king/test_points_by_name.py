"""Bonuses, scores and loot, by name, on the engine: the plays of the library that show an edge must be
there, and every one of them must obey the rule as the test states it."""

from playmill.games import Game

from . import rules as r
from .library import Round, Trick, beastless, only_numbers_count, seats, some
from .staging import stage

# Points in a trick


def captures(tricks: list[Trick], per: str) -> list[Trick]:
    return [t for t in tricks if beastless(t) and t.winner is not None and t.rules.capture_bonus == per]


def fourteens(trick: Trick) -> int:
    values = {r.suit(play.card): play for play in trick.numbers if r.number(play.card) == 14}
    return sum(20 if suit == r.BLACK else 10 for suit in values)


def gained(trick: Trick) -> int:
    assert trick.bonus is not None
    assert trick.winner is not None
    assert sum(trick.bonus) == trick.bonus[trick.winner], "points go to the winner alone"
    return trick.bonus[trick.winner]


def test_bonus_thirty_for_every_pirate_the_skull_king_takes(tricks: list[Trick]) -> None:
    def shows(trick: Trick) -> bool:
        return trick.has(r.SKULL_KING) and not trick.has(*r.MERMAIDS) and bool(trick.pirates)

    for trick in some(captures(tricks, "per_card"), shows):
        assert gained(trick) == 30 * len(trick.pirates) + fourteens(trick)
    for trick in some(captures(tricks, "per_trick"), shows):
        assert gained(trick) == 30 + fourteens(trick)


def test_bonus_twenty_for_every_mermaid_a_pirate_takes(tricks: list[Trick]) -> None:
    def shows(trick: Trick) -> bool:
        return not trick.has(r.SKULL_KING) and trick.has(*r.MERMAIDS) and bool(trick.pirates)

    for trick in some(captures(tricks, "per_card"), shows):
        assert gained(trick) == 20 * len(trick.where(*r.MERMAIDS)) + fourteens(trick)
    for trick in some(captures(tricks, "per_trick"), shows):
        assert gained(trick) == 20 + fourteens(trick)


def test_bonus_per_card_and_per_trick_differ_when_two_are_taken() -> None:
    assert stage("skull king, rosie, jade").bonus == [60, 0, 0]
    assert stage("skull king, rosie, jade", {"capture_bonus": "per_trick"}).bonus == [30, 0, 0]
    assert stage("rosie, mermaid, mermaid 2").bonus == [40, 0, 0]
    assert stage("rosie, mermaid, mermaid 2", {"capture_bonus": "per_trick"}).bonus == [20, 0, 0]


def test_bonus_for_the_skull_king_taken_by_a_mermaid(tricks: list[Trick]) -> None:
    for trick in some(
        [t for t in tricks if beastless(t) and t.winner is not None],
        lambda t: t.has(r.SKULL_KING) and t.has(*r.MERMAIDS),
    ):
        assert gained(trick) == int(trick.rules.skull_king_capture) + fourteens(trick)


def test_bonus_the_tigress_counts_as_a_pirate_taken_and_taking() -> None:
    assert stage("skull king, tigress!, g2").bonus == [30, 0, 0]
    assert stage("tigress!, mermaid, g2").bonus == [20, 0, 0]
    assert stage("skull king, tigress, g2").bonus == [0, 0, 0]


def test_bonus_fourteens_go_to_whoever_takes_them(tricks: list[Trick]) -> None:
    for trick in some(tricks, lambda t: only_numbers_count(t) and t.winner is not None and fourteens(t) > 0):
        assert gained(trick) == fourteens(trick)


# Scores


def points(round: Round, seat: int) -> int:
    """The points without loot and wager."""
    return round.points[seat] - round.extras(seat)


def test_score_a_bid_made_is_twenty_a_trick_and_the_bonuses(rounds: list[Round]) -> None:
    for round, s in seats(rounds, "skull_king", lambda q, s: q.exact(s) and q.bids[s] > 0):
        assert points(round, s) == 20 * round.bids[s] + round.bonus[s]


def test_score_a_bid_missed_costs_ten_a_trick_and_the_bonuses(rounds: list[Round]) -> None:
    for round, s in seats(rounds, "skull_king", lambda q, s: not q.exact(s) and q.bids[s] > 0):
        assert points(round, s) == -10 * abs(round.bids[s] - round.won[s])


def test_score_bid_zero_is_worth_ten_a_card_either_way(rounds: list[Round]) -> None:
    for round, s in seats(rounds, "skull_king", lambda q, s: q.bids[s] == 0 and q.won[s] == 0):
        assert points(round, s) == 10 * round.cards
    for round, s in seats(rounds, "skull_king", lambda q, s: q.bids[s] == 0 and q.won[s] > 0):
        assert points(round, s) == -10 * round.cards


def test_score_rascal_full_half_or_nothing(rounds: list[Round]) -> None:
    for off, share in ((0, 1.0), (1, 0.5), (2, 0.0), (3, 0.0)):
        for round, s in seats(rounds, "rascal", lambda q, s, off=off: abs(q.bids[s] - q.won[s]) == off):  # type: ignore[misc]
            assert points(round, s) == share * (10 * round.cards + round.bonus[s])


def test_score_rascal_halves_the_bonuses_too(rounds: list[Round]) -> None:
    def shows(round: Round, seat: int) -> bool:
        return abs(round.bids[seat] - round.won[seat]) == 1 and round.bonus[seat] > 0

    for round, s in seats(rounds, "rascal", shows):
        assert points(round, s) == 5 * round.cards + round.bonus[s] // 2


def test_score_cannonball_is_fifteen_a_card_or_nothing(rounds: list[Round]) -> None:
    for round, s in seats(rounds, "cannonball", lambda q, s: q.cannonball[s] and q.exact(s)):
        assert points(round, s) == 15 * round.cards + round.bonus[s]
    for round, s in seats(rounds, "cannonball", lambda q, s: q.cannonball[s] and not q.exact(s)):
        assert points(round, s) == 0


def test_score_beside_the_cannonball_rascal_goes_on(rounds: list[Round]) -> None:
    def shows(round: Round, seat: int) -> bool:
        return not round.cannonball[seat] and abs(round.bids[seat] - round.won[seat]) == 1

    for round, s in seats(rounds, "cannonball", shows):
        assert points(round, s) == (10 * round.cards + round.bonus[s]) // 2


def test_score_only_cannonball_scoring_offers_the_cannonball() -> None:
    for scoring in ("skull_king", "rascal", "cannonball"):
        game = Game("skull_king", options={"scoring": scoring, "first_round": 3}, seed=1)
        ordinary = list(range(r.BID, r.BID + 4))
        balls = list(range(r.CANNONBALL, r.CANNONBALL + 4)) if scoring == "cannonball" else []
        assert game.legal() == ordinary + balls


def test_score_rounds_add_up_to_the_game(rounds: list[Round]) -> None:
    for round in rounds:
        if round.rules.win_bonus == 0:
            gains = [b - a for a, b in zip(round.scores_before, round.scores_after, strict=True)]
            assert gains == list(round.points)


# Loot


def test_loot_allies_its_player_with_the_winner(tricks: list[Trick]) -> None:
    for trick in some(tricks, lambda t: beastless(t) and t.has(*r.LOOTS) and t.winner is not None):
        players = {play.place for play in trick.where(*r.LOOTS) if play.place < trick.rules.players}
        new = {frozenset({looter, trick.winner}) for looter in players - {trick.winner}}
        assert trick.allied == trick.allied_before | new


def test_loot_pays_twenty_each_if_both_are_exact(rounds: list[Round]) -> None:
    def plain(round: Round) -> bool:
        return round.rules.scoring == "skull_king" and round.rules.win_bonus == 0 and not any(round.wagers)

    paid = unpaid = 0
    for round in rounds:
        if not plain(round) or len(round.loots) != 1:
            continue
        pair = round.loots[0]
        both = all(round.exact(seat) for seat in pair)
        paid, unpaid = paid + both, unpaid + (not both)
        for seat in pair:
            if round.exact(seat) and round.bids[seat] > 0:
                expected = 20 * round.bids[seat] + round.bonus[seat] + (20 if both else 0)
                assert round.points[seat] == expected
    assert paid > 0
    assert unpaid > 0


def test_loot_that_wins_itself_allies_nobody() -> None:
    staged = stage("loot, escape, escape 2")
    assert staged.winner == 0
    schema = staged.game.spec.schema
    for seat in range(3):
        assert not schema.unpack(staged.game.observe(seat))["allied"].any()


def test_loot_two_in_a_trick_each_ally_with_the_winner() -> None:
    """Also when one of them takes the trick: the other's player is not its own ally."""
    for words, pairs in (("escape, loot, loot 2", {1, 2}), ("loot, loot 2, escape", {1})):
        staged = stage(words)
        schema = staged.game.spec.schema
        allied = schema.unpack(staged.game.observe(staged.leader))["allied"].reshape(-1)
        assert set(allied.nonzero()[0].tolist()) == pairs
