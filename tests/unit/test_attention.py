"""Self-attention over cards: which feature becomes which channel, and what a card's token does."""

import copy
import dataclasses
import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from playmill.games import Encoding, PlaymillError, Schema, registry
from playmill.policies import Network, Policy, token_features
from playmill.pools import NativePool
from playmill.training.config import Train

OWN = Network((24, 16), attention=2, heads=2, token_width=16)
SHARED = Network((16, 16), separate=False, residual=True, attention=1, heads=4, token_width=16)
every_attention = pytest.mark.parametrize("network", [OWN, SHARED], ids=["own", "shared"])
with_cards = pytest.mark.parametrize("game", ["skull_king", "liars_dice"])


def policy_and_rows(game, network):
    """A policy, and packed rows of a game in flight."""
    torch.manual_seed(5)
    pool = NativePool(game, 32, seed=11)
    rows = []
    for _ in range(3):
        rows.append(pool.turns().observation.copy())
        pool.act(pool.bot_actions("random"))
    return Policy(pool.spec, network), torch.from_numpy(np.concatenate(rows))


def test_the_channels_of_a_card_in_skull_king():
    spec = registry.spec("skull_king")
    features = token_features(spec, "hand")
    assert features == token_features(spec)
    by_name = {f.name: f for f in spec.schema.fields}
    trick = by_name["trick"].feature
    assert features.count == 74
    assert features.channels == 1 + 4 + 1 + 1 + 4
    for card in (0, 9, 73):
        of_hand, *of_played = features.tokens[card][:5]
        assert of_hand == card
        assert of_played == [by_name["played"].feature + 74 * place + card for place in range(4)]
        assert features.tokens[card][-4:] == tuple(trick + 75 * place + card for place in range(4))
    assert {trick + 74, trick + 149} <= set(features.rest)
    assert by_name["score"].feature in features.rest


@st.composite
def specs(draw):
    """A game with any fields beside one of bits."""
    columns = draw(st.integers(2, 9))
    fields = []
    for i in range(draw(st.integers(0, 6))):
        encoding = draw(st.sampled_from(Encoding))
        across = draw(st.sampled_from([1, columns, columns + 1]))
        size = draw(st.integers(columns - 1, columns + 2)) if encoding is Encoding.CATEGORY else 0
        fields.append((f"f{i}", int(encoding), draw(st.integers(1, 3)), across, size, 1.0, ""))
    fields.insert(draw(st.integers(0, len(fields))), ("cards", int(Encoding.BITS), 1, columns, 0, 1.0, ""))
    schema = Schema.from_native(fields, 0)
    return dataclasses.replace(registry.spec("skull_king"), schema=schema), columns


@settings(max_examples=150, deadline=None, derandomize=True)
@given(specs())
def test_every_feature_goes_to_one_place(drawn):
    spec, columns = drawn
    features = token_features(spec, "cards")
    assert features.count == columns
    assert len({len(token) for token in features.tokens}) == 1
    used = sorted([*features.rest, *(i for token in features.tokens for i in token)])
    assert used == list(range(spec.schema.features))
    channels = np.array(features.tokens)
    assert (np.diff(channels, axis=0) == 1).all()  # the next card is the next column of each channel


@with_cards
@every_attention
def test_cards_can_be_renamed(game, network):
    """Cards permuted in every channel, embeddings alike: the same value, the same logits permuted."""
    policy, rows = policy_and_rows(game, network)
    other = copy.deepcopy(policy)
    features = policy.towers[0].features
    renamed = torch.randperm(features.count)
    places = torch.tensor(features.tokens)
    floats = policy.first(rows)
    moved = floats.clone()
    moved[:, places.flatten()] = floats[:, places[renamed].flatten()]
    assert not torch.equal(moved, floats)
    actions = torch.arange(registry.spec(game).actions)
    actions[: features.count] = renamed
    with torch.no_grad():
        for tower in other.towers:
            tower.embedding.copy_(tower.embedding[renamed])
        other.action_head.weight.copy_(other.action_head.weight[actions])
        out, then = policy.after_first(floats), other.after_first(moved)
        still = policy.after_first(moved)
    torch.testing.assert_close(then.value, out.value, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(then.logits, out.logits[:, actions], atol=1e-6, rtol=1e-3)
    assert (still.value - out.value).abs().max() > 1e-3  # without the embeddings it is another deal


@every_attention
def test_a_card_speaks_for_its_own_action(network):
    policy, rows = policy_and_rows("skull_king", network)
    with torch.no_grad():
        nn.init.zeros_(policy.action_head.weight)
        tokens = policy.towers[0](policy.first(rows)).tokens
        wanted = policy.token_head(tokens).squeeze(-1)
        logits = policy(rows).logits
    torch.testing.assert_close(logits[:, :74], wanted, atol=1e-6, rtol=1e-5)
    assert not logits[:, 74:].any()


def test_a_card_takes_notice_of_the_others():
    policy, rows = policy_and_rows("skull_king", OWN)
    floats = policy.first(rows)
    played = floats.clone()
    played[:, policy.towers[0].features.tokens[3][1]] = 1.0
    with torch.no_grad():
        before, after = (policy.towers[0](f).tokens for f in (floats, played))
    assert (before[:, 50] - after[:, 50]).abs().max() > 1e-4


@pytest.mark.parametrize(
    ("game", "tokens", "says"),
    [
        ("kuhn", "", "network.attention needs a field of bits whose columns become tokens; kuhn has none"),
        ("skull_king", "hnd", "no field of bits of skull_king is called 'hnd'; did you mean 'hand'?"),
        ("skull_king", "score", "no field of bits of skull_king is called 'score'"),
    ],
)
def test_attention_where_it_makes_no_sense_is_refused_before_training(game, tokens, says):
    with pytest.raises(PlaymillError, match=re.escape(says)) as caught:
        Train(game=game, network=Network(attention=1, tokens=tokens))
    assert "\n" not in str(caught.value)


def test_more_columns_than_actions_are_no_tokens():
    spec = dataclasses.replace(registry.spec("skull_king"), actions=70)
    with pytest.raises(PlaymillError, match="has 74 columns there and 70 actions"):
        token_features(spec, "hand")
