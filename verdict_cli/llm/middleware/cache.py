"""Share replies to equal requests: within a run, between runs, and between calls in flight."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from hashlib import blake2b

import orjson
from msgspec.structs import replace

from verdict_cli.llm.middleware.cache_store import CacheStore
from verdict_cli.llm.model_families import is_local
from verdict_cli.llm.providers.provider import endpoint_address
from verdict_cli.messages import Ask, Reply, Request
from verdict_cli.model import Model


def cached(ask: Ask, store: CacheStore) -> tuple[Ask, Callable[[Request], None]]:
    """``ask`` with the store before it, and a function that takes a reply out again that could not be read.

    A reply from the store, or shared by a call in flight, is marked ``cached`` and costs nothing. Failures are never
    kept, nor replies that were cut off or lack the log-probabilities that were asked for. When a call in flight
    fails or is cancelled, one of those that waited for it makes the call itself. Models with ``cache: false``,
    built-in ones and recordings are let through.
    """
    keys = CacheKeys()
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


VERSION = 1
"""Rises when equal requests no longer bring equal replies from this program."""

KEY_PARTS = (
    ("endpoint", "the URL that is asked, or the provider that litellm asks; never the key"),
    ("model", "the model's name"),
    ("messages", "every role and text, byte for byte"),
    ("parameters", "temperature, top_p, max_tokens, seed, stop, reasoning_effort, and everything in `params`"),
    ("schema", "the JSON schema of the response"),
    ("logprobs", "how many alternatives are wanted at each position"),
    ("seed", "the run's --seed: another seed draws anew"),
    ("unit", "the unit's name, its place among the units of that name, and the number of the call"),
)
"""The parts of a key, and what each holds."""

_OPTIONS = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS
_FIRST = re.compile(r"\[0\]$")


class CacheKeys:
    """The keys of requests. Each model's address is looked up once."""

    def __init__(self) -> None:
        self._urls: dict[tuple[str, str | None, str | None], str] = {}

    def of(self, request: Request) -> bytes | None:
        """32 bytes that equal requests share; None for a request that cannot be written as JSON.

        The unit's place keeps repeated units apart, which want a sample each; `judge` and `judge[0]` are the same.
        """
        model = request.model
        try:
            canonical = orjson.dumps(
                [
                    VERSION,
                    self._url(model),
                    model.name,
                    [(message.role, message.content, message.images) for message in request.messages],
                    model.sampling(),
                    request.json_schema,
                    request.top_logprobs,
                    request.seed,
                    _FIRST.sub("", request.node),
                    request.call,
                ],
                option=_OPTIONS,
            )
        except TypeError:
            return None
        return blake2b(canonical, digest_size=32).digest()

    def _url(self, model: Model) -> str:
        key = (model.name, model.api_base, model.api_key_env)
        url = self._urls.get(key)
        if url is None:
            url = self._urls[key] = endpoint_address(model)[0]
        return url
