"""Rows of many actors in one forward pass: in the actor, and in a process of its own."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from playmill.games import PlaymillError, registry
from playmill.policies import Network, Policy, masked_log_softmax, unpack_bits
from playmill.pools import NativePool, Turns
from playmill.serving.answers import PolicyTable, Tensors
from playmill.serving.batching import Batching
from playmill.serving.inference import ASKED, InferenceServer
from playmill.serving.inference_client import SharedAnswers

SPEC = registry.spec("leduc")
NETWORK = Network(hidden=(32,))


@cache
def weights(seed: int) -> Tensors:
    torch.manual_seed(seed)
    policy = Policy(SPEC, NETWORK)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return {name: p.detach().numpy() for name, p in policy.named_parameters()}


def policy_of(tensors: Tensors) -> Policy:
    policy = Policy(SPEC, NETWORK)
    policy.load_state_dict({name: torch.from_numpy(t) for name, t in tensors.items()})
    return policy


def rows(games: int = 64, seed: int = 3) -> Turns:
    return NativePool(SPEC, games, seed=seed).turns()


def expected(tensors: Tensors, turns: Turns, action: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log-probabilities of the actions and values, by the policy itself."""
    with torch.inference_mode():
        out = policy_of(tensors)(torch.from_numpy(turns.observation))
        legal = unpack_bits(torch.from_numpy(turns.legal), SPEC.actions)
        logs = masked_log_softmax(out.logits, legal)
        return logs.gather(1, torch.from_numpy(action).long()[:, None])[:, 0].numpy(), out.value.numpy()


def table(seed: int = 1) -> PolicyTable:
    made = PolicyTable(SPEC, NETWORK, seed=5)
    made.load(7, weights(seed))
    return made


@contextmanager
def served(path: Path, batching: Batching, past: tuple[int, ...] = ()) -> Iterator[InferenceServer]:
    made = table()
    if past:
        made.load_past({f"{i}/{k}": v for i, seed in enumerate(past) for k, v in weights(seed).items()})
    server = InferenceServer(made, path, batching)
    stop = threading.Event()
    thread = threading.Thread(target=server.serve, args=(stop.is_set, lambda: None))
    thread.start()
    try:
        yield server
    finally:
        stop.set()
        thread.join()
        server.close()


def test_an_answer_is_drawn_from_the_policy_and_legal() -> None:
    turns = rows()
    found = table().answer(turns.observation, turns.legal, turns.driver)
    logs, value = expected(weights(1), turns, found.action)
    np.testing.assert_allclose(found.log_probability, logs, atol=1e-5)
    np.testing.assert_allclose(found.value, value, atol=1e-5)
    assert np.isfinite(logs).all()
    assert found.version == 7


def test_every_row_is_answered_by_the_policy_that_drives_it() -> None:
    made = table(1)
    made.load_past({f"{i}/{k}": v for i, seed in enumerate((11, 12)) for k, v in weights(seed).items()})
    turns = rows()
    driver = (np.arange(64) % 3).astype(np.uint8)
    found = made.answer(turns.observation, turns.legal, driver)
    for number, seed in enumerate((1, 11, 12)):
        logs, value = expected(weights(seed), turns, found.action)
        mine = driver == number
        np.testing.assert_allclose(found.log_probability[mine], logs[mine], atol=1e-5)
        np.testing.assert_allclose(found.value[mine], value[mine], atol=1e-5)


def test_who_is_not_there_cannot_be_asked() -> None:
    turns = rows()
    with pytest.raises(PlaymillError, match="driver 3"):
        table().answer(turns.observation, turns.legal, np.full(64, 3, np.uint8))


def test_weights_that_do_not_fit_change_nothing() -> None:
    made, turns = table(), rows()
    wrong = {name: t if "value" not in name else t[:0] for name, t in weights(2).items()}
    with pytest.raises(PlaymillError, match="not of this network"):
        made.load(8, wrong)
    with pytest.raises(PlaymillError, match="not of this network"):
        made.load(8, {})
    found = made.answer(turns.observation, turns.legal, turns.driver)
    np.testing.assert_allclose(found.value, expected(weights(1), turns, found.action)[1], atol=1e-5)
    assert found.version == 7


