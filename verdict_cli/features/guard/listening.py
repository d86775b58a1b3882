"""The listening socket of a server, and uvicorn's server without its signal handlers."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import uvicorn

from verdict_cli.errors import UsageError

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
            f"cannot listen on {host}:{port}: {error.strerror or error}", hint="choose another --port or --host"
        ) from None
    return listener


def listening_address(listener: socket.socket) -> str:
    """The URL of a bound socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
