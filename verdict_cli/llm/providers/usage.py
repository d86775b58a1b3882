"""The tokens that a server charged, and the cost of replies that cannot be read."""

from __future__ import annotations

import json
import re
from typing import Any, TypeGuard

from verdict_cli.llm.providers.price_book import cost_usd
from verdict_cli.messages import MOST_TOKENS, Reply, Request, Usage

_KEY = re.compile(rb'"usage"\s*:\s*(?=\{)')
_MAX_USAGE = 10_000
_MAX_TRIES = 3


def paid_reply(raw_usage: Any, request: Request, latency_s: float, sent: str) -> Reply | None:
    """An empty reply with the cost of one that cannot be read; None if the server did not state its usage."""
    usage, cached, cache_write = read_usage(raw_usage)
    if usage is None:
        return None
    name = request.model.name
    cost = cost_usd(request.model, usage, cached, cache_write)
    return Reply("", "error", usage=usage, cost_usd=cost, model=name, latency_s=latency_s, sent=sent)


def usage_in_text(content: bytes) -> Any:
    """The last usage in a body that is not JSON as a whole. Texts in it cannot imitate the key, as quotes are escaped."""
    for match in [*_KEY.finditer(content)][: -1 - _MAX_TRIES : -1]:
        text = content[match.end() : match.end() + _MAX_USAGE].decode(errors="replace")
        try:
            return json.JSONDecoder().raw_decode(text)[0]
        except (ValueError, RecursionError):
            continue
    return None


def read_usage(usage: Any) -> tuple[Usage | None, int, int]:
    """The tokens charged, and how many of the prompt's were read from and written to the provider's cache.

    None if the server did not state them.
    """
    if not isinstance(usage, dict):
        return None, 0, 0
    prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
    if not (_is_count(prompt) and _is_count(completion)):
        return None, 0, 0
    details = usage.get("prompt_tokens_details")
    if not isinstance(details, dict):
        return Usage(prompt, completion), 0, 0
    read, written = details.get("cached_tokens"), details.get("cache_creation_tokens")
    cached = min(read, prompt) if _is_count(read) else 0
    return Usage(prompt, completion), cached, min(written, prompt - cached) if _is_count(written) else 0


def _is_count(value: Any) -> TypeGuard[int]:
    """Whether the value is a plausible number of tokens."""
    return type(value) is int and 0 <= value <= MOST_TOKENS
