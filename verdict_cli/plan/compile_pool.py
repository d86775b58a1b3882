"""Compile a unit that calls no model: a map's expressions, the fields of a pool, the criteria of a rubric."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

from msgspec import Struct

from verdict_cli.errors import ReplyError, RowError
from verdict_cli.language.calibrations import CalibrationFile, Fitted, PoolWeights
from verdict_cli.language.expressions.expression import Expression
from verdict_cli.language.expressions.paths import RowValues
from verdict_cli.language.fields.types import (
    NUMBER,
    TEXT,
    FieldType,
    MassType,
    PlainType,
    RecordType,
    ScaleType,
    UnknownType,
    Values,
    number_bounds,
    without_null,
)
from verdict_cli.language.scales import Scale
from verdict_cli.language.units.pools import MapUnit, Pool, RubricPoolUnit
from verdict_cli.messages import NamedValues
from verdict_cli.plan.compile_context import (
    PROMPT_ROOTS,
    CompileContext,
    CompiledUnit,
    compile_output,
    compile_output_function,
    fields_are_known,
)
from verdict_cli.plan.node import MapNode, PoolNode, pooled_field
from verdict_cli.plan.scope import Upstream
from verdict_cli.plural import plural

_MAP_ROOTS = (*PROMPT_ROOTS, "outputs")


def compile_without_model(context: CompileContext) -> CompiledUnit | None:
    """What a unit does that calls no model; None, and reported, when its output cannot be known."""
    unit = context.instance.unit
    if isinstance(unit, MapUnit):
        return _compile_map(context, unit)
    assert isinstance(unit, Pool)
    compiled = _compile_pool(context, unit)
    if compiled is not None:
        _check_empty(context, unit, compiled.output)
    return compiled


def _compile_map(context: CompileContext, unit: MapUnit) -> CompiledUnit:
    """The map's expressions or function; a field whose expression cannot be compiled has an unknown type."""
    function = compile_output_function(context, "map", context.scope)
    if function is not None:
        return CompiledUnit(MapNode(unit, function), function.output_fields, function.output_fields)
    fields, output = compile_output(context.scope, unit.expressions, _MAP_ROOTS, "map")
    return CompiledUnit(MapNode(unit, fields), output, output)


def _compile_pool(context: CompileContext, unit: Pool) -> CompiledUnit | None:
    """The pooled fields, each with the function that turns a parent's value into a number."""
    parents = context.scope.parent_units()
    context.scope.uses.units.update(context.scope.parents)
    if not parents:
        hint = "put it behind a layer of judges"
        context.problem("nothing-to-pool", f"a {unit.type_name} needs units before it", hint)
        return None
    if isinstance(unit, RubricPoolUnit):
        return _compile_rubric_pool(context, unit, parents)
    is_behind_each = any(context.scope.depth(parent) for parent in parents)
    if not is_behind_each and unit.quorum > len(parents):
        counted = plural(len(parents), "unit is|units are")
        message = f"`quorum: {unit.quorum}` can never be met: {counted} pooled, so every row fails"
        context.place.warn(message, f"`quorum: {len(parents)}` needs all of them", "quorum")
    weights = None
    if unit.pool_weights() is not None:
        weights = _weights(context, unit, len(parents), is_behind_each=is_behind_each)
        if weights is None:
            return None
    names = _fields(context, unit, parents)
    if names is None:
        return None
    for extra_field in set(unit.extra_field_names()) & set(names):
        message = f"the units before it give a field {extra_field!r}, which it gives itself"
        hint = "name the field to pool: `field:`"
        context.problem("field-used-twice", message, hint, extra_field)
        return None
    kinds = {name: _kinds(name, parents) for name in names}
    if unit.numbers:
        for name in names:
            _warn_of_mixed_scales(context, name, parents, kinds[name])
    pooled = RecordType({name: _type(unit, kinds[name]) for name in names})
    fields = tuple((name, tuple(_number(unit, kind) for kind in kinds[name])) for name in names)
    return CompiledUnit(PoolNode(unit, fields, weights), pooled, unit.output_fields(pooled))


