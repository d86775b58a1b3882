"""Steps in Python: each holds the keys that a pipeline file would have, and Python code links them with `>>`."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Self, Unpack

from verdict_cli.config_model import ConfigModel, checked_arguments
from verdict_cli.errors import UsageError
from verdict_cli.language import pipeline_file as language
from verdict_cli.language.authoring.arguments import ModelKeys, ModelLike, model_key
from verdict_cli.language.authoring.functions import Function, FunctionsByPath, StepPath
from verdict_cli.language.authoring.schema import Keys, document_value
from verdict_cli.messages import JsonObject


class Step:
    """An entry of a pipeline. `a >> b` runs b after a; every method returns a changed copy."""

    _keys: Keys
    _functions: ClassVar[Mapping[str, Function]] = MappingProxyType({})
    """Python functions by the key whose expressions they replace."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__init__" in vars(cls):
            setattr(cls, "__init__", checked_arguments(vars(cls)["__init__"]))  # noqa: B010 - mypy refuses the attribute

    def __init__(self, keys: Keys, functions: Mapping[str, Function] | None = None) -> None:
        """Values are validated with the whole pipeline, which reports every problem at once and where it is."""
        object.__setattr__(
            self, "_keys", {key: value for key, value in keys.items() if value is not None}
        )
        if functions:
            object.__setattr__(self, "_functions", functions)

    @classmethod
    def language_class(cls) -> type[ConfigModel]:
        """The class of the language that validates the step's keys; one without keys for a step of a file."""
        return ConfigModel

    def document(self, path: StepPath, functions: FunctionsByPath) -> JsonObject:
        """The step as a pipeline file has it at `path`. Python functions are added to `functions`."""
        functions |= {(*path, key): function for key, function in self._functions.items()}
        return {key: document_value(value) for key, value in self._keys.items()}

    def when(self, condition: str) -> Self:
        """Run the step only for rows, or entries, for which the expression is true; it is skipped for all others."""
        if not isinstance(condition, str):
            raise UsageError(
                f"{type(self).__name__}.when takes an expression, not {condition!r:.80}",
                hint="such as `.when('previous.triage.score > 3')`",
            )
        return self._with(when=condition)

    def __rshift__(self, other: Step) -> Block:
        return Block([*chained_steps(self), *chained_steps(check_step(other, "`>>` links"))])

    def __getattr__(self, name: str) -> Any:
        """The value of a key, or its default."""
        fields = {} if name.startswith("_") else self.language_class().model_fields
        if name not in fields:
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
        return self._keys.get(
            fields[name].alias or name,
            fields[name].get_default(call_default_factory=True, validated_data={}),
        )

    def __setattr__(self, name: str, value: Any) -> None:
        if hasattr(type(self), name) or name in self.language_class().model_fields:
            raise UsageError(
                f"{name!r} of a {type(self).__name__} cannot be set: steps are immutable",
                hint="every method returns a new value: `unit = unit.named('judge')`",
            )
        object.__setattr__(self, name, value)

    def own_attributes(self) -> JsonObject:
        """The attributes that Python code set, which are no keys of the language."""
        fields = self.language_class().model_fields
        return {
            name: value
            for name, value in vars(self).items()
            if name not in fields and not name.startswith("_")
        }

    def _with(self, **keys: Any) -> Self:
        """A copy with these keys; one that is None goes."""
        changed = copy.copy(self)
        Step.__init__(changed, {**self._keys, **keys})
        return changed


class ModelStep(Step):
    """A step that has a model, of its own or for the units inside."""

    @checked_arguments
    def via(self, model: ModelLike, **keys: Unpack[ModelKeys]) -> Self:
        """The model, with its settings, or a list that is tried in order; of a step with others inside, the model of those
        that set none."""
        return self._with(model=model_key(f"{type(self).__name__}.via", model, dict(keys)))


class FileStep(Step):
    """A step as a pipeline file has it."""

    def __repr__(self) -> str:
        kind, value = next(iter(self._keys.items()))
        return f"{kind}: {value if isinstance(value, str) else '…'}"


