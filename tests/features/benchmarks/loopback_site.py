"""A web server on this machine that answers as it is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

from loopback_server import serving

Handler = BaseHTTPRequestHandler
Answer = Callable[[Handler], None]


@dataclass
class Site:
    """`answers` are given one after another, the last one again and again; `requests` are the requests' headers."""

    url: str = ""
    answers: list[Answer] = field(default_factory=list)
    requests: list[dict[str, str]] = field(default_factory=list)

    def answer(self, handler: Handler) -> None:
        """Answers the next request."""
        self.requests.append(
            {"path": handler.path, **{name.lower(): text for name, text in handler.headers.items()}}
        )
        place = min(len(self.requests), len(self.answers)) - 1
        self.answers[place](handler)


@contextmanager
def opened() -> Iterator[Site]:
    """A server on a free port, until the block ends."""
    site = Site()

    class _Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            site.answer(self)

    with serving(_Handler) as site.url:
        yield site


def send(
    handler: Handler, status: int, body: bytes = b"", cut: int | None = None, **headers: str
) -> None:
    """An answer; with `cut`, only so many of its bytes come before the line breaks."""
    handler.send_response(status)
    header_fields = {name.replace("_", "-"): text for name, text in headers.items()}
    for name, text in {
        "Content-Type": "text/plain",
        "Content-Length": str(len(body)),
        **header_fields,
    }.items():
        handler.send_header(name, text)
    handler.end_headers()
    handler.wfile.write(body if cut is None else body[:cut])
    handler.close_connection = True


def whole(body: bytes, **headers: str) -> Answer:
    """All of it."""
    return lambda handler: send(handler, 200, body, **headers)


def unsaid(body: bytes, **headers: str) -> Answer:
    """All of it, without its length."""

    def answer(handler: Handler) -> None:
        handler.send_response(200)
        for name, text in headers.items():
            handler.send_header(name.replace("_", "-"), text)
        handler.end_headers()
        handler.wfile.write(body)
        handler.close_connection = True

    return answer


def cut_off(body: bytes, at: int, **headers: str) -> Answer:
    """Breaks off after so many bytes."""
    return lambda handler: send(handler, 200, body, at, **headers)


def refused(status: int, **headers: str) -> Answer:
    """Nothing but a status."""
    return lambda handler: send(handler, status, **headers)