def _check_empty(context: CompileContext, unit: Pool, output: RecordType) -> None:
    """Report a value of `empty` for a field that the pool does not give, or of another kind where it gives numbers."""
    values = unit.empty if isinstance(unit.empty, Mapping) else {None: unit.empty}
    for name, value in values.items():
        path = ("empty",) if name is None else ("empty", name)
        if name is not None and name not in output.fields:
            hint = f"it gives {', '.join(output.fields)}"
            context.problem("unknown-field", f"the pool gives no {name!r}", hint, *path, key=True)
        elif unit.numbers and value is not None and not isinstance(value, Mapping):
            try:
                NUMBER.read(value)
            except ReplyError as error:
                hint = "the pool gives numbers: write one, such as `empty: 0`"
                context.problem("no-number", error.message, hint, *path)


def _kinds(name: str, parents: Sequence[Upstream]) -> list[FieldType]:
    """The field's type in each of the outputs."""
    return [parent.output.kind_of(name) or UnknownType() for parent in parents]


def _weights(
    context: CompileContext, unit: Pool, count: int, *, is_behind_each: bool
) -> tuple[float, ...] | None:
    """A weight for each of so many units; None, and reported, where the pool's weights do not fit."""
    weights = unit.pool_weights()
    if isinstance(weights, CalibrationFile | Fitted):
        fitted = context.fitted(weights, PoolWeights, "weights")
        weights = None if fitted is None else fitted.weights
    if weights is None:
        return None
    total = sum(weights)
    message = f"{len(weights)} weights for {count} units"
    hint = "give one weight for each unit that is pooled, in order of definition"
    if len(weights) == count and not is_behind_each:
        if total != 0 and math.isfinite(total):
            return weights
        message = f"the weights add up to {total:g}"
        hint = "give weights with a sum that is a number, and not 0"
    elif is_behind_each:
        message = "how many units a pool behind `each` gets depends on the row, and it has a fixed number of weights"
        hint = "leave `weights` out, or multiply in a MapUnit"
    context.problem("bad-weights", message, hint, "weights")
    return None


def _warn_of_mixed_scales(
    context: CompileContext, name: str, parents: Sequence[Upstream], kinds: Sequence[FieldType]
) -> None:
    """Warns where the best grade of one unit is another number than the best grade of another."""
    scales: dict[tuple[Any, ...], str] = {}
    for parent, kind in zip(parents, map(without_null, kinds), strict=True):
        if isinstance(kind, ScaleType) and (bounds := kind.scale.bounds()) is not None:
            reverse = getattr(kind.scale, "end_is_worst", False)
            text = f"{parent.id}.{name} is on {bounds[0]:g} to {bounds[1]:g}{' (the end is the worst)' if reverse else ''}"
            scales.setdefault((bounds, reverse), text)
    if len(scales) > 1:
        hint = "`propagate: {score: (output.score - 1) / 4}` on a unit brings its grades to 0 to 1"
        context.place.warn(f"the pool mixes scales: {', '.join(scales.values())}", hint)


def _fields(
    context: CompileContext, unit: Pool, parents: Sequence[Upstream]
) -> tuple[str, ...] | None:
    """The names of the pooled fields; None, and reported, when a parent lacks one."""
    field_names = unit.field_names()
    if field_names is not None:
        key = "field" if unit.field is not None else "fields"
        fits = partial(_may_be_pooled, unit)
        has_fields = _find_fields(
            context, field_names, parents, fits, " and has no number", _WAYS_OUT, key
        )
        return field_names if has_fields else None
    common = _common_fields(context, parents)
    if common is None:
        return None
    names = tuple(
        name
        for name in common
        if all(_poolable(unit, parent.output.fields[name]) for parent in parents)
    )
    if not names:
        message = f"no field of {', '.join(parent.id for parent in parents[:4])} can be pooled"
        hint = _WAYS_OUT if common else "the units that are pooled need a field in common"
        context.problem("nothing-to-pool", message, hint)
    return names or None


