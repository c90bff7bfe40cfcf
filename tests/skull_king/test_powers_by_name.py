"""Pirate powers, the deal, bidding and Graybeard, by name, on the engine: the plays of the
library that show an edge must be there, and every one of them must obey the rule as the test
states it."""

from playmill.games import Game

from . import rules as r
from .driver import Case
from .library import Recorder, Round, Trick, beastless, seats, some, suit_led
from .rules import Play
from .staging import stage

# Powers


def powered(tricks: list[Trick], pirate: int) -> list[Trick]:
    """Tricks that this pirate's card took for a player, powers being on, not the last."""

    def shows(trick: Trick) -> bool:
        took = beastless(trick) and not trick.has(r.SKULL_KING) and bool(trick.pirates)
        return took and trick.pirates[0].card == pirate and trick.rules.powers == "on"

    return some(tricks, lambda t: shows(t) and t.winner is not None and not t.last)


def test_power_rosie_names_any_player_as_the_next_leader(tricks: list[Trick]) -> None:
    for trick in powered(tricks, r.ROSIE):
        assert trick.asked == (trick.pirates[0].place, "rosie")
    game = stage("rosie, g2, g3", {"powers": "on"}).game
    rosie = int(game.seat)
    assert game.legal() == [r.LEAD_NEXT, r.LEAD_NEXT + 1, r.LEAD_NEXT + 2]
    for k in range(3):
        copy = game.copy()
        copy.act(r.LEAD_NEXT + k)
        assert (copy.seat, copy.role) == ((rosie + k) % 3, "play")


def test_power_bendt_draws_two_and_discards_two(tricks: list[Trick]) -> None:
    for trick in powered(tricks, r.BENDT):
        seat = trick.pirates[0].place
        kept = trick.hands[seat] - {r.BENDT}
        drawn = trick.hands_after[seat] - kept
        assert kept <= trick.hands_after[seat]
        stock = int(trick.rules.deck) - trick.rules.places * trick.cards
        assert len(drawn) == min(2, stock)
        assert trick.asked == (seat, "discard" if drawn else "play")


def test_power_bendt_discards_are_known_to_him_alone() -> None:
    game = stage("bendt, g2, g3", {"powers": "on"}).game.copy()
    schema, bendt = game.spec.schema, int(game.seat)
    for left in (2, 1):
        assert (game.seat, game.role) == (bendt, "discard")
        hand = sorted(int(c) for c in schema.unpack(game.observe(bendt))["hand"].reshape(-1).nonzero()[0])
        assert game.legal() == hand
        assert len(hand) == 6 + left
        game.act(hand[-1])
    assert (game.seat, game.role) == (bendt, "play")
    assert schema.unpack(game.observe(bendt))["discarded"].sum() == 2
    for seat in {0, 1, 2} - {bendt}:
        assert schema.unpack(game.observe(seat))["discarded"].sum() == 0


def test_power_roatan_wagers_also_on_the_last_trick(tricks: list[Trick]) -> None:
    for trick in powered(tricks, r.ROATAN):
        assert trick.asked == (trick.pirates[0].place, "wager")
    game = stage("roatan, number, number", {"powers": "on", "first_round": 1}).game
    assert game.legal() == [r.WAGER, r.WAGER + 1, r.WAGER + 2]


def test_power_roatan_pays_the_wager_or_takes_it(rounds: list[Round]) -> None:
    for exact in (True, False):

        def shows(round: Round, seat: int, exact: bool = exact) -> bool:
            return round.wagers[seat] > 0 and round.exact(seat) is exact and not round.loots

        for round, s in seats(rounds, "skull_king", shows):
            if exact and round.bids[s] > 0:
                assert round.points[s] == 20 * round.bids[s] + round.bonus[s] + round.wagers[s]
            if not exact and round.bids[s] > 0:
                assert round.points[s] == -10 * abs(round.bids[s] - round.won[s]) - round.wagers[s]


def test_power_jade_shows_the_undealt_cards(tricks: list[Trick]) -> None:
    for trick in powered(tricks, r.JADE):
        seat = trick.pirates[0].place
        shown = trick.undealt_seen[seat]
        held = frozenset().union(*trick.hands_after.values())
        assert not shown & held
        assert not shown & {play.card for play in trick.plays}
        assert shown <= trick.rules.cards_in_deck
        size = len(trick.hands_after[seat])
        assert len(shown) <= int(trick.rules.deck) - trick.rules.places * (size + 1)
        assert trick.asked == (seat, "play") or trick.asked is None or trick.asked[1] == "harry"


def test_power_harry_shifts_the_bid_by_one_within_the_hand() -> None:
    for when in ("at_once", "round_end"):
        game = stage("harry, number, number", {"powers": "on", "first_round": 1, "harry": when}).game
        assert game.role == "harry"
        assert game.legal() == [r.HARRY_SHIFT + 1, r.HARRY_SHIFT + 2]  # the bid is 0 of 1


def test_power_harry_waits_for_the_end_of_the_round_or_not(tricks: list[Trick]) -> None:
    for trick in powered(tricks, r.HARRY):
        seat = trick.pirates[0].place
        assert trick.asked == ((seat, "harry") if trick.rules.harry == "at_once" else (seat, "play"))


