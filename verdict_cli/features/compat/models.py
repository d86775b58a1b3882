"""Models, rate limits and extractors as haizelabs' library names them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from verdict_cli.config_model import python_constructor
from verdict_cli.language.extractors.bound_extractor import Extractor
from verdict_cli.language.extractors.post_hoc import PostHocExtractor as OwnPostHocExtractor
from verdict_cli.language.extractors.regex import RegexExtractor as OwnRegexExtractor
from verdict_cli.model import Model


class RateLimitPolicy(dict[str, int]):
    """What an endpoint allows, for `ProviderModel(rate_limiter=…)`."""

    @classmethod
    def of(cls, rpm: int, tpm: int) -> RateLimitPolicy:
        """Requests and tokens a minute."""
        return cls(requests_per_minute=rpm, tokens_per_minute=tpm)


class ProviderModel:
    """A model of a provider by its litellm name."""

    def __init__(self, name: str, use_nonce: bool = False, rate_limiter: Mapping[str, int] | None = None) -> None:
        self.name, self.rate_limiter = name, rate_limiter

    def keys(self) -> dict[str, Any]:
        """The keys of the model in a pipeline file."""
        return {"name": self.name} | ({"rate_limit": dict(self.rate_limiter)} if self.rate_limiter else {})


class vLLMModel(ProviderModel):  # noqa: N801 - the library's name
    """A model on a vLLM server. Its key is read from the environment: `HOSTED_VLLM_API_KEY`."""

    def __init__(
        self, name: str, api_base: str, api_key: str = "", rate_limiter: Mapping[str, int] | None = None
    ) -> None:
        super().__init__(name, rate_limiter=rate_limiter)
        self.api_base = api_base

    def keys(self) -> dict[str, Any]:
        return {**super().keys(), "name": f"hosted_vllm/{self.name}", "api_base": self.api_base}


class ModelSelectionPolicy(tuple[tuple[str | ProviderModel, int, dict[str, Any]], ...]):
    """Models that are tried in order, each so many times with its parameters."""

    @classmethod
    def from_name(cls, model: str | ProviderModel, retries: int = 1, **parameters: Any) -> ModelSelectionPolicy:
        """One model."""
        return cls([(model, retries, parameters)])

    @classmethod
    def from_names(cls, models: Iterable[tuple[str | ProviderModel, int, dict[str, Any]]]) -> ModelSelectionPolicy:
        """Several models, each with its attempts and parameters."""
        return cls(models)

    @classmethod
    def from_any(cls, policy_or_name: Any, retries: int = 1, **parameters: Any) -> ModelSelectionPolicy:
        """A policy, a model, or a list of models or of (model, attempts, parameters)."""
        if isinstance(policy_or_name, ModelSelectionPolicy):
            return policy_or_name
        listed = policy_or_name if isinstance(policy_or_name, list) else [policy_or_name]
        return cls(item if isinstance(item, tuple) else (item, retries, parameters) for item in listed)

    def model_keys(self, defaults: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The models in a pipeline file: `retries` there does not count the first attempt."""
        found = []
        for model, attempts, parameters in self:
            given = model.keys() if isinstance(model, ProviderModel) else {"name": model}
            named = {name: value for name, value in parameters.items() if name in Model.model_fields}
            more = {name: value for name, value in parameters.items() if name not in named}
            found.append({**defaults, **given, "retries": attempts - 1, **named, **({"params": more} if more else {})})
        return found


DEFAULT_MODEL = ModelSelectionPolicy.from_name("gpt-4o-mini", retries=3)
"""The model of units for which nothing is set."""


class RegexExtractor(OwnRegexExtractor):
    """A pattern for each field."""

    @python_constructor
    def __init__(self, fields: Mapping[str, str] | None = None, pattern: str | None = None) -> None:
        super().__init__(pattern, fields=fields)


def PostHocExtractor(policy_or_name: Any = None, retries: int = 1, **parameters: Any) -> Extractor:  # noqa: N802
    """A second call that structures the first one's text, by the same model or another one."""
    if policy_or_name is None:
        return OwnPostHocExtractor()
    return OwnPostHocExtractor(ModelSelectionPolicy.from_any(policy_or_name, retries, **parameters).model_keys({}))
