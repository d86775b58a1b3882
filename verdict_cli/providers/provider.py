"""What every provider is: something that answers a request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from verdict_cli.values import Reply, Request

Heard = Callable[[Request, str], None]
"""Is told each piece of a streamed reply's text as it comes."""


class Provider(Protocol):
    """Answers model calls. ``ask`` raises ProviderError, or ReplyError where the reply itself says that it is none."""

    async def ask(self, request: Request) -> Reply: ...

    async def close(self) -> None: ...


class Headers(Protocol):
    """What a reply's headers are asked for."""

    def get(self, name: str, /) -> str | None: ...
