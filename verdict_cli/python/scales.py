"""The scales of the language (language.md, section 3) as Python values; `str(scale)` is what a prompt shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from verdict_cli.errors import UsageError
from verdict_cli.language.authoring.arguments import validate_kwargs
from verdict_cli.language.scales.boolean import Boolean
from verdict_cli.language.scales.continuous import Continuous
from verdict_cli.language.scales.discrete import Discrete


class Scale:
    """The domain of a judge's values."""

    __slots__ = ("_keys", "_shown")

    _keys: Mapping[str, Any]
    _shown: str

    def __init__(self, kind: type[Boolean | Discrete | Continuous], keys: Mapping[str, Any]) -> None:
        given = {name: value for name, value in keys.items() if value is not None and value is not False}
        made = validate_kwargs(kind, type(self).__name__, given)
        trouble = made.problem()
        if trouble:
            key, message, hint = trouble
            raise UsageError(f"{type(self).__name__}: {key + ': ' if key else ''}{message}", hint=hint)
        object.__setattr__(self, "_keys", {"type": made.type, **given})
        object.__setattr__(self, "_shown", made.display())

    def key(self) -> dict[str, Any]:
        """The scale as a pipeline file writes it."""
        return dict(self._keys)

    def __setattr__(self, name: str, value: Any) -> None:
        raise UsageError(f"{name!r} cannot be set: a scale is immutable", hint="make a new one")

    def __str__(self) -> str:
        return self._shown

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._shown})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scale) and self._keys == other._keys

    def __hash__(self) -> int:
        return hash(repr(self._keys))

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self._keys, self._shown)


class DiscreteScale(Scale):
    """A tuple is a range with both ends and optionally a step, `(1, 5)`, `("a", "e")`, `(0, 1, 0.25)`; a list
    holds the values themselves, worst first. `scores` gives each value a number."""

    __slots__ = ()

    def __init__(
        self, values: Sequence[Any], *, scores: Mapping[Any, float] | None = None, end_is_worst: bool = False
    ) -> None:
        if isinstance(values, str) or not isinstance(values, Sequence):
            hint = "a range `DiscreteScale((1, 5))`, or the values `DiscreteScale(['A', 'B'])`"
            raise UsageError(f"DiscreteScale takes a tuple or a list, not {values!r:.80}", hint=hint)
        spelled = {"range" if isinstance(values, tuple) else "values": list(values)}
        super().__init__(
            Discrete, {**spelled, "scores": None if scores is None else dict(scores), "end_is_worst": end_is_worst}
        )


class BooleanScale(Scale):
    """Yes or no; `yes` and `no` set the tokens that mean them, the one to ask for first."""

    __slots__ = ()

    def __init__(
        self, *, yes: Sequence[str] | None = None, no: Sequence[str] | None = None, end_is_worst: bool = False
    ) -> None:
        tokens = {"yes": None if yes is None else list(yes), "no": None if no is None else list(no)}
        super().__init__(Boolean, {**tokens, "end_is_worst": end_is_worst})


class ContinuousScale(Scale):
    """Every number from `min` to `max`, both included."""

    __slots__ = ()

    def __init__(self, min: float = 0.0, max: float = 1.0, *, end_is_worst: bool = False) -> None:  # noqa: A002
        super().__init__(Continuous, {"min": min, "max": max, "end_is_worst": end_is_worst})


class LikertScale(Scale):
    """The integers from 1 to 5."""

    __slots__ = ()

    def __init__(self, *, end_is_worst: bool = False) -> None:
        super().__init__(Discrete, {"range": [1, 5], "end_is_worst": end_is_worst})


def _restored(kind: type[Scale], keys: dict[str, Any], shown: str) -> Scale:
    made = kind.__new__(kind)
    object.__setattr__(made, "_keys", keys)
    object.__setattr__(made, "_shown", shown)
    return made
