"""Real servers, asked by clients that keep no rules."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

uvicorn = pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")

from verdict_cli.features.guard import middleware  # noqa: E402
from verdict_cli.features.guard.middleware import (  # noqa: E402  # noqa: E402
    AccessPolicy,
    GuardMiddleware,
    Server,
    bind_socket,
    connection_class,
)

Opened = Callable[..., tuple[str, int]]


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Answers with the path and how long the body is; `/slow` a little later."""
    body = (await receive()).get("body", b"")
    if scope["path"] == "/slow":
        await asyncio.sleep(0.3)
    if scope["path"] == "/broken":
        raise ZeroDivisionError
    content = json.dumps([scope["path"], len(body)]).encode()
    await send(
        {
            "type": "http.response.start",
            "status": 200,
            "headers": [(b"content-length", b"%d" % len(content))],
        }
    )
    await send({"type": "http.response.body", "body": content})


@pytest.fixture(params=["httptools", "h11"])
def opened(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opened]:
    """Starts a server behind its door; gives its address."""
    pytest.importorskip(request.param, reason="it is not installed")
    servers: list[tuple[Any, threading.Thread]] = []

    def start(most: int | None = None, head_s: float = 20, **limits: Any) -> tuple[str, int]:
        app = GuardMiddleware(echo, AccessPolicy(), **{"body_bytes": 1000, "body_s": 20.0} | limits)
        kind = connection_class(most, head_s)
        if request.param == "h11":
            from uvicorn.protocols.http.h11_impl import H11Protocol

            kind = type(
                "Connection",
                (*kind.__mro__[:2], H11Protocol),
                dict(vars(kind.__mro__[1])) | vars(kind),
            )
        server = Server(
            uvicorn.Config(app, http=kind, log_level="critical", ws="none", lifespan="off")
        )
        address = bind_socket("127.0.0.1", 0)
        address.listen()
        thread = threading.Thread(target=server.run, args=([address],))
        thread.start()
        servers.append((server, thread))
        host, port = address.getsockname()
        return str(host), int(port)

    yield start
    for server, thread in servers:
        server.should_exit = True
        thread.join()


def reply_of(address: tuple[str, int], *parts: bytes, wait_s: float = 10) -> bytes:
    """All that the server answers to these bytes until it closes the connection."""
    with closing(socket.create_connection(address, timeout=wait_s)) as connection:
        for part in parts:
            try:
                connection.sendall(part)
            except (BrokenPipeError, ConnectionResetError):
                break
        answer = b""
        try:
            while more := connection.recv(65536):
                answer += more
        except ConnectionResetError:
            pass
        return answer


GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST / HTTP/1.1\r\nHost: localhost\r\n"
CLOSE = b"Connection: close\r\n\r\n"


def test_a_request_is_answered(opened):
    address = opened()
    assert reply_of(address, GET + CLOSE).endswith(b'["/", 0]')
    assert reply_of(address, POST + b"Content-Length: 3\r\n" + CLOSE, b"abc").endswith(b'["/", 3]')
    assert reply_of(address, GET + b"\r\n" + GET + CLOSE).count(b"HTTP/1.1 200") == 2


