"""What stands before the endpoints: who may come in, how much they may send, and the headers of every answer."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from time import perf_counter
from typing import Any

import orjson

from verdict_cli.serve.metrics import Metrics
from verdict_cli.serve.settings import Door, Limits

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN = ("/health", "/health/live", "/health/ready")
"""Endpoints that need no token."""
_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
]


class _Closed(Exception):
    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status, self.kind, self.message = status, kind, message


class Guarded:
    """The application behind its door. Bodies are read whole, within the size and the time that are allowed, so that
    nobody holds the endpoints up by sending slowly."""

    def __init__(self, app: App, door: Door, limits: Limits, metrics: Metrics) -> None:
        self._app = app
        self._door = door
        self._limits = limits
        self._metrics = metrics
        self._token = None if door.token is None else f"bearer {door.token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        started = perf_counter()
        status = 500

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *_HEADERS]
            await send(message)

        try:
            body = await self._let_in(scope, receive)
            await self._app(scope, _once(body, receive), answer)
        except _Closed as closed:
            await _refuse(closed, answer)
        finally:
            route = scope.get("route")
            self._metrics.answered(getattr(route, "path", "other"), status, perf_counter() - started)

    async def _let_in(self, scope: Scope, receive: Receive) -> bytes:
        """The body of a request that may come in."""
        headers = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1").lower()
        name = host if host.endswith("]") else host.rpartition(":")[0] or host
        if "*" not in self._door.hosts and name not in self._door.hosts:
            raise _Closed(
                421, "wrong-host", f"this server does not answer for {name[:100]!r}; --allow-host names it"
            )
        origin = headers.get(b"origin")
        if origin is not None and origin.decode("latin-1") not in self._door.origins:
            raise _Closed(403, "wrong-origin", "pages of that origin may not ask; --allow-origin names it")
        if self._token is not None and scope["path"] not in OPEN:
            given = headers.get(b"authorization", b"")
            scheme, _, token = given.partition(b" ")
            if not hmac.compare_digest(scheme.lower() + b" " + token.strip(), self._token):
                raise _Closed(401, "unauthorized", "send the server's token: `Authorization: Bearer …`")
        if scope["method"] in ("GET", "HEAD", "DELETE", "OPTIONS"):
            return b""
        return await self._body(headers, receive)

    async def _body(self, headers: dict[bytes, bytes], receive: Receive) -> bytes:
        most = self._limits.body_bytes
        too_long = _Closed(413, "body-too-large", f"the body is larger than {most} bytes")
        length = headers.get(b"content-length", b"")
        if length.isdigit() and int(length) > most:
            raise too_long
        parts, size, more = [], 0, True
        try:
            async with asyncio.timeout(self._limits.deadline_s):
                while more:
                    message = await receive()
                    if message["type"] != "http.request":
                        raise _Closed(400, "disconnected", "the body never came")
                    part = message.get("body", b"")
                    parts.append(part)
                    size += len(part)
                    if size > most:
                        raise too_long
                    more = message.get("more_body", False)
        except TimeoutError:
            raise _Closed(408, "body-too-slow", "the body did not come in time") from None
        return b"".join(parts)


def _once(body: bytes, receive: Receive) -> Receive:
    """Gives the body that was read, and then what else comes."""
    given = False

    async def next_message() -> Message:
        nonlocal given
        if not given:
            given = True
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return next_message


async def _refuse(closed: _Closed, send: Send) -> None:
    body = orjson.dumps({"error": {"kind": closed.kind, "message": closed.message}})
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if closed.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if closed.status in (408, 413):
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": closed.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
