"""Prices and limits of models by the names that people write."""

from __future__ import annotations

import datetime
import json

import pytest

from verdict_cli.llm.providers import price_book
from verdict_cli.llm.providers.price_book import (
    Rates,
    context_window,
    entry_of,
    model_names,
    rates_of,
    retirement_date,
    supports,
)


def test_every_priced_chat_model_is_found_under_its_provider_s_name() -> None:
    entries = json.loads(price_book._text())
    missed = []
    for name, entry in entries.items():
        if not isinstance(entry, dict) or entry.get("mode") != "chat" or "input_cost_per_token" not in entry:
            continue
        owner = str(entry["litellm_provider"]).partition("-")[0].replace("bedrock_converse", "bedrock")
        spelled = name if name.startswith(f"{owner}/") else f"{owner}/{name}"
        found = entry_of(spelled)
        if found is None or found["input_cost_per_token"] != entry["input_cost_per_token"]:
            missed.append(spelled)
    assert len(missed) <= 0.005 * len(entries), missed


@pytest.mark.parametrize(
    ("name", "like"),
    [
        ("anthropic/claude-haiku-4-5", "claude-haiku-4-5"),
        ("openai/gpt-4o-mini", "gpt-4o-mini"),
        ("gpt-4o-mini-2099-01-01", "gpt-4o-mini"),
        ("gpt-4o-mini-latest", "gpt-4o-mini"),
        ("claude-haiku-4-5@20991231", "claude-haiku-4-5"),
    ],
)
def test_a_prefix_a_date_or_a_version_may_be_there_or_not(name: str, like: str) -> None:
    assert rates_of(name) == rates_of(like) is not None


@pytest.mark.parametrize("name", ["gpt4", "azure/my-deployment", "openrouter/openai/gpt-4o-mini-nowhere", "x/y", ""])
def test_what_the_file_does_not_know_is_none_and_never_free(name: str) -> None:
    assert (entry_of(name), rates_of(name), context_window(name), retirement_date(name)) == (None,) * 4


def test_another_provider_s_model_of_the_same_name_is_not_taken() -> None:
    assert entry_of("groq/claude-haiku-4-5") is None
    assert entry_of("together_ai/gpt-4o-mini") is None


def test_tiers_have_prices_of_their_own_and_batches_cost_half_where_none_is_given() -> None:
    ordinary = rates_of("gpt-5-mini")
    assert ordinary == Rates(2.5e-07, 2e-06, 2.5e-08, 2.5e-07)
    assert rates_of("gpt-5-mini", tier="flex") == Rates(1.25e-07, 1e-06, 1.25e-08, 1.25e-07)
    priority = rates_of("gpt-5-mini", tier="priority")
    assert priority is not None and ordinary is not None and priority.read == pytest.approx(1.8 * ordinary.read)
    azure, batch = rates_of("azure/gpt-4o-mini"), rates_of("azure/gpt-4o-mini", tier="batch")
    assert azure is not None and batch is not None and batch.read == azure.read / 2


def test_a_call_costs_what_hand_calculation_says() -> None:
    rates = rates_of("claude-haiku-4-5")
    assert rates is not None
    # 1,000 prompt tokens of which 700 were read from the cache and 200 written to it, 50 tokens of reply.
    by_hand = 100 * 1e-6 + 700 * 0.1e-6 + 200 * 1.25e-6 + 50 * 5e-6
    assert rates.cost(1000, 50, cached=700, cache_write=200) == pytest.approx(by_hand)


def test_long_prompts_have_their_own_rates() -> None:
    name = next(n for n in model_names() if "input_cost_per_token_above_200k_tokens" in (entry_of(n) or {}))
    short, long = rates_of(name, 1000), rates_of(name, 200_001)
    assert short is not None and long is not None and long.read > short.read


def test_dates_and_abilities_are_read_where_the_file_has_them() -> None:
    dated = next(n for n in model_names() if "deprecation_date" in (entry_of(n) or {}))
    assert isinstance(retirement_date(dated), datetime.date)
    assert supports("gpt-4o-mini", "vision") is True
    assert supports("gpt-4o-mini", "clairvoyance") is None
