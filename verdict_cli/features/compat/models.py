"""Models, rate limits and extractors as haizelabs' library names them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from verdict_cli.config_model import python_constructor
from verdict_cli.language.extractors.bound_extractor import Extractor
from verdict_cli.language.extractors.post_hoc import PostHocExtractor as OwnPostHocExtractor
from verdict_cli.language.extractors.regex import RegexExtractor as OwnRegexExtractor
from verdict_cli.language.scales import Scale as OwnScale
from verdict_cli.language.scales.boolean import BooleanScale as OwnBooleanScale
from verdict_cli.language.scales.continuous import ContinuousScale as OwnContinuousScale
from verdict_cli.language.scales.discrete import Categories
from verdict_cli.language.scales.discrete import DiscreteScale as OwnDiscreteScale
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


class Scale:
    """A scale: `own` is this project's, `values` and the text are those of the library."""

    values: list[Any]

    def __init__(self, own: OwnScale, values: Sequence[Any], text: str) -> None:
        self.own, self.values, self._text = own, list(values), text

    def value_mapping_fn(self, output: Any) -> Any:
        """The value that a reply's text means."""
        return self.own.read(output)

    def index(self, value: Any) -> int:
        """The place of a value on the scale."""
        return self.values.index(value)

    def __str__(self) -> str:
        return self._text


class DiscreteScale(Scale):
    """Listed values, or a range given as a tuple. A list of words is nominal: no word is the worst or the best."""

    def __init__(self, values: Sequence[Any], end_is_worst: bool = False) -> None:
        has_words = isinstance(values, list) and any(isinstance(value, str) for value in values)
        if has_words and not end_is_worst:
            own: OwnScale = Categories.model_validate({"values": values})
        else:
            own = OwnDiscreteScale(values, end_is_worst=end_is_worst)
        written = own.values()  # worst first
        super().__init__(own, written[::-1] if end_is_worst else written, ", ".join(map(str, written)))


class BooleanScale(Scale):
    """Yes or no."""

    def __init__(self, yes: Sequence[str] = ("yes", "Yes", "YES"), no: Sequence[str] = ("no", "No", "NO")) -> None:
        own = OwnBooleanScale(yes=_each_once(yes), no=_each_once(no))
        super().__init__(own, [*no, *yes], f"{'/'.join(yes)},{'/'.join(no)}")


class ContinuousScale(Scale):
    """Any number between two ends."""

    def __init__(self, min_value: float, max_value: float, end_is_worst: bool = False) -> None:
        ends = (max_value, min_value) if end_is_worst else (min_value, max_value)
        own = OwnContinuousScale(min_value, max_value, end_is_worst=end_is_worst)
        super().__init__(own, [], f"{ends[0]} - {ends[1]}")


def LikertScale(end_is_worst: bool = False) -> Scale:  # noqa: N802 - the library's name
    """The integers from 1 to 5."""
    return DiscreteScale((1, 5), end_is_worst)


def _each_once(words: Sequence[str]) -> list[str]:
    """The words without those that differ in case alone: our scales ignore the case."""
    return list({word.casefold(): word for word in reversed(words)}.values())[::-1]
