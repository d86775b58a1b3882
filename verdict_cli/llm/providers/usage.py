"""The tokens that a server charged, and what they cost."""

from __future__ import annotations

import json
import math
from typing import Any

from msgspec.structs import replace

from verdict_cli.llm.providers.price_book import cost_usd
from verdict_cli.llm.providers.retry_hints import HeaderLookup
from verdict_cli.messages import JsonObject, NamedValues, Request, Usage, is_number
from verdict_cli.model import Model
from verdict_cli.regex import regex

_KEY = regex(rb'"usage"\s*:\s*(?=\{)')
_MAX_USAGE = 10_000
_MAX_TRIES = 3
MOST_TOKENS = 10**12
"""The most tokens of one call that are believed; a provider that reports more is wrong."""


def call_cost(
    request: Request,
    headers: HeaderLookup,
    raw_usage: Any,
    usage: Usage | None,
    tier: str = "",
    served: str = "",
) -> float | None:
    """Dollars for one call: as a header states them, unless the pipeline has a price of its own, else as `charged_cost` says."""
    # A stream's header is sent before its cost is known.
    has_header = request.model.cost is None and not request.stream
    in_header = _header_cost(headers) if has_header else None
    if in_header is not None:
        return in_header
    return charged_cost(request.model, raw_usage, usage, tier, served)


def charged_cost(
    model: Model, raw_usage: Any, usage: Usage | None, tier: str = "", served: str = ""
) -> float | None:
    """Dollars for one call: by the pipeline's own prices, else as its usage states them, else by the price data.

    A stated 0 for a model with a known price says that the price is charged elsewhere, as with a key of the user's own at
    OpenRouter: then the price data count, except for OpenRouter's free variants.
    """
    stated = None if model.cost is not None else _stated_cost(raw_usage)
    if stated == 0 and (model.name.endswith(_FREE) or served.endswith(_FREE)):
        return stated
    listed = cost_usd(model, usage, tier, served)
    if listed is None:
        return None if stated and stated < _LEAST_COST else stated
    is_believed = stated and stated * _MOST_DISCOUNT >= listed
    return stated if is_believed else listed


def _header_cost(headers: HeaderLookup) -> float | None:
    """The dollars for a call that a gateway states in a header; None where it states none."""
    for name in _COST_HEADERS:
        text = headers.get(name)
        if text is not None and _NUMBER.fullmatch(text.strip()):
            return _dollars(float(text))
    return None


_LEAST_COST = 1e-9
"""Dollars: a token of the cheapest model costs ten times as much."""
_FREE = ":free"
_MOST_DISCOUNT = 10
"""A stated cost further below the list's is no price: the dearer reading counts, so that a budget is kept."""
_COST_HEADERS = ("x-litellm-response-cost",)
_NUMBER = regex(r"\d+(\.\d*)?([eE][-+]?\d+)?")
_COST_KEYS = frozenset({"cost", "estimated_cost", "cost_in_usd_ticks"})
_TICKS_A_DOLLAR = 10**10
"""xAI states costs in these."""


def _stated_cost(usage: Any) -> float | None:
    """The dollars in a reply's usage: OpenRouter and LiteLLM (``cost``), Perplexity (``cost.total_cost``), DeepInfra
    (``estimated_cost``), xAI (``cost_in_usd_ticks``). With a key of the user's own, OpenRouter's ``cost`` is its fee alone."""
    if not isinstance(usage, dict) or _COST_KEYS.isdisjoint(usage):
        return None
    cost = usage.get("cost")
    if isinstance(cost, dict):
        return _dollars(cost.get("total_cost"))
    stated = _dollars(usage.get("estimated_cost") if cost is None else cost)
    if stated is None:
        ticks = _dollars(usage.get("cost_in_usd_ticks"))
        return (
            ticks / _TICKS_A_DOLLAR if ticks else None
        )  # Google Cloud's copy of the API always states 0
    if usage.get("is_byok") is True:
        details = usage.get("cost_details")
        upstream = (
            _dollars(details.get("upstream_inference_cost")) if isinstance(details, dict) else None
        )
        return None if upstream is None else stated + upstream
    return stated


def _dollars(value: Any) -> float | None:
    is_amount = is_number(value) and math.isfinite(value) and value >= 0
    return float(value) if is_amount else None


def usage_in_text(content: bytes) -> Any:
    """The last usage in a body that is not JSON as a whole. Texts in it cannot imitate the key, as quotes are escaped."""
    for match in [*_KEY.finditer(content)][: -1 - _MAX_TRIES : -1]:
        text = content[match.end() : match.end() + _MAX_USAGE].decode(errors="replace")
        try:
            return json.JSONDecoder().raw_decode(text)[0]
        except (ValueError, RecursionError):
            continue
    return None


