"""Steps and `>>`: units, layers and blocks are immutable values that are linked into blocks and pipelines."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, TypeVar, Unpack

from verdict_cli.errors import UsageError
from verdict_cli.python.functions import Function
from verdict_cli.python.models import ModelKeys, ModelLike, model_key
from verdict_cli.python.schema import plain_view

S = TypeVar("S", bound="Step")

StepPath = tuple[str | int, ...]
Functions = dict[StepPath, Function]
"""Python functions by the path at which a pipeline file would have expressions."""


class Step:
    """An entry of a pipeline. `a >> b` runs b behind a; every method gives a new value."""

    _keys: Mapping[str, Any] = MappingProxyType({})

    def written(self, path: StepPath, functions: Functions) -> dict[str, Any]:
        """The step as a pipeline file writes it at `path`; what only Python can say is added to `functions`."""
        return dict(plain_view(self._keys))

    def __rshift__(self, other: Step) -> Block:
        return Block([*chain(self), *chain(step(other, "`>>` links"))])

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._keys or hasattr(type(self), name):
            raise UsageError(
                f"{name!r} of a {type(self).__name__} cannot be set: steps are immutable",
                hint="every method gives a new value: `unit = unit.named('judge')`",
            )
        object.__setattr__(self, name, value)

    def _with(self: S, **keys: Any) -> S:
        """The same step with these keys."""
        made = copy.copy(self)
        object.__setattr__(made, "_keys", {**self._keys, **keys})
        return made

    def _via(self: S, model: ModelLike, keys: Mapping[str, Any]) -> S:
        return self._with(model=model_key(f"{type(self).__name__}.via", model, keys))


class Block(Step):
    """Steps run one after another, as one item of a layer or one step of a pipeline."""

    def __init__(self, steps: Step | Sequence[Step]) -> None:
        object.__setattr__(self, "_keys", {})
        object.__setattr__(self, "steps", listed(steps, "a Block holds"))

    steps: tuple[Step, ...] = ()

    def via(self, model: ModelLike, **keys: Unpack[ModelKeys]) -> Block:
        """The model of the units inside that set none."""
        return self._via(model, dict(keys))

    def pin(self) -> Block:
        """Every unit inside runs once, and all rows share the results."""
        return self._with(pin=True)

    def written(self, path: StepPath, functions: Functions) -> dict[str, Any]:
        """`{block: […]}`."""
        return {"block": place_step(self.steps, (*path, "block"), functions), **super().written(path, functions)}

    def __repr__(self) -> str:
        return " >> ".join(map(repr, self.steps))


class Layer(Step):
    """Units, blocks or layers side by side (language.md, section 7)."""

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
        given = {
            "repeat": repeat,
            "models": None if models is None else [model_key("Layer", model) for model in models],
            "inner": None if inner == "none" else inner,
            "outer": outer,
            "roots": None if roots is None else list(roots),
            "leaves": None if leaves is None else list(leaves),
            "until": None if until is None else dict(until),
        }
        object.__setattr__(self, "_keys", {name: value for name, value in given.items() if value is not None})
        object.__setattr__(self, "items", listed(items, "a Layer holds"))

    items: tuple[Step, ...] = ()

    def via(self, model: ModelLike, **keys: Unpack[ModelKeys]) -> Layer:
        """The model of the units inside that set none."""
        return self._via(model, dict(keys))

    def written(self, path: StepPath, functions: Functions) -> dict[str, Any]:
        """`{layer: […], repeat: …}`."""
        return {"layer": place_step(self.items, (*path, "layer"), functions), **super().written(path, functions)}

    def __repr__(self) -> str:
        keys = "".join(f", {name}={value!r}" for name, value in self._keys.items())
        return f"Layer([{', '.join(map(repr, self.items))}]{keys})"


class Written(Step):
    """A step as a pipeline file wrote it."""

    def __init__(self, keys: Mapping[str, Any]) -> None:
        object.__setattr__(self, "_keys", keys)

    def __repr__(self) -> str:
        kind = next(iter(self._keys))
        return f"{kind}: {self._keys[kind] if isinstance(self._keys[kind], str) else '…'}"


def step(value: Any, what: str) -> Step:
    """The value, when it is a step. UsageError begins with `what`."""
    if isinstance(value, type) and issubclass(value, Step):
        raise UsageError(f"{what} units, not their class", hint=f"write `{value.__name__}()`")
    if not isinstance(value, Step):
        raise UsageError(f"{what} units, layers and blocks, not {value!r:.80}")
    return value


def listed(values: Any, what: str) -> tuple[Step, ...]:
    """One step or several as a tuple. UsageError begins with `what`."""
    items = [values] if isinstance(values, Step) or not isinstance(values, Sequence) else list(values)
    if not items:
        raise UsageError(f"{what} at least one unit, layer or block")
    return tuple(step(value, what) for value in items)


def chain(value: Step) -> tuple[Step, ...]:
    """The steps of a block that says nothing about them, else the step alone."""
    return value.steps if isinstance(value, Block) and not value._keys else (value,)


def place_step(steps: Sequence[Step], path: StepPath, functions: Functions) -> list[dict[str, Any]]:
    """The steps as a pipeline file writes them below `path`."""
    return [each.written((*path, place), functions) for place, each in enumerate(steps)]
