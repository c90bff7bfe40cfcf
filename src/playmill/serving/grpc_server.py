"""The service over gRPC: the methods, streams, health, reflection, and who may call."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf.message import Message
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from playmill.games import PlaymillError
from playmill.serving.errors import ServiceError
from playmill.serving.house import House
from playmill.serving.messages import METHODS, SERVICE, Method, pack, parse, read_states, submit
from playmill.serving.proto import batch_pb2 as pb
from playmill.serving.watching import Watcher, pick

PATIENCE = 30.0
"""Seconds a stream waits for a client that does not read, then it is ended."""
CALLS = 256
"""Calls at once besides streams; their replies may wait for clients that do not read."""
INTERVAL_MS = 10
REST = 9
"""A stream rests so many times as long as it looked: it takes a tenth of the server's time at most."""
_CODES = {code.value[0]: code for code in grpc.StatusCode}
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Access:
    """How a server is reached, and what a caller must bring."""

    listen: Sequence[str]
    """host:port or unix:/path."""
    token: str = ""
    """Callers must send it as `authorization: Bearer TOKEN`; empty: none is asked for."""
    certificate: bytes = b""
    private_key: bytes = b""

    def __post_init__(self) -> None:
        if bool(self.certificate) != bool(self.private_key):
            raise PlaymillError("TLS needs a certificate and its key")
        for place in self.listen:
            if not (is_local(place) or self.token or self.certificate):
                raise PlaymillError(
                    f"{place} can be reached from other machines: give a token or a certificate, "
                    "or listen on 127.0.0.1"
                )


