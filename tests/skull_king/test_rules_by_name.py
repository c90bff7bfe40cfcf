"""Who takes a trick and what may be played, by name, on the engine: the plays of the library
that show an edge must be there, and every one of them must obey the rule as the test states
it."""

from . import rules as r
from .library import Trick, acting, beastless, only_numbers_count, some, suit_led, taken_by
from .rules import Play
from .staging import stage

# Resolution (a) to (j)


def test_a_of_kraken_and_whale_the_later_acts() -> None:
    assert stage("kraken, whale, g5").winner == 2
    assert stage("whale, kraken, g5").winner is None


def test_a_in_play_the_earlier_beast_is_an_escape(tricks: list[Trick]) -> None:
    for trick in some(tricks, lambda t: t.has(r.KRAKEN) and t.has(r.WHALE)):
        if acting(trick, r.KRAKEN) or not trick.numbers:
            assert trick.winner is None
        else:
            assert taken_by(trick, max(trick.numbers, key=lambda play: r.number(play.card)))


def test_b_nobody_takes_a_trick_with_the_kraken(tricks: list[Trick]) -> None:
    for trick in some(tricks, lambda t: acting(t, r.KRAKEN)):
        assert not any(trick.won or ())
        assert not any(trick.bonus or ())
        assert trick.allied == trick.allied_before


def test_b_after_the_kraken_leads_who_would_have_won(tricks: list[Trick]) -> None:
    def plain(trick: Trick) -> bool:
        return acting(trick, r.KRAKEN) and trick.rules.kraken_lead == "would_win"

    for trick in some(tricks, lambda t: plain(t) and t.has(r.SKULL_KING) and not t.has(*r.MERMAIDS)):
        assert trick.leader == trick.where(r.SKULL_KING)[0].place
    for trick in some(tricks, lambda t: plain(t) and bool(t.pirates) and not t.has(r.SKULL_KING)):
        assert trick.leader == trick.pirates[0].place
    assert stage("g5, kraken, g9").next_leader == 2


def test_b_after_the_kraken_leads_its_left_neighbour(tricks: list[Trick]) -> None:
    def shows(trick: Trick) -> bool:
        return acting(trick, r.KRAKEN) and trick.rules.kraken_lead == "left_of_kraken"

    for trick in some(tricks, lambda t: shows(t) and t.rules.players > 2):
        assert trick.leader == (trick.where(r.KRAKEN)[0].place + 1) % trick.rules.players
    # Graybeard has no seat of his own: in a game of two, left is the next in the trick's order.
    for trick in some(tricks, lambda t: shows(t) and t.rules.players == 2):
        order = [play.place for play in trick.plays]
        after = order.index(trick.where(r.KRAKEN)[0].place) + 1
        assert trick.leader == order[after % 3]


def test_b_a_trick_of_beasts_alone_cannot_happen(tricks: list[Trick]) -> None:
    """Three hands at least and two beasts: the undefined case of the rules never comes up."""
    assert min(len(trick.plays) for trick in tricks) == 3
    assert max(len(trick.where(r.KRAKEN, r.WHALE)) for trick in tricks) == 2


def test_c_under_the_whale_the_highest_number_of_any_colour_wins(tricks: list[Trick]) -> None:
    for trick in some(tricks, lambda t: acting(t, r.WHALE) and bool(t.numbers)):
        top = max(r.number(play.card) for play in trick.numbers)
        first = next(play for play in trick.numbers if r.number(play.card) == top)
        assert taken_by(trick, first)


def test_c_under_the_whale_of_equal_numbers_the_first_wins() -> None:
    assert stage("whale, p9, g9").winner == 1
    assert stage("whale, g14, b14").winner == 1


def test_c_the_whale_voids_all_specials() -> None:
    assert stage("skull king, whale, g2").winner == 2


def test_c_without_numbers_nobody_wins_and_the_whale_leads(tricks: list[Trick]) -> None:
    for trick in some(tricks, lambda t: acting(t, r.WHALE) and not t.numbers):
        assert not any(trick.won or ())
        assert trick.leader == trick.where(r.WHALE)[0].place


def test_c_under_the_whale_only_fourteens_are_worth_points(tricks: list[Trick]) -> None:
    for trick in some(tricks, lambda t: acting(t, r.WHALE) and t.winner is not None):
        fourteens = [play.card for play in trick.numbers if r.number(play.card) == 14]
        assert trick.bonus is not None
        assert sum(trick.bonus) == sum(20 if r.suit(card) == r.BLACK else 10 for card in fourteens)
        assert trick.allied == trick.allied_before


def test_d_skull_king_and_mermaid_the_first_mermaid_wins(tricks: list[Trick]) -> None:
    for trick in some(tricks, lambda t: beastless(t) and t.has(r.SKULL_KING) and t.has(*r.MERMAIDS)):
        assert taken_by(trick, trick.where(*r.MERMAIDS)[0])


def test_d_also_with_a_pirate_among_them() -> None:
    assert stage("skull king, rosie, mermaid").winner == 2
    assert stage("rosie, mermaid, skull king").winner == 1


def test_e_the_skull_king_beats_pirates_and_numbers(tricks: list[Trick]) -> None:
    for trick in some(tricks, lambda t: beastless(t) and t.has(r.SKULL_KING) and not t.has(*r.MERMAIDS)):
        assert taken_by(trick, trick.where(r.SKULL_KING)[0])


