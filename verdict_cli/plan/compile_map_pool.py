"""Compile a unit that calls no model: a map's expressions, a pool's fields."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from verdict_cli.language.calibrations import CalibrationFile, Fitted
from verdict_cli.language.fields.types import (
    NUMBER,
    TEXT,
    FieldType,
    MassType,
    PlainType,
    RecordType,
    ScaleType,
    UnknownType,
    without_null,
)
from verdict_cli.language.scales import Scale
from verdict_cli.language.units.map import MapUnit
from verdict_cli.language.units.pools import Pool
from verdict_cli.language.units.rubric_pool import RubricPoolUnit
from verdict_cli.plan.compile_context import PROMPT_ROOTS, CompileContext, CompiledUnit, fields_are_known
from verdict_cli.plan.compile_python import code_at, compile_output_function
from verdict_cli.plan.compile_rubric_pool import compile_rubric_pool
from verdict_cli.plan.node import MapNode, OutputFields, PoolNode
from verdict_cli.plan.scope import Upstream

_MAP_ROOTS = (*PROMPT_ROOTS, "outputs")


def compile_map(context: CompileContext, unit: MapUnit) -> CompiledUnit:
    """The map's expressions or function; a field whose expression cannot be compiled has an unknown type."""
    code = code_at(context, "map")
    if code is not None:
        function = compile_output_function(context, code, context.scope, "map")
        return CompiledUnit(MapNode(unit, function), function.output_fields, function.output_fields)
    expressions = {
        name: context.expression(text, _MAP_ROOTS, context.scope, "map", name)
        for name, text in unit.expressions.items()
    }
    compiled = tuple((name, expression) for name, expression in expressions.items() if expression is not None)
    output = RecordType(
        {name: expression.type if expression is not None else UnknownType() for name, expression in expressions.items()}
    )
    return CompiledUnit(
        MapNode(unit, OutputFields(compiled)) if len(compiled) == len(expressions) else None, output, output
    )


def compile_pool(context: CompileContext, unit: Pool) -> CompiledUnit | None:
    """The pooled fields, each with the function that turns a parent's value into a number."""
    parents = [context.scope.upstream[index] for index in context.scope.parents]
    context.scope.uses.units.update(context.scope.parents)
    if not parents:
        hint = "put it behind a layer of judges"
        context.problem("nothing-to-pool", f"a {unit.type_name} needs units before it", hint)
        return None
    if isinstance(unit, RubricPoolUnit):
        return compile_rubric_pool(context, unit, parents, lambda kind: _number(unit, kind))
    weights = unit.pool_weights()
    if isinstance(weights, CalibrationFile | Fitted):
        from verdict_cli.language.calibrations import PoolWeights  # here, because few pools have fitted weights

        fitted = context.fitted(weights, PoolWeights, "weights")
        if fitted is None:
            return None
        weights = fitted.weights
    if weights is not None and any(context.scope.depth(parent) for parent in parents):
        message = "how many units a pool behind `each` gets depends on the row, and it has a fixed number of weights"
        context.problem("bad-weights", message, "leave `weights` out, or multiply in a MapUnit", "weights")
        return None
    if weights is not None and len(weights) != len(parents):
        message = f"{len(weights)} weights for {len(parents)} units"
        hint = "give one weight for each unit that is pooled, in order of definition"
        context.problem("bad-weights", message, hint, "weights")
        return None
    names = _fields(context, unit, parents)
    if names is None:
        return None
    for extra_field in set(unit.extra_field_names()) & set(names):
        message = f"the units before it give a field {extra_field!r}, which it gives itself"
        context.problem("field-used-twice", message, "name the field to pool: `field:`", extra_field)
        return None
    types_by_field = {name: [parent.output.kind_of(name) or UnknownType() for parent in parents] for name in names}
    for name, kinds in types_by_field.items() if unit.numbers else ():
        _warn_of_mixed_scales(context, name, parents, kinds)
    pooled = RecordType({name: _type(unit, types) for name, types in types_by_field.items()})
    fields = tuple((name, tuple(_number(unit, kind) for kind in types)) for name, types in types_by_field.items())
    return CompiledUnit(PoolNode(unit, fields, weights), pooled, unit.output_fields(pooled))


