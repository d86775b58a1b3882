"""What stands before the endpoints: who may come in, how much they may send, and the headers of every answer."""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from time import perf_counter
from typing import Any
from urllib.parse import parse_qsl

import orjson

AsgiMessage = MutableMapping[str, Any]
AsgiScope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[AsgiMessage]]
Send = Callable[[AsgiMessage], Awaitable[None]]
App = Callable[[AsgiScope, Receive, Send], Awaitable[None]]

AuthorizedRequest = Callable[[str, int, float], None]
"""Told of every answer: the route's path, the status, the seconds."""

SECURITY_HEADERS = {
    b"x-content-type-options": b"nosniff",
    b"content-security-policy": b"default-src 'none'; frame-ancestors 'none'",
    b"referrer-policy": b"no-referrer",
    b"cache-control": b"no-store",
    b"cross-origin-resource-policy": b"same-origin",
}
"""Of every answer that does not set them itself."""


@dataclass(frozen=True)
class AccessPolicy:
    """Who may come in. ``token`` None: anybody who reaches the address, which is then this machine's own."""

    token: str | None = None
    hosts: tuple[str, ...] = ("localhost", "127.0.0.1", "[::1]")
    origins: tuple[str, ...] = ()

    @staticmethod
    def names(host: str, more: Sequence[str] = ()) -> tuple[str, ...]:
        """The Hosts that are answered at that address."""
        return tuple(
            sorted({name.lower() for name in (*AccessPolicy().hosts, f"[{host}]" if ":" in host else host, *more)})
        )


class _Rejected(Exception):
    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status, self.kind, self.message = status, kind, message


class _TokenInQuery(Exception):
    """The token came in the address of a page: the browser gets its cookie."""