def test_power_only_on_winning_with_that_very_card(tricks: list[Trick]) -> None:
    powers = {"rosie": r.ROSIE, "discard": r.BENDT, "wager": r.ROATAN}
    for trick in some(tricks, lambda t: t.asked is not None and t.asked[1] in powers):
        assert trick.asked is not None
        seat, role = trick.asked
        assert trick.pirates[0] == Play(seat, powers[role])
        assert trick.winner == seat


def test_power_rosie_bendt_and_jade_rest_on_the_last_trick() -> None:
    for pirate in ("rosie", "bendt", "jade"):
        game = stage(
            f"{pirate}, number, number", {"powers": "on", "schedule": "past_your_bedtime", "first_round": 1}
        ).game
        assert game.over


# The table


def hand_sizes(options: dict[str, int | str], seed: int = 1) -> list[int]:
    """Cards a hand in every round of a random game."""
    players = int(options["players"])
    recorder = Recorder(Case(options, seed, ("random",) * players)).record()
    return [round.cards for round in recorder.rounds]


def test_table_eight_players_get_eight_cards_of_seventy() -> None:
    assert hand_sizes({"players": 8, "deck": "70"}) == [1, 2, 3, 4, 5, 6, 7, 8, 8, 8]


def test_table_eight_players_get_nine_cards_of_seventy_four() -> None:
    assert hand_sizes({"players": 8, "deck": "74"}) == [1, 2, 3, 4, 5, 6, 7, 8, 9, 9]


def test_table_the_schedules() -> None:
    for name, sizes in r.SCHEDULES.items():
        assert hand_sizes({"players": 3, "schedule": name}) == sizes
    assert hand_sizes({"players": 3, "first_round": 8}) == [8, 9, 10]


def test_table_the_winner_leads_the_next_trick(tricks: list[Trick]) -> None:
    for trick in some(
        tricks, lambda t: t.winner is not None and t.asked is not None and t.asked[1] == "play"
    ):
        assert trick.leader == trick.winner


def test_table_the_deal_moves_left_every_round() -> None:
    game = Game("skull_king", options={"players": 5}, seed=3)
    leaders = []
    while not game.over:
        if game.role == "bid" and not game.spec.schema.unpack(game.observe(0))["called"].any():
            leaders.append(int(game.seat))
        game.act(game.legal()[0])
    assert leaders == [(leaders[0] + k) % 5 for k in range(10)]


def test_table_bids_are_hidden_until_all_are_in() -> None:
    game = Game("skull_king", options={"players": 4, "first_round": 6}, seed=11)
    schema = game.spec.schema
    first = int(game.seat)
    for k in range(4):
        for seat in range(4):
            seen = schema.unpack(game.observe(seat))
            asked = {(first + i) % 4 for i in range(k)}
            called = {(seat + int(i)) % 4 for i in seen["called"].reshape(-1).nonzero()[0]}
            assert called == asked
            mine = [2] if seat in asked else [255]
            assert seen["bid"].reshape(-1).tolist() == mine + [255] * 3
        game.act(r.BID + 2)
    assert schema.unpack(game.observe(0))["bid"].reshape(-1).tolist() == [2] * 4


# Two players and Graybeard


def two(tricks: list[Trick]) -> list[Trick]:
    return some(tricks, lambda t: t.rules.players == 2)


def test_graybeard_plays_second_unless_he_leads(tricks: list[Trick]) -> None:
    places = [[play.place for play in trick.plays].index(r.GRAYBEARD) for trick in two(tricks)]
    assert set(places) == {0, 1}


def test_graybeard_who_takes_a_trick_leads_the_next(recorded: list[Recorder]) -> None:
    seen = 0
    for game in recorded:
        if game.rules.players != 2:
            continue
        for trick, following in zip(game.tricks, game.tricks[1:], strict=False):
            if trick.leader == r.GRAYBEARD and not trick.last:
                seen += 1
                assert following.plays[0].place == r.GRAYBEARD
                players = [play.place for play in trick.plays if play.place != r.GRAYBEARD]
                assert following.plays[1].place == players[0]
    assert seen > 0


def test_graybeard_need_not_follow(recorded: list[Recorder]) -> None:
    """He plays off the suit and shows it later in the same round."""
    revokes = 0
    for game in recorded:
        off_suit: set[int] = set()
        for trick in game.tricks if game.rules.players == 2 else []:
            place = [play.place for play in trick.plays].index(r.GRAYBEARD)
            card = trick.plays[place].card
            led = suit_led(list(trick.plays[:place]))
            if card in r.NUMBERS:
                revokes += r.suit(card) in off_suit
                if led is not None and r.suit(card) != led:
                    off_suit.add(led)
            if trick.last:
                off_suit = set()
    assert revokes > 0


def test_graybeard_gets_nothing_and_allies_with_nobody(tricks: list[Trick]) -> None:
    for trick in some(two(tricks), lambda t: t.winner is None and beastless(t)):
        assert trick.leader == r.GRAYBEARD
        assert trick.bonus == (0, 0)
        assert trick.allied == trick.allied_before
        assert trick.asked is not None
        assert trick.asked[1] in ("play", "harry")


def test_graybeard_plays_the_tigress_as_an_escape(tricks: list[Trick]) -> None:
    for trick in some(two(tricks), lambda t: Play(r.GRAYBEARD, r.TIGRESS) in t.plays and beastless(t)):
        if len(trick.numbers) + len(trick.pirates) > 0:
            assert trick.winner is not None
