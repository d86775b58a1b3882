"""A call's tokens and dollars: by the pipeline's own prices, else litellm's data file, read without importing litellm."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeGuard

from verdict_cli.llm.model_families import is_local
from verdict_cli.messages import MOST_TOKENS, Reply, Request, Usage
from verdict_cli.model import Model

_FILE = "model_prices_and_context_window_backup.json"
_Rates = tuple[float, float, float]
"""Dollars a token that is read, written, or read from the provider's cache."""
_TIER = re.compile(r"input_cost_per_token_above_(\d+)k_tokens")


def cost_usd(model: Model, usage: Usage | None, cached_tokens: int = 0) -> float | None:
    """Dollars for one call; None if the price or the usage is unknown.

    ``cached_tokens`` is the part of the prompt's tokens that the provider charged at its price for cached ones.
    """
    if usage is None:
        return None
    if model.cost is not None:
        per_token = model.cost.input_per_million, model.cost.output_per_million
        return (usage.prompt_tokens * per_token[0] + usage.completion_tokens * per_token[1]) / 1e6
    return list_price_usd(model.name, usage, cached_tokens)


def list_price_usd(name: str, usage: Usage, cached_tokens: int = 0) -> float | None:
    """Dollars for one call by litellm's data file; None if it has no price for the model."""
    rates, long = _tariff(name)
    for above, others in long:
        if usage.prompt_tokens > above:
            rates = others
    if rates is None:
        return None
    read, write, cached = rates
    fresh = usage.prompt_tokens - cached_tokens
    return float(fresh * read + cached_tokens * cached + usage.completion_tokens * write)


REPLY_TOKENS = 4096
"""The longest reply that is assumed where neither `max_tokens` nor litellm's data file limits it."""
_BYTES_A_TOKEN = 2
"""Fewer UTF-8 bytes than a token has on average in any common language, so that prompts are rather over-estimated."""
_IMAGE_TOKENS = 2000
"""Assumed for each image of a prompt."""


def worst_case_usd(request: Request) -> float | None:
    """The most that a call is expected to cost; None if the model's price is unknown. Built-in models cost nothing."""
    model = request.model
    if is_local(model.name):
        return 0.0
    size = sum(len(message.content.encode(errors="surrogatepass")) for message in request.messages)
    if request.json_schema is not None:
        size += len(json.dumps(request.json_schema, default=str))
    images = sum(len(message.images) for message in request.messages)
    prompt = size // _BYTES_A_TOKEN + _IMAGE_TOKENS * images
    return charged_usd(model, cost_usd(model, usage := Usage(prompt, _longest_reply(model))), usage)


def charged_usd(model: Model, cost: float | None, usage: Usage) -> float | None:
    """``cost``, or the list price where that is higher: under a budget a pipeline file may raise a known price only."""
    if cost is None or model.cost is None:
        return cost
    return max(cost, list_price_usd(model.name, usage) or 0.0)


def _longest_reply(model: Model) -> int:
    limit = model.sampling().get("max_completion_tokens", model.max_tokens)
    if limit is None:
        limit = (prices_of(model.name) or {}).get("max_output_tokens")
    return limit if _is_count(limit) else REPLY_TOKENS


@lru_cache(maxsize=256)
def prices_of(name: str) -> Mapping[str, Any] | None:
    """litellm's entry for a model's name, None if it has none. It lists ``openai/NAME`` as ``NAME``."""
    text = _text()
    for key in (name, name.removeprefix("openai/")):
        match = re.search(re.escape(json.dumps(key)) + r"\s*:\s*(?=\{)", text)
        if match:
            entry, _ = json.JSONDecoder().raw_decode(text, match.end())
            return entry if isinstance(entry, dict) else None
    return None


def priced_models() -> list[str]:
    """The names of all models that litellm's data file knows."""
    return re.findall(r'^ {4}"([^"]+)": \{', _text(), re.MULTILINE)


def _text() -> str:
    """The file's text. Only single entries of it are parsed: all of them take tens of megabytes."""
    spec = find_spec("litellm")
    if spec is None or spec.origin is None:
        return ""
    path = Path(spec.origin).with_name(_FILE)
    return path.read_text(encoding="utf-8") if path.is_file() else ""


@lru_cache(maxsize=256)
def _tariff(name: str) -> tuple[_Rates | None, list[tuple[int, _Rates | None]]]:
    """The rates, and those for prompts above so many tokens, in ascending order; None for unknown rates."""
    prices = prices_of(name) or {}
    limits = sorted({int(match[1]) for key in prices if (match := _TIER.fullmatch(key))})
    return _rates(prices), [(1000 * limit, _rates(prices, f"_above_{limit}k_tokens")) for limit in limits]


def _rates(prices: Mapping[str, Any], tier: str = "") -> _Rates | None:
    """The rates under the keys with this ending; None if unknown."""
    read, write = (prices.get(f"{direction}_cost_per_token{tier}") for direction in ("input", "output"))
    if read is None or write is None:
        return None
    return read, write, prices.get(f"cache_read_input_token_cost{tier}", read)


_KEY = re.compile(rb'"usage"\s*:\s*(?=\{)')
_MAX_USAGE = 10_000
_MAX_TRIES = 3


def paid_reply(raw_usage: Any, request: Request, latency_s: float, sent: str) -> Reply | None:
    """An empty reply with the cost of one that cannot be read; None if the server did not state its usage."""
    usage, cached = read_usage(raw_usage)
    if usage is None:
        return None
    name = request.model.name
    cost = cost_usd(request.model, usage, cached)
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


def read_usage(usage: Any) -> tuple[Usage | None, int]:
    """The tokens charged, and how many of the prompt's were cached; None if the server did not state them."""
    if not isinstance(usage, dict):
        return None, 0
    prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
    if not (_is_count(prompt) and _is_count(completion)):
        return None, 0
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else 0
    return Usage(prompt, completion), min(cached, prompt) if _is_count(cached) else 0


def _is_count(value: Any) -> TypeGuard[int]:
    """Whether the value is a plausible number of tokens."""
    return type(value) is int and 0 <= value <= MOST_TOKENS
