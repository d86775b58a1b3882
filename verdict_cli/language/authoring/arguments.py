"""Arguments of the Python API: models and prompts, and the check of keyword names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from msgspec import Struct
from pydantic import ValidationError

from verdict_cli.config_model import check_keywords, first_error, known_keys
from verdict_cli.errors import UsageError
from verdict_cli.language.authoring.schema import Keys
from verdict_cli.language.prompts.sections import dedent
from verdict_cli.messages import JsonObject
from verdict_cli.model import Model

if TYPE_CHECKING:
    from verdict_cli.language.units.base import Examples
    from verdict_cli.language.units.pools import OnMissing, Ties

ModelLike = str | Keys | Sequence[str | Keys]
"""A model's name, a mapping of its keys, or a list of these: a selection policy."""


class ModelKeys(TypedDict, total=False):
    """The keys of a model (language.md, section 4)."""

    retries: int
    timeout: float
    max_wait: float
    prompt_cache: Literal["auto", "off"]
    top_logprobs: int
    api_base: str
    api_key_env: str
    rate_limit: Mapping[str, int]
    cost: Mapping[str, float]
    base_model: str
    structured: Literal["auto", "schema", "tool", "json", "words"]
    cache: bool
    params: Keys
    temperature: float
    top_p: float
    max_tokens: int
    seed: int
    stop: str | Sequence[str]
    reasoning_effort: str


class CommonKeys(TypedDict, total=False):
    """The keyword arguments of every unit."""

    name: str
    input: Keys
    output: Keys
    validate: Sequence[str]
    on_failure: Literal["fail", "skip"]
    escalate: Keys


class UnitKeys(CommonKeys, total=False):
    """The keyword arguments of units, for editors: each type takes those that it has in a file."""

    scale: Any
    scale_instructions: bool
    delimit: bool
    explanation: bool
    examples: Examples | Keys
    response: Keys
    cites: str
    categories: Sequence[Any]
    options: Sequence[str]
    original: bool
    tie: bool
    both_bad: bool
    positions: Literal["given", "both"]
    labels: Sequence[str]
    k: int
    shuffle: bool
    role_name: str
    stance: str
    target: str
    number: bool
    criteria: Sequence[str]
    n: int
    field: str
    fields: Sequence[str]
    quorum: int
    empty: Any
    weights: Sequence[float]
    agreement: bool
    ties: Ties
    points: str
    clip: Sequence[float]
    on_missing: OnMissing


class Prompt(Struct, frozen=True):
    """A prompt: what `.prompt("…")` takes, or a text in a file, or a Jinja2 template."""

    key: Any

    @classmethod
    def from_template(cls, text: str) -> Prompt:
        """The prompt with placeholders such as `{source.question}`; common indentation is removed."""
        if not isinstance(text, str):
            raise UsageError(
                f"a prompt is a text, not {text!r:.80}",
                hint="write `.prompt('…{source.question}…')`",
            )
        return cls(dedent(text))

    @classmethod
    def from_file(cls, path: str | Path) -> Prompt:
        """The text of a file, read when the pipeline is checked."""
        return cls({"file": str(Path(path).absolute())})

    @classmethod
    def from_jinja(cls, text: str) -> Prompt:
        """A Jinja2 template, rendered in the sandbox with strict undefined."""
        return cls({"jinja": text})


def prompt_key(prompt: str | Prompt) -> Any:
    """The prompt as a pipeline file writes it."""
    return prompt.key if isinstance(prompt, Prompt) else Prompt.from_template(prompt).key


def model_key(subject: str, model: ModelLike, keys: Keys | None = None) -> Any:
    """The model as a pipeline file writes it. UsageError names `subject` and the key that is wrong."""
    if isinstance(model, str):
        return _checked_model(subject, {"name": model, **keys}) if keys else model
    if keys:
        raise UsageError(
            f"{subject}: settings go with a single model's name, not with a {type(model).__name__}",
            hint="put them into the mapping: `.via([{'name': 'gpt-4o', 'temperature': 0}, 'gpt-4o-mini'])`",
        )
    if isinstance(model, Mapping):
        return _checked_model(subject, dict(model))
    if isinstance(model, Sequence):
        return [model_key(subject, item) for item in model]
    raise UsageError(
        f"{subject}: a model is a name, a mapping or a list of these, not {model!r:.80}"
    )


def _checked_model(subject: str, keys: Keys) -> JsonObject:
    if "api_key" in keys:
        raise UsageError(
            f"{subject}: a pipeline never contains an API key",
            hint="name the environment variable that holds it with `api_key_env`",
        )
    check_keywords(subject, keys, known_keys(Model))
    try:
        Model.model_validate(dict(keys))
    except ValidationError as error:
        raise first_error(subject, error) from None
    return {
        name: dict(value) if isinstance(value, Mapping) else value for name, value in keys.items()
    }


def path_argument(subject: str, path: str | PathLike[str]) -> Path:
    """The path. UsageError for anything else."""
    if not isinstance(path, str | PathLike):
        raise UsageError(f"{subject} is a path, not {path!r:.80}")
    return Path(path)


def optional_path(subject: str, path: str | PathLike[str] | None) -> Path | None:
    """The path, None where none is given. UsageError for anything else."""
    return None if path is None else path_argument(subject, path)
