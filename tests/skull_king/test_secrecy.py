"""A seat never learns what is hidden from it.

The argument has two halves. Here, the referee's `view(seat)` is shown not to move when
everything hidden from that seat is moved: the cards of the other hands, of the stock and of
Graybeard change places, and so do other people's discards and hidden bids. And
`test_differential` holds the engine's observation equal to that view at every turn of every
game. Together: the engine's observation cannot depend on hidden cards either. The last test
needs no referee: the engine itself shows the same bytes to a seat in the same position,
whatever the others hold.
"""

import copy
import random

import pytest

from playmill.games import Game, registry

from .driver import Case, Options, members
from .referee import RandomChance, Referee
from .rules import Rules


def scramble(table: Referee, seat: int, dice: random.Random) -> Referee:
    """The same table with all that is hidden from `seat` changed."""
    other = copy.deepcopy(table)
    others = [player for place, player in enumerate(other.players) if place != seat]
    piles = [other.hidden, *(player.hand for player in others), *(player.discarded for player in others)]
    cards = [card for pile in piles for card in sorted(pile)]
    dice.shuffle(cards)
    for pile in piles:
        size = len(pile)
        pile.clear()
        pile.update(cards.pop() for _ in range(size))
    for player in others:
        player.saw_undealt = set(dice.sample(range(74), len(player.saw_undealt)))
        if table.bidding and player.bid is not None:
            player.bid = dice.randint(0, table.cards)
            player.cannonball = dice.random() < 0.5
    return other


@pytest.mark.parametrize("number", range(30))
def test_a_view_does_not_move_with_what_is_hidden(number: int) -> None:
    case = Case.numbered(number, fuzz_seed=77)
    rules = Rules.of(case.options)
    dice = random.Random(case.seed)
    table = Referee(rules, RandomChance(rules, case.seed))
    while not table.over:
        if dice.random() < 0.1:
            seat = dice.randrange(rules.players)
            before, after = table.view(seat), scramble(table, seat, dice).view(seat)
            for name in before:
                assert before[name] == after[name], f"'{name}' tells a hidden thing"
        table.act(dice.choice(sorted(table.legal())))


def test_scrambling_does_move_what_the_others_see() -> None:
    rules = Rules(players=3, first_round=8)
    table = Referee(rules, RandomChance(rules, 5))
    moved = scramble(table, 0, random.Random(5))
    assert table.view(1)["hand"] != moved.view(1)["hand"]
    assert table.view(0)["hand"] == moved.view(0)["hand"]


@pytest.mark.parametrize("players", [2, 3, 4])
def test_the_engine_shows_the_same_bytes_in_the_same_position(players: int) -> None:
    """One-card rounds meet again: same seat, card and public history, so the same bytes."""
    options: Options = {"players": players, "schedule": "past_your_bedtime"}
    schema = registry.spec("skull_king", options).schema
    shown: dict[tuple[object, ...], bytes] = {}
    met_again = 0
    for seed in range(600):
        game = Game("skull_king", options=options, seed=seed)
        dice = random.Random(seed)
        public: list[object] = [int(game.seat)]
        hidden_bids: dict[int, int] = {}
        while not game.over:
            for seat in range(players):
                view = schema.unpack(game.observe(seat))
                held = tuple(sorted(members(view["hand"])))
                table = tuple(members(view["played"][-1]))  # Graybeard's card is chance
                key = (seat, held, table, hidden_bids.get(seat), tuple(public))
                row = game.observe(seat).tobytes()
                met_again += key in shown
                assert shown.setdefault(key, row) == row, f"seed {seed}, seat {seat}: {key}"
            action, role, seat = dice.choice(game.legal()), game.role, int(game.seat)
            game.act(action)
            if role == "bid":
                hidden_bids[seat] = action
                public.append(("called", seat))
                if len(hidden_bids) == players:
                    public.append(tuple(sorted(hidden_bids.items())))
            else:
                public.append((role, seat, action))
    assert met_again > 200
