"""Usages in the forms that providers' documentation shows, priced by hand: tokens times dollars a million."""

from __future__ import annotations

import json
from typing import Any

import pytest

from verdict_cli.llm.model_families import family
from verdict_cli.llm.providers.http_errors import Source
from verdict_cli.llm.providers.price_book import price_source
from verdict_cli.llm.providers.protocols import protocol_of
from verdict_cli.llm.providers.read_reply import read_body
from verdict_cli.model import Model

pytestmark = pytest.mark.skipif(
    "ship" not in price_source(), reason="a newer litellm is installed, with other prices"
)
M = 1e-6
PAGES = {
    "OpenAI": "platform.openai.com/docs/api-reference/chat/object and /docs/guides/prompt-caching",
    "OpenAI Responses": "platform.openai.com/docs/api-reference/responses/object",
    "Anthropic": "docs.anthropic.com/en/docs/build-with-claude/prompt-caching",
    "Gemini": "ai.google.dev/api/generate-content#UsageMetadata",
    "Gemini chat": "ai.google.dev/gemini-api/docs/openai",
    "xAI": "docs.x.ai/docs/guides/reasoning",
    "Google Cloud": "docs.cloud.google.com/vertex-ai/generative-ai/docs/partner-models/grok/capabilities/reasoning",
    "DeepSeek": "api-docs.deepseek.com/guides/kv_cache",
    "Mistral": "docs.mistral.ai/api",
    "OpenRouter": "openrouter.ai/docs/use-cases/usage-accounting",
    "Perplexity": "docs.perplexity.ai/api-reference/chat-completions-post",
    "LiteLLM": "docs.litellm.ai/docs/completion/prompt_caching",
}


def details(cached: int = 0, thought: int = 0, **more: int) -> dict[str, Any]:
    return {
        "prompt_tokens_details": {"cached_tokens": cached, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": thought, "accepted_prediction_tokens": 0},
        **more,
    }


def counts(prompt: int, completion: int, total: int, **more: Any) -> dict[str, Any]:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total, **more}


def responses(prompt: int, completion: int, cached: int, thought: int) -> dict[str, Any]:
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": cached},
        "output_tokens": completion,
        "output_tokens_details": {"reasoning_tokens": thought},
        "total_tokens": prompt + completion,
    }


def anthropic(
    fresh: int, read: int, cache_written: int, completion: int, hour: int = 0
) -> dict[str, Any]:
    return {
        "input_tokens": fresh,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": cache_written,
        "cache_creation": {
            "ephemeral_5m_input_tokens": cache_written - hour,
            "ephemeral_1h_input_tokens": hour,
        },
        "output_tokens": completion,
        "service_tier": "standard",
    }


def gemini(prompt: int, reply: int, thought: int, total: int, **more: int) -> dict[str, Any]:
    return {
        "promptTokenCount": prompt,
        "candidatesTokenCount": reply,
        "thoughtsTokenCount": thought,
        "totalTokenCount": total,
        **more,
    }


CASES: list[tuple[str, str, dict[str, Any], float]] = [
    ("OpenAI", "gpt-4o-mini", counts(19, 10, 29, **details()), (19 * 0.15 + 10 * 0.60) * M),
    (
        "OpenAI",
        "gpt-4o",
        counts(2006, 300, 2306, **details(1920)),
        (86 * 2.50 + 1920 * 1.25 + 300 * 10.00) * M,
    ),
    (
        "OpenAI",
        "gpt-5",
        counts(75, 1186, 1261, **details(thought=1024)),
        (75 * 1.25 + 1186 * 10.00) * M,
    ),
    (
        "OpenAI",
        "azure/gpt-4.1",
        counts(1500, 40, 1540, **details(1024)),
        (476 * 2.00 + 1024 * 0.50 + 40 * 8.00) * M,
    ),
    ("OpenAI Responses", "gpt-5-pro", responses(36, 87, 0, 64), (36 * 15.00 + 87 * 120.00) * M),
    ("OpenAI Responses", "o3-pro", responses(328, 52, 0, 0), (328 * 20.00 + 52 * 80.00) * M),
    ("Anthropic", "claude-sonnet-4-5", anthropic(50, 0, 0, 503), (50 * 3.00 + 503 * 15.00) * M),
    (
        "Anthropic",
        "claude-sonnet-4-5",
        anthropic(21, 88086, 0, 393),
        (21 * 3.00 + 88086 * 0.30 + 393 * 15.00) * M,
    ),
    (
        "Anthropic",
        "anthropic/claude-sonnet-4-5",
        anthropic(2048, 1800, 248, 503, hour=100),
        (2048 * 3.00 + 1800 * 0.30 + 148 * 3.75 + 100 * 6.00 + 503 * 15.00) * M,
    ),
    ("Gemini", "gemini/gemini-2.5-flash", gemini(10, 20, 30, 60), (10 * 0.30 + 50 * 2.50) * M),
    (
        "Gemini",
        "gemini/gemini-2.5-pro",
        gemini(4100, 40, 100, 4240, cachedContentTokenCount=4000),
        (100 * 1.25 + 4000 * 0.125 + 140 * 10.00) * M,
    ),
    (
        "Gemini",
        "gemini/gemini-2.5-flash",
        gemini(10, 20, 0, 80, toolUsePromptTokenCount=50),
        (60 * 0.30 + 20 * 2.50) * M,
    ),
    ("Gemini chat", "openai/gemini-2.5-flash", counts(20, 198, 623), (20 * 0.30 + 603 * 2.50) * M),
    (
        "xAI",
        "xai/grok-4.20-multi-agent-beta-0309",
        counts(32, 9, 135, **details(6, 94), num_sources_used=0),
        (26 * 1.25 + 6 * 0.20 + 103 * 2.50) * M,
    ),
    (
        "xAI",
        "xai/grok-4.20-multi-agent-beta-0309",
        counts(32, 9, 135, cost_in_usd_ticks=37756000, **details(thought=94)),
        0.0037756,
    ),
    (
        "Google Cloud",
        "xai/grok-4.20-multi-agent-beta-0309",
        counts(663, 50, 837, cost_in_usd_ticks=0, num_sources_used=0, **details(654, 124)),
        (9 * 1.25 + 654 * 0.20 + 174 * 2.50) * M,
    ),
    (
        "DeepSeek",
        "deepseek/deepseek-reasoner",
        counts(
            1600,
            210,
            1810,
            prompt_cache_hit_tokens=1536,
            prompt_cache_miss_tokens=64,
            **details(1536, 180),
        ),
        (64 * 0.28 + 1536 * 0.028 + 210 * 0.42) * M,
    ),
    ("Mistral", "mistral/mistral-large-latest", counts(16, 34, 50), (16 * 0.50 + 34 * 1.50) * M),
    (
        "OpenRouter",
        "openrouter/anthropic/claude-sonnet-4-5",
        counts(
            194,
            2,
            196,
            cost=0.00014,
            cost_details={"upstream_inference_cost": None},
            **details(thought=0),
        ),
        0.00014,
    ),
    (
        "Perplexity",
        "perplexity/sonar",
        counts(
            14,
            70,
            84,
            search_context_size="low",
            cost={"request_cost": 0.005, "total_cost": 0.005084},
        ),
        0.005084,
    ),
    (
        "LiteLLM",
        "litellm_proxy/claude-sonnet-4-5",
        counts(
            30946,
            102,
            31048,
            cache_read_input_tokens=30940,
            cache_creation_input_tokens=0,
            **details(),
        ),
        (6 * 3.00 + 30940 * 0.30 + 102 * 15.00) * M,
    ),
]


