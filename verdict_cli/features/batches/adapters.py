"""Which models have a batch interface, and what speaks it.

`validate` loads this; the clients are imported when a batch is sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from verdict_cli.llm.model_families import (
    BASELINE_PREFIX,
    REPLAY_PREFIX,
    family,
    is_decision_model,
    is_local,
    provider_of,
)
from verdict_cli.model import Model

if TYPE_CHECKING:
    from verdict_cli.features.batches.batch_api import HttpBatchApi

ADAPTERS = {
    "openai": "OpenAIBatches",
    "azure": "OpenAIBatches",
    "groq": "OpenAIBatches",
    "together_ai": "TogetherBatches",
    "anthropic": "AnthropicBatches",
    "gemini": "GeminiBatches",
    "mistral": "MistralBatches",
}
"""The adapter of each provider that has a batch interface. It is imported when a batch is sent."""
_BUILT_IN = {
    BASELINE_PREFIX: "a baseline answers at once and costs nothing",
    REPLAY_PREFIX: "a recording answers at once and costs nothing",
}


BATCHES = "batch-*"
"""The names of batches in the database."""
TIER = "batch"
"""The service tier by which replies of batches are priced."""


def batch_problem(model: Model) -> str | None:
    """Why the model's calls cannot be sent as batches; None where they can."""
    built_in = next(
        (why for prefix, why in _BUILT_IN.items() if model.name.startswith(prefix)), None
    )
    if built_in is not None:
        return built_in
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


def open_batch_api(model: Model) -> HttpBatchApi:
    """The batch interface of the model's provider. Raises Refused where the model has no endpoint or no key."""
    return adapter_of(model)(model)


def adapter_of(model: Model) -> type[HttpBatchApi]:
    """The class that speaks the provider's batch interface."""
    from verdict_cli.features.batches import providers

    adapter: type[HttpBatchApi] = getattr(providers, ADAPTERS[provider_of(model.name)])
    return adapter