def is_local(place: str) -> bool:
    """Whether only this machine can reach an address."""
    if place.startswith(("unix:", "unix-abstract:")):
        return True
    host, colon, port = place.rpartition(":")
    if not colon or not port.isdigit():
        raise PlaymillError(f"{place} is no address: host:port or unix:/path is wanted")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class GrpcServer:
    """Answers gRPC calls on one event loop; each batch is one native call."""

    def __init__(self, house: House, access: Access) -> None:
        self._house = house
        self._streams: set[asyncio.Task[Any]] = set()
        self._stopping = False
        self.health = health.aio.HealthServicer()
        limit = house.limits.message
        self._server = grpc.aio.server(
            maximum_concurrent_rpcs=house.limits.streams + CALLS,
            interceptors=[_Gate(access.token)] if access.token else [],
            options=[
                ("grpc.max_receive_message_length", limit),
                ("grpc.max_send_message_length", limit),
                ("grpc.so_reuseport", 0),  # a second server on the same port is an error, not a lottery
            ],
        )
        handlers: dict[str, Any] = {
            name: grpc.unary_unary_rpc_method_handler(
                self._unary(method),
                response_serializer=method.reply.SerializeToString,
            )
            for name, method in METHODS.items()
        }
        handlers["StreamBatchStates"] = grpc.unary_stream_rpc_method_handler(
            self._stream,
            response_serializer=pb.BatchStates.SerializeToString,
        )
        handlers["StreamBatchActions"] = grpc.stream_stream_rpc_method_handler(
            self._play,
            response_serializer=pb.BatchAnswers.SerializeToString,
        )
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        health_pb2_grpc.add_HealthServicer_to_server(self.health, self._server)
        names = (SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, self._server)
        self.places = [self._bind(place, access) for place in access.listen]

    def _bind(self, place: str, access: Access) -> str:
        """Where it listens in the end: port 0 becomes a free one."""
        try:
            if access.certificate and not place.startswith("unix"):
                pair = [(access.private_key, access.certificate)]
                port = self._server.add_secure_port(place, grpc.ssl_server_credentials(pair))
            else:
                port = self._server.add_insecure_port(place)
        except RuntimeError:
            raise PlaymillError(f"cannot listen on {place}: taken, or no address of this machine") from None
        return place if place.startswith("unix") else f"{place.rpartition(':')[0]}:{port}"

    async def start(self) -> None:
        await self._server.start()
        await self._say(health_pb2.HealthCheckResponse.SERVING)

    async def stop(self, grace: float) -> None:
        """No new calls; those that run have `grace` seconds; streams end at once."""
        self._stopping = True
        await self._say(health_pb2.HealthCheckResponse.NOT_SERVING)
        for task in list(self._streams):
            task.cancel()
        await self._server.stop(grace)

    async def _say(self, status: Any) -> None:
        for name in ("", SERVICE):
            await self.health.set(name, status)

    def _unary(self, method: Method) -> Callable[[bytes, Any], Awaitable[Message]]:
        # Requests come as bytes: what cannot be parsed is refused in our words, not logged as a failure.
        async def answer(data: bytes, context: Any) -> Message:
            try:
                request = parse(method.request, data)
                return method.answer(self._house, request, peer_of(context))
            except ServiceError as error:
                await context.abort(_CODES[error.code], str(error))
            except Exception:
                _LOG.exception("a request failed")
                await context.abort(grpc.StatusCode.INTERNAL, "the server failed on this request")
            raise AssertionError("abort raises")

        return answer

    async def _stream(self, data: bytes, context: Any) -> None:
        async with self._running(context):
            request = parse(pb.StreamBatchStatesRequest, data)
            layout, seats = read_states(self._house, request.seats, peer_of(context))
            watcher = Watcher(len(seats))
            while True:
                begin = time.perf_counter()
                states = self._house.states(request.seats.hall, seats)
                rows = watcher.changed(states)
                if len(rows):
                    more = {"layout_hash": layout.hash, "row": rows.tobytes()}
                    reply = pack(pick(states, rows), pb.BatchStates, **more)
                spent = time.perf_counter() - begin
                if len(rows):
                    await asyncio.wait_for(context.write(reply), PATIENCE)
                await asyncio.sleep(max((request.interval_ms or INTERVAL_MS) / 1000, spent * REST))

    async def _play(self, _requests: Any, context: Any) -> None:
        peer = peer_of(context)
        async with self._running(context):
            while (data := await context.read()) is not grpc.aio.EOF:
                reply = submit(self._house, parse(pb.SubmitBatchActionsRequest, data), peer)
                await asyncio.wait_for(context.write(reply), PATIENCE)

    @asynccontextmanager
    async def _running(self, context: Any) -> AsyncIterator[None]:
        """Counts a stream, ends it when the server stops, and says what went wrong with it."""
        if len(self._streams) >= self._house.limits.streams:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many streams are open")
        task = asyncio.current_task()
        assert task is not None
        self._streams.add(task)
        try:
            yield
        except ServiceError as error:
            await context.abort(_CODES[error.code], str(error))
        except TimeoutError:
            # The status waits behind what was not read; until then the stream counts against the limit.
            _LOG.warning("%s has read nothing for %g s and gets no more", peer_of(context), PATIENCE)
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, f"nothing was read for {PATIENCE:g} s")
        except asyncio.CancelledError:
            if self._stopping:
                task.uncancel()
                await context.abort(
                    grpc.StatusCode.UNAVAILABLE, "the server is shutting down; its games are kept"
                )
            raise
        finally:
            self._streams.discard(task)


def peer_of(context: Any) -> str:
    """Who calls, without the port: more connections are no more room."""
    peer = str(context.peer())
    return peer.rpartition(":")[0] if peer.startswith(("ipv4:", "ipv6:")) else peer


class _Gate(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """Turns away callers without the server's token. Health checks need none."""

    def __init__(self, token: str) -> None:
        self._wanted = f"Bearer {token}".encode()

        async def refuse(_request: Any, context: Any) -> None:
            await context.abort(
                grpc.StatusCode.UNAUTHENTICATED, "send the token as authorization: Bearer TOKEN"
            )

        self._refuse = grpc.unary_unary_rpc_method_handler(refuse)

    async def intercept_service(self, continuation: Any, call: Any) -> Any:
        given = dict(call.invocation_metadata or ()).get("authorization", "")
        if call.method.startswith("/grpc.health.") or hmac.compare_digest(_bytes(given), self._wanted):
            return await continuation(call)
        return self._refuse


def _bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text
