"""Messages and columns, both ways, and what the service does with each: the table of methods that the
transports with messages share."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError, Message

from playmill.games import GameSpec
from playmill.serving.columns import U8, U64, Answers, C, Columns, Hosts, Layout, Moves, Resets, Seats, States
from playmill.serving.errors import Code, ServiceError
from playmill.serving.house import House, Opened
from playmill.serving.proto import batch_pb2 as pb

SERVICE = "playmill.batch.v1.BatchGames"


@dataclass(frozen=True)
class Method:
    """One call of the service."""

    request: type[Message]
    reply: type[Message]
    answer: Callable[[House, Any, str], Message]
    """House, request and peer to the reply."""


def parse(kind: type[Message], data: bytes) -> Any:
    """The message in bytes that came from outside."""
    try:
        return kind.FromString(data)
    except DecodeError:
        raise ServiceError(Code.INVALID_ARGUMENT, "the message cannot be read") from None


def pack(columns: Columns, into: type[Any], **more: Any) -> Any:
    """A message whose bytes fields are the columns of the same names."""
    named = {c.name: array.tobytes() for c, array in zip(columns.schema, columns, strict=True)}
    return into(**named, **more)


def unpack(message: Any, kind: type[C], layout: Layout) -> C:
    """The columns in a message, as views of its bytes; bytes that do not fit are refused."""
    widths = layout.widths
    first = kind.schema[0]
    rows = len(getattr(message, first.name)) // np.dtype(first.dtype).itemsize
    out = []
    for column in kind.schema:
        data, shape = getattr(message, column.name), column.shape(rows, widths)
        wanted = int(np.prod(shape)) * np.dtype(column.dtype).itemsize
        if len(data) != wanted:
            text = f"{column.name}: {rows} rows take {wanted} bytes, got {len(data)}"
            raise ServiceError(Code.INVALID_ARGUMENT, text)
        out.append(np.frombuffer(data, column.dtype).reshape(shape))
    return kind(*out)


def read_seeds(data: bytes, rows: int) -> U64:
    """Seeds as sent, or new ones that nobody knows."""
    if data and len(data) != 8 * rows:
        raise ServiceError(Code.INVALID_ARGUMENT, f"seed: {rows} rows take {8 * rows} bytes, got {len(data)}")
    return np.frombuffer(data or os.urandom(8 * rows), "<u8")


def create_request(
    spec: GameSpec, count: int, seeds: U64 | None, bots: Sequence[str], request: bytes
) -> pb.CreateBatchGamesRequest:
    """What a client sends; options travel as the words a person would type."""
    numbers = spec.native_options
    chosen = [option for option in spec.option_specs if option.name in numbers]
    return pb.CreateBatchGamesRequest(
        game=spec.name,
        options={o.name: o.choices[numbers[o.name]] if o.choices else str(numbers[o.name]) for o in chosen},
        count=count,
        seed=b"" if seeds is None else seeds.tobytes(),
        bots=list(bots),
        request=request,
    )


def read_created(reply: Any) -> tuple[int, int, U64, U8]:
    """Hall, hash of its layout, ids and keys."""
    games, keys = np.frombuffer(reply.game, "<u8"), np.frombuffer(reply.key, np.uint8)
    return reply.hall, reply.layout_hash, games, keys


def create(house: House, request: Any, peer: str) -> Message:
    house.meter.admit(peer, request.count)
    if request.count > house.limits.rows:  # before seeds are made for them
        raise ServiceError(Code.RESOURCE_EXHAUSTED, f"at most {house.limits.rows:,} games a request")
    opened = house.create(
        request.game,
        request.count,
        options=dict(request.options),
        seeds=read_seeds(request.seed, request.count) if request.seed else None,
        bots=list(request.bots),
        request=request.request,
    )
    return describe(opened)


def describe(opened: Opened) -> Message:
    """The reply for games that were opened."""
    spec = opened.hall.spec
    return pb.CreateBatchGamesReply(
        hall=opened.hall.number,
        game=opened.game.tobytes(),
        key=opened.keys.tobytes(),
        seats=spec.seats,
        actions=spec.actions,
        legal_bytes=spec.legal_bytes,
        observation_bytes=spec.schema.bytes,
        roles=list(spec.roles),
        schema_hash=spec.schema.hash,
        layout_hash=opened.hall.layout.hash,
    )


def read_states(house: House, request: Any, peer: str) -> tuple[Layout, Seats]:
    layout = house.hall(request.hall).layout
    seats = unpack(request, Seats, layout)
    house.meter.admit(peer, len(seats))
    return layout, seats


def states(house: House, request: Any, peer: str) -> Message:
    layout, seats = read_states(house, request, peer)
    return _packed(house.states(request.hall, seats), pb.BatchStates, layout)


def submit(house: House, request: Any, peer: str) -> Message:
    layout = house.hall(request.hall).layout
    moves = unpack(request, Moves, layout)
    house.meter.admit(peer, len(moves))
    return _packed(house.submit(request.hall, moves), pb.BatchAnswers, layout)


def reset(house: House, request: Any, peer: str) -> Message:
    layout = house.hall(request.hall).layout
    if not request.seed:
        request.seed = read_seeds(b"", len(request.game) // 8).tobytes()
    resets = unpack(request, Resets, layout)
    house.meter.admit(peer, len(resets))
    return _packed(house.reset(request.hall, resets), pb.BatchAnswers, layout)


def delete(house: House, request: Any, peer: str) -> Message:
    layout = house.hall(request.hall).layout
    hosts = unpack(request, Hosts, layout)
    house.meter.admit(peer, len(hosts))
    return _packed(house.delete(request.hall, hosts), pb.BatchAnswers, layout)


def _packed(columns: States | Answers, into: type[Any], layout: Layout) -> Message:
    message: Message = pack(columns, into, layout_hash=layout.hash)
    return message


METHODS = {
    "CreateBatchGames": Method(pb.CreateBatchGamesRequest, pb.CreateBatchGamesReply, create),
    "GetBatchStates": Method(pb.GetBatchStatesRequest, pb.BatchStates, states),
    "SubmitBatchActions": Method(pb.SubmitBatchActionsRequest, pb.BatchAnswers, submit),
    "ResetBatchGames": Method(pb.ResetBatchGamesRequest, pb.BatchAnswers, reset),
    "DeleteGames": Method(pb.DeleteGamesRequest, pb.BatchAnswers, delete),
}
"""All but the stream, which only gRPC has."""