class GuardMiddleware:
    """The application behind its door. Bodies are read whole, within the size and the time that are allowed, so that
    nobody holds the endpoints up by sending slowly.

    The paths `unguarded` need no token. Where `pages` are shown to browsers, their own origin may ask, no other site may,
    and the token may come in the address (`?token=…`), which gives the browser a cookie in its place.
    """

    def __init__(
        self,
        app: App,
        door: AccessPolicy,
        *,
        body_bytes: int,
        body_s: float,
        unguarded: Sequence[str] = (),
        pages: bool = False,
        answered: AuthorizedRequest = lambda *_: None,
    ) -> None:
        self._app = app
        self._door = door
        self._unguarded = frozenset(unguarded)
        self._pages = pages
        self._body_bytes = body_bytes
        self._body_s = body_s
        self._answered = answered
        self._token = None if door.token is None else f"bearer {door.token}".encode()
        self._session = secrets.token_urlsafe(32)

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        started = perf_counter()
        status, begun = 500, False

        async def answer(message: AsgiMessage) -> None:
            nonlocal status, begun
            if message["type"] == "http.response.start":
                status, begun = message["status"], True
                own = list(message.get("headers", ()))
                set_ = {name.lower() for name, _ in own}
                message["headers"] = own + [pair for pair in SECURITY_HEADERS.items() if pair[0] not in set_]
            await send(message)

        try:
            body = await self._let_in(scope, receive)
            await self._app(scope, _once(body, receive), answer)
        except _TokenInQuery:
            await _greet(self._cookie(scope), self._session, answer)
        except _Rejected as closed:
            await _refuse(closed, answer)
        except Exception:
            if not begun:
                await _refuse(_Rejected(500, "fault", "something in this server failed"), answer)
            raise
        finally:
            route = scope.get("route")
            self._answered(getattr(route, "path", "other"), status, perf_counter() - started)

    async def _let_in(self, scope: AsgiScope, receive: Receive) -> bytes:
        """The body of a request that may come in."""
        headers = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1").lower()
        name = host if host.endswith("]") else host.rpartition(":")[0] or host
        if "*" not in self._door.hosts and name not in self._door.hosts:
            raise _Rejected(421, "wrong-host", f"this server does not answer for {name[:100]!r}; --allow-host names it")
        self._check_origin(headers, host)
        if self._token is not None and scope["path"] not in self._unguarded:
            self._check_token(scope, headers, self._token)
        if scope["method"] in ("GET", "HEAD", "DELETE", "OPTIONS"):
            return b""
        return await self._body(headers, receive)

    def _check_origin(self, headers: dict[bytes, bytes], host: str) -> None:
        origin = headers.get(b"origin")
        own = (f"http://{host}", f"https://{host}") if self._pages else ()
        if origin is not None and origin.decode("latin-1") not in (*self._door.origins, *own):
            raise _Rejected(403, "wrong-origin", "pages of that origin may not ask; --allow-origin names it")
        if (
            self._pages
            and headers.get(b"sec-fetch-site") in (b"cross-site", b"same-site")
            and headers.get(b"sec-fetch-mode") != b"navigate"
        ):
            raise _Rejected(403, "wrong-origin", "pages of another site may not ask")

    def _check_token(self, scope: AsgiScope, headers: dict[bytes, bytes], wanted: bytes) -> None:
        scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
        if hmac.compare_digest(scheme.lower() + b" " + token.strip(), wanted):
            return
        if self._pages:
            if hmac.compare_digest(_cookies(headers).get(self._cookie(scope), "").encode(), self._session.encode()):
                return
            said = dict(parse_qsl(scope["query_string"].decode("latin-1"))).get("token", "")
            if scope["method"] == "GET" and hmac.compare_digest(b"bearer " + said.encode(), wanted):
                raise _TokenInQuery
            raise _Rejected(401, "unauthorized", "open the address that `verdict view` printed, with its token")
        raise _Rejected(401, "unauthorized", "send the server's token: `Authorization: Bearer …`")

    @staticmethod
    def _cookie(scope: AsgiScope) -> str:
        """The cookie's name: browsers keep one jar for all ports of a host."""
        return f"verdict-{(scope.get('server') or ('', 0))[1]}"

    async def _body(self, headers: dict[bytes, bytes], receive: Receive) -> bytes:
        most = self._body_bytes
        too_long = _Rejected(413, "body-too-large", f"the body is larger than {most} bytes")
        length = headers.get(b"content-length", b"")
        if length.isdigit() and int(length) > most:
            raise too_long
        parts, size, more = [], 0, True
        try:
            async with asyncio.timeout(self._body_s):
                while more:
                    message = await receive()
                    if message["type"] != "http.request":
                        raise _Rejected(400, "disconnected", "the body never came")
                    part = message.get("body", b"")
                    parts.append(part)
                    size += len(part)
                    if size > most:
                        raise too_long
                    more = message.get("more_body", False)
        except TimeoutError:
            raise _Rejected(408, "body-too-slow", "the body did not come in time") from None
        return b"".join(parts)


def _once(body: bytes, receive: Receive) -> Receive:
    """Gives the body that was read, and then what else comes."""
    given = False

    async def next_message() -> AsgiMessage:
        nonlocal given
        if not given:
            given = True
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return next_message


def _cookies(headers: dict[bytes, bytes]) -> dict[str, str]:
    try:
        return {name: one.value for name, one in SimpleCookie(headers.get(b"cookie", b"").decode("latin-1")).items()}
    except CookieError:
        return {}


async def _greet(cookie: str, session: str, send: Send) -> None:
    """Sets the cookie and sends the browser on from a page of this site, which it then trusts with it."""
    body = b'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url=/"><a href="/">Go on</a>'
    kept = f"{cookie}={session}; HttpOnly; SameSite=Strict; Path=/".encode()
    headers = [
        (b"content-type", b"text/html; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        (b"set-cookie", kept),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _refuse(closed: _Rejected, send: Send) -> None:
    body = orjson.dumps({"error": {"kind": closed.kind, "message": closed.message}})
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if closed.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if closed.status in (408, 413):
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": closed.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
