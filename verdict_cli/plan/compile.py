"""From a seat to a node: everything that a unit says is compiled and checked against what stands before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from verdict_cli.expressions import Expression, ExpressionError, Resolve, compile_expression
from verdict_cli.extractors import Extractor, Reading, extractor
from verdict_cli.fields import TEXT, FieldType, OnScale, Plain, Record, Unknown, field_type, fits
from verdict_cli.plan.inputs import cast
from verdict_cli.plan.node import Asked, Cast, Mapped, Node, Pooled
from verdict_cli.plan.scope import Scope, Upstream
from verdict_cli.plan.seats import Path, Seat
from verdict_cli.scales import Scale
from verdict_cli.spec.namespace import UnknownNameError
from verdict_cli.templates import Prompt, compile_jinja, compile_prompt
from verdict_cli.units import Asking, Choosing, Common, MapUnit, Pool

_PROMPT_ROOTS = ("source", "previous", "input", "unit")
_MAP_ROOTS = (*_PROMPT_ROOTS, "outputs")
_RULE_ROOTS = (*_PROMPT_ROOTS, "response")
_OUTPUT_ROOTS = (*_PROMPT_ROOTS, "response", "output")


@dataclass
class Bench:
    """One seat at work: where its problems are told, and the scope in which its paths are resolved."""

    seat: Seat
    scope: Scope
    warn: Callable[[str, str, Path], None]

    def problem(self, code: str, message: str, hint: str, *path: str | int, key: bool = False) -> None:
        """Tells of a problem at a key of the unit."""
        self.seat.names.problem(code, message, hint, (*self.seat.path, *path), key=key)

    def expression(
        self, text: str, roots: Sequence[str], scope: Scope, *path: str | int
    ) -> Expression | None:
        """The compiled expression; None, and told, when it can never be evaluated."""
        return compiled(
            text,
            roots,
            scope.resolve,
            lambda message, hint: self.problem("bad-expression", message, hint, *path),
        )

    def scale(self, key: Any) -> Scale | None:
        """The scale that the unit's `scale` means; None, and told, when there is none."""
        if isinstance(key, str):
            try:
                return self.seat.names.scale_named(key)
            except UnknownNameError as error:
                self.problem("unknown-scale", error.message, error.hint, "scale")
                return None
        self.seat.names.check_scale(key, (*self.seat.path, "scale"))
        return key  # type: ignore[no-any-return]

    def fields(self, declared: dict[str, Any] | None, key: str) -> dict[str, FieldType]:
        """The types of a declared schema; a field whose type is unknown is told and left out."""
        types: dict[str, FieldType] = {}
        for name, spelled in (declared or {}).items():
            try:
                types[name] = field_type(spelled, self.seat.names.scale_named)
            except UnknownNameError as error:
                hint = error.hint or "types are `str`, `int`, `float`, `bool`, `list[str]` and scales"
                self.problem(
                    "unknown-type", f"{error.message.replace('scale', 'type or scale', 1)}", hint, key, name
                )
            else:
                self._check_scale(types[name], key, name)
        return types

    def _check_scale(self, kind: FieldType, *path: str | int) -> None:
        if isinstance(kind, OnScale):
            self.seat.names.check_scale(kind.scale, (*self.seat.path, *path))
        elif isinstance(kind, Record):
            for name, inner in kind.fields.items():
                self._check_scale(inner, *path, name)


def compiled(
    text: str, roots: Sequence[str], resolve: Resolve, tell: Callable[[str, str], None]
) -> Expression | None:
    """The expression; None, and `tell(message, hint)` called, when it can never be evaluated."""
    try:
        return compile_expression(text, roots, resolve)
    except ExpressionError as error:
        tell(error.message, error.hint)
        return None


def compile_node(
    seat: Seat,
    place: Upstream,
    children: tuple[int, ...],
    scope: Scope,
    warn: Callable[[str, str, Path], None],
) -> Node | None:
    """The node of a seat. None, and the problems told, when something about it cannot be compiled.

    `place.output` is empty; the node's own `output` says what it gives on.
    """
    bench = Bench(seat, scope, warn)
    unit = seat.unit
    trouble = unit.problem()
    if trouble:
        key, message, hint = trouble
        bench.problem("bad-unit", message, hint, *([key] if key else []))
        return None
    casts = _casts(bench)
    scope.input = {one.field: one.type for one in casts} if casts else None
    if isinstance(unit, Asking):
        settings = _settings(bench, place)
        scope.fixed = {"unit": Record(dict.fromkeys(settings, Unknown()))}
        made = _asked(bench, unit, settings)
    else:
        settings = unit.settings() | {"name": seat.name}
        scope.fixed = {"unit": Record(dict.fromkeys(settings, Unknown()))}
        made = _mapped(bench, unit) if isinstance(unit, MapUnit) else _pooled(bench, unit)
    if made is None:
        return None
    work, response, output = made
    output = _declared_output(bench, output)
    rules = tuple(
        rule
        for at, text in enumerate(unit.rules)
        if (
            rule := bench.expression(
                text,
                (*_RULE_ROOTS, "output"),
                scope.with_fields(response=response, output=output),
                "validate",
                at,
            )
        )
    )
    propagate: list[tuple[str, Expression]] = []
    for name, text in (unit.propagate or {}).items():
        passed = bench.expression(
            text, _OUTPUT_ROOTS, scope.with_fields(response=response, output=output), "propagate", name
        )
        if passed is not None:
            propagate.append((name, passed))
    if unit.propagate is not None:
        output = Record({name: expression.type for name, expression in propagate})
    if seat.pinned:
        _check_pinned(bench)
    return Node(
        place.id, seat.name, place.index, unit, place.parents, children, work, casts, settings, rules,
        tuple(propagate), output, seat.pinned,
    )  # fmt: skip


