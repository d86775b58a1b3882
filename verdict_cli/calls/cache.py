"""Replies to equal requests are shared: within a run, between runs, and between calls in flight."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from msgspec.structs import replace

from verdict_cli.calls.cache_key import Keys
from verdict_cli.calls.store import Store
from verdict_cli.providers import is_local
from verdict_cli.values import Ask, Reply, Request


def cached(ask: Ask, store: Store) -> tuple[Ask, Callable[[Request], None]]:
    """``ask`` with the store before it, and a function that takes a reply out again that could not be read.

    A reply from the store, or shared by a call in flight, is marked ``cached`` and costs nothing. Failures are never
    kept, nor replies that were cut off or lack the log-probabilities that were asked for. When a call in flight
    fails or is cancelled, one of those that waited for it makes the call itself. Models with ``cache: false``,
    built-in ones and recordings are let through.
    """
    keys = Keys()
    flying: dict[bytes, asyncio.Future[Reply | None]] = {}

    async def ask_cached(request: Request) -> Reply:
        if not request.model.cache or is_local(request.model.name):
            return await ask(request)
        key = keys.of(request)
        if key is None:
            return await ask(request)
        while (ahead := flying.get(key)) is not None:
            shared = await asyncio.shield(ahead)
            if shared is not None:
                return _free(shared)
        found = store.get(key)
        if found is not None:
            return _free(found)
        return await _asked(request, key)

    async def _asked(request: Request, key: bytes) -> Reply:
        flight = flying[key] = asyncio.get_running_loop().create_future()
        reply: Reply | None = None
        try:
            reply = await ask(request)
        finally:
            del flying[key]
            flight.set_result(reply)
        if _worth_keeping(reply, request):
            store.put(key, request.model.name, reply)
        return reply

    def forget(request: Request) -> None:
        if request.model.cache and not is_local(request.model.name):
            key = keys.of(request)
            if key is not None:
                store.drop(key)

    return ask_cached, forget


def _free(reply: Reply) -> Reply:
    return replace(reply, cached=True, recalled=False, cost_usd=0.0, latency_s=0.0, allowance=None)


def _worth_keeping(reply: Reply, request: Request) -> bool:
    return reply.finish_reason != "length" and (not request.top_logprobs or bool(reply.logprobs))
