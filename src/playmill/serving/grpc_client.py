"""The client over gRPC: columns as bytes fields of messages."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import grpc
import numpy as np

from playmill.games import GameSpec
from playmill.serving.client import Client, Games
from playmill.serving.columns import U8, U32, U64, Answers, Columns, Hosts, Moves, Resets, Seats, States
from playmill.serving.errors import Code, ServiceError
from playmill.serving.messages import METHODS, SERVICE, create_request, pack, read_created, unpack
from playmill.serving.proto import batch_pb2 as pb

_STREAM = "StreamBatchStates"


class GrpcClient(Client):
    """A connection to a server, by TCP or a unix socket."""

    def __init__(
        self, target: str, *, token: str = "", certificate: bytes | None = None, message: int = 64 << 20
    ) -> None:
        sizes = ("grpc.max_send_message_length", "grpc.max_receive_message_length")
        options = [(name, message) for name in sizes]
        if certificate is None:
            self._channel = grpc.insecure_channel(target, options)
        else:
            self._channel = grpc.secure_channel(target, grpc.ssl_channel_credentials(certificate), options)
        self._metadata = (("authorization", f"Bearer {token}"),) if token else ()
        self._methods = {
            name: self._channel.unary_unary(
                f"/{SERVICE}/{name}",
                request_serializer=method.request.SerializeToString,
                response_deserializer=method.reply.FromString,
            )
            for name, method in METHODS.items()
        }
        self._stream = self._channel.unary_stream(
            f"/{SERVICE}/{_STREAM}",
            request_serializer=pb.StreamBatchStatesRequest.SerializeToString,
            response_deserializer=pb.BatchStates.FromString,
        )

        self._actions = _Actions(self._channel, self._metadata)

    def close(self) -> None:
        self._actions.close()
        self._channel.close()

    def _call(self, name: str, request: Any) -> Any:
        try:
            return self._methods[name](request, metadata=self._metadata)
        except grpc.RpcError as error:
            raise refused(error) from None

    def _create(
        self, spec: GameSpec, count: int, seeds: U64 | None, bots: Sequence[str], request: bytes
    ) -> tuple[int, int, U64, U8]:
        reply = self._call("CreateBatchGames", create_request(spec, count, seeds, bots, request))
        return read_created(reply)

    def _states(self, games: Games, seats: Seats) -> States:
        request = pack(seats, pb.GetBatchStatesRequest, hall=games.hall)
        return unpack(self._call("GetBatchStates", request), States, games.layout)

    def _submit(self, games: Games, moves: Moves) -> Answers:
        request = pack(moves, pb.SubmitBatchActionsRequest, hall=games.hall)
        return unpack(self._actions.call(request), Answers, games.layout)

    def _reset(self, games: Games, resets: Resets) -> Answers:
        return self._answers("ResetBatchGames", pb.ResetBatchGamesRequest, games, resets)

    def _delete(self, games: Games, hosts: Hosts) -> Answers:
        return self._answers("DeleteGames", pb.DeleteGamesRequest, games, hosts)

    def _answers(self, name: str, kind: type[Any], games: Games, columns: Columns) -> Answers:
        return unpack(self._call(name, pack(columns, kind, hall=games.hall)), Answers, games.layout)

    def _watch(self, games: Games, seats: Seats, interval: float) -> Iterator[tuple[U32, States]]:
        asked = pack(seats, pb.GetBatchStatesRequest, hall=games.hall)
        request = pb.StreamBatchStatesRequest(seats=asked, interval_ms=max(1, round(1000 * interval)))
        call = self._stream(request, metadata=self._metadata)
        try:
            for reply in call:
                yield np.frombuffer(reply.row, "<u4"), unpack(reply, States, games.layout)
        except grpc.RpcError as error:
            raise refused(error) from None
        finally:
            call.cancel()


class _Actions:
    """Submissions on a stream that stays open: a call of its own for each takes half as long again."""

    def __init__(self, channel: Any, metadata: tuple[tuple[str, str], ...]) -> None:
        self._open = channel.stream_stream(
            f"/{SERVICE}/StreamBatchActions",
            request_serializer=pb.SubmitBatchActionsRequest.SerializeToString,
            response_deserializer=pb.BatchAnswers.FromString,
        )
        self._metadata = metadata
        self._lock = threading.Lock()
        self._replies: Any = None
        self._requests: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def call(self, request: Any) -> Any:
        with self._lock:
            if self._replies is None:
                self._requests = queue.SimpleQueue()
                self._replies = self._open(iter(self._requests.get, None), metadata=self._metadata)
            self._requests.put(request)
            try:
                return next(self._replies)
            except grpc.RpcError as error:
                self.close()  # the next call opens another
                raise refused(error) from None
            except StopIteration:
                self.close()
                raise ServiceError(Code.UNAVAILABLE, "the server ended the stream") from None

    def close(self) -> None:
        self._requests.put(None)
        if self._replies is not None:
            self._replies.cancel()
            self._replies = None


def refused(error: grpc.RpcError) -> ServiceError:
    """The error of a call in our words; gRPC's codes that are not ours are INTERNAL."""
    number = error.code().value[0]
    code = Code(number) if number in list(Code) else Code.INTERNAL
    return ServiceError(code, error.details() or error.code().name)
