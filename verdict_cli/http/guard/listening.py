"""The socket that a server listens at, and uvicorn's server with signals left to whoever starts it."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import uvicorn

from verdict_cli.errors import UsageError

_OWN = ("127.0.0.1", "localhost", "::1")


class Server(uvicorn.Server):
    """uvicorn's server without its signal handlers."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves signals alone."""
        yield


def needs_token(host: str) -> bool:
    """Whether others than this machine's own users reach that address."""
    return host not in _OWN


def bind_socket(host: str, port: int) -> socket.socket:
    """A socket at the address, which does not listen yet. UsageError when it cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
    except OSError as fault:
        found.close()
        raise UsageError(
            f"{host}:{port} cannot be listened at: {fault.strerror or fault}", hint="choose another --port or --host"
        ) from None
    return found


def listening_address(at: socket.socket) -> str:
    """The URL under which the socket is reached."""
    host, port = at.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