def _casts(bench: Bench) -> tuple[Cast, ...]:
    unit = bench.seat.unit
    wanted = bench.fields(unit.input, "input")
    if isinstance(unit, Asking):
        wanted = {**unit.wants(), **wanted}
    casts = []
    for name, kind in wanted.items():
        try:
            casts.append(cast(name, kind, bench.scope))
        except ExpressionError as error:
            bench.problem(
                "bad-input",
                error.message,
                error.hint,
                *(("input", name) if unit.input and name in unit.input else ()),
            )
    return tuple(casts)


def _settings(bench: Bench, place: Upstream) -> dict[str, Any]:
    unit = bench.seat.unit
    assert isinstance(unit, Asking)
    settings = unit.settings() | {"name": bench.seat.name}
    scale = bench.scale(unit.scale) if unit.scale is not None else unit.default_scale()
    return settings | ({} if scale is None else {"scale": scale.display()})


def _asked(bench: Bench, unit: Asking, settings: dict[str, Any]) -> tuple[Asked, Record, Record] | None:
    scope = bench.scope
    scale = bench.scale(unit.scale) if unit.scale is not None else unit.default_scale()
    if unit.scale is not None and scale is None:
        return None
    if unit.scale is not None and unit.scaled_field() is None:
        bench.problem(
            "no-scaled-field",
            f"a {unit.type_name} has no field on a scale",
            "leave `scale` out, or use a JudgeUnit",
            "scale",
            key=True,
        )
    declared = bench.fields(unit.response, "response")
    for name in set(declared) & set(unit.own_fields(scale)):
        bench.problem(
            "field-used-twice",
            f"the response field {name!r} is the unit's own",
            "choose another name",
            "response",
            name,
            key=True,
        )
    response = unit.response_record(scale, declared)
    reading = _reading(bench, unit, response)
    models = bench.seat.models
    if not models:
        bench.problem(
            "no-model",
            "the unit has no model",
            "set `model:` at the top of the file or here, or give --model",
        )
    options: list[tuple[str, Expression]] = []
    letters: tuple[str, ...] = ()
    if isinstance(unit, Choosing):
        letters = unit.letters()
        for place, text in enumerate(unit.options or ()):
            option = bench.expression(text, _PROMPT_ROOTS, scope, "options", place)
            if option is not None:
                options.append((letters[place], option))
        scope.input = {**(scope.input or {}), **dict.fromkeys(letters, TEXT)}
    prompt = _prompt(bench, unit)
    if reading is None or prompt is None or not models:
        return None
    field = unit.scaled_field()
    suffix = (
        scale.sentence(field) if scale is not None and field is not None and unit.scale_instructions else ""
    )
    follow = reading.then
    second = (
        ()
        if follow is None
        else (
            bench.seat.names.policy(follow.model, (*bench.seat.path, "extract", "model"))
            if follow.model is not None
            else models
        )
    )
    asked = Asked(
        unit,
        prompt,
        suffix,
        reading,
        models,
        second,
        tuple(options),
        letters,
        tuple(unit.output) if unit.output else None,
    )
    return asked, reading.output, unit.gives(reading.output)


def _reading(bench: Bench, unit: Asking, response: Record) -> Reading | None:
    key: Any = unit.extract
    if key is None:
        key = "structured" if set(response.fields) == {"criteria"} else "verdict"
    if key == "raw" and list(response.fields.values()) != [TEXT] and "extract" not in unit.model_fields_set:
        key = "structured"
    chosen: Extractor = extractor(key)
    if not response.fields:
        return None
    trouble = chosen.problem(response)
    if trouble:
        where, message, hint = trouble
        bench.problem(
            "bad-extractor", message, hint, "extract", *([part for part in where.split(".") if part])
        )
        return None
    return chosen.bind(response)


def _prompt(bench: Bench, unit: Asking) -> Prompt | None:
    if unit.prompt is None:
        found = unit.default_prompt()
        if found is None:
            bench.problem(
                "missing-key", f"a {unit.type_name} needs a `prompt`", "write what the model is asked"
            )
            return None
        text, jinja = found, False
    else:
        read = bench.seat.names.prompt_text(unit.prompt, (*bench.seat.path, "prompt"))
        if read is None:
            return None
        text, jinja = read
    if not text.strip():
        bench.problem("empty-prompt", "the prompt is empty", "write what the model is asked", "prompt")
        return None
    told: list[str] = []

    def tell(message: str, hint: str) -> None:
        told.append(message)
        bench.problem("bad-placeholder", message, hint, "prompt")

    made: Prompt | None
    if jinja:
        made = compile_jinja(unit.frame(text), _PROMPT_ROOTS, bench.scope.resolve, tell)
    else:
        path = (*bench.seat.path, "prompt")
        made = compile_prompt(
            unit.frame(text), bench.scope.resolve, tell, lambda message, hint: bench.warn(message, hint, path)
        )
    return None if told else made


