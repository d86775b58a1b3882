"""Parameters that a model is known to refuse, from litellm's data file, read without importing litellm."""

from __future__ import annotations

import re

from verdict_cli.models import Model
from verdict_cli.models.families import OPENAI_HOST
from verdict_cli.providers.address import address
from verdict_cli.providers.prices import prices_of

_REASONING = re.compile(r"(?:openai/|azure/)?(o\d|gpt-5)(?!.*chat)")
"""OpenAI's reasoning models. They sample in their own way, and say nothing of probabilities."""


def refusal(model: Model, top_logprobs: int) -> str | None:
    """What this model refuses of what it is to be sent, and the way out; None where nothing is known to be refused.

    A model at an address of the user's own is another model, whatever its name.
    """
    url, _ = address(model)
    entry = None if "://" in url and OPENAI_HOST not in url else prices_of(model.name)
    if entry is None:
        return None
    sampling = model.sampling()
    reasons = bool(entry.get("supports_reasoning"))
    if reasons and _REASONING.match(model.name) and not entry.get("supports_none_reasoning_effort"):
        for name in ("temperature", "top_p"):
            if sampling.get(name) not in (None, 1):
                return f"{name} is not taken by this reasoning model (only its default, 1); remove it"
        for name in ("presence_penalty", "frequency_penalty", "logit_bias"):
            if sampling.get(name):
                return f"{name} is not taken by this reasoning model; remove it"
        if top_logprobs:
            return (
                "this reasoning model returns no log-probabilities; use another model, or another extractor"
            )
    effort = sampling.get("reasoning_effort")
    if effort not in (None, "none") and not reasons and entry.get("litellm_provider") == "openai":
        return "reasoning_effort is taken by reasoning models only, which this is not; remove it"
    if effort == "none" and reasons and entry.get("supports_none_reasoning_effort") is False:
        return "reasoning_effort: none is not taken by this model; use low or minimal"
    most = entry.get("max_output_tokens")
    if model.max_tokens is not None and isinstance(most, int) and model.max_tokens > most:
        return f"max_tokens is {model.max_tokens:,}, but its replies have {most:,} at most; lower it"
    return None
