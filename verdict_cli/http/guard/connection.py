"""A connection that is bounded before its request is known: how long and how large a request's head may be.

uvicorn waits for a head without end, and with httptools takes any size of it; what it answers by itself lacks the headers
of every other answer.
"""

from __future__ import annotations

from asyncio import Protocol, TimerHandle, Transport
from http import HTTPStatus
from typing import Any

import orjson
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from verdict_cli.http.guard.middleware import SECURITY_HEADERS

HEAD_BYTES = 64 * 1024
HEAD_S = 20.0


def connections(most: int | None = None, head_s: float = HEAD_S) -> type[Protocol]:
    """What uvicorn makes of each connection: at most so many at once, each head within so many seconds."""
    return type("Connection", (_Connection,), {"most": most, "head_s": head_s})


class _Connection(AutoHTTPProtocol):  # type: ignore[misc,valid-type]
    most: int | None
    head_s: float
    cycle: Any
    transport: Transport

    _ahead = 0
    _waiting: TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Turned away where there are too many; else a head must come in time."""
        super().connection_made(transport)
        if self.most is not None and len(self.connections) > self.most:
            self._turn_away(503, "too-many-connections", "this server has too many connections")
            return
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any longer."""
        self._came()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Hands the bytes on, and counts those that come before a request is known."""
        before = self.cycle
        in_body = before is not None and before.more_body  # read now: the body's last bytes clear it
        super().data_received(data)
        if self.transport.is_closing():
            self._came()
            return
        if self.cycle is not before:
            self._ahead = 0
        elif not in_body:
            self._ahead += len(data)
        if self._ahead > HEAD_BYTES:
            self._turn_away(431, "head-too-large", f"the request's head is larger than {HEAD_BYTES} bytes")
        elif self.cycle is None or self.cycle.response_complete:
            self._wait()
        else:
            self._came()

    def send_400_response(self, msg: str) -> None:
        """The answer to what is no request."""
        self._turn_away(400, "bad-request", msg)

    def _wait(self) -> None:
        if self._waiting is None:
            self._waiting = self.loop.call_later(
                self.head_s, self._turn_away, 408, "head-too-slow", "the request's head did not come in time"
            )

    def _came(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _turn_away(self, status: int, kind: str, message: str) -> None:
        self._came()
        body = orjson.dumps({"error": {"kind": kind, "message": message}})
        own = {b"content-type": b"application/json", b"content-length": b"%d" % len(body), b"connection": b"close"}
        head = b"".join(b"%b: %b\r\n" % pair for pair in (SECURITY_HEADERS | own).items())
        line = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n".encode()
        self.transport.write(line + head + b"\r\n" + body)
        self.transport.close()