def test_actors_are_answered_together_and_each_gets_its_own_rows(tmp_path: Path) -> None:
    path = tmp_path / "policy"
    with served(path, Batching(rows=96, wait_ms=1000.0), past=(11,)) as server:

        def actor(seed: int, out: dict[int, float]) -> None:
            mine = SharedAnswers(path, SPEC, most=32)
            turns = rows(32, seed)
            driver = (np.arange(32) % 2).astype(np.uint8)
            for _ in range(20):
                found = mine.answer(turns.observation, turns.legal, driver)
                for number, weight_seed in enumerate((1, 11)):
                    asked = driver == number
                    logs, value = expected(weights(weight_seed), turns, found.action)
                    np.testing.assert_allclose(found.log_probability[asked], logs[asked], atol=1e-5)
                    np.testing.assert_allclose(found.value[asked], value[asked], atol=1e-5)
                assert (found.version, mine.past) == (7, 1)
            out[seed] = 1.0
            mine.close()

        done: dict[int, float] = {}
        actors = [threading.Thread(target=actor, args=(seed, done)) for seed in range(3)]
        for thread in actors:
            thread.start()
        for thread in actors:
            thread.join(timeout=60)
        assert sorted(done) == [0, 1, 2]
        assert server.pace.report().rows > 32  # some were answered together


def test_rows_do_not_wait_for_others_longer_than_set(tmp_path: Path) -> None:
    path = tmp_path / "policy"
    with served(path, Batching(rows=1000, wait_ms=5.0)):
        mine, other = SharedAnswers(path, SPEC, most=64), SharedAnswers(path, SPEC, most=2000)
        turns = rows()
        found = mine.answer(turns.observation, turns.legal, turns.driver)
        np.testing.assert_allclose(found.value, expected(weights(1), turns, found.action)[1], atol=1e-5)
        with pytest.raises(PlaymillError, match="made for 1 to 64"):
            mine.answer(
                *(np.repeat(column, 2, 0) for column in (turns.observation, turns.legal, turns.driver))
            )
        mine.close()
        other.close()


def test_a_stranger_is_refused_and_the_others_go_on(tmp_path: Path) -> None:
    path = tmp_path / "policy"
    with served(path, Batching(rows=1)):
        mine, turns = SharedAnswers(path, SPEC, most=64), rows()
        with pytest.raises(PlaymillError, match="refused: this policy reads schema"):
            SharedAnswers(path, registry.spec("kuhn"), most=4)
        with pytest.raises(PlaymillError, match="rows must be from 1"):
            SharedAnswers(path, SPEC, most=10**7)
        with pytest.raises(PlaymillError, match="driver 9"):
            mine.answer(turns.observation, turns.legal, np.full(64, 9, np.uint8))
        for garbage in (b"\xff" * 100, b"{}", b"[" * 3000, b"PMpolicy"):
            with socket.socket(socket.AF_UNIX) as stranger:
                stranger.connect(str(path))
                stranger.sendall(garbage)
                assert stranger.recv(300).startswith(b"refused")
        liar = SharedAnswers(path, SPEC, most=4)
        liar._connection.sendall(ASKED.pack(5))  # more than there is room for
        assert liar._connection.recv(16) == b""
        liar.close()
        torn = SharedAnswers(path, SPEC, most=4)
        torn._connection.sendall(struct.pack("<H", 1))
        torn.close()
        found = mine.answer(turns.observation, turns.legal, turns.driver)
        np.testing.assert_allclose(found.value, expected(weights(1), turns, found.action)[1], atol=1e-5)
        mine.close()


SERVER = """
import sys
from pathlib import Path
from tests.contract.test_inference import table
from playmill.serving.batching import Batching
from playmill.serving.inference import InferenceServer
server = InferenceServer(table(), Path(sys.argv[1]), Batching(rows=1))
print("ready", flush=True)
server.serve(lambda: False, lambda: None)
"""


def start_server(path: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(path)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parent.parent.parent,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_an_actor_waits_for_the_successor_of_a_policy_that_was_killed(tmp_path: Path) -> None:
    path, turns = tmp_path / "policy", rows()
    first = start_server(path)
    mine = SharedAnswers(path, SPEC, most=64)
    before = mine.answer(turns.observation, turns.legal, turns.driver)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    second = start_server(path)
    try:
        after = mine.answer(turns.observation, turns.legal, turns.driver)
        np.testing.assert_array_equal(before.action, after.action)
    finally:
        second.kill()
        second.wait()
        mine.close()
    with pytest.raises(PlaymillError, match="no policy answers"):
        SharedAnswers(path, SPEC, most=4, patience_s=0.1)
