"""ASGI middleware of `serve` and `view`: host, origin and token checks, limits of request bodies, and security headers."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import secrets
import socket
from asyncio import Protocol, TimerHandle, Transport
from collections.abc import Callable, Iterator, Sequence
from http import HTTPStatus
from time import perf_counter
from typing import Any

import orjson
import uvicorn
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from verdict_cli.errors import UsageError
from verdict_cli.regex import regex

_PORT = regex(r":\d+$")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Server(uvicorn.Server):
    """uvicorn's server without its signal handlers: the caller installs its own."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def needs_token(host: str) -> bool:
    """Whether other machines can reach the address."""
    return host not in _LOOPBACK


def bind_socket(host: str, port: int) -> socket.socket:
    """Bind a socket, which does not listen yet. UsageError if the address is not available."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise UsageError(
            f"cannot listen on {host}:{port}: {error.strerror or error}",
            hint="choose another --port or --host",
        ) from None
    return listener


def listening_address(listener: socket.socket) -> str:
    """The URL of a bound socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


HEAD_BYTES = 64 * 1024
HEAD_S = 20.0


def connection_class(limit: int | None = None, head_s: float = HEAD_S) -> type[Protocol]:
    """The protocol class for uvicorn: at most `limit` connections, each request head within `head_s` seconds."""
    return type("Connection", (_Connection,), {"limit": limit, "head_s": head_s})


def server_config(
    app: ASGIApp, *, connections: int | None = None, keep_alive_s: int, shutdown_s: int
) -> uvicorn.Config:
    """uvicorn's settings for a guarded application: it logs no request, and tells and trusts no more than it must."""
    return uvicorn.Config(
        app,
        http=connection_class(connections),
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        timeout_keep_alive=keep_alive_s,
        timeout_graceful_shutdown=shutdown_s,
    )


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
        in_body = (
            cycle is not None and cycle.more_body
        )  # read it first: the last bytes of the body clear it
        super().data_received(data)
        if self.transport.is_closing():
            self._stop_timer()
            return
        if self.cycle is not cycle:
            self._head_bytes = 0
        elif not in_body:
            self._head_bytes += len(data)
        if self._head_bytes > HEAD_BYTES:
            self._reject(
                431, "head-too-large", f"the request's head is larger than {HEAD_BYTES} bytes"
            )
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
                self.head_s,
                self._reject,
                408,
                "head-too-slow",
                "the request's head did not arrive in time",
            )

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _reject(self, status: int, kind: str, message: str) -> None:
        self._stop_timer()
        body = orjson.dumps({"error": {"kind": kind, "message": message}})
        body_headers = {
            b"content-type": b"application/json",
            b"content-length": b"%d" % len(body),
            b"connection": b"close",
        }
        head = b"".join(b"%b: %b\r\n" % pair for pair in (SECURITY_HEADERS | body_headers).items())
        line = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n".encode()
        self.transport.write(line + head + b"\r\n" + body)
        self.transport.close()


ResponseObserver = Callable[[str, int, float], None]
"""Called for every response with the path of the route, the status, and the duration in seconds."""

SECURITY_HEADERS = {
    b"x-content-type-options": b"nosniff",
    b"content-security-policy": b"default-src 'none'; frame-ancestors 'none'",
    b"referrer-policy": b"no-referrer",
    b"cache-control": b"no-store",
    b"cross-origin-resource-policy": b"same-origin",
}
"""Added to every response that does not set them itself."""


class AccessPolicy(Struct, frozen=True):
    """Who may send requests. Without a ``token``, anybody who can reach the address, which must then be this machine's own."""

    token: str | None = None
    hosts: tuple[str, ...] = ("localhost", "127.0.0.1", "[::1]")
    origins: tuple[str, ...] = ()

    @staticmethod
    def allowed_hosts(host: str, more: Sequence[str] = ()) -> tuple[str, ...]:
        """The accepted Host headers of a server at that address."""
        own_name = f"[{host}]" if ":" in host else host
        names = (*AccessPolicy().hosts, own_name, *more)
        return tuple(sorted(set(map(str.lower, names))))


class _Rejected(Exception):
    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status, self.kind, self.message = status, kind, message


class _TokenInQuery(Exception):
    """The URL of a page has the right token: the browser gets a session cookie."""