class _Group(ModelStep):
    """Steps with others inside, under the key ``_inside``."""

    _inside: ClassVar[str]

    def document(self, path: StepPath, functions: FunctionsByPath) -> JsonObject:
        steps = step_documents(self._keys[self._inside], (*path, self._inside), functions)
        return {**super().document(path, functions), self._inside: steps}


class Layer(_Group):
    """Units, blocks or layers in parallel."""

    _inside = "layer"

    def __init__(
        self,
        items: Step | Sequence[Step],
        repeat: int | None = None,
        *,
        models: Sequence[ModelLike] | None = None,
        inner: Literal["none", "chain"] = "none",
        outer: Literal["dense", "broadcast", "cumulative", "last"] | None = None,
        roots: Sequence[int] | None = None,
        leaves: Sequence[int] | None = None,
        until: Mapping[str, float] | None = None,
    ) -> None:
        keys = {
            "layer": check_steps(items, "a Layer holds"),
            "repeat": repeat,
            "models": None if models is None else [model_key("Layer", model) for model in models],
            "inner": None if inner == "none" else inner,
            "outer": outer,
            "roots": roots,
            "leaves": leaves,
            "until": until,
        }
        super().__init__(keys)

    @classmethod
    def language_class(cls) -> type[ConfigModel]:
        return language.Layer

    @property
    def items(self) -> tuple[Step, ...]:
        """The items in parallel."""
        return tuple(self._keys["layer"])

    def __repr__(self) -> str:
        keys = "".join(f", {key}={value!r}" for key, value in self._keys.items() if key != "layer")
        return f"Layer([{', '.join(map(repr, self.items))}]{keys})"


class Block(_Group):
    """Steps run one after another."""

    _inside = "block"

    def __init__(self, steps: Step | Sequence[Step]) -> None:
        super().__init__({"block": check_steps(steps, "a Block holds")})

    @classmethod
    def language_class(cls) -> type[ConfigModel]:
        return language.Block

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps in order."""
        return tuple(self._keys["block"])

    def pin(self) -> Self:
        """Run every unit inside once; all rows share the results."""
        return self._with(pin=True)

    def __repr__(self) -> str:
        return " >> ".join(map(repr, self.steps))


class Each(Block):
    """Steps that run once for every entry of a list of the row, such as `Each("source.claims", JudgeUnit(), name="claim")`."""

    def __init__(
        self,
        entries: str,
        steps: Step | Sequence[Step],
        *,
        name: str | None = None,
        most: int | None = None,
        per_call: int | None = None,
    ) -> None:
        block = check_steps(steps, "an Each holds")
        Step.__init__(
            self, {"each": entries, "block": block, "as": name, "max": most, "per_call": per_call}
        )

    def __repr__(self) -> str:
        return f"Each({self.each!r}, {super().__repr__()})"


def chained_steps(step: Step) -> tuple[Step, ...]:
    """The steps of a block without keys of its own, else the step alone: brackets around `>>` mean nothing."""
    return step.steps if isinstance(step, Block) and step._keys.keys() == {"block"} else (step,)


def check_step(value: Any, opening: str) -> Step:
    """The value, when it is a step. UsageError begins with `opening`."""
    if isinstance(value, type) and issubclass(value, Step):
        raise UsageError(f"{opening} units, not their class", hint=f"write `{value.__name__}()`")
    if not isinstance(value, Step):
        raise UsageError(f"{opening} units, layers and blocks, not {value!r:.80}")
    return value


def check_steps(values: Any, opening: str) -> tuple[Step, ...]:
    """One step or several as a tuple. UsageError begins with `opening`."""
    items = (
        [values] if isinstance(values, Step) or not isinstance(values, Sequence) else list(values)
    )
    if not items:
        raise UsageError(f"{opening} at least one unit, layer or block")
    return tuple(check_step(value, opening) for value in items)


def step_documents(
    steps: Sequence[Step], path: StepPath, functions: FunctionsByPath
) -> list[JsonObject]:
    """The steps as a pipeline file has them below `path`."""
    return [step.document((*path, index), functions) for index, step in enumerate(steps)]
