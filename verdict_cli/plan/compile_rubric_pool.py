"""Compile a `RubricPoolUnit`: which field says whether a criterion is met, and what its points are."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from verdict_cli.errors import RowError
from verdict_cli.language.expressions.expression import Expression
from verdict_cli.language.fields.types import (
    INTEGER,
    NUMBER,
    TRUTH,
    FieldType,
    RecordType,
    ScaleType,
    UnknownType,
    without_null,
)
from verdict_cli.language.units.rubric_pool import RubricPoolUnit
from verdict_cli.plan.compile_context import CompileContext, CompiledUnit, fields_are_known
from verdict_cli.plan.node import PoolNode, pooled_field
from verdict_cli.plan.scope import Upstream

_WAYS_OUT = "use `scale: boolean`, or a scale with `scores:` from 0 to 1"


@dataclass(frozen=True)
class RubricPooling:
    """What a rubric pools: the field of each criterion's output, its number, and the expression for the points."""

    unit: RubricPoolUnit
    points: Expression
    field: str
    number: Callable[[Any], Any]

    def __call__(
        self, outputs: Sequence[Mapping[str, Any] | None], names: Sequence[Mapping[str, Any]], source: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The pool's output from each criterion's output, None where there is none, and the names beside it."""
        judged = sum(output is not None for output in outputs)
        if judged < self.unit.quorum > 1:
            message = f"{judged} of {len(outputs)} criteria have a judgement, the quorum is {self.unit.quorum}"
            raise RowError(message, kind="quorum")
        points, met = [], []
        for output, entry in zip(outputs, names, strict=True):
            place = entry["index"]
            value = None if output is None else pooled_field(output, self.field)
            if value is None and self.unit.on_missing == "ignore":
                continue
            if value is None and self.unit.on_missing == "fail":
                hint = "`on_missing: zero` counts it as not met, `on_missing: ignore` leaves it out"
                raise RowError(f"criterion {place} has no {self.field!r}", hint=hint, kind="missing-value")
            points.append(self._worth({**entry, "source": source}, place))
            met.append(0.0 if value is None else self._share(value, place))
        return self.unit.grade(points, met)

    def _worth(self, values: Mapping[str, Any], place: int) -> float:
        worth = self.points(values)
        if isinstance(worth, bool) or not isinstance(worth, int | float) or not math.isfinite(worth):
            raise RowError(
                f"`{self.points.text}` of criterion {place} is {worth!r:.80}, not a number", kind="no-number"
            )
        return float(worth)

    def _share(self, value: Any, place: int) -> float:
        share = self.number(value)
        if not isinstance(share, int | float) or not 0 <= share <= 1:
            message = (
                f"{self.field!r} of criterion {place} is {value!r:.80}, neither a boolean nor a number from 0 to 1"
            )
            raise RowError(message, hint=_WAYS_OUT, kind="no-number")
        return float(share)


def compile_rubric_pool(
    context: CompileContext, unit: RubricPoolUnit, parents: Sequence[Upstream], number: Callable[[FieldType], Any]
) -> CompiledUnit | None:
    """The pool with its field and its points. `number` gives the function from a type's value to its number."""
    name = _met_field(context, unit, parents)
    scope = context.scope.behind()
    scope = replace(scope, entries={**context.scope.entries, **scope.entries, "index": INTEGER})
    points = context.expression(unit.points, ("source",), scope, "points")
    if name is None or points is None:
        return None
    if points.type.numeric() is False:
        message = f"`{unit.points}` is of type {points.type.type_name()}"
        context.problem("no-number", message, "points are numbers, such as `criterion.points`", "points")
        return None
    kinds = [parent.output.kind_of(name) or UnknownType() for parent in parents]
    other = next((kind for kind in kinds if number(kind) != number(kinds[0])), None)
    if other is not None:
        message = f"{name!r} is of type {kinds[0].type_name()} here and of type {other.type_name()} there"
        context.problem("bad-field", message, "give all criteria one scale", "field")
        return None
    pooled = RecordType({name: kinds[0]})
    rubric = RubricPooling(unit, points, name, number(kinds[0]))
    return CompiledUnit(PoolNode(unit, (), None, rubric), pooled, unit.output_fields(pooled))


def _met_field(context: CompileContext, unit: RubricPoolUnit, parents: Sequence[Upstream]) -> str | None:
    """The field that says whether a criterion is met; None, and reported, where none or several could."""
    given = parents[0].output.fields
    if unit.field is not None:
        for parent in parents:
            kind = parent.output.kind_of(unit.field)
            if kind is None:
                hint = f"it gives {', '.join(parent.output.fields)}"
                context.problem("unknown-field", f"{parent.id} gives no {unit.field!r}", hint, "field")
                return None
            if not (_is_share(kind) or _may_be_share(kind)):
                message = f"{parent.id}.{unit.field} is of type {kind.type_name()}, not a boolean or from 0 to 1"
                context.problem("no-number", message, _WAYS_OUT, "field")
                return None
        return unit.field
    if not fields_are_known(context, parents):
        return None
    common = [name for name in given if all(name in parent.output.fields for parent in parents)]
    for fits in (_is_share, _may_be_share):
        names = [name for name in common if all(fits(parent.output.fields[name]) for parent in parents)]
        if len(names) == 1:
            return names[0]
        if names:
            message = f"several fields could say whether a criterion is met: {', '.join(names)}"
            context.problem("nothing-to-pool", message, f"name one: `field: {names[0]}`")
            return None
    message = f"no field of {', '.join(parent.id for parent in parents[:4])} is a boolean or a number from 0 to 1"
    context.problem("nothing-to-pool", message, _WAYS_OUT)
    return None


def _is_share(kind: FieldType) -> bool:
    """Whether every value is a boolean or a number from 0 to 1."""
    kind = without_null(kind)
    if not isinstance(kind, ScaleType):
        return kind == TRUTH
    bounds = kind.scale.bounds() if kind.numeric() else None
    return bounds is not None and bounds[0] >= 0 and bounds[1] <= 1


def _may_be_share(kind: FieldType) -> bool:
    """Whether a value may be one, which is checked for each."""
    kind = without_null(kind)
    return kind == NUMBER or isinstance(kind, UnknownType)
