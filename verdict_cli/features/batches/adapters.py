"""Which models have a batch interface, and what speaks it.

`validate` loads this; the clients are imported when a batch is sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from verdict_cli.llm.model_families import (
    family,
    is_decision_model,
    is_local,
    provider_of,
)
from verdict_cli.model import Model

if TYPE_CHECKING:
    from verdict_cli.features.batches.batch_api import BatchApi

ADAPTERS = {
    "openai": "BatchApi",
    "azure": "BatchApi",
    "groq": "BatchApi",
    "together_ai": "TogetherBatches",
    "anthropic": "AnthropicBatches",
    "gemini": "GeminiBatches",
    "mistral": "MistralBatches",
}
"""The adapter of each provider that has a batch interface. It is imported when a batch is sent."""
TIER = "batch"
"""The service tier by which replies of batches are priced."""


def batch_problem(model: Model) -> str | None:
    """Why the model's calls cannot be sent as batches; None where they can."""
    if is_local(model.name):
        return "it answers at once and costs nothing"
    provider = provider_of(model.name)
    if is_decision_model(model):
        return "decision models have no batches"
    if family(model) is None or provider not in ADAPTERS:
        return f"verdict knows no batch interface of {provider}; it knows those of {', '.join(ADAPTERS)}"
    return None


def export_problem(model: Model) -> str | None:
    """Why the model's calls cannot be written as a file; None where they can."""
    known = family(model)
    if is_local(model.name) or (known is not None and known.protocol != "chat"):
        return "a file of requests holds chat completions, which this model does not take"
    return None


def open_batch_api(model: Model) -> BatchApi:
    """The batch interface of the model's provider."""
    from verdict_cli.features.batches import providers

    adapter: type[BatchApi] = getattr(providers, ADAPTERS[provider_of(model.name)])
    return adapter(model)