def _common_fields(context: CompileContext, parents: Sequence[Upstream]) -> list[str] | None:
    """The fields that every parent gives; None, and reported, where those of one are not known."""
    if not fields_are_known(context, parents):
        return None
    first, *more_fields = [parent.output.fields for parent in parents]
    return [name for name in first if all(name in fields for fields in more_fields)]


def _find_fields(
    context: CompileContext,
    names: Sequence[str],
    parents: Sequence[Upstream],
    fits: Callable[[FieldType], bool],
    lack: str,
    hint: str,
    key: str,
) -> bool:
    """Whether each parent gives these fields with types that fit; reports the first that does not."""
    for name, parent in product(names, parents):
        kind = parent.output.kind_of(name)
        if kind is None:
            field_list = f"it gives {', '.join(parent.output.fields)}"
            context.problem("unknown-field", f"{parent.id} gives no {name!r}", field_list, key)
            return False
        if not fits(kind):
            message = f"{parent.id}.{name} is of type {kind.type_name()}{lack}"
            context.problem("no-number", message, hint, key)
            return False
    return True


_WAYS_OUT = "give the scale `scores:`, or use a ModePoolUnit"


def _may_be_pooled(unit: Pool, kind: FieldType) -> bool:
    return not unit.numbers or kind.numeric() is not False


def _poolable(unit: Pool, kind: FieldType) -> bool:
    """Whether a field is pooled that is not named."""
    if isinstance(kind, MassType):
        return False
    if unit.numbers:
        return kind.numeric() is not False
    kind = without_null(kind)
    is_word = isinstance(kind, PlainType) and kind != TEXT
    return is_word or isinstance(kind, ScaleType | UnknownType)


def _type(unit: Pool, kinds: Sequence[FieldType]) -> FieldType:
    """The type of the values that are pooled: numbers where scores stand for a scale's words."""
    is_one = all(kind == kinds[0] for kind in kinds)
    if is_one and not _scored(unit, kinds[0]):
        return kinds[0]
    return NUMBER if unit.numbers else UnknownType()


def _number(unit: Pool, kind: FieldType) -> Callable[[Any], Any]:
    """A scale's scores stand for its words; every other value is pooled as it is."""
    if not _scored(unit, kind):
        return _same
    scaled = without_null(kind)
    assert isinstance(scaled, ScaleType)
    return _ScoreOf(scaled.scale)


class _ScoreOf(Struct, frozen=True):
    """The score of a scale's value, None for null. Equal for equal scales."""

    scale: Scale

    def __call__(self, value: Any) -> float | None:
        return None if value is None else self.scale.number(value)


def _scored(unit: Pool, kind: FieldType) -> bool:
    kind = without_null(kind)
    return unit.numbers and isinstance(kind, ScaleType) and kind.scale.has_scores


def _same(value: Any) -> Any:
    return value


_SHARE_HINT = "use `scale: boolean`, or a scale with `scores:` from 0 to 1"