def _warn_of_mixed_scales(
    context: CompileContext, name: str, parents: Sequence[Upstream], kinds: Sequence[FieldType]
) -> None:
    """Warns where the best grade of one unit is another number than the best grade of another."""
    scales: dict[tuple[Any, ...], str] = {}
    for parent, kind in zip(parents, map(without_null, kinds), strict=True):
        if isinstance(kind, ScaleType) and (bounds := kind.scale.bounds()) is not None:
            reverse = getattr(kind.scale, "end_is_worst", False)
            text = (
                f"{parent.id}.{name} is on {bounds[0]:g} to {bounds[1]:g}{' (the end is the worst)' if reverse else ''}"
            )
            scales.setdefault((bounds, reverse), text)
    if len(scales) > 1:
        hint = "`propagate: {score: (output.score - 1) / 4}` on a unit brings its grades to 0 to 1"
        context.warn(f"the pool mixes scales: {', '.join(scales.values())}", hint, context.instance.path)


def _fields(context: CompileContext, unit: Pool, parents: Sequence[Upstream]) -> tuple[str, ...] | None:
    """The names of the pooled fields; None, and reported, when a parent lacks one."""
    named = unit.field_names()
    if named is None:
        return _all_poolable(context, unit, parents)
    at = ("field",) if unit.field is not None else ("fields",)
    for name in named:
        for parent in parents:
            kind = parent.output.kind_of(name)
            if kind is None:
                hint = f"it gives {', '.join(parent.output.fields)}"
                context.problem("unknown-field", f"{parent.id} gives no {name!r}", hint, *at)
                return None
            if unit.numbers and kind.numeric() is False:
                message = f"{parent.id}.{name} is of type {kind.type_name()} and has no number"
                context.problem("no-number", message, _WAYS_OUT, *at)
                return None
    return named


def _all_poolable(context: CompileContext, unit: Pool, parents: Sequence[Upstream]) -> tuple[str, ...] | None:
    if not fields_are_known(context, parents):
        return None
    common = [name for name in parents[0].output.fields if all(name in parent.output.fields for parent in parents)]
    names = tuple(name for name in common if all(_poolable(unit, parent.output.fields[name]) for parent in parents))
    names = tuple(name for name in names if not isinstance(parents[0].output.fields[name], MassType))
    if not names:
        message = f"no field of {', '.join(parent.id for parent in parents[:4])} can be pooled"
        hint = _WAYS_OUT if common else "the units that are pooled need a field in common"
        context.problem("nothing-to-pool", message, hint)
    return names or None


_WAYS_OUT = "give the scale `scores:`, or use a ModePoolUnit"


def _poolable(unit: Pool, kind: FieldType) -> bool:
    if unit.numbers:
        return kind.numeric() is not False
    kind = without_null(kind)
    return isinstance(kind, ScaleType | UnknownType) or (isinstance(kind, PlainType) and kind != TEXT)


def _type(unit: Pool, kinds: Sequence[FieldType]) -> FieldType:
    """The type of the values that are pooled: numbers where scores stand for a scale's words."""
    if any(_scored(unit, kind) for kind in kinds):
        return NUMBER
    return kinds[0] if all(kind == kinds[0] for kind in kinds) else NUMBER if unit.numbers else UnknownType()


def _number(unit: Pool, kind: FieldType) -> Callable[[Any], Any]:
    """A scale's scores stand for its words; every other value is pooled as it is."""
    if not _scored(unit, kind):
        return _same
    scaled = without_null(kind)
    assert isinstance(scaled, ScaleType)
    return _ScoreOf(scaled.scale)


@dataclass(frozen=True)
class _ScoreOf:
    """The score of a scale's value, None for null. Equal for equal scales."""

    scale: Scale

    def __call__(self, value: Any) -> float | None:
        return None if value is None else self.scale.number(value)


def _scored(unit: Pool, kind: FieldType) -> bool:
    kind = without_null(kind)
    return unit.numbers and isinstance(kind, ScaleType) and kind.scale.has_scores


def _same(value: Any) -> Any:
    return value
