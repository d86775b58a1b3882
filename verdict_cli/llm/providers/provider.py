"""The provider protocol, and the address that tells two endpoints apart."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Protocol

from verdict_cli.errors import Refused
from verdict_cli.llm.model_families import family
from verdict_cli.llm.providers.endpoint import endpoint
from verdict_cli.messages import Reply, Request
from verdict_cli.model import Model

TokenCallback = Callable[[Request, str], None]
"""Is told each piece of a streamed reply's text as it comes."""


class Provider(Protocol):
    """Answers model calls. ``ask`` raises ProviderError, or ReplyError where the reply itself says that it is none."""

    async def ask(self, request: Request) -> Reply: ...

    async def close(self) -> None: ...


class Headers(Protocol):
    """What a reply's headers are asked for."""

    def get(self, name: str, /) -> str | None: ...


def endpoint_address(model: Model) -> tuple[str, str]:
    """(URL or provider, name of the key's variable). Never the key itself."""
    found = family(model)
    if found is not None:
        try:
            there = endpoint(model, found, os.environ)
        except Refused:  # said by the provider when it is asked
            return model.name, ""
        return there.url, there.key_variable
    provider = model.name.partition("/")[0]
    return model.api_base or provider, model.api_key_env or ""
