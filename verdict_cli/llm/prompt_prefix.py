"""The beginnings of prompts, as providers' prompt caches compare them."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

import orjson
from msgspec import Struct

from verdict_cli.llm.identity_cache import IdentityCache
from verdict_cli.llm.model_families import is_local
from verdict_cli.llm.providers.price_book import entry_of
from verdict_cli.messages import Message, NamedValues, Request
from verdict_cli.model import Model
from verdict_cli.regex import regex

TOKEN_BYTES = 4
"""UTF-8 bytes a token, about the same for Latin, Cyrillic and Chinese."""
USUAL_MINIMUM = 1024
"""The fewest tokens that OpenAI, Azure and most others cache (https://platform.openai.com/docs/guides/prompt-caching)."""
_MINIMA = ((regex(r"gemini-2\.5"), 2048), (regex(r"gemini-([3-9]|\d\d)"), 4096))
"""What the price data lack: implicit caching of Gemini (https://ai.google.dev/gemini-api/docs/caching, October 2026)."""
SMALLEST_MINIMUM = 512
"""The smallest minimum of any model in the price data, in tokens. Only the length of a shorter prompt is looked at."""
_BLOCK = 1024
"""Bytes between two places at which prefixes are compared; in long prompts a sixteenth of what precedes."""


def cacheable_minimum(model: Model) -> int | None:
    """The fewest tokens of a prefix that the model's provider caches; None where it caches none, or `prompt_cache` is off.

    A server of the user's own is taken to cache by prefix, as vLLM, SGLang and llama.cpp do.
    """
    if model.prompt_cache == "off" or is_local(model.name):
        return None
    entry = entry_of(model.known_name)
    if entry is None:
        return USUAL_MINIMUM
    stated = entry.get("prompt_cache_min_tokens")
    if isinstance(stated, int | float) and stated > 0:
        return int(stated)
    if not (
        entry.get("supports_prompt_caching")
        or entry.get("cache_read_input_token_cost")
        or model.api_base
    ):
        return None
    return next((least for form, least in _MINIMA if form.search(model.known_name)), USUAL_MINIMUM)


class _Kind(Struct, frozen=True):
    """What requests of a model with a schema have in common: the fewest bytes that are cached, and what precedes the messages."""

    least: int
    seed: bytes


class PromptPrefixes:
    """Reads the prefixes of requests, where the model's provider caches them."""

    def __init__(self) -> None:
        self._kinds: IdentityCache[_Kind | None] = IdentityCache()

    def of(self, request: Request) -> list[tuple[int, bytes]]:
        """(bytes, digest) of the request's prefixes from the cacheable minimum on; none for a short prompt.

        Providers put the JSON schema and the tools before the messages, so prompts with different ones share nothing.
        """
        most = 0
        for message in request.messages:
            most += (1 if message.content.isascii() else 4) * len(message.content)
        if most < SMALLEST_MINIMUM * TOKEN_BYTES:
            return []
        kind = self._kinds.get((request.model, request.json_schema), None, _kind, request)
        if kind is None or most < kind.least:
            return []
        text = message_bytes(request.messages)
        if len(text) < kind.least:
            return []
        digest = sha256(kind.seed)
        prefixes = []
        start, end = 0, kind.least
        while end <= len(text):
            digest.update(text[start:end])
            prefixes.append((end, digest.digest()))
            start, end = end, end + max(_BLOCK, end // 16)
        return prefixes


def message_bytes(messages: Sequence[Message]) -> bytes:
    """The messages as one text, with a digest of each image."""
    parts = []
    for message in messages:
        parts.append(f"\0{message.role}\0{message.content}")
        parts += [f"\1{position}:{_digest(url.encode()).hex()}" for position, url in message.images]
    return "".join(parts).encode(errors="surrogatepass")


def _kind(request: Request) -> _Kind | None:
    model = request.model
    least = cacheable_minimum(model)
    if least is None:
        return None
    precedes: NamedValues = {
        "endpoint": model.endpoint_key,
        "effort": model.reasoning_effort,
        "params": model.params,
        "schema": request.json_schema,
    }
    return _Kind(
        least * TOKEN_BYTES,
        _digest(orjson.dumps(precedes, default=repr, option=orjson.OPT_NON_STR_KEYS)),
    )


def _digest(content: bytes) -> bytes:
    return sha256(content).digest()