class RubricPooling(Struct, frozen=True):
    """What a rubric pools: the field of each criterion's output, its number, and the expression for the points."""

    unit: RubricPoolUnit
    points: Expression
    field: str
    number: Callable[[Any], Any]

    def __call__(
        self,
        outputs: Sequence[NamedValues | None],
        names: Sequence[RowValues],
        source: RowValues,
    ) -> Values:
        """The pool's output from each criterion's output, None where there is none, and the names beside it."""
        judged = sum(output is not None for output in outputs)
        if judged < self.unit.quorum > 1:
            message = f"{judged} of {len(outputs)} criteria have a judgement, the quorum is {self.unit.quorum}"
            raise RowError(message, kind="quorum")
        points, met = [], []
        for output, entry in zip(outputs, names, strict=True):
            number = entry["index"]
            value = None if output is None else pooled_field(output, self.field)
            if value is None and self.unit.on_missing == "ignore":
                continue
            if value is None and self.unit.on_missing == "fail":
                hint = "`on_missing: zero` counts it as not met, `on_missing: ignore` leaves it out"
                raise RowError(
                    f"criterion {number} has no {self.field!r}", hint=hint, kind="missing-value"
                )
            points.append(self._worth({**entry, "source": source}, number))
            met.append(0.0 if value is None else self._share(value, number))
        return self.unit.grade(points, met)

    def _worth(self, values: RowValues, number: int) -> float:
        worth = self.points(values)
        if (
            isinstance(worth, bool)
            or not isinstance(worth, int | float)
            or not math.isfinite(worth)
        ):
            raise RowError(
                f"`{self.points.text}` of criterion {number} is {worth!r:.80}, not a number",
                kind="no-number",
            )
        return float(worth)

    def _share(self, value: Any, number: int) -> float:
        share = self.number(value)
        if not isinstance(share, int | float) or not 0 <= share <= 1:
            message = f"{self.field!r} of criterion {number} is {value!r:.80}, neither a boolean nor a number from 0 to 1"
            raise RowError(message, hint=_SHARE_HINT, kind="no-number")
        return float(share)


def _compile_rubric_pool(
    context: CompileContext, unit: RubricPoolUnit, parents: Sequence[Upstream]
) -> CompiledUnit | None:
    """The pool with its field and its points."""
    name = _met_field(context, unit, parents)
    scope = context.scope.behind()
    points = scope.expression(unit.points, ("source",), "points")
    if name is None or points is None:
        return None
    if points.type.numeric() is False:
        message = f"`{unit.points}` is of type {points.type.type_name()}"
        hint = "points are numbers, such as `criterion.points`"
        context.problem("no-number", message, hint, "points")
        return None
    kinds = _kinds(name, parents)
    number = _number(unit, kinds[0])
    other_kind = next((kind for kind in kinds if _number(unit, kind) != number), None)
    if other_kind is not None:
        message = f"{name!r} is of type {kinds[0].type_name()} here and of type {other_kind.type_name()} there"
        context.problem("bad-field", message, "give all criteria one scale", "field")
        return None
    pooled = RecordType({name: kinds[0]})
    rubric = RubricPooling(unit, points, name, number)
    return CompiledUnit(PoolNode(unit, (), None, rubric), pooled, unit.output_fields(pooled))


def _met_field(
    context: CompileContext, unit: RubricPoolUnit, parents: Sequence[Upstream]
) -> str | None:
    """The field that says whether a criterion is met; None, and reported, where none or several could."""
    if unit.field is not None:
        lack = ", not a boolean or from 0 to 1"
        has_field = _find_fields(
            context, [unit.field], parents, _may_be_share, lack, _SHARE_HINT, "field"
        )
        return unit.field if has_field else None
    common = _common_fields(context, parents)
    if common is None:
        return None
    for fits in (_is_share, _may_be_share):
        names = [
            name for name in common if all(fits(parent.output.fields[name]) for parent in parents)
        ]
        if len(names) == 1:
            return names[0]
        if names:
            message = f"several fields could say whether a criterion is met: {', '.join(names)}"
            context.problem("nothing-to-pool", message, f"name one: `field: {names[0]}`")
            return None
    message = f"no field of {', '.join(parent.id for parent in parents[:4])} is a boolean or a number from 0 to 1"
    context.problem("nothing-to-pool", message, _SHARE_HINT)
    return None


def _is_share(kind: FieldType) -> bool:
    """Whether every value is a boolean or a number from 0 to 1."""
    kind = without_null(kind)
    bounds = number_bounds(kind) if kind.numeric() is not False else None
    return bounds is not None and bounds[0] >= 0 and bounds[1] <= 1


def _may_be_share(kind: FieldType) -> bool:
    """Whether a value may be one, which is checked for each."""
    plain = without_null(kind)
    return _is_share(kind) or plain == NUMBER or isinstance(plain, UnknownType)
