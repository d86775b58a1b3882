"""What a call may cost at most: reserved from a budget before the call is sent."""

from __future__ import annotations

import json

from verdict_cli.llm.model_families import is_free
from verdict_cli.llm.providers.price_book import cost_usd, list_price_usd, most_output_tokens
from verdict_cli.messages import Request, Usage
from verdict_cli.model import Model

ASSUMED_REPLY_TOKENS = 4096
"""The longest reply that is assumed where neither `max_tokens` nor litellm's data file limits it."""
_BYTES_A_TOKEN = 2
"""Fewer UTF-8 bytes than a token has on average in any common language, so prompts are overestimated rather than underestimated."""
_IMAGE_TOKENS = 2000
"""Assumed for each image of a prompt."""


def worst_case_usd(request: Request) -> float | None:
    """The most that a call is expected to cost; None if the model's price is unknown. Built-in models cost nothing."""
    model = request.model
    if is_free(model.name):
        return 0.0
    size = sum(len(message.content.encode(errors="surrogatepass")) for message in request.messages)
    if request.json_schema is not None:
        size += len(json.dumps(request.json_schema, default=str))
    images = sum(len(message.images) for message in request.messages)
    prompt = size // _BYTES_A_TOKEN + _IMAGE_TOKENS * images
    return charged_usd(model, cost_usd(model, usage := Usage(prompt, _longest_reply(model))), usage)


def charged_usd(model: Model, cost: float | None, usage: Usage) -> float | None:
    """``cost``, or the list price where that is higher: under a budget a pipeline file may raise a known price only."""
    if cost is None or (model.cost is None and model.base_model is None):
        return cost
    listed = list_price_usd(model.name, usage, tier=str(model.params.get("service_tier") or ""))
    return max(cost, listed or 0.0)


def _longest_reply(model: Model) -> int:
    limit = model.sampling().get("max_completion_tokens", model.max_tokens)
    if isinstance(limit, int) and not isinstance(limit, bool) and limit >= 0:
        return limit
    return most_output_tokens(model.known_name) or ASSUMED_REPLY_TOKENS
