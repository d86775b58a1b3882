"""Batch interfaces of providers: which models have one, and the adapter that speaks it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from verdict_cli.features.batches.batch_keys import batch_settings
from verdict_cli.llm.model_families import (
    BASELINE_PREFIX,
    IN_PROCESS_PREFIX,
    REPLAY_PREFIX,
    family,
    is_local,
    provider_of,
)
from verdict_cli.model import Model

if TYPE_CHECKING:
    from verdict_cli.features.batches.batch_api import BatchApi

_ADAPTERS = {
    "openai": "verdict_cli.features.batches.providers:OpenAIBatches",
    "azure": "verdict_cli.features.batches.providers:OpenAIBatches",
    "groq": "verdict_cli.features.batches.providers:OpenAIBatches",
    "together_ai": "verdict_cli.features.batches.providers:TogetherBatches",
    "anthropic": "verdict_cli.features.batches.providers:AnthropicBatches",
    "gemini": "verdict_cli.features.batches.providers:GeminiBatches",
    "mistral": "verdict_cli.features.batches.providers:MistralBatches",
}
"""The adapter of each provider that has a batch interface. It is imported when a batch is sent."""
_BUILT_IN = {
    BASELINE_PREFIX: "a baseline answers at once and costs nothing",
    REPLAY_PREFIX: "a recording answers at once and costs nothing",
    IN_PROCESS_PREFIX: "a model in this process has no batch interface",
}


TIER = "batch"
"""The service tier by which replies of batches are priced."""
TO_FILE = "file"
"""The name of the provider of files in the ledger: requests that were exported."""


def batch_problem(model: Model) -> str | None:
    """Why the model's calls cannot be sent as batches; None where they can."""
    built_in = next((why for prefix, why in _BUILT_IN.items() if model.name.startswith(prefix)), None)
    if built_in is not None:
        return built_in
    provider = provider_of(model.name)
    if family(model) is None or provider not in _ADAPTERS:
        return f"verdict knows no batch interface of {provider}; it knows those of {', '.join(_ADAPTERS)}"
    return None


def export_problem(model: Model) -> str | None:
    """Why the model's calls cannot be written as a file; None where they can."""
    known = family(model)
    if is_local(model.name) or (known is not None and known.protocol != "chat"):
        return "a file of requests holds chat completions, which this model does not take"
    return None


def open_batch_api(model: Model) -> BatchApi:
    """The adapter of the model's provider. Raises Refused where the model has no endpoint or no key."""
    module, _, name = _ADAPTERS[provider_of(model.name)].partition(":")
    adapter: BatchApi = getattr(import_module(module), name)(model)
    return adapter


def most_requests(model: Model) -> int:
    """How many requests one batch of the model may have."""
    module, _, name = _ADAPTERS[provider_of(model.name)].partition(":")
    limit: int = getattr(import_module(module), name).max_requests
    return min(limit, batch_settings(model).max_requests or limit)