class GuardMiddleware:
    """Reject requests that the policy does not allow, and read bodies whole before the application is called.

    Bodies are limited in size and time, so that a slow sender cannot hold up an endpoint.

    Args:
        unguarded: Paths that need no token.
        pages: Whether browsers open pages of the application. Requests from its own origin are then accepted, and a URL may
            carry the token (`?token=…`), for which the browser gets a session cookie.
        on_response: Called for every response.
    """

    def __init__(
        self,
        app: ASGIApp,
        policy: AccessPolicy,
        *,
        body_bytes: int,
        body_s: float,
        unguarded: Sequence[str] = (),
        pages: bool = False,
        on_response: ResponseObserver = lambda *_: None,
    ) -> None:
        self._app = app
        self._policy = policy
        self._unguarded = frozenset(unguarded)
        self._pages = pages
        self._body_bytes = body_bytes
        self._body_s = body_s
        self._on_response = on_response
        self._token = None if policy.token is None else f"bearer {policy.token}".encode()
        self._session = secrets.token_urlsafe(32)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        started = perf_counter()
        status, started_response = 500, False

        async def send_response(message: Message) -> None:
            nonlocal status, started_response
            if message["type"] == "http.response.start":
                status, started_response = message["status"], True
                headers = list(message.get("headers", ()))
                names = {name.lower() for name, _ in headers}
                message["headers"] = headers + [
                    pair for pair in SECURITY_HEADERS.items() if pair[0] not in names
                ]
            await send(message)

        try:
            body = await self._authorize(scope, receive)
            await self._app(scope, _replay_body(body, receive), send_response)
        except _TokenInQuery:
            response = _session_page(self._cookie_name(scope), self._session)
            await response(scope, receive, send_response)
        except _Rejected as rejection:
            await _error_response(rejection)(scope, receive, send_response)
        except Exception:
            if not started_response:
                fault = _Rejected(500, "fault", "internal server error")
                await _error_response(fault)(scope, receive, send_response)
            raise
        finally:
            route = scope.get("route")
            self._on_response(getattr(route, "path", "other"), status, perf_counter() - started)

    async def _authorize(self, scope: Scope, receive: Receive) -> bytes:
        """Check a request and return its body. Raises _Rejected."""
        headers = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1").lower()
        name = _PORT.sub("", host)
        if "*" not in self._policy.hosts and name not in self._policy.hosts:
            raise _Rejected(
                421,
                "wrong-host",
                f"this server does not accept the host {name[:100]!r}; add it with --allow-host",
            )
        self._check_origin(headers, host)
        if self._token is not None and scope["path"] not in self._unguarded:
            self._check_token(scope, headers, self._token)
        if scope["method"] in ("GET", "HEAD", "DELETE", "OPTIONS"):
            return b""
        return await self._read_body(headers, receive)

    def _check_origin(self, headers: dict[bytes, bytes], host: str) -> None:
        origin = headers.get(b"origin")
        own_origins = (f"http://{host}", f"https://{host}") if self._pages else ()
        if origin is not None and origin.decode("latin-1") not in (
            *self._policy.origins,
            *own_origins,
        ):
            cure = "" if self._pages else "; add it with --allow-origin"
            message = f"requests from this origin are not accepted{cure}"
            raise _Rejected(403, "wrong-origin", message)
        if (
            self._pages
            and headers.get(b"sec-fetch-site") in (b"cross-site", b"same-site")
            and headers.get(b"sec-fetch-mode") != b"navigate"
        ):
            raise _Rejected(403, "wrong-origin", "requests from other sites are not accepted")

    def _check_token(self, scope: Scope, headers: dict[bytes, bytes], expected: bytes) -> None:
        scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
        if hmac.compare_digest(scheme.lower() + b" " + token.strip(), expected):
            return
        if self._pages:
            request = Request(scope)
            session = request.cookies.get(self._cookie_name(scope), "")
            if hmac.compare_digest(session.encode(), self._session.encode()):
                return
            in_query = f"bearer {request.query_params.get('token', '')}".encode()
            if scope["method"] == "GET" and hmac.compare_digest(in_query, expected):
                raise _TokenInQuery
            raise _Rejected(
                401, "unauthorized", "open the URL that `verdict view` printed, including its token"
            )
        raise _Rejected(
            401, "unauthorized", "send the token of the server: `Authorization: Bearer …`"
        )

    @staticmethod
    def _cookie_name(scope: Scope) -> str:
        """The name of the cookie, with the port: browsers share cookies between the ports of a host."""
        return f"verdict-{(scope.get('server') or ('', 0))[1]}"

    async def _read_body(self, headers: dict[bytes, bytes], receive: Receive) -> bytes:
        limit = self._body_bytes
        too_large = _Rejected(413, "body-too-large", f"the body is larger than {limit} bytes")
        length = headers.get(b"content-length", b"")
        if length.isdigit() and int(length) > limit:
            raise too_large
        parts, size, more = [], 0, True
        try:
            async with asyncio.timeout(self._body_s):
                while more:
                    message = await receive()
                    if message["type"] != "http.request":
                        raise _Rejected(
                            400,
                            "disconnected",
                            "the client disconnected before the body was complete",
                        )
                    part = message.get("body", b"")
                    parts.append(part)
                    size += len(part)
                    if size > limit:
                        raise too_large
                    more = message.get("more_body", False)
        except TimeoutError:
            raise _Rejected(408, "body-too-slow", "the body did not arrive in time") from None
        return b"".join(parts)


def _replay_body(body: bytes, receive: Receive) -> Receive:
    """A `receive` that returns the body that was read, then the further messages."""
    replayed = False

    async def next_message() -> Message:
        nonlocal replayed
        if not replayed:
            replayed = True
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return next_message


def _session_page(cookie: str, session: str) -> Response:
    """Set the cookie on a page of this site that leads on to `/`: a SameSite cookie is not sent after a redirect from elsewhere."""
    page = '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url=/"><a href="/">Continue</a>'
    header = f"{cookie}={session}; HttpOnly; SameSite=Strict; Path=/"
    return HTMLResponse(page, headers={"set-cookie": header})


def _error_response(rejection: _Rejected) -> Response:
    headers = {}
    if rejection.status == 401:
        headers["www-authenticate"] = "Bearer"
    if rejection.status in (408, 413):
        headers["connection"] = "close"
    error = {"kind": rejection.kind, "message": rejection.message}
    return JSONResponse({"error": error}, rejection.status, headers)
