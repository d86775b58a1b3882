"""The units of the language in Python: each class is made from the one that reads the type's keys from a file.

Editors read the names below; one that is missing there works all the same, without completion.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Unpack

from verdict_cli.errors import UsageError
from verdict_cli.language.authoring.arguments import CommonKeys
from verdict_cli.language.authoring.functions import MAP_NAMES, function
from verdict_cli.language.authoring.schema import Keys
from verdict_cli.language.authoring.unit_step import LLMUnitStep, UnitStep
from verdict_cli.language.units import TYPES
from verdict_cli.language.units.base import UnitBase

if TYPE_CHECKING:

    class Unit(LLMUnitStep): ...

    class JudgeUnit(LLMUnitStep): ...

    class CategoricalJudgeUnit(LLMUnitStep): ...

    class PairwiseJudgeUnit(LLMUnitStep): ...

    class BestOfKJudgeUnit(LLMUnitStep): ...

    class RankerUnit(LLMUnitStep): ...

    class CoTUnit(LLMUnitStep): ...

    class ConversationalUnit(LLMUnitStep): ...

    class DebateUnit(ConversationalUnit): ...

    class ArgumentUnit(LLMUnitStep): ...

    class RubricUnit(LLMUnitStep): ...

    class MeanPoolUnit(UnitStep): ...

    class ModePoolUnit(UnitStep): ...

    class MedianPoolUnit(UnitStep): ...

    class MedianFilterUnit(MedianPoolUnit): ...

    class MaxPoolUnit(UnitStep): ...

    class MinPoolUnit(UnitStep): ...

    class MeanVariancePoolUnit(UnitStep): ...

    class RubricPoolUnit(UnitStep): ...


class MapUnit(UnitStep):
    """Computes its fields from `outputs`, the list of its dependencies' outputs in order of definition."""

    unit_type = "MapUnit"

    def __init__(
        self,
        map: Callable[..., Any] | Mapping[str, str] | None = None,  # noqa: A002
        *,
        fields: Keys | Sequence[str] | None = None,
        **keys: Unpack[CommonKeys],
    ) -> None:
        """Take expressions by field, or a function of any of `outputs`, `input`, `previous`, `source`, `unit` by parameter
        name that returns a Schema or a mapping. A first parameter of another name takes `outputs`. `fields` declares the
        function's fields where a trial with made-up values cannot show them."""
        if map is None:
            raise UsageError(
                "MapUnit takes a function or expressions",
                hint="`MapUnit(lambda outputs: Schema.of(…))`",
            )
        if isinstance(map, Mapping):
            super().__init__(map, **keys)
            return
        # The function replaces this expression, which only makes the step valid.
        super().__init__({"value": "outputs"}, **keys)
        functions = {"map": function(map, "MapUnit", MAP_NAMES, fields, first="outputs")}
        object.__setattr__(self, "_functions", functions)


def unit_class(name: str) -> type[UnitStep] | None:
    """The Python class of a type of the language, None where there is none."""
    if name == "MapUnit":
        return MapUnit
    return _class_of(TYPES[name]) if name in TYPES else None


@cache
def _class_of(kind: type[UnitBase]) -> type[UnitStep]:
    base: type[UnitStep] = LLMUnitStep if kind.calls_model else UnitStep
    parent = kind.__mro__[1]
    if issubclass(parent, UnitBase) and "unit" in parent.model_fields:
        base = _class_of(parent)
    attributes = {"unit_type": kind.__name__, "__doc__": kind.__doc__, "__module__": __name__}
    return type(kind.__name__, (base,), attributes)


def __getattr__(name: str) -> Any:
    if (kind := unit_class(name)) is not None:
        return kind
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
