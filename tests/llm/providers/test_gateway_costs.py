"""The cost that a gateway states counts before the price data; the pipeline's own prices count before both."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import RawTestServer

from verdict_cli.errors import ReplyError
from verdict_cli.llm.providers.native import NativeProvider
from verdict_cli.messages import Reply, Request
from verdict_cli.model import Cost, Model

Make = Callable[..., Request]
USAGE = {"prompt_tokens": 1000, "completion_tokens": 100}
LISTED = 0.00021  # gpt-4o-mini: 1,000 * $0.15 + 100 * $0.60 a million


def reply_with(
    make: Make,
    usage: dict[str, Any],
    *,
    text: str = "5",
    finish: str = "stop",
    header: str = "",
    **model: Any,
) -> Reply:
    """The reply of a server with this usage and header, to a model of a known price."""
    body = {
        "choices": [{"message": {"content": text}, "finish_reason": finish}],
        "usage": USAGE | usage,
    }
    headers = {"x-litellm-response-cost": header} if header else {}

    async def handler(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=json.dumps(body).encode(), headers=headers)

    async def run() -> Reply:
        provider = NativeProvider()
        async with RawTestServer(handler) as server:
            settings = {
                "name": "openai/gpt-4o-mini",
                "api_base": str(server.make_url("/v1")),
                **model,
            }
            try:
                return await provider.ask(make(Model(**settings)))
            finally:
                await provider.close()

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("usage", "cost"),
    [
        ({}, LISTED),
        ({"cost": 0.0123}, 0.0123),
        ({"cost": 0}, LISTED),
        ({"estimated_cost": 0.0}, LISTED),
        ({"cost": 0, "is_byok": True, "cost_details": {"upstream_inference_cost": 0}}, LISTED),
        ({"cost": {"input_tokens_cost": 0.001, "total_cost": 0.006}}, 0.006),
        ({"estimated_cost": 4.2e-05}, 4.2e-05),
        ({"cost_in_usd_ticks": 37_756_000}, 0.0037756),
        (
            {"cost": 0.0001, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.002}},
            0.0021,
        ),
        ({"cost": 0.0001, "is_byok": True}, LISTED),
        ({"cost": None}, LISTED),
        ({"cost": "0.5"}, LISTED),
        ({"cost": -1}, LISTED),
        ({"cost": True}, LISTED),
    ],
)
def test_the_cost_in_a_replys_usage_counts_before_the_price_data(request_for, usage, cost):
    assert reply_with(request_for, usage).cost_usd == pytest.approx(cost)


@pytest.mark.parametrize("name", ["openai/openai/gpt-4o-mini:free", "openai/own-name"])
def test_a_stated_cost_of_0_is_that_of_a_free_variant_or_an_unpriced_model(request_for, name):
    assert reply_with(request_for, {"cost": 0}, name=name).cost_usd == 0.0


@pytest.mark.parametrize(
    ("header", "cost"),
    [("0.00075", 0.00075), ("1.2e-05", 1.2e-05), ("None", LISTED), ("-1", LISTED)],
)
def test_the_cost_in_litellm_proxys_header_counts_before_the_price_data(request_for, header, cost):
    assert reply_with(request_for, {}, header=header).cost_usd == pytest.approx(cost)


def test_a_stated_cost_is_the_cost_of_an_unpriced_model(request_for):
    assert reply_with(request_for, {}, name="openai/own-name").cost_usd is None
    assert reply_with(request_for, {}, name="openai/own-name", header="0.5").cost_usd == 0.5


def test_the_pipelines_own_prices_count_before_a_stated_cost(request_for):
    prices = Cost(input_per_million=1, output_per_million=10)
    assert reply_with(request_for, {"cost": 7}, header="9", cost=prices).cost_usd == pytest.approx(
        0.002
    )


def test_an_empty_reply_costs_what_the_gateway_states(request_for):
    with pytest.raises(ReplyError) as error:
        reply_with(request_for, {}, text="", header="0.25")
    assert error.value.reply.cost_usd == 0.25