def body(page: str, usage: dict[str, Any]) -> dict[str, Any]:
    """A reply of the page's API with this usage."""
    match page:
        case "OpenAI Responses":
            output = [{"type": "message", "content": [{"type": "output_text", "text": "5"}]}]
            return {"status": "completed", "output": output, "usage": usage}
        case "Anthropic":
            return {"type": "message", "content": [{"type": "text", "text": "5"}], "usage": usage}
        case "Gemini":
            candidate = {"content": {"parts": [{"text": "5"}]}, "finishReason": "STOP"}
            return {"candidates": [candidate], "usageMetadata": usage}
    return {"choices": [{"message": {"content": "5"}, "finish_reason": "stop"}], "usage": usage}


def test_there_are_twenty_usages_of_eight_providers():
    assert len(CASES) >= 20
    assert {page for page, *_ in CASES} == set(PAGES) and len(PAGES) >= 8


@pytest.mark.parametrize(("page", "name", "usage", "dollars"), CASES)
def test_a_documented_usage_costs_what_the_hand_calculation_says(
    request_for, page, name, usage, dollars
):
    model = Model(
        name=name,
        api_base="http://127.0.0.1:1/v1" if name.startswith(("openai/", "litellm_")) else None,
    )
    of = family(model)
    assert of is not None
    reply = read_body(
        json.dumps(body(page, usage)).encode(),
        request_for(model),
        Source(model.name),
        protocol=protocol_of(of),
    )
    assert reply.cost_usd == pytest.approx(dollars, rel=1e-9)
    assert not reply.usage.note or page == "Gemini chat"


@pytest.mark.parametrize(
    ("settings", "served", "rates"),
    [
        ({"name": "gpt-4o"}, "gpt-4o-2024-05-13", (5.00, 15.00)),
        ({"name": "gpt-4o"}, "gpt-4o", (2.50, 10.00)),
        ({"name": "gpt-4o"}, "gpt-4o-of-the-house", (2.50, 10.00)),
        ({"name": "azure/my-deployment"}, "gpt-4o-mini-2024-07-18", (0.15, 0.60)),
        (
            {"name": "openai/auto", "api_base": "http://127.0.0.1:1/v1"},
            "claude-sonnet-4-5-20250929",
            (3.00, 15.00),
        ),
        ({"name": "gpt-4o", "base_model": "gpt-4o-mini"}, "gpt-4o-2024-05-13", (0.15, 0.60)),
        (
            {"name": "gpt-4o", "cost": {"input_per_million": 7, "output_per_million": 9}},
            "gpt-4o-2024-05-13",
            (7.00, 9.00),
        ),
    ],
)
def test_the_files_price_counts_then_the_base_models_then_that_of_the_model(
    request_for,
    settings,
    served,
    rates,
):
    reply_body = {**body("OpenAI", counts(1000, 100, 1100)), "model": served}
    reply = read_body(json.dumps(reply_body).encode(), request_for(Model(**settings)), Source("m"))
    assert reply.cost_usd == pytest.approx((1000 * rates[0] + 100 * rates[1]) * M)
