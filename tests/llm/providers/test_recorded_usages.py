"""Costs of recorded usages, in each provider's own form, by hand: tokens times dollars a million."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from verdict_cli.llm.model_families import family
from verdict_cli.llm.providers.http_errors import Source
from verdict_cli.llm.providers.price_book import cost_usd, price_source
from verdict_cli.llm.providers.protocols import protocol_of
from verdict_cli.llm.providers.read_reply import read_body
from verdict_cli.llm.providers.usage import read_usage
from verdict_cli.messages import Request
from verdict_cli.model import Model

Make = Callable[..., Request]
pytestmark = pytest.mark.skipif(
    "ship" not in price_source(), reason="a newer litellm is installed, with other prices"
)
M = 1e-6


def chat(prompt: int, completion: int, tier: str = "", **details: Any) -> dict[str, Any]:
    usage = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        **details,
    }
    choice = {"message": {"role": "assistant", "content": "5"}, "finish_reason": "stop"}
    return {"choices": [choice], "usage": usage, **({"service_tier": tier} if tier else {})}


def openai(
    prompt: int, completion: int, cached: int = 0, tier: str = "default", thought: int = 0
) -> dict[str, Any]:
    return chat(
        prompt,
        completion,
        tier,
        prompt_tokens_details={"cached_tokens": cached, "audio_tokens": 0},
        completion_tokens_details={"reasoning_tokens": thought, "accepted_prediction_tokens": 0},
    )


def responses(
    prompt: int, completion: int, cached: int = 0, tier: str = "default"
) -> dict[str, Any]:
    output = [{"type": "message", "content": [{"type": "output_text", "text": "5"}]}]
    usage = {
        "input_tokens": prompt,
        "output_tokens": completion,
        "input_tokens_details": {"cached_tokens": cached},
    }
    return {"status": "completed", "output": output, "usage": usage, "service_tier": tier}


def anthropic(
    fresh: int, completion: int, read: int = 0, cache_written: int = 0, tier: str = "standard"
) -> dict[str, Any]:
    usage = {
        "input_tokens": fresh,
        "output_tokens": completion,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": cache_written,
        "service_tier": tier,
    }
    return {
        "type": "message",
        "content": [{"type": "text", "text": "5"}],
        "stop_reason": "end_turn",
        "usage": usage,
    }


def gemini(prompt: int, completion: int, thought: int = 0, cached: int = 0) -> dict[str, Any]:
    usage = {
        "promptTokenCount": prompt,
        "candidatesTokenCount": completion,
        "thoughtsTokenCount": thought,
    }
    usage |= {"cachedContentTokenCount": cached} if cached else {}
    candidate = {"content": {"parts": [{"text": "5"}]}, "finishReason": "STOP"}
    return {"candidates": [candidate], "usageMetadata": usage}


FLEX = {"service_tier": "flex"}
USAGES: list[tuple[str, dict[str, Any], dict[str, Any], float]] = [
    ("gpt-4o-mini", {}, openai(1_200, 80), (1_200 * 0.15 + 80 * 0.60) * M),
    (
        "gpt-4o-mini",
        {},
        openai(1_920, 80, cached=1_792),
        (128 * 0.15 + 1_792 * 0.075 + 80 * 0.60) * M,
    ),
    (
        "gpt-4o-mini",
        {},
        openai(1_920, 80, 1_792, "priority"),
        (128 * 0.25 + 1_792 * 0.125 + 80 * 1.00) * M,
    ),
    ("gpt-4o", {}, openai(2_006, 300, 1_920), (86 * 2.50 + 1_920 * 1.25 + 300 * 10.00) * M),
    ("gpt-5-mini", {}, openai(900, 640, thought=576), (900 * 0.25 + 640 * 2.00) * M),
    (
        "gpt-5-mini",
        FLEX,
        openai(900, 640, 512, "flex"),
        (388 * 0.125 + 512 * 0.0125 + 640 * 1.00) * M,
    ),
    # The server had no flex capacity, and says so.
    (
        "gpt-5-mini",
        FLEX,
        openai(900, 640, 512, "default"),
        (388 * 0.25 + 512 * 0.025 + 640 * 2.00) * M,
    ),
    (
        "gpt-5.4",
        {},
        openai(300_000, 1_000, 200_000),
        (100_000 * 5.00 + 200_000 * 0.50 + 1_000 * 22.50) * M,
    ),
    ("gpt-5-pro", {}, responses(1_000, 2_000), (1_000 * 15.00 + 2_000 * 120.00) * M),
    (
        "gpt-5-codex",
        {},
        responses(3_000, 500, 2_048),
        (952 * 1.25 + 2_048 * 0.125 + 500 * 10.00) * M,
    ),
    (
        "azure/gpt-4o-mini",
        {},
        openai(1_500, 60, 1_024),
        (476 * 0.15 + 1_024 * 0.075 + 60 * 0.60) * M,
    ),
    ("anthropic/claude-haiku-4-5", {}, anthropic(1_000, 50), (1_000 * 1.00 + 50 * 5.00) * M),
    (
        "anthropic/claude-haiku-4-5",
        {},
        anthropic(12, 70, 4_500, 300),
        (12 * 1.00 + 4_500 * 0.10 + 300 * 1.25 + 70 * 5.00) * M,
    ),
    (
        "claude-haiku-4-5",
        {},
        anthropic(12, 70, 4_500, 300, "batch"),
        (12 * 0.50 + 4_500 * 0.05 + 300 * 0.625 + 70 * 2.50) * M,
    ),
    (
        "claude-opus-4-8",
        {},
        anthropic(2_000, 400, 0, 6_000),
        (2_000 * 5.00 + 6_000 * 6.25 + 400 * 25.00) * M,
    ),
    ("gemini/gemini-2.5-flash", {}, gemini(1_100, 40, 300), (1_100 * 0.30 + 340 * 2.50) * M),
    (
        "gemini/gemini-2.5-flash",
        {},
        gemini(4_100, 40, 0, 4_000),
        (100 * 0.30 + 4_000 * 0.03 + 40 * 2.50) * M,
    ),
    ("gemini/gemini-2.5-pro", {}, gemini(250_000, 900, 100), (250_000 * 2.50 + 1_000 * 15.00) * M),
    (
        "deepseek/deepseek-v4-flash",
        {},
        chat(2_000, 150, prompt_cache_hit_tokens=1_536, prompt_cache_miss_tokens=464),
        (464 * 0.30 + 1_536 * 0.006 + 150 * 1.20) * M,
    ),
    (
        "mistral/mistral-large-latest",
        {},
        chat(1_000, 90, prompt_tokens_details={"cached_tokens": 640}),
        (360 * 0.50 + 640 * 0.05 + 90 * 1.50) * M,
    ),
]


def test_there_are_twenty_usages_of_six_forms():
    assert len(USAGES) == 20


@pytest.mark.parametrize(("name", "params", "body", "expected"), USAGES)
def test_the_cost_of_a_recorded_usage_equals_the_hand_calculation(
    request_for, name, params, body, expected
):
    model = Model(name=name, params=params)
    of = family(model)
    assert of is not None
    reply = read_body(
        json.dumps(body).encode(), request_for(model), Source(model.name), protocol=protocol_of(of)
    )
    assert reply.cost_usd == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("name", "body", "expected"),
    [
        ("gpt-4o-mini", openai(1_200, 80), (1_200 * 0.075 + 80 * 0.30) * M),
        ("gpt-5-mini", openai(900, 640, 512), (388 * 0.125 + 512 * 0.0125 + 640 * 1.00) * M),
        # No batch price in the data: half of the ordinary one.
        ("mistral/mistral-large-latest", chat(1_000, 90), (1_000 * 0.25 + 90 * 0.75) * M),
    ],
)
def test_a_usage_of_a_batch_has_the_batch_price(name, body, expected):
    usage = read_usage(body["usage"])
    assert cost_usd(Model(name=name), usage, tier="batch") == pytest.approx(expected, rel=1e-9)
