"""The HTTP client of the program: pyreqwest with our defaults, for model calls and downloads alike."""

from __future__ import annotations

import atexit
import os
import time
from datetime import timedelta
from functools import cache

from pyreqwest.client import Client, ClientBuilder
from pyreqwest.exceptions import DetailedPyreqwestError
from pyreqwest.http import Url
from pyreqwest.proxy import ProxyBuilder
from pyreqwest.response import Response

from verdict_cli.llm.proxies import proxy_for

_IDLE = timedelta(seconds=60)
_EXIT_PAUSE_S = 0.02


class HttpClients:
    """Clients that keep their connections, one for each proxy. None follows redirects."""

    _unclosed = 0
    """The clients of the whole process that are open."""
    _closed_s = 0.0
    """When the last one was closed."""

    def __init__(self) -> None:
        self._clients: dict[str | None, Client] = {}

    def get(self, url: Url) -> Client:
        """The client for this address, opened on first use."""
        proxy = proxy_for(
            url.scheme, url.host_str or "", url.port_or_known_default or 0, os.environ
        )
        client = self._clients.get(proxy)
        if client is None:
            _pause_at_exit()
            builder = (
                ClientBuilder()
                .user_agent("verdict-cli")
                .follow_redirects(False)
                .pool_idle_timeout(_IDLE)
            )
            builder = (
                builder.no_proxy() if proxy is None else builder.proxy(ProxyBuilder.all(proxy))
            )
            client = self._clients[proxy] = builder.build()
            HttpClients._unclosed += 1
        return client

    async def close(self) -> None:
        clients, self._clients = [*self._clients.values()], {}
        for client in clients:
            await client.close()
            HttpClients._unclosed -= 1
            HttpClients._closed_s = time.monotonic()

    @classmethod
    def pause(cls) -> None:
        """Let the clients' thread finish before the interpreter is torn down.

        It cleans up after a failed call, and aborts the process when that needs an interpreter that is gone.
        """
        idle_s = 0.0 if cls._unclosed else time.monotonic() - cls._closed_s
        time.sleep(max(0.0, _EXIT_PAUSE_S - idle_s))


class ResponseHeaders:
    """A response's headers, by names in any case. A value that is not text counts as absent."""

    __slots__ = ("_response",)

    def __init__(self, response: Response) -> None:
        self._response = response

    def get(self, name: str, /) -> str | None:
        """The first header of that name."""
        try:
            return self._response.get_header(name)
        except ValueError:
            return None


def root_cause(error: Exception) -> str:
    """The innermost cause of a failed request. The outer messages repeat the address, which may hold a secret."""
    causes = error.details.get("causes") if isinstance(error, DetailedPyreqwestError) else None
    return (causes[-1]["message"] if causes else str(error)) or type(error).__name__


@cache
def _pause_at_exit() -> None:
    atexit.register(HttpClients.pause)