def _mapped(bench: Bench, unit: MapUnit) -> tuple[Mapped, Record, Record] | None:
    made = []
    for name, text in unit.map.items():
        expression = bench.expression(text, _MAP_ROOTS, bench.scope, "map", name)
        if expression is not None:
            made.append((name, expression))
    output = Record({name: expression.type for name, expression in made})
    return (Mapped(unit, tuple(made)), output, output) if len(made) == len(unit.map) else None


def _pooled(bench: Bench, unit: Common) -> tuple[Pooled, Record, Record] | None:
    assert isinstance(unit, Pool)
    parents = [bench.scope.upstream[index] for index in bench.scope.parents]
    bench.scope.used_units.update(bench.scope.parents)
    if not parents:
        bench.problem(
            "nothing-to-pool", f"a {unit.type_name} needs units before it", "put it behind a layer of judges"
        )
        return None
    weights = unit.weighting()
    if weights is not None and len(weights) != len(parents):
        bench.problem(
            "bad-weights",
            f"{len(weights)} weights for {len(parents)} units",
            "give one weight for each unit that is pooled, in order of definition",
            "weights",
        )
        return None
    names = unit.named()
    if names is None:
        common = [
            name
            for name in parents[0].output.fields
            if all(name in parent.output.fields for parent in parents)
        ]
        names = tuple(
            name for name in common if all(_poolable(unit, parent.output.fields[name]) for parent in parents)
        )
        if not names:
            bench.problem(
                "nothing-to-pool",
                f"no field of {', '.join(parent.id for parent in parents[:4])} can be pooled",
                _ways_out(common),
            )
            return None
    for name in names:
        for parent in parents:
            kind = parent.output.fields.get(name)
            if kind is None:
                bench.problem(
                    "unknown-field",
                    f"{parent.id} gives no {name!r}",
                    f"it gives {', '.join(parent.output.fields)}",
                    *_field_path(unit),
                )
                return None
            if unit.numbers and kind.numeric() is False:
                bench.problem(
                    "no-number",
                    f"{parent.id}.{name} is of type {kind.spell()} and has no number",
                    _ways_out([name]),
                    *_field_path(unit),
                )
                return None
    pooled = Record({name: parents[0].output.fields[name] for name in names})
    fields = tuple(
        (name, tuple(_number(unit, parent.output.fields[name]) for parent in parents)) for name in names
    )
    return Pooled(unit, fields, weights), pooled, unit.gives(pooled)


def _field_path(unit: Pool) -> tuple[str, ...]:
    return ("field",) if unit.field is not None else ("fields",) if unit.fields is not None else ()


def _ways_out(names: Sequence[str]) -> str:
    return (
        "give the scale `scores:`, or use a ModePoolUnit"
        if names
        else "the units that are pooled need a field in common"
    )


def _poolable(unit: Pool, kind: FieldType) -> bool:
    if unit.numbers:
        return kind.numeric() is not False
    return isinstance(kind, OnScale | Unknown) or (isinstance(kind, Plain) and kind != TEXT)


def _number(unit: Pool, kind: FieldType) -> Callable[[Any], Any]:
    """A scale's scores stand for its words; every other value is pooled as it is."""
    if unit.numbers and isinstance(kind, OnScale) and getattr(kind.scale, "scores", None) is not None:
        return kind.scale.number
    return _same


def _same(value: Any) -> Any:
    return value


def _declared_output(bench: Bench, output: Record) -> Record:
    unit = bench.seat.unit
    if unit.output is None:
        return output
    kept: dict[str, FieldType] = {}
    for name, kind in bench.fields(unit.output, "output").items():
        given = output.fields.get(name)
        if given is None and unit.propagate is not None and name in unit.propagate:
            continue
        if given is None:
            bench.problem(
                "unknown-field",
                f"the unit gives no {name!r}",
                f"it gives {', '.join(output.fields)}; `propagate` makes new fields",
                "output",
                name,
                key=True,
            )
        elif not fits(given, kind):
            bench.problem(
                "wrong-type",
                f"{name!r} is to be {kind.spell()}, but the unit gives {given.spell()}",
                "declare the type that is given",
                "output",
                name,
            )
        else:
            kept[name] = kind
    return Record(kept or dict(output.fields))


def _check_pinned(bench: Bench) -> None:
    scope = bench.scope
    if scope.used_columns:
        column = sorted(scope.used_columns)[0]
        bench.problem(
            "pinned-uses-row",
            f"a pinned unit runs once, but this one uses `source.{column}`",
            "take the column out of it, or leave `pin` out",
        )
