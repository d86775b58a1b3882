"""Cache: share replies to equal requests, within a run, between runs, and between calls in flight."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import orjson
from msgspec.structs import astuple, replace

from verdict_cli.llm.middleware.cache_store import CacheStore
from verdict_cli.llm.model_families import is_local
from verdict_cli.llm.providers.endpoint import endpoint_address
from verdict_cli.messages import Ask, Reply, Request
from verdict_cli.model import EndpointKey, Model

MOST_OWN = 100_000
"""Requests of a run whose repetitions are counted as shared; later ones count as cache hits, which bounds the memory."""
OWN_BYTES = 8


def cached(ask: Ask, store: CacheStore) -> tuple[Ask, Callable[[Request], None]]:
    """``ask`` behind the cache, and a function that removes the reply to a request, for replies that cannot be read.

    A reply from the store, or shared by a call in flight, is marked ``cached`` and costs nothing. Failures are not stored,
    nor replies that were cut off or lack the requested log-probabilities. If a call in flight fails or is cancelled, one of
    the calls that waited for it is made. Replies to requests of this run are also marked ``shared``. Models with ``cache: false``, built-in ones and recordings are not cached.
    """
    keys = CacheKeys()
    in_flight: dict[bytes, asyncio.Future[Reply | None]] = {}
    own: set[bytes] = set()

    async def ask_cached(request: Request) -> Reply:
        if not request.model.cache or is_local(request.model.name):
            return await ask(request)
        key = keys.get(request)
        if key is None:
            return await ask(request)
        while (pending := in_flight.get(key)) is not None:
            shared = await asyncio.shield(pending)
            if shared is not None:
                return free_reply(shared, shared=True)
        stored = store.get(key)
        if stored is not None:
            return free_reply(stored, shared=key[:OWN_BYTES] in own)
        return await ask_and_store(request, key)

    async def ask_and_store(request: Request, key: bytes) -> Reply:
        future = in_flight[key] = asyncio.get_running_loop().create_future()
        reply: Reply | None = None
        try:
            reply = await ask(request)
        finally:
            del in_flight[key]
            future.set_result(reply)
        if is_storable(reply, request.top_logprobs):
            store.put(key, request.model.name, reply)
            if len(own) < MOST_OWN:
                own.add(key[:OWN_BYTES])
        return reply

    def forget(request: Request) -> None:
        if request.model.cache and not is_local(request.model.name):
            key = keys.get(request)
            if key is not None:
                store.remove(key)

    return ask_cached, forget


def free_reply(reply: Reply, *, shared: bool = False) -> Reply:
    """The reply as another equal request gets it: it costs nothing. ``shared``: the equal request was of the same run."""
    return replace(
        reply, cached=True, shared=shared, recalled=False, cost_usd=0.0, latency_s=0.0, allowance=None, request=""
    )


def is_storable(reply: Reply, top_logprobs: int) -> bool:
    """Whether the reply, for which so many log-probabilities were requested, may be shared."""
    return reply.finish_reason != "length" and (not top_logprobs or bool(reply.logprobs))


VERSION = 1
"""Increased when a change to this program changes the replies to equal requests."""

KEY_PARTS = (
    ("endpoint", "the URL that is called, or the provider that litellm calls; never the key"),
    ("model", "the model's name"),
    ("messages", "every role and text, byte for byte"),
    ("parameters", "temperature, top_p, max_tokens, seed, stop, reasoning_effort, and everything in `params`"),
    ("schema", "the JSON schema of the response"),
    ("logprobs", "how many alternatives are requested at each position"),
    ("question", "of a decision model: its kind, and its options with their descriptions, in order"),
    ("seed", "the run's --seed: another seed samples again"),
    ("unit", "the unit's name, its index among the units of that name, and the number of the call"),
)
"""The parts of a key, with what each contains."""


def question_key(request: Request) -> list[Any]:
    """What a decision model is asked, without what says how it is sent. The instructions and the state are the messages."""
    return [request.has_fields, *([question.kind, *map(astuple, question.options)] for question in request.questions)]


_OPTIONS = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS
_FIRST = re.compile(r"\[0\]$")


class CacheKeys:
    """Computes the keys of requests. Each model's address is looked up once."""

    def __init__(self) -> None:
        self._urls: dict[EndpointKey, str] = {}

    def get(self, request: Request) -> bytes | None:
        """32 bytes that equal requests share; None for a request that cannot be written as JSON.

        The unit's index separates repeated units, each of which needs its own sample; `judge` equals `judge[0]`.
        """
        model = request.model
        try:
            canonical = orjson.dumps(
                [
                    VERSION,
                    self._url(model),
                    model.name,
                    [(message.role, message.content, message.images) for message in request.messages],
                    model.sampling() | ({} if model.structured == "auto" else {"structured": model.structured}),
                    request.json_schema,
                    request.top_logprobs and (model.top_logprobs or request.top_logprobs),
                    request.seed,
                    _FIRST.sub("", request.written or request.node),
                    request.call,
                    *([question_key(request)] if request.questions else []),
                ],
                option=_OPTIONS,
            )
        except TypeError:
            return None
        return blake2b(canonical, digest_size=32).digest()

    def _url(self, model: Model) -> str:
        key = model.endpoint_key
        url = self._urls.get(key)
        if url is None:
            url = self._urls[key] = endpoint_address(model)[0]
        return url
