"""One call before the others that begin alike: a provider caches a prefix once a call with it is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from time import monotonic

from verdict_cli.errors import ProviderError, ReplyError
from verdict_cli.llm.prompt_prefix import PromptPrefixes
from verdict_cli.messages import Ask, Reply, Request

KEPT_S = 300.0
"""How long a prefix is taken to be cached after its last use: 5 minutes at Anthropic, 5 to 10 at OpenAI."""
_MOST_KEPT = 20_000
"""The most prefixes that are remembered. One that was forgotten is only led again."""


class PrefixLeaders:
    """Holds calls back while the first one with their prefix is in flight.

    A call waits for the call in flight with which it shares its longest cacheable prefix, unless a finished one shared as
    much. It waits before it takes part in any limit. After a call that failed it waits for no other, so that a dead
    endpoint is not called by one call after the other.
    """

    def __init__(self) -> None:
        self._prefixes = PromptPrefixes()
        self._leading: dict[bytes, asyncio.Future[bool]] = {}
        self._cached: dict[bytes, float] = {}

    def around(self, ask: Ask) -> Ask:
        """``ask`` with this order."""

        def ask_in_order(request: Request) -> Awaitable[Reply]:
            prefixes = self._prefixes.of(request)
            return (
                self._ask(ask, request, [digest for _, digest in prefixes])
                if prefixes
                else ask(request)
            )

        return ask_in_order

    async def _ask(self, ask: Ask, request: Request, prefixes: Sequence[bytes]) -> Reply:
        while (leader := self._leader(prefixes)) is not None:
            if not await asyncio.shield(leader):
                break
        new_prefixes = [
            digest
            for digest in prefixes
            if digest not in self._leading and not self._is_cached(digest)
        ]
        answered = asyncio.get_running_loop().create_future()
        self._leading.update(dict.fromkeys(new_prefixes, answered))
        is_cached = False
        try:
            reply = await ask(request)
            is_cached = True
            return reply
        except (ProviderError, ReplyError) as error:
            is_cached = error.reply is not None
            raise
        finally:
            for digest in new_prefixes:
                del self._leading[digest]
            if is_cached:
                self._remember(prefixes)
            answered.set_result(is_cached)

    def _leader(self, prefixes: Sequence[bytes]) -> asyncio.Future[bool] | None:
        """The call in flight that has the longest known prefix; None where a finished call has it, or none."""
        for digest in reversed(prefixes):
            leader = self._leading.get(digest)
            if leader is not None:
                return leader
            if self._is_cached(digest):
                return None
        return None

    def _is_cached(self, digest: bytes) -> bool:
        used = self._cached.get(digest)
        return used is not None and monotonic() - used < KEPT_S

    def _remember(self, prefixes: Sequence[bytes]) -> None:
        if len(self._cached) > _MOST_KEPT:
            for digest in [*self._cached][: _MOST_KEPT // 2]:
                del self._cached[digest]
        self._cached.update(dict.fromkeys(prefixes, monotonic()))
