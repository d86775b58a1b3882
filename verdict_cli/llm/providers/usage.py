"""The tokens that a server says a reply was charged for."""

from __future__ import annotations

import json
import re
from typing import Any, TypeGuard

from verdict_cli.llm.providers.prices import cost_usd
from verdict_cli.messages import MOST_TOKENS, Reply, Request, Usage

_KEY = re.compile(rb'"usage"\s*:\s*(?=\{)')
_LONGEST_USAGE = 10_000
_MOST_TRIED = 3


def paid(said: Any, request: Request, latency_s: float, sent: str) -> Reply | None:
    """What a reply that cannot be read was charged for; None where the server did not say."""
    usage, cached = read_usage(said)
    if usage is None:
        return None
    name = request.model.name
    cost = cost_usd(request.model, usage, cached)
    return Reply("", "error", usage=usage, cost_usd=cost, model=name, latency_s=latency_s, sent=sent)


def written_usage(content: bytes) -> Any:
    """The last usage in a body that is not JSON as a whole. A text within JSON cannot spell the key: its quotes are
    escaped there."""
    for found in [*_KEY.finditer(content)][: -1 - _MOST_TRIED : -1]:
        text = content[found.end() : found.end() + _LONGEST_USAGE].decode(errors="replace")
        try:
            return json.JSONDecoder().raw_decode(text)[0]
        except (ValueError, RecursionError):
            continue
    return None


def read_usage(usage: Any) -> tuple[Usage | None, int]:
    """The tokens charged, and how many of the prompt's were cached; None where the server did not say."""
    if not isinstance(usage, dict):
        return None, 0
    asked, said = usage.get("prompt_tokens"), usage.get("completion_tokens")
    if not (_is_count(asked) and _is_count(said)):
        return None, 0
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else 0
    return Usage(asked, said), min(cached, asked) if _is_count(cached) else 0


def _is_count(value: Any) -> TypeGuard[int]:
    """Whether it can be a number of tokens."""
    return type(value) is int and 0 <= value <= MOST_TOKENS
