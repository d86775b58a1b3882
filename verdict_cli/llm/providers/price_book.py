"""Prices, context windows and retirement dates of models, from litellm's data file, read without importing litellm.

Names are looked up as people spell them: with or without a provider's prefix, a region, a date or a version. What the
file does not say is None, never 0.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, lru_cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from verdict_cli.llm.model_families import is_free
from verdict_cli.messages import Usage
from verdict_cli.model import Model

_FILE = "model_prices_and_context_window_backup.json"
_SAMPLE = "sample_spec"
"""The entry that explains the others."""
_LONG = re.compile(r"input_cost_per_token_above_(\d+)k_tokens")
_ENTRY = re.compile(r'^ {4}"([^"]+)": \{', re.MULTILINE)
_DATE = re.compile(r"[-@](20\d{6}|20\d\d-\d\d-\d\d|\d{4}|latest)$")
_VERSION = re.compile(r"-v\d+(:\d+)?$")
_REGION = re.compile(r"^(us|eu|apac|au|jp|ca|sa|global|us-gov)\.")
_OPEN_PREFIXES = frozenset({"openai", "litellm_proxy", "responses", "text-completion-openai"})
"""Prefixes that say a protocol, not whose model it is."""
TIERS = {"flex": "_flex", "priority": "_priority", "batch": "_batches"}
"""Service tiers, and how the file's keys of their prices end."""
BATCH_SHARE = 0.5
"""What batches cost where the file has no price for them: providers that sell them charge half."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Dollars a token: read, written, read from the provider's cache, and written to it."""

    read: float
    write: float
    cached: float
    cache_write: float

    def cost(self, usage: Usage) -> float:
        """Dollars for one call."""
        cached, written = usage.cached_tokens, usage.cache_write_tokens
        fresh = usage.prompt_tokens - cached - written
        prompt = fresh * self.read + cached * self.cached + written * self.cache_write
        return prompt + usage.completion_tokens * self.write


def cost_usd(model: Model, usage: Usage | None, tier: str | None = None) -> float | None:
    """Dollars for one call by the pipeline's own prices, else by the file's; None if the price or the usage is unknown.

    ``tier`` is the service tier that the reply states; without it, the one that the request asked for counts.
    """
    if usage is None:
        return None
    if model.cost is not None:
        read, write = model.cost.input_per_million / 1e6, model.cost.output_per_million / 1e6
        per_cached = model.cost.cached_per_million
        own = Rates(read, write, read if per_cached is None else per_cached / 1e6, read)
        share = BATCH_SHARE if tier == "batch" else 1.0
        return share * own.cost(usage)
    if is_free(model.name):
        return 0.0
    if not tier:
        tier = str(model.params.get("service_tier") or "")
    return list_price_usd(model.known_name, usage, tier)


def cache_saved_usd(model: Model, usage: Usage, tier: str | None = None) -> float | None:
    """What a call would have cost without the provider's cache, less what it costs; None if the price is unknown."""
    without = cost_usd(model, Usage(usage.prompt_tokens, usage.completion_tokens), tier)
    paid = cost_usd(model, usage, tier)
    return None if without is None or paid is None else without - paid


def list_price_usd(name: str, usage: Usage, tier: str = "") -> float | None:
    """Dollars for one call by the file alone; None if it has no price for the model."""
    rates = rates_of(name, usage.prompt_tokens, tier)
    return None if rates is None else rates.cost(usage)


def rates_of(name: str, prompt_tokens: int = 0, tier: str = "") -> Rates | None:
    """The model's rates for a prompt of that length in a service tier (``flex``, ``priority``, ``batch``); None where unknown.

    A tier without a price of its own is charged at the ordinary one, batches at half of it.
    """
    found = None
    for above, rates in _tariff(name, tier):
        if prompt_tokens > above or above == 0:
            found = rates
    return found


def most_output_tokens(name: str) -> int | None:
    """The most tokens that a reply may have; None where unknown."""
    return _whole(entry_of(name), "max_output_tokens")


def price_source() -> str:
    """Where prices and capabilities come from, and of when they are. The data states no date of its own."""
    path = _path()
    if path is None:
        return "litellm is not installed, so no price is known"
    installed = datetime.fromtimestamp(path.stat().st_mtime, UTC).date()
    return f"prices and capabilities are those of litellm {version('litellm')}, installed on {installed}"


def model_names() -> list[str]:
    """The names of all models in the file."""
    return list(_names())