def read_usage(stated: Any) -> Usage | None:
    """The tokens charged by the usage that a server states; None where it does not state them.

    Providers count differently: thinking may be part of ``completion_tokens`` or beside it, and cached tokens part of
    ``prompt_tokens`` or beside it. What ``total_tokens`` has beyond the two decides. Where the numbers contradict each
    other, the dearer reading counts, and the usage's ``note`` says so.
    """
    if not isinstance(stated, dict):
        return None
    prompt, completion = _known(stated, *_INPUT_KEYS), _known(stated, *_OUTPUT_KEYS)
    total = _known(stated, "total_tokens")
    if total is not None and completion is None:  # the dearer reading of a total alone is output
        prompt = prompt or 0
        completion = max(0, total - prompt)
    if prompt is None or completion is None:
        return None
    more_counts = [value for key, value in stated.items() if key not in _COUNTS]
    if prompt and total in (None, prompt + completion) and not any(map(_has_tokens, more_counts)):
        return Usage(prompt, completion)  # most are, and reading all takes longer
    details = _details(stated, "prompt_tokens_details", "input_tokens_details")
    read = max(
        _known(details, "cached_tokens", "cache_read_input_tokens") or 0,
        _largest(stated, _READ_KEYS),
    )
    cache_writes = _largest(details, _WRITTEN_KEYS) or _largest(stated, _WRITTEN_KEYS)
    of_output = _details(stated, "completion_tokens_details", "output_tokens_details")
    thought = _known(of_output, "reasoning_tokens") or _known(stated, "reasoning_tokens") or 0
    charged = _charged(prompt, completion, total, read, cache_writes, thought)
    is_counted = charged.completion_tokens and _known(stated, *_INPUT_KEYS) != 0
    if not charged.prompt_tokens and not is_counted:
        return None  # every prompt has tokens: a server that counts none has not counted
    hours = _known(_details(stated, "cache_creation"), "ephemeral_1h_input_tokens") or 0
    return replace(charged, hour_cache_tokens=min(hours, cache_writes)) if hours else charged


_INPUT_KEYS = ("prompt_tokens", "input_tokens")
_OUTPUT_KEYS = ("completion_tokens", "output_tokens")
_COUNTS = frozenset({*_INPUT_KEYS, *_OUTPUT_KEYS, "total_tokens"})
_READ_KEYS = frozenset(
    {"prompt_cache_hit_tokens", "cached_tokens", "cache_read_input_tokens", "cached_input_tokens"}
)
"""DeepSeek's, Moonshot's, and Claude's behind gateways; none of them always has the details."""
_WRITTEN_KEYS = frozenset(
    {"cache_creation_tokens", "cache_write_tokens", "cache_creation_input_tokens"}
)


def _has_tokens(value: Any) -> bool:
    """Whether a part of the usage counts anything."""
    return any(value.values()) if isinstance(value, dict) else bool(value)


def _charged(
    prompt: int, completion: int, total: int | None, read: int, cache_writes: int, thought: int
) -> Usage:
    """The dearest reading that the total allows, and a note where none fits."""
    cache, sums = read + cache_writes, prompt + completion
    beyond = (total or sums) - sums
    notes = []
    if cache > prompt or (cache and beyond in (cache, cache + thought) and beyond != thought):
        prompt += cache
        if beyond not in (cache, cache + thought):
            notes.append(f"{cache} cached tokens are more than the prompt's: counted beside them")
    if thought and beyond in (thought, cache + thought):
        completion += thought
    elif thought > completion:
        completion += thought
        notes.append(f"{thought} reasoning tokens are more than the reply's: counted beside them")
    if total and total > prompt + completion:
        notes.append(
            f"total_tokens is {total}, {total - prompt - completion} more than its parts: counted as output"
        )
        completion = total - prompt
    elif total and total < prompt + completion and not notes:
        notes.append(f"total_tokens is {total}, less than its parts: the parts count")
    return Usage(prompt, completion, read, cache_writes, thought, note="; ".join(notes))


def _known(values: NamedValues, *keys: str) -> int | None:
    """The first of these keys' values that is a plausible number of tokens."""
    for key in keys:
        value = values.get(key)
        if type(value) is int and 0 <= value <= MOST_TOKENS:
            return value
        if type(value) is float and 0 <= value <= MOST_TOKENS and value == int(value):
            return int(value)  # some gateways write 12 as 12.0, or "12"
        if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= 12:
            return int(value)
    return None


def _largest(values: NamedValues, keys: frozenset[str]) -> int:
    return 0 if keys.isdisjoint(values) else max(_known(values, key) or 0 for key in keys)


def _details(stated: JsonObject, *keys: str) -> NamedValues:
    for key in keys:
        value = stated.get(key)
        if isinstance(value, dict):
            return value
    return {}