def test_f_the_first_pirate_beats_pirates_and_mermaids(tricks: list[Trick]) -> None:
    for trick in some(tricks, lambda t: beastless(t) and len(t.pirates) > 1 and not t.has(r.SKULL_KING)):
        assert taken_by(trick, trick.pirates[0])


def test_f_the_tigress_may_be_a_pirate(tricks: list[Trick]) -> None:
    def first(trick: Trick) -> bool:
        return bool(trick.pirates) and trick.pirates[0].as_pirate

    for trick in some(tricks, lambda t: beastless(t) and first(t) and not t.has(r.SKULL_KING)):
        assert taken_by(trick, trick.where(r.TIGRESS)[0])
        assert trick.asked is None or trick.asked[1] in ("play", "harry"), "the tigress has no power"


def test_g_the_first_mermaid_beats_numbers(tricks: list[Trick]) -> None:
    def shows(trick: Trick) -> bool:
        return beastless(trick) and trick.has(*r.MERMAIDS) and not trick.pirates

    for trick in some(tricks, lambda t: shows(t) and not t.has(r.SKULL_KING)):
        assert taken_by(trick, trick.where(*r.MERMAIDS)[0])


def test_h_the_highest_black_beats_the_colours(tricks: list[Trick]) -> None:
    def black(trick: Trick) -> list[Play]:
        return [play for play in trick.numbers if r.suit(play.card) == r.BLACK]

    for trick in some(tricks, lambda t: only_numbers_count(t) and 0 < len(black(t)) < len(t.numbers)):
        assert taken_by(trick, max(black(trick), key=lambda play: play.card))


def test_i_the_highest_of_the_suit_led_wins(tricks: list[Trick]) -> None:
    def colours(trick: Trick) -> set[int]:
        return {r.suit(play.card) for play in trick.numbers}

    for trick in some(
        tricks, lambda t: only_numbers_count(t) and len(colours(t) - {0}) == len(colours(t)) > 1
    ):
        led = r.suit(trick.numbers[0].card)
        of_suit = [play for play in trick.numbers if r.suit(play.card) == led]
        assert taken_by(trick, max(of_suit, key=lambda play: play.card))


def test_j_nothing_but_escapes_goes_to_the_first() -> None:
    for words in ("escape, loot, tigress", "tigress, escape, loot", "loot, escape, escape 2"):
        staged = stage(words)
        assert (staged.winner, staged.next_leader) == (0, 0)


# Following


def moments(tricks: list[Trick]) -> list[tuple[list[Play], frozenset[int], frozenset[int], int]]:
    """Every play: the table before it, the hand, what was legal, and the lead it was shown."""
    return [
        (list(trick.plays[:k]), trick.hands[play.place], trick.legal[play.place], trick.leads[play.place])
        for trick in tricks
        for k, play in enumerate(trick.plays)
        if play.place in trick.hands
    ]


def test_following_a_number_off_the_suit_is_illegal_while_able_to_follow(tricks: list[Trick]) -> None:
    seen = 0
    for before, hand, legal, _ in moments(tricks):
        led = suit_led(before)
        if led is not None and any(card in r.NUMBERS and r.suit(card) == led for card in hand):
            seen += 1
            assert all(r.suit(card) == led for card in legal if card in r.NUMBERS)
    assert seen > 500


def test_following_who_cannot_follow_may_play_anything(tricks: list[Trick]) -> None:
    seen = 0
    for before, hand, legal, _ in moments(tricks):
        led = suit_led(before)
        if led is None or not any(card in r.NUMBERS and r.suit(card) == led for card in hand):
            seen += 1
            assert legal - {r.TIGRESS_PIRATE} == hand
    assert seen > 500


def test_following_a_special_is_always_playable(tricks: list[Trick]) -> None:
    for _, hand, legal, _ in moments(tricks):
        assert {card for card in hand if card not in r.NUMBERS} <= legal
        assert (r.TIGRESS_PIRATE in legal) == (r.TIGRESS in hand)


def test_following_escapes_leave_the_suit_to_the_first_number(tricks: list[Trick]) -> None:
    quiet = {*r.ESCAPES, *r.LOOTS}
    seen = 0
    for before, _, _, lead in moments(tricks):
        if len(before) > 1 and before[0].card in quiet and before[1].card in r.NUMBERS:
            seen += 1
            assert lead == r.suit(before[1].card) + 1
    assert seen > 0


def test_following_after_a_character_or_beast_there_is_no_suit(tricks: list[Trick]) -> None:
    for leader in ({r.SKULL_KING}, {r.WHALE}, {r.KRAKEN}, set(r.MERMAIDS), set(r.PIRATES)):
        shown = [m for m in moments(tricks) if m[0] and m[0][0].card in leader]
        assert shown
        for _, hand, legal, lead in shown:
            assert lead == 5
            assert hand <= legal


def test_following_a_later_whale_does_not_lift_the_suit(tricks: list[Trick]) -> None:
    seen = 0
    for before, hand, legal, lead in moments(tricks):
        if (
            len(before) > 1
            and before[0].card in r.NUMBERS
            and any(play.card == r.WHALE for play in before[1:])
        ):
            seen += 1
            led = r.suit(before[0].card)
            assert lead == led + 1
            if any(card in r.NUMBERS and r.suit(card) == led for card in hand):
                assert all(r.suit(card) == led for card in legal if card in r.NUMBERS)
    assert seen > 0