@lru_cache(maxsize=1024)
def entry_of(name: str) -> Mapping[str, Any] | None:
    """The file's entry for a model as it is spelled, or as it is nearly spelled; None where there is none."""
    for spelling, providers in _spellings(name):
        entry = _entry(spelling)
        if entry is not None and (providers is None or _is_of(entry, providers)):
            return entry
    prefix, slash, rest = name.rpartition("/")
    dated = _latest_dated(rest if slash and prefix in _OPEN_PREFIXES | {"anthropic"} else name)
    return None if dated is None else _entry(dated)


def _spellings(name: str) -> Iterator[tuple[str, str | None]]:
    """Spellings to look for in turn, with the provider that an entry must be of (None: any)."""
    for spelling in _variants(name):
        yield spelling, None
    prefix, slash, rest = name.partition("/")
    if not slash:
        return
    owner = None if prefix in _OPEN_PREFIXES else prefix
    while True:
        for spelling in _variants(rest):
            yield spelling, owner
        _, slash, rest = rest.partition("/")
        if not slash:
            return


def _variants(name: str) -> Iterator[str]:
    yield name
    plain = _REGION.sub("", name)
    if plain != name:
        yield plain
    for form in (_DATE, _VERSION):
        shorter = form.sub("", plain)
        if shorter != plain:
            yield shorter
            plain = shorter


def _is_of(entry: Mapping[str, Any], owner: str) -> bool:
    provider = str(entry.get("litellm_provider") or "")
    return provider == owner or provider.startswith((f"{owner}_", f"{owner}-")) or owner.startswith(provider)


def _latest_dated(name: str) -> str | None:
    """The newest dated name of a model that the file has only with a date."""
    dated = [each for each in _names() if each.startswith(name) and _DATE.fullmatch(each[len(name) :])]
    return max(dated, default=None)


@cache
def _names() -> tuple[str, ...]:
    """The names of all entries of the file's text."""
    return tuple(found[1] for found in _ENTRY.finditer(_text()) if found[1] != _SAMPLE)


def _entry(name: str) -> Mapping[str, Any] | None:
    # Only the entries asked for are parsed: the whole would take tens of megabytes, and a list of all names 20 ms.
    start = f"\n    {json.dumps(name)}: "
    place = _text().find(start + "{")
    if place < 0 or name == _SAMPLE:
        return None
    entry: Mapping[str, Any] = json.JSONDecoder().raw_decode(_text(), place + len(start))[0]
    return entry


@lru_cache(maxsize=1)
def _text() -> str:
    path = _path()
    return "" if path is None else path.read_text(encoding="utf-8")


def _path() -> Path | None:
    spec = find_spec("litellm")
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).with_name(_FILE)
    return path if path.is_file() else None


@lru_cache(maxsize=256)
def _tariff(name: str, tier: str) -> tuple[tuple[int, Rates | None], ...]:
    """(tokens above which, rates), the shortest prompts first."""
    entry = entry_of(name) or {}
    limits = sorted({int(found[1]) for key in entry if (found := _LONG.fullmatch(key))})
    return (
        (0, _rates(entry, "", tier)),
        *((1000 * limit, _rates(entry, f"_above_{limit}k_tokens", tier)) for limit in limits),
    )


def _rates(entry: Mapping[str, Any], length: str, tier: str) -> Rates | None:
    suffix = TIERS.get(tier, "")
    ordinary = _rates_at(entry, length)
    if not suffix or ordinary is None:
        return ordinary
    special = _rates_at(entry, f"{length}{suffix}", ordinary)
    if special is not None:
        return special
    share = BATCH_SHARE if tier == "batch" else 1.0
    return Rates(*(share * rate for rate in (ordinary.read, ordinary.write, ordinary.cached, ordinary.cache_write)))


def _rates_at(entry: Mapping[str, Any], ending: str, ordinary: Rates | None = None) -> Rates | None:
    read, write = (_number(entry, f"{way}_cost_per_token{ending}") for way in ("input", "output"))
    if read is None or write is None:
        return None
    # A tier without cache prices of its own changes them as it changes the price of reading.
    share = read / ordinary.read if ordinary is not None and ordinary.read else 1.0
    cached = _number(entry, f"cache_read_input_token_cost{ending}")
    cache_write = _number(entry, f"cache_creation_input_token_cost{ending}")
    return Rates(
        read,
        write,
        (ordinary.cached * share if ordinary else read) if cached is None else cached,
        (ordinary.cache_write * share if ordinary else read) if cache_write is None else cache_write,
    )


def _number(entry: Mapping[str, Any], key: str) -> float | None:
    value = entry.get(key)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _whole(entry: Mapping[str, Any] | None, *keys: str) -> int | None:
    found = (entry or {}).get
    return next((int(value) for key in keys if isinstance(value := found(key), int | float)), None)
