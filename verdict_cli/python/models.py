"""Models as Python spells them: a name with its settings, or a list that is tried in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from verdict_cli.errors import UsageError
from verdict_cli.model import Model
from verdict_cli.python.validate_kwargs import validate_kwargs

ModelLike = str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]]
"""A model's name, a mapping of its keys, or a list of these: a selection policy."""


class ModelKeys(TypedDict, total=False):
    """The keys of a model (language.md, section 4)."""

    retries: int
    timeout: float
    api_base: str
    api_key_env: str
    rate_limit: Mapping[str, int]
    cost: Mapping[str, float]
    cache: bool
    params: Mapping[str, Any]
    temperature: float
    top_p: float
    max_tokens: int
    seed: int
    stop: str | Sequence[str]
    reasoning_effort: str


def model_key(what: str, model: ModelLike, keys: Mapping[str, Any] | None = None) -> Any:
    """The model as a pipeline file writes it. UsageError names `what` and the key that is wrong."""
    if isinstance(model, str):
        if not keys:
            return model
        return _checked(what, {"name": model, **keys})
    if keys:
        raise UsageError(
            f"{what}: settings stand beside a model's name, here is {type(model).__name__}",
            hint="put them into the mapping: `.via([{'name': 'gpt-4o', 'temperature': 0}, 'gpt-4o-mini'])`",
        )
    if isinstance(model, Mapping):
        return _checked(what, dict(model))
    if isinstance(model, Sequence):
        return [model_key(what, one) for one in model]
    raise UsageError(f"{what}: a model is a name, a mapping or a list of these, not {model!r:.80}")


def _checked(what: str, keys: Mapping[str, Any]) -> dict[str, Any]:
    if "api_key" in keys:
        raise UsageError(
            f"{what}: keys never stand in a pipeline",
            hint="name the environment variable that holds it with `api_key_env`",
        )
    validate_kwargs(Model, what, keys)
    return {name: dict(value) if isinstance(value, Mapping) else value for name, value in keys.items()}
