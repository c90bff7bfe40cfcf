"""The ledger against a twin made of plain sets."""

import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playmill.experience.ledger import Ledger, Missing
from playmill.experience.segment import Identity
from playmill.experience.spans import Spans
from playmill.games import PlaymillError

NUMBERS = st.sets(st.integers(0, 40))


def spans_of(numbers):
    return Spans((n, n + 1) for n in numbers)


def numbers_in(spans):
    return {n for start, end in spans for n in range(start, end)}


@given(NUMBERS, NUMBERS, st.integers(0, 50))
@settings(max_examples=200, deadline=None)
def test_spans_do_what_sets_do(a, b, end):
    one, other = spans_of(a), spans_of(b)
    assert numbers_in(one) == a
    assert len(one) == len(a)
    assert one.end == max(a, default=-1) + 1
    assert numbers_in(one | other) == a | b
    assert numbers_in(one & other) == a & b
    assert numbers_in(one - other) == a - b
    assert numbers_in(one.outside(end)) == set(range(end)) - a
    assert all((n in one) == (n in a) for n in range(-1, 50))
    pieces = list(one)
    assert all(stop < start for (_, stop), (start, _) in itertools.pairwise(pieces))


EVENTS = st.lists(
    st.tuples(st.sampled_from(["train", "stale", "refused"]), st.integers(0, 2), st.integers(0, 1), NUMBERS),
    max_size=12,
)


@given(EVENTS, st.dictionaries(st.tuples(st.integers(0, 2), st.integers(0, 1)), st.integers(0, 45)), NUMBERS)
@settings(max_examples=200, deadline=None)
def test_the_ledger_is_its_twin(events, produced, waits):
    ledger, trained, dropped = Ledger("r"), set(), {}
    for kind, actor, epoch, numbers in events:
        fresh = [Identity("r", actor, epoch, n) for n in numbers]
        fresh = [i for i in fresh if not ledger.seen(i)]
        assert fresh == [
            i for i in (Identity("r", actor, epoch, n) for n in numbers)
            if i not in trained and not any(i in d for d in dropped.values())
        ]  # fmt: skip
        if kind == "train":
            ledger.train(fresh)
            trained |= set(fresh)
        else:
            ledger.drop(fresh, kind)
            dropped.setdefault(kind, set()).update(fresh)
        ledger = Ledger.from_state(json.loads(json.dumps(ledger.state())))
    waiting = {Identity("r", 1, 0, n) for n in waits}
    proof = ledger.prove(produced, [*waiting, *waiting])
    done = trained.union(*dropped.values())
    made = {Identity("r", *source, n) for source, count in produced.items() for n in range(count)}
    for i in done | waiting:
        made |= {i._replace(sequence=n) for n in range(i.sequence)}
    made |= done | waiting
    lost = made - done - waiting
    assert proof.total("produced") == len(made)
    assert proof.total("trained") == ledger.trained == len(trained)
    assert proof.dropped == {reason: len(d) for reason, d in dropped.items()}
    assert proof.total("in_flight") == len(waiting - done)
    assert {Identity("r", g.actor, g.epoch, n) for g in proof.gaps for n in range(g.start, g.end)} == lost
    assert proof.holds == (not lost)
    assert not proof.overlaps


def test_a_gap_an_overlap_and_the_sums_are_shown():
    state = {"run": "r", "trained": {"0:1": [[0, 4]]}, "dropped": {"stale": {"0:1": [[3, 5]]}}}
    proof = Ledger.from_state(state).prove({(0, 1): 8}, [Identity("r", 0, 1, 7)])
    assert proof.gaps == [Missing(0, 1, 5, 7)]
    assert proof.overlaps == [Missing(0, 1, 3, 4)]
    assert not proof.holds
    text = proof.table()
    assert "lost: actor 0, epoch 1, 5 to 6" in text
    assert "twice: actor 0, epoch 1, 3 to 3" in text
    assert text.splitlines()[-1] == "8 produced is not 4 trained + 2 dropped + 1 in flight"
    good = Ledger("r").prove({(3, 2): 2}, [Identity("r", 3, 2, 0), Identity("r", 3, 2, 1)])
    assert good.table().splitlines()[-1] == "2 produced = 0 trained + 0 dropped + 2 in flight"


def test_nothing_is_entered_twice_or_by_halves():
    ledger = Ledger("r")
    one, other = Identity("r", 0, 0, 0), Identity("r", 0, 0, 1)
    ledger.train([one])
    with pytest.raises(PlaymillError, match="already"):
        ledger.drop([other, one], "stale")
    with pytest.raises(PlaymillError, match="twice"):
        ledger.train([other, other])
    with pytest.raises(PlaymillError, match="another run"):
        ledger.train([other._replace(run="q")])
    with pytest.raises(PlaymillError, match="no reason"):
        ledger.drop([other], "Too old!\n")
    assert not ledger.seen(other)


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"run": "../x", "trained": {}, "dropped": {}},
        {"run": "r", "trained": {"0": []}, "dropped": {}},
        {"run": "r", "trained": {"0:0": [[2, 1]]}, "dropped": {}},
        {"run": "r", "trained": {"0:0": [["0", 1]]}, "dropped": {}},
        {"run": "r", "trained": {}, "dropped": {"x": 3}},
    ],
)
def test_a_bad_state_is_refused(state):
    with pytest.raises(PlaymillError):
        Ledger.from_state(state)
