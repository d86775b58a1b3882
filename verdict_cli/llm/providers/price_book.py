"""Prices, context windows and retirement dates of models, from litellm's data.

The data ships with verdict (`docs/tools/renew_prices.py` renews it); that of an installed litellm counts where it is newer,
and is read without importing litellm. Names are looked up as people spell them: with or without a provider's prefix, a
region, a date or a version. What the data does not say is None, never 0.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path

from msgspec import Struct
from msgspec.structs import astuple

from verdict_cli.llm.model_families import is_decision_model, is_local
from verdict_cli.messages import NamedValues, Request, Usage, is_number
from verdict_cli.model import Model
from verdict_cli.regex import regex

_SHIPPED = Path(__file__).with_name("model_prices.json")
_INSTALLED = "model_prices_and_context_window_backup.json"
_SAMPLE = "sample_spec"
"""The entry that explains the others; in the shipped file, of which litellm and when it is."""
_LONG = regex(r"input_cost_per_token_above_(\d+)k_tokens")
_ENTRY = regex(r'^ {4}"([^"]+)": \{', re.MULTILINE)
_FINE_TUNED = regex(r"(ft:[^:]+):.*")
"""A fine-tuned model costs what all those of its base model do: `ft:BASE:ORGANISATION:SUFFIX:ID`."""
_DATE = r"[-@](?:20\d{6}|20\d\d-\d\d-\d\d|\d{4}|latest)$"
_ADDITIONS = regex(rf"^(?:us|eu|apac|au|jp|ca|sa|global|us-gov)\.|{_DATE}|-v\d+(?::\d+)?$")
"""What a name may have beside the model's: a region, a date, a version."""
_OPEN_PREFIXES = frozenset(
    {"openai", "litellm_proxy", "responses", "text-completion-openai", "decisions", "systemone"}
)
"""Prefixes that say a protocol, not whose model it is."""
TIERS = {"flex": "_flex", "priority": "_priority", "batch": "_batches", "decisions": "_decisions"}
"""Service tiers, and how the file's keys of their prices end. What a model that also chats charges for decisions is one of them."""
BATCH_SHARE = 0.5
"""What batches cost where the file has no price for them: providers that sell them charge half."""


class Rates(Struct, frozen=True):
    """Dollars a token: read, written, read from the provider's cache, and written to it."""

    read: float
    write: float
    cached: float
    cache_write: float
    hour_write: float
    """Written to be kept for an hour."""

    def cost(self, usage: Usage) -> float:
        """Dollars for one call."""
        cached, cache_writes, hours = (
            usage.cached_tokens,
            usage.cache_write_tokens,
            usage.hour_cache_tokens,
        )
        fresh = usage.prompt_tokens - cached - cache_writes
        prompt = (
            fresh * self.read + cached * self.cached + (cache_writes - hours) * self.cache_write
        )
        return prompt + hours * self.hour_write + usage.completion_tokens * self.write

    def times(self, share: float) -> Rates:
        """A share of each rate."""
        return Rates(*[share * rate for rate in astuple(self)])


def cost_usd(
    model: Model, usage: Usage | None, tier: str | None = None, served: str = ""
) -> float | None:
    """Dollars for one call; None if the price or the usage is unknown.

    The pipeline's own `cost` counts, then the price of its `base_model`, of the model that the reply names as ``served`` where
    that is known, and of the name asked for. ``tier`` is the service tier that the reply states; without it, the one that the
    request asked for counts.
    """
    if usage is None:
        return None
    if model.cost is not None:
        read, write = model.cost.input_per_million / 1e6, model.cost.output_per_million / 1e6
        per_cached = model.cost.cached_per_million
        rates = Rates(read, write, read if per_cached is None else per_cached / 1e6, read, read)
        share = BATCH_SHARE if tier == "batch" else 1.0
        return share * rates.cost(usage)
    if is_local(model.name):
        return 0.0
    tier = tier or _tier(model)
    if served and not model.base_model and served != model.name:
        provider, slash, _ = model.name.partition("/")
        cost = list_price_usd(f"{provider}/{served}" if slash else served, usage, tier)
        if cost is not None:
            return cost
    return list_price_usd(model.known_name, usage, tier)


def _tier(model: Model) -> str:
    """The service tier that the model's requests ask for."""
    return "decisions" if is_decision_model(model) else str(model.params.get("service_tier") or "")