def test_a_head_that_does_not_come_is_not_waited_for(opened):
    address = opened(head_s=0.2)
    assert b" 408 " in reply_of(address).split(b"\r\n")[0]
    assert b" 408 " in reply_of(address, GET).split(b"\r\n")[0]
    with closing(socket.create_connection(address, timeout=10)) as connection:
        connection.sendall(GET + b"\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        connection.sendall(b"GET / HT")
        assert connection.recv(65536).startswith(b"HTTP/1.1 408")
    slow = GET.replace(b"/ ", b"/slow ") + CLOSE
    assert reply_of(address, slow).startswith(b"HTTP/1.1 200")


def test_a_head_without_end_is_left_at_the_limit(opened):
    address = opened()
    for endless in (b"X: " + b"x" * 200_000, b"X: y\r\n" * 40_000):
        status = reply_of(address, GET, endless).split(b"\r\n")[0]
        assert b" 431 " in status or b" 400 " in status or not status
    late = reply_of(address, GET.replace(b"/ ", b"/slow "), b"\r\n", GET, b"X: " + b"x" * 200_000)
    assert late.count(b"HTTP/1.1 200") <= 1


@pytest.mark.parametrize(
    "nonsense",
    [b"\x16\x03\x01\x02\x00\x01\x00", b"GET\r\n\r\n", b"GET / HTTP/9\r\n\r\n", b"\x00" * 99],
)
def test_what_is_no_request_is_answered_with_the_headers_of_every_answer(opened, nonsense):
    answer = reply_of(opened(head_s=0.3), nonsense)
    assert answer.split(b" ")[1] in (b"400", b"408")
    assert b"x-content-type-options: nosniff" in answer and b"default-src 'none'" in answer


def test_more_connections_than_allowed_are_turned_away(opened):
    address = opened(most=2)
    with (
        closing(socket.create_connection(address)) as first_connection,
        closing(socket.create_connection(address)) as two,
    ):
        for connection in (first_connection, two):
            connection.sendall(GET + b"\r\n")
            assert connection.recv(10).startswith(b"HTTP/1.1 2")
        answer = reply_of(address)
        assert b" 503 " in answer.split(b"\r\n")[0] and b"nosniff" in answer


@pytest.mark.parametrize("size", [200_000, 240_000, 1_000_000, 5_000_000])
@pytest.mark.parametrize("chunked", [False, True])
def test_a_large_body_is_not_counted_as_part_of_the_head(opened, size, chunked):
    address = opened(body_bytes=8 * 2**20)
    body = b"x" * size
    head = POST + b"Content-Length: %d\r\n" % size
    if chunked:
        head, body = (
            POST + b"Transfer-Encoding: chunked\r\n",
            b"%x\r\n%b\r\n0\r\n\r\n" % (size, body),
        )
    for parts in ([head + CLOSE + body], [head + CLOSE, body]):
        answer = reply_of(address, *parts)
        assert answer.startswith(b"HTTP/1.1 200") and answer.endswith(b'["/", %d]' % size), answer[
            :200
        ]


def test_a_head_behind_a_large_body_is_still_bounded(opened):
    address = opened(body_bytes=8 * 2**20)
    whole = POST + b"Content-Length: 1000000\r\n\r\n" + b"x" * 1_000_000
    answer = reply_of(address, whole, GET, *[b"X: " + b"x" * 200_000] * 5)
    assert answer.count(b"HTTP/1.1 200") <= 1
    assert answer.count(b" 431 ") + answer.count(b" 400 ") <= 1


def test_a_body_that_does_not_come_is_not_waited_for(opened):
    address = opened(body_s=0.2)
    answer = reply_of(address, POST + b"Content-Length: 10\r\n\r\n", b"abc")
    assert b" 408 " in answer.split(b"\r\n")[0] and b"nosniff" in answer


def test_chunks_without_end_are_left_at_the_limit(opened):
    chunk = b"64\r\n" + b"x" * 100 + b"\r\n"
    address = opened()
    answer = reply_of(address, POST + b"Transfer-Encoding: chunked\r\n\r\n", chunk * 5, chunk * 6)
    assert b" 413 " in answer.split(b"\r\n")[0] and b"nosniff" in answer


def test_a_fault_of_the_application_has_the_headers_too(opened):
    answer = reply_of(
        opened(), b"GET /broken HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )
    assert b" 500 " in answer.split(b"\r\n")[0] and b"nosniff" in answer


def test_a_token_is_compared_in_constant_time(monkeypatch):
    compared: list[tuple[bytes, bytes]] = []

    def compare(first: bytes, right: bytes) -> bool:
        compared.append((first, right))
        return first == right

    monkeypatch.setattr(middleware.hmac, "compare_digest", compare)

    async def status_of(pages: bool, **headers: bytes) -> int:
        app = GuardMiddleware(echo, AccessPolicy("right"), body_bytes=9, body_s=1, pages=pages)
        header_list = [
            (b"host", b"localhost"),
            *((name.encode(), value) for name, value in headers.items()),
        ]
        scope = {
            "type": "http",
            "method": "GET",
            "path": "/",
            "query_string": b"token=wrong",
            "headers": header_list,
        }
        status: list[int] = []

        async def send(message: Any) -> None:
            status.append(message.get("status", 0))

        async def receive() -> Any:
            return {"type": "http.request"}

        await app(scope, receive, send)
        return status[0]

    for pages in (False, True):
        assert (
            asyncio.run(status_of(pages, authorization=b"Bearer wrong", cookie=b"verdict-0=x"))
            == 401
        )
        assert asyncio.run(status_of(pages, authorization=b"Bearer right")) == 200
    assert [first for first, _ in compared] == [
        b"bearer wrong", b"bearer right", b"bearer wrong", b"x", b"bearer wrong", b"bearer right",
    ]  # fmt: skip
