"""What every provider is: something that answers a request."""

from __future__ import annotations

from typing import Protocol

from verdict_cli.values import Reply, Request


class Provider(Protocol):
    """Answers model calls. ``ask`` raises ProviderError, or ReplyError where the reply itself says that it is none."""

    async def ask(self, request: Request) -> Reply: ...

    async def close(self) -> None: ...
