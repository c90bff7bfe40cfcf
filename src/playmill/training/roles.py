"""The processes of the engine lane besides the learner: an actor, and a policy for all actors of a host."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

import torch

from playmill.experience.segment_writer import SegmentWriter
from playmill.pools.remote import RemotePool
from playmill.serving.answers import Answers, PolicyTable
from playmill.serving.inference import InferenceServer
from playmill.serving.inference_client import SharedAnswers
from playmill.training.actor import Actor
from playmill.training.exchange import Exchange, run_id
from playmill.training.followed import FIRST_WEIGHTS_S, Followed
from playmill.training.meters import ActorMeters, introduce
from playmill.training.runs import read_config


def play(folder: Path, number: int, stopped: Callable[[], bool]) -> Actor:
    """Actor `number` of the run in `folder`, until it is told to stop; what it has sealed is handed over."""
    torch.set_num_threads(1)
    config = read_config(folder)
    settings, spec = config.actors, config.spec
    exchange = Exchange(config, run_id(folder), folder)
    epoch = new_epoch()
    with ExitStack() as stack:
        instruments = stack.enter_context(config.telemetry.open("actor", number, in_use=warn))
        introduce(instruments.meters, exchange.run, config.game, "actor", number)
        sender = stack.enter_context(closing(exchange.sender(number, epoch, instruments.tracer)))
        seed = epoch + number
        answers: Answers
        if settings.inference == "process":
            answers = SharedAnswers(exchange.policy_socket, spec, settings.slots, stopped=stopped)
        else:
            table = PolicyTable(spec, config.network, seed)
            watches = (exchange.watch(stack, stopped=stopped), exchange.watch(stack, "past", stopped))
            answers = Followed(table, *watches, stopped, instruments)
        stack.enter_context(closing(answers))
        pool = stack.enter_context(
            RemotePool(
                spec,
                settings.slots,
                seed=seed,
                engines=settings.engines,
                games_per_engine=2 * settings.games,
                command=settings.command or None,
                supervision=settings.supervision,
                stagger=True,
            )
        )
        name = (exchange.run, number, epoch)
        tracer, decides = instruments.tracer, settings.inference == "actor"
        writer = SegmentWriter(exchange.shape, settings.slots, *name, stagger=True, tracer=tracer)
        if (leave := exchange.leave(number)) is not None:
            stack.enter_context(closing(leave))
        meters = ActorMeters(instruments.meters, pool, sender, decides) if instruments.meters.on else None
        parts = (pool, answers, writer, sender, settings.batching, config.opponents, seed)
        actor = Actor(*parts, leave=leave, meters=meters, tracer=tracer)
        actor.run(stopped)
        return actor


def warn(text: str) -> None:
    """A line in the process's log."""
    print(f"playmill: {text}", flush=True)


def new_epoch() -> int:
    """Later processes of an actor have later ones; a random part tells them apart if a clock was set back."""
    return (time.time_ns() // 1_000_000) << 20 | secrets.randbits(20)


def answer(folder: Path, stopped: Callable[[], bool]) -> None:
    """The policy of the run in `folder`, for all actors of this machine."""
    torch.set_num_threads(1)
    config = read_config(folder)
    exchange = Exchange(config, run_id(folder), folder)
    with ExitStack() as stack:
        instruments = stack.enter_context(config.telemetry.open("policy", in_use=warn))
        introduce(instruments.meters, exchange.run, config.game, "policy")
        weights = exchange.watch(stack, stopped=stopped)
        with closing(exchange.follower("past", stopped)) as published:
            any_past = published.newest() > 0
        past = exchange.watch(stack, "past", stopped)
        table = PolicyTable(config.spec, config.network, time.time_ns())
        followed = Followed(table, weights, past, stopped, instruments)
        if any_past:  # actors ask for those that its predecessor had
            table.load_past(past.first(FIRST_WEIGHTS_S, stopped)[1])
        where, batching = exchange.policy_socket, config.actors.batching
        server = stack.enter_context(closing(InferenceServer(table, where, batching, instruments.meters)))
        server.serve(stopped, followed.renew)