def cache_saved_usd(model: Model, usage: Usage, tier: str | None = None) -> float | None:
    """What a call would have cost without the provider's cache, less what it costs; None if the price is unknown."""
    without = cost_usd(model, Usage(usage.prompt_tokens, usage.completion_tokens), tier)
    paid = cost_usd(model, usage, tier)
    return None if without is None or paid is None else without - paid


def list_price_usd(name: str, usage: Usage, tier: str = "") -> float | None:
    """Dollars for one call by the file alone; None if it has no price for the model."""
    per_request = _number(entry_of(name) or {}, "input_cost_per_query")
    if tier == "decisions" and per_request is not None:
        return per_request
    rates = rates_of(name, usage.prompt_tokens, tier)
    return None if rates is None else rates.cost(usage)


def rates_of(name: str, prompt_tokens: int = 0, tier: str = "") -> Rates | None:
    """The model's rates for a prompt of that length in a service tier (``flex``, ``priority``, ``batch``); None where unknown.

    A tier without a price of its own is charged at the ordinary one, batches at half of it.
    """
    rates = [rates for above, rates in _tariff(name, tier) if prompt_tokens > above or not above]
    return rates[-1]


def most_output_tokens(name: str) -> int | None:
    """The most tokens that a reply may have; None where unknown."""
    return _whole(entry_of(name), "max_output_tokens")


def price_source() -> str:
    """Where prices and capabilities come from, and of when they are."""
    if _path() != _SHIPPED:
        return f"prices and capabilities are those of the installed litellm {_installed_version()}"
    about = _about_shipped()
    return f"prices and capabilities are those of litellm {about['litellm']}, of {about['date']}, which ship with verdict"


@lru_cache(maxsize=1024)
def entry_of(name: str) -> NamedValues | None:
    """The file's entry for a model as it is spelled, or as it is nearly spelled; None where there is none."""
    for spelling, providers in _spellings(name):
        entry = _entry(spelling)
        if entry is not None and (providers is None or _is_of(entry, providers)):
            return entry
    prefix, slash, tail = name.rpartition("/")
    dated = _latest_dated(tail if slash and prefix in _OPEN_PREFIXES | {"anthropic"} else name)
    return None if dated is None else _entry(dated)


def _spellings(name: str) -> Iterator[tuple[str, str | None]]:
    """Spellings to look for in turn, with the provider that an entry must be of (None: any)."""
    for spelling in _variants(name):
        yield spelling, None
    prefix, slash, tail = name.partition("/")
    if not slash:
        return
    owner = None if prefix in _OPEN_PREFIXES else prefix
    while True:
        for spelling in _variants(tail):
            yield spelling, owner
        _, slash, tail = tail.partition("/")
        if not slash:
            return


def _variants(name: str) -> Iterator[str]:
    """The name, and with one addition less each time."""
    yield name
    name = _FINE_TUNED.sub(r"\1", name)
    yield name
    while (shorter := _ADDITIONS.sub("", name, count=1)) != name:
        name = shorter
        yield name


def _is_of(entry: NamedValues, owner: str) -> bool:
    provider = str(entry.get("litellm_provider") or "")
    return (
        provider == owner
        or provider.startswith((f"{owner}_", f"{owner}-"))
        or owner.startswith(provider)
    )


def _latest_dated(name: str) -> str | None:
    """The newest dated name of a model that the file has only with a date."""
    dated = [
        candidate
        for candidate in model_names()
        if candidate.startswith(name) and re.fullmatch(_DATE, candidate[len(name) :])
    ]
    return max(dated, default=None)


@cache
def model_names() -> tuple[str, ...]:
    """The names of all models in the file."""
    return tuple(name for name in _ENTRY.findall(_text()) if name != _SAMPLE)


def _entry(name: str) -> NamedValues | None:
    # Only the entries asked for are parsed: the whole would take tens of megabytes, and a list of all names 20 ms.
    start = f"\n    {json.dumps(name)}: "
    offset = _text().find(start + "{")
    if offset < 0 or name == _SAMPLE:
        return None
    entry: NamedValues = json.JSONDecoder().raw_decode(_text(), offset + len(start))[0]
    return entry


@lru_cache(maxsize=1)
def _text() -> str:
    return _path().read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def _path() -> Path:
    """The newer of the shipped file and that of the installed litellm."""
    folder = litellm_folder()
    installed = None if folder is None else folder / _INSTALLED
    if installed is None or not installed.is_file():
        return _SHIPPED
    return (
        installed
        if _numbers(_installed_version()) > _numbers(_about_shipped()["litellm"])
        else _SHIPPED
    )


