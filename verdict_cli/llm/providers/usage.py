"""The tokens that a server charged, and the cost of replies that cannot be read."""

from __future__ import annotations

import json
import math
import re
from typing import Any, TypeGuard

from verdict_cli.llm.providers.price_book import cost_usd
from verdict_cli.llm.providers.retry_hints import HeaderLookup
from verdict_cli.messages import Reply, Request, Usage
from verdict_cli.model import Model

_KEY = re.compile(rb'"usage"\s*:\s*(?=\{)')
_MAX_USAGE = 10_000
_MAX_TRIES = 3
MOST_TOKENS = 10**12
"""The most tokens of one call that are believed; a provider that reports more is wrong."""


def paid_reply(raw_usage: Any, request: Request, latency_s: float, sent: str) -> Reply | None:
    """An empty reply with the cost of one that cannot be read; None if the server did not state its usage."""
    usage = read_usage(raw_usage)
    if usage is None:
        return None
    name = request.model.name
    cost = charged_cost(request.model, raw_usage, usage)
    return Reply("", "error", usage=usage, cost_usd=cost, model=name, latency_s=latency_s, sent=sent)


def charged_cost(model: Model, raw_usage: Any, usage: Usage | None, tier: str = "") -> float | None:
    """Dollars for one call: by the pipeline's own prices, else as its usage states them, else by the price data."""
    stated = None if model.cost is not None else _stated_cost(raw_usage)
    return cost_usd(model, usage, tier) if stated is None else stated


def header_cost(headers: HeaderLookup) -> float | None:
    """The dollars for a call that a gateway states in a header; None where it states none."""
    for name in _COST_HEADERS:
        text = headers.get(name)
        if text is not None and _NUMBER.fullmatch(text.strip()):
            return _dollars(float(text))
    return None


_COST_HEADERS = ("x-litellm-response-cost",)
_NUMBER = re.compile(r"\d+(\.\d*)?([eE][-+]?\d+)?")
_TICKS_A_DOLLAR = 10**10
"""xAI states costs in these."""


def _stated_cost(usage: Any) -> float | None:
    """The dollars in a reply's usage: OpenRouter and LiteLLM (``cost``), Perplexity (``cost.total_cost``), DeepInfra
    (``estimated_cost``), xAI (``cost_in_usd_ticks``). With a key of the user's own, OpenRouter's ``cost`` is its fee alone."""
    if not isinstance(usage, dict):
        return None
    cost = usage.get("cost")
    if isinstance(cost, dict):
        return _dollars(cost.get("total_cost"))
    stated = _dollars(usage.get("estimated_cost") if cost is None else cost)
    if stated is None:
        ticks = _dollars(usage.get("cost_in_usd_ticks"))
        return None if ticks is None else ticks / _TICKS_A_DOLLAR
    if usage.get("is_byok") is True:
        details = usage.get("cost_details")
        upstream = _dollars(details.get("upstream_inference_cost")) if isinstance(details, dict) else None
        return None if upstream is None else stated + upstream
    return stated


def _dollars(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) and value >= 0 else None


def usage_in_text(content: bytes) -> Any:
    """The last usage in a body that is not JSON as a whole. Texts in it cannot imitate the key, as quotes are escaped."""
    for match in [*_KEY.finditer(content)][: -1 - _MAX_TRIES : -1]:
        text = content[match.end() : match.end() + _MAX_USAGE].decode(errors="replace")
        try:
            return json.JSONDecoder().raw_decode(text)[0]
        except (ValueError, RecursionError):
            continue
    return None


def read_usage(usage: Any) -> Usage | None:
    """The tokens charged; None if the server did not state them."""
    if not isinstance(usage, dict):
        return None
    prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
    if not (_is_count(prompt) and _is_count(completion)):
        return None
    details = _details(usage, "prompt_tokens_details")
    # DeepSeek's and Moonshot's own keys; neither always has the details.
    keys = (details.get("cached_tokens"), usage.get("prompt_cache_hit_tokens"), usage.get("cached_tokens"))
    read = next((value for value in keys if value is not None), None)
    cached = min(read, prompt) if _is_count(read) else 0
    written = details.get("cache_creation_tokens", details.get("cache_write_tokens"))
    thought = _details(usage, "completion_tokens_details").get("reasoning_tokens")
    return Usage(
        prompt,
        completion,
        cached,
        min(written, prompt - cached) if _is_count(written) else 0,
        min(thought, completion) if _is_count(thought) else 0,
    )


def _details(usage: dict[str, Any], key: str) -> dict[str, Any]:
    found = usage.get(key)
    return found if isinstance(found, dict) else {}


def _is_count(value: Any) -> TypeGuard[int]:
    """Whether the value is a plausible number of tokens."""
    return type(value) is int and 0 <= value <= MOST_TOKENS
