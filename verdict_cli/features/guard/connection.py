"""Limits of connections: their number, and the size and time of a request's head.

uvicorn waits for a head forever and, with httptools, accepts any size. The error responses that it sends itself lack the
security headers.
"""

from __future__ import annotations

from asyncio import Protocol, TimerHandle, Transport
from http import HTTPStatus
from typing import Any

import orjson
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from verdict_cli.features.guard.middleware import SECURITY_HEADERS

HEAD_BYTES = 64 * 1024
HEAD_S = 20.0


def connection_class(limit: int | None = None, head_s: float = HEAD_S) -> type[Protocol]:
    """The protocol class for uvicorn: at most `limit` connections, each request head within `head_s` seconds."""
    return type("Connection", (_Connection,), {"limit": limit, "head_s": head_s})


class _Connection(AutoHTTPProtocol):  # type: ignore[misc,valid-type]
    limit: int | None
    head_s: float
    cycle: Any
    transport: Transport

    _head_bytes = 0
    _head_timer: TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Reject the connection if there are too many; otherwise start the timer of the request's head."""
        super().connection_made(transport)
        if self.limit is not None and len(self.connections) > self.limit:
            self._reject(503, "too-many-connections", "this server has too many connections")
            return
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Pass the bytes on, and count those of a request's head."""
        cycle = self.cycle
        in_body = cycle is not None and cycle.more_body  # read it first: the last bytes of the body clear it
        super().data_received(data)
        if self.transport.is_closing():
            self._stop_timer()
            return
        if self.cycle is not cycle:
            self._head_bytes = 0
        elif not in_body:
            self._head_bytes += len(data)
        if self._head_bytes > HEAD_BYTES:
            self._reject(431, "head-too-large", f"the request's head is larger than {HEAD_BYTES} bytes")
        elif self.cycle is None or self.cycle.response_complete:
            self._start_timer()
        else:
            self._stop_timer()

    def send_400_response(self, msg: str) -> None:
        """Respond to bytes that are not a request."""
        self._reject(400, "bad-request", msg)

    def _start_timer(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(
                self.head_s, self._reject, 408, "head-too-slow", "the request's head did not arrive in time"
            )

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _reject(self, status: int, kind: str, message: str) -> None:
        self._stop_timer()
        body = orjson.dumps({"error": {"kind": kind, "message": message}})
        own = {b"content-type": b"application/json", b"content-length": b"%d" % len(body), b"connection": b"close"}
        head = b"".join(b"%b: %b\r\n" % pair for pair in (SECURITY_HEADERS | own).items())
        line = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n".encode()
        self.transport.write(line + head + b"\r\n" + body)
        self.transport.close()
