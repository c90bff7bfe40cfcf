"""Where Prometheus scrapes a process: GET /metrics over HTTP, on this machine unless a token is set."""

from __future__ import annotations

import errno
import hmac
import ipaddress
import socket
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from playmill.telemetry.errors import AddressInUse, TelemetryError
from playmill.telemetry.meters import PrometheusMeters

TOKEN_CHARACTERS = 16
AT_ONCE = 16
"""Connections at once; more are hung up on."""
PATIENCE = 10.0
"""Seconds for a client that sends or reads slowly."""


class MetricsEndpoint:
    """Serves the metrics of a process in a thread. `listen` is HOST:PORT, port 0 for a free one."""

    def __init__(self, meters: PrometheusMeters, listen: str = "127.0.0.1:0", token: str = "") -> None:
        host, port = _address(listen)
        if token and len(token) < TOKEN_CHARACTERS:
            raise TelemetryError(f"a token of at least {TOKEN_CHARACTERS} characters is wanted for metrics")
        if not token and not is_loopback(host):
            raise TelemetryError(
                f"metrics at {listen} can be read from other machines: set a token, or listen on 127.0.0.1"
            )
        try:
            self._server = _Server((host, port), meters, token)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise AddressInUse(f"{listen} is in use; give the metrics another port") from error
            raise TelemetryError(f"metrics cannot listen at {listen}: {error.strerror or error}") from error
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.1,), name="metrics", daemon=True
        )
        self._thread.start()

    def __enter__(self) -> MetricsEndpoint:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = AT_ONCE
    block_on_close = False

    def __init__(self, address: tuple[str, int], meters: PrometheusMeters, token: str) -> None:
        self.meters = meters
        self.token = token
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._room = threading.BoundedSemaphore(AT_ONCE)
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._room.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up is no news."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version = "playmill"
    sys_version = ""
    timeout = PATIENCE

    def do_GET(self) -> None:
        if not self._admitted():
            return
        if self.path.partition("?")[0] != "/metrics":
            self._reply(HTTPStatus.NOT_FOUND, b"the metrics are at /metrics\n")
            return
        page, kind = self.server.meters.page(self.headers.get("Accept", ""))
        self._reply(HTTPStatus.OK, page, kind)

    def _admitted(self) -> bool:
        if self.server.token:
            given = self.headers.get("Authorization", "").encode("utf-8", "replace")
            if hmac.compare_digest(given, f"Bearer {self.server.token}".encode()):
                return True
            text = b"send the token as Authorization: Bearer TOKEN\n"
            self._reply(HTTPStatus.UNAUTHORIZED, text, more={"WWW-Authenticate": "Bearer"})
            return False
        # A page in a browser of this machine may have its own name point here; that name gives it away.
        host = self.headers.get("Host", "localhost").rpartition("@")[2]
        name = host.partition("]")[0].strip("[") if host.startswith("[") else host.partition(":")[0]
        if is_loopback(name):
            return True
        self._reply(HTTPStatus.MISDIRECTED_REQUEST, b"ask for it as 127.0.0.1 or localhost\n")
        return False

    def _reply(
        self, status: HTTPStatus, body: bytes, kind: str = "text/plain", more: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **(more or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Scrapes are not logged."""


def _address(listen: str) -> tuple[str, int]:
    host, colon, port = listen.rpartition(":")
    if not (host and colon and port.isascii() and port.isdigit()) or int(port) > 65535:
        raise TelemetryError(
            f"{listen!r} is no address for metrics: HOST:PORT is wanted, such as 127.0.0.1:9400"
        )
    return host.strip("[]"), int(port)


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
