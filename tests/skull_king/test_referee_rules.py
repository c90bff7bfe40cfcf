"""The rules once as a table: the referee's pure functions and the engine must both obey it."""

from typing import NamedTuple

import pytest

from . import rules as r
from .referee import RandomChance, Referee
from .rules import Account, Rules
from .staging import action, card, stage, trick


class Row(NamedTuple):
    """A trick, who takes it (None: nobody), who leads next, the points in it."""

    words: str
    winner: int | None
    leader: int
    bonus: int = 0


TRICKS = [
    # (a) the later beast acts, the earlier is an escape
    Row("kraken, whale, g5", 2, 2),
    Row("whale, kraken, g5", None, 2),
    # (b) kraken
    Row("g5, kraken, g9", None, 2),
    Row("skull king, kraken, mermaid", None, 2),
    Row("kraken, p2, g9", None, 1),
    Row("b14, escape, kraken", None, 0),
    # (c) whale
    Row("b3, whale, b9", 2, 2),
    Row("whale, p9, g9", 1, 1),
    Row("whale, b2, y3", 2, 2),
    Row("escape, whale, rosie", None, 1),
    Row("skull king, whale, g2", 2, 2),
    Row("whale, g14, b14", 1, 1, 30),
    Row("rosie, mermaid, whale", None, 2),
    # (d) Skull King and mermaid
    Row("skull king, rosie, mermaid", 2, 2, 40),
    Row("mermaid 2, skull king, mermaid", 0, 0, 40),
    # (e) Skull King
    Row("skull king, rosie, jade", 0, 0, 60),
    Row("tigress!, skull king, b14", 1, 1, 50),
    # (f) pirates
    Row("rosie, bendt, mermaid", 0, 0, 20),
    Row("mermaid, tigress!, mermaid 2", 1, 1, 40),
    Row("tigress!, harry, b14", 0, 0, 20),
    # (g) mermaids
    Row("mermaid, b14, mermaid 2", 0, 0, 20),
    Row("g14, mermaid, g3", 1, 1, 10),
    # (h) black
    Row("b3, b14, b9", 1, 1, 20),
    Row("g13, b1, escape", 1, 1),
    # (i) the suit that was led
    Row("g5, g9, g14", 2, 2, 10),
    Row("g9, p13, escape", 0, 0),
    Row("escape, g3, g5", 2, 2),
    # (j) nothing but escapes
    Row("escape, loot, tigress", 0, 0),
    Row("loot, escape, escape 2", 0, 0),
    Row("tigress, escape, loot", 0, 0),
]
PER_TRICK = [
    Row("skull king, rosie, jade", 0, 0, 30),
    Row("rosie, mermaid, mermaid 2", 0, 0, 20),
    Row("mermaid, tigress!, mermaid 2", 1, 1, 20),
    Row("whale, g14, b14", 1, 1, 30),
]


def judge(row: Row, rules: Rules) -> Row:
    """What the referee's functions say of a row's trick."""
    plays = trick(row.words)
    outcome = r.resolve(plays, rules)
    winner = outcome.winner.place if outcome.winner else None
    return Row(row.words, winner, outcome.leader, r.trick_bonus(plays, outcome, rules))


@pytest.mark.parametrize("row", TRICKS, ids=lambda row: row.words)
def test_referee_resolves(row: Row) -> None:
    assert judge(row, Rules(players=3)) == row


@pytest.mark.parametrize("row", TRICKS, ids=lambda row: row.words)
def test_engine_resolves(row: Row) -> None:
    staged = stage(row.words)
    expected = [row.bonus if place == row.winner else 0 for place in range(3)]
    assert (staged.winner, staged.next_leader, staged.bonus) == (row.winner, row.leader, expected)


@pytest.mark.parametrize("row", PER_TRICK, ids=lambda row: row.words)
def test_captures_once_a_trick(row: Row) -> None:
    options = {"capture_bonus": "per_trick"}
    assert judge(row, Rules(players=3, capture_bonus="per_trick")) == row
    assert stage(row.words, options).bonus == [row.bonus if place == row.winner else 0 for place in range(3)]


@pytest.mark.parametrize("words", ["g5, kraken, g9", "kraken, p2, g9", "b14, escape, kraken"])
def test_the_left_neighbour_of_the_kraken_leads(words: str) -> None:
    left = (words.split(", ").index("kraken") + 1) % 3
    rules = Rules(players=3, kraken_lead="left_of_kraken")
    assert r.resolve(trick(words), rules).leader == left
    assert stage(words, {"kraken_lead": "left_of_kraken"}).next_leader == left


def test_skull_king_capture_of_the_older_edition() -> None:
    words = "skull king, rosie, mermaid"
    assert judge(Row(words, 2, 2), Rules(players=3, skull_king_capture="50")).bonus == 50
    assert stage(words, {"skull_king_capture": "50"}).bonus == [0, 0, 50]


