"""The tiny games against OpenSpiel's, history by history."""

import functools

import numpy as np
import pyspiel
import pytest

from playmill.games import Game, registry
from playmill.league.exploitability import TINY, read_deal

DEALS = {"kuhn": 6, "leduc": 120, "liars_dice": 36}


@functools.cache
def seed_of_deal(game):
    return {read_deal(game, seed): seed for seed in range(3000)}


def walk(game, deal, visit_turn, visit_end):
    """Every sequence of actions of one deal, in both engines side by side."""
    theirs = pyspiel.load_game(TINY[game]).new_initial_state()
    ours = Game(game, options={}, seed=seed_of_deal(game)[deal])
    stack = [(theirs, ours, np.zeros(2))]
    while stack:
        theirs, ours, won = stack.pop()
        while theirs.is_chance_node():
            drawn = sum(step.player == -1 for step in theirs.full_history())
            theirs.apply_action(deal[drawn])
        if theirs.is_terminal():
            visit_end(theirs, ours, won)
            continue
        visit_turn(theirs, ours)
        for action in theirs.legal_actions():
            branch = ours.copy()
            reward = branch.act(action)
            stack.append((theirs.child(action), branch, won + reward))


@pytest.mark.parametrize("game", TINY)
def test_turns_legal_actions_and_payoffs_are_openspiels(game):
    turns, ends = 0, 0

    def turn(theirs, ours):
        nonlocal turns
        turns += 1
        assert not ours.over
        assert ours.seat == theirs.current_player()
        assert ours.legal() == theirs.legal_actions()

    def end(theirs, ours, won):
        nonlocal ends
        ends += 1
        assert ours.over
        assert won.tolist() == theirs.returns()

    for deal in seed_of_deal(game):
        walk(game, deal, turn, end)
    per_deal = {"kuhn": (4, 5), "leduc": (6 + 5 * 6, 4 + 5 * 9), "liars_dice": (4096, 4095)}[game]
    assert (turns, ends) == tuple(n * DEALS[game] for n in per_deal)


@pytest.mark.parametrize("game", TINY)
def test_an_observation_is_an_information_state(game):
    row_of, key_of = {}, {}

    def turn(theirs, ours):
        key = theirs.information_state_string()
        row = ours.observe(ours.seat).tobytes()
        assert row_of.setdefault(key, row) == row
        assert key_of.setdefault(row, key) == key

    for deal in seed_of_deal(game):
        walk(game, deal, turn, lambda *_: None)
    assert len(row_of) == len(key_of)


@pytest.mark.parametrize("game", TINY)
def test_seeds_deal_everything(game):
    assert len(seed_of_deal(game)) == DEALS[game]


def test_leduc_shows_the_public_card_only_in_the_second_round():
    schema = registry.spec("leduc", {}).schema
    game = Game("leduc", options={}, seed=3)
    for seat in (0, 1):
        seen = schema.unpack(game.observe(seat))
        assert seen["rank"][0, 1] == seen["suit"][0, 1] == 255
    game.act(1)
    game.act(1)
    cards = [schema.unpack(game.observe(seat)) for seat in (0, 1)]
    assert cards[0]["rank"][0, 1] == cards[1]["rank"][0, 1] < 3


@pytest.mark.parametrize("game", TINY)
def test_tables_and_actions_have_words(game):
    table = Game(game, options={}, seed=5)
    while not table.over:
        assert all(table.action_text(action) for action in table.legal())
        assert all(table.table_text(seat) for seat in (0, 1))
        table.act(table.legal()[-1])