def litellm_folder() -> Path | None:
    """The folder of the package litellm, without importing it; None where it is not installed."""
    try:
        spec = find_spec("litellm")
    except (ImportError, ValueError):
        return None
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def _installed_version() -> str:
    """The version in the name of the folder beside the package; "0" where it was copied, not installed.

    `importlib.metadata` reads and parses a whole file for it, which takes 10 ms.
    """
    folder = litellm_folder()
    names = (
        [] if folder is None else [path.stem for path in folder.parent.glob("litellm-*.dist-info")]
    )
    return max((name.removeprefix("litellm-") for name in names), key=_numbers, default="0")


def _about_shipped() -> Mapping[str, str]:
    with _SHIPPED.open(encoding="utf-8") as file:
        file.readline()
        about: Mapping[str, str] = json.loads(
            file.readline().partition(":")[2].rstrip().rstrip(",")
        )
    return about


def _numbers(text: str) -> tuple[int, ...]:
    """The numbers of a version, for comparison."""
    return tuple(map(int, re.findall(r"\d+", text)[:3]))


@lru_cache(maxsize=256)
def _tariff(name: str, tier: str) -> tuple[tuple[int, Rates | None], ...]:
    """(tokens above which, rates), the shortest prompts first."""
    entry = entry_of(name) or {}
    limits = sorted({int(match[1]) for key in entry if (match := _LONG.fullmatch(key))})
    return (
        (0, _rates(entry, "", tier)),
        *((1000 * limit, _rates(entry, f"_above_{limit}k_tokens", tier)) for limit in limits),
    )


def _rates(entry: NamedValues, length: str, tier: str) -> Rates | None:
    suffix = TIERS.get(tier, "")
    ordinary = _rates_at(entry, length)
    if not suffix or ordinary is None:
        return ordinary
    special = _rates_at(entry, f"{length}{suffix}", ordinary)
    if special is not None:
        return special
    share = BATCH_SHARE if tier == "batch" else 1.0
    return ordinary.times(share)


def _rates_at(entry: NamedValues, ending: str, ordinary: Rates | None = None) -> Rates | None:
    read, write = (_number(entry, f"{way}_cost_per_token{ending}") for way in ("input", "output"))
    if read is None or write is None:
        return None
    # A tier without cache prices of its own changes them as it changes the price of reading.
    share = read / ordinary.read if ordinary is not None and ordinary.read else 1.0
    assumed = ordinary and ordinary.times(share)
    cached = _number(entry, f"cache_read_input_token_cost{ending}")
    if cached is None:
        cached = assumed.cached if assumed else read
    cache_write = _number(entry, f"cache_creation_input_token_cost{ending}")
    if cache_write is None:
        cache_write = assumed.cache_write if assumed else read
    hour_write = _number(entry, f"cache_creation_input_token_cost_above_1hr{ending}")
    if hour_write is None:
        hour_write = assumed.hour_write if assumed else cache_write
    return Rates(read, write, cached, cache_write, hour_write)


def _number(entry: NamedValues, key: str) -> float | None:
    value = entry.get(key)
    return float(value) if is_number(value) else None


def _whole(entry: NamedValues | None, key: str) -> int | None:
    value = (entry or {}).get(key)
    return int(value) if isinstance(value, int | float) else None


ASSUMED_REPLY_TOKENS = 4096
"""The longest reply that is assumed where neither `max_tokens` nor litellm's data file limits it."""
_BYTES_A_TOKEN = 2
"""Fewer UTF-8 bytes than a token has on average in any common language, so prompts are overestimated rather than underestimated."""
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


def charged_usd(model: Model, cost: float | None, usage: Usage, *, tier: str = "") -> float | None:
    """``cost``, or the list price of the tier, by default the model's, where that is higher: under a budget a pipeline file
    may raise a known price only."""
    if cost is None or (model.cost is None and model.base_model is None):
        return cost
    listed = list_price_usd(model.name, usage, tier=tier or _tier(model))
    return max(cost, listed or 0.0)


def _longest_reply(model: Model) -> int:
    if is_decision_model(model):
        return 0
    limit = model.sampling().get("max_completion_tokens", model.max_tokens)
    if isinstance(limit, int) and not isinstance(limit, bool) and limit >= 0:
        return limit
    return most_output_tokens(model.known_name) or ASSUMED_REPLY_TOKENS