def test_only_beasts_on_the_table_leave_the_lead_to_the_kraken() -> None:
    for words in ("kraken", "whale, kraken"):
        outcome = r.resolve(trick(words), Rules())
        assert outcome.winner is None
        assert outcome.leader == words.split(", ").index("kraken")


@pytest.mark.parametrize(
    ("words", "allies"),
    [
        ("escape, loot, g2", [1]),
        ("loot, rosie, loot 2", [0, 2]),
        ("loot, escape, escape 2", []),
        ("loot, loot 2, escape", [1]),
        ("loot, kraken, g2", []),
        ("loot, whale, g2", []),
    ],
)
def test_loot_allies(words: str, allies: list[int]) -> None:
    rules = Rules(players=3)
    assert r.loot_players(trick(words), r.resolve(trick(words), rules), rules) == allies


@pytest.mark.parametrize(
    ("hand", "table", "expected"),
    [
        ("g1, b2, escape", "g5", "g1, escape"),
        ("p1, b2, escape", "g5", "p1, b2, escape"),
        ("g1, b2, rosie, kraken", "escape, loot, g5", "g1, rosie, kraken"),
        ("g1, b2, tigress", "tigress, b5", "b2, tigress"),
        ("g1, b2", "tigress!, g5", "g1, b2"),
        ("g1, b2", "mermaid, g5", "g1, b2"),
        ("g1, b2", "kraken, g5", "g1, b2"),
        ("g1, b2", "escape, whale, g5", "g1, b2"),
        ("g1, b2", "g5, whale", "g1"),
        ("g1, b2", "g5, skull king", "g1"),
        ("g1, b2", "b5", "b2"),
        ("g1, b2", "escape", "g1, b2"),
    ],
)
def test_following(hand: str, table: str, expected: str) -> None:
    held = {card(word) for word in hand.split(", ")}
    assert r.playable(held, trick(table)) == {card(word) for word in expected.split(", ")}


@pytest.mark.parametrize(
    ("account", "scoring", "points"),
    [
        (Account(bid=3, won=3, cards=5), "skull_king", 60),
        (Account(bid=3, won=3, cards=5, bonus=50), "skull_king", 110),
        (Account(bid=3, won=1, cards=5, bonus=50), "skull_king", -20),
        (Account(bid=1, won=4, cards=5), "skull_king", -30),
        (Account(bid=0, won=0, cards=7), "skull_king", 70),
        (Account(bid=0, won=2, cards=7, bonus=20), "skull_king", -70),
        (Account(bid=2, won=2, cards=7, alliances_made=2, wager=20), "skull_king", 100),
        (Account(bid=2, won=3, cards=7, wager=20), "skull_king", -30),
        (Account(bid=2, won=2, cards=7, bonus=30), "rascal", 100),
        (Account(bid=2, won=3, cards=7, bonus=30), "rascal", 50),
        (Account(bid=0, won=1, cards=7), "rascal", 35),
        (Account(bid=2, won=4, cards=7, bonus=30), "rascal", 0),
        (Account(bid=2, won=4, cards=7, wager=10), "rascal", -10),
        (Account(bid=2, won=3, cards=7, bonus=30), "cannonball", 50),
        (Account(bid=2, won=2, cards=7, bonus=30, cannonball=True), "cannonball", 135),
        (Account(bid=2, won=3, cards=7, bonus=30, cannonball=True), "cannonball", 0),
        (Account(bid=2, won=3, cards=7, wager=20, cannonball=True), "cannonball", -20),
    ],
)
def test_scores(account: Account, scoring: str, points: int) -> None:
    assert r.round_score(account, Rules(scoring=scoring)) == points


def test_hand_sizes() -> None:
    assert Rules(players=8, deck="70").rounds == [1, 2, 3, 4, 5, 6, 7, 8, 8, 8]
    assert Rules(players=8, deck="74").rounds == [1, 2, 3, 4, 5, 6, 7, 8, 9, 9]
    assert Rules(players=7, deck="70").rounds[-1] == 10
    assert Rules(players=2).rounds[-1] == 10
    assert Rules(schedule="even_keeled", first_round=4).rounds == [8, 10]


def test_the_deck() -> None:
    assert len(Rules(deck="70").cards_in_deck) == 70
    assert len(Rules(deck="74").cards_in_deck) == 74
    assert [r.number(action("b1")), r.number(action("y14"))] == [1, 14]
    assert [r.suit(action(word)) for word in ("b1", "g14", "p1", "y14")] == [0, 1, 2, 3]


def test_graybeard_plays_second_unless_he_leads() -> None:
    rules = Rules(players=2)
    table = Referee(rules, RandomChance(rules, 1))
    for leader, last, order in [(0, 1, [0, 2, 1]), (1, 1, [1, 2, 0]), (2, 1, [2, 1, 0]), (2, 0, [2, 0, 1])]:
        table.leader, table.last_player_to_lead = leader, last
        table._seat_trick()
        assert table.order == order
