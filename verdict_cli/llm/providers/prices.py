"""What a call costs: the pipeline's own prices, else those in litellm's data file, read without importing litellm."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from verdict_cli.messages import Usage
from verdict_cli.model import Model

_FILE = "model_prices_and_context_window_backup.json"
_Rates = tuple[float, float, float]
"""Dollars a token that is read, written, or read from the provider's cache."""
_TIER = re.compile(r"input_cost_per_token_above_(\d+)k_tokens")


def cost_usd(model: Model, usage: Usage | None, cached_tokens: int = 0) -> float | None:
    """Dollars for one call; None where the price or the usage is unknown.

    ``cached_tokens`` are those of the prompt that the provider charged at its price for cached ones.
    """
    if usage is None:
        return None
    if model.cost is not None:
        per_token = model.cost.input_per_million, model.cost.output_per_million
        return (usage.prompt_tokens * per_token[0] + usage.completion_tokens * per_token[1]) / 1e6
    rates, long = _tariff(model.name)
    for above, others in long:
        if usage.prompt_tokens > above:
            rates = others
    if rates is None:
        return None
    read, write, cached = rates
    fresh = usage.prompt_tokens - cached_tokens
    return float(fresh * read + cached_tokens * cached + usage.completion_tokens * write)


@lru_cache(maxsize=256)
def prices_of(name: str) -> Mapping[str, Any] | None:
    """litellm's entry for a model's name (``openai/NAME`` stands there as ``NAME``), None where it has none."""
    text = _text()
    for spelling in (name, name.removeprefix("openai/")):
        found = re.search(re.escape(json.dumps(spelling)) + r"\s*:\s*(?=\{)", text)
        if found:
            entry, _ = json.JSONDecoder().raw_decode(text, found.end())
            return entry if isinstance(entry, dict) else None
    return None


def priced() -> list[str]:
    """The names of all models that litellm's data file knows."""
    return re.findall(r'^ {4}"([^"]+)": \{', _text(), re.MULTILINE)


def _text() -> str:
    """The file's text. Only the entries asked for are parsed: the whole would take tens of megabytes."""
    spec = find_spec("litellm")
    if spec is None or spec.origin is None:
        return ""
    path = Path(spec.origin).with_name(_FILE)
    return path.read_text(encoding="utf-8") if path.is_file() else ""


@lru_cache(maxsize=256)
def _tariff(name: str) -> tuple[_Rates | None, list[tuple[int, _Rates | None]]]:
    """The rates, and those for prompts above so many tokens, the longest last; None for rates that are not known."""
    prices = prices_of(name) or {}
    limits = sorted({int(found[1]) for key in prices if (found := _TIER.fullmatch(key))})
    return _rates(prices), [(1000 * limit, _rates(prices, f"_above_{limit}k_tokens")) for limit in limits]


def _rates(prices: Mapping[str, Any], tier: str = "") -> _Rates | None:
    """The rates under the keys with this ending; None where they are not known."""
    read, write = (prices.get(f"{way}_cost_per_token{tier}") for way in ("input", "output"))
    if read is None or write is None:
        return None
    return read, write, prices.get(f"cache_read_input_token_cost{tier}", read)
