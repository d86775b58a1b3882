"""From a seat to a node: everything that a unit says is compiled and checked against what stands before it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from verdict_cli.expressions import ExpressionError
from verdict_cli.fields import TEXT, FieldType, Record, Unknown, fits
from verdict_cli.plan.asked import asked
from verdict_cli.plan.bench import PROMPT_ROOTS, Bench, Made
from verdict_cli.plan.called import called, code_at, giving, processing
from verdict_cli.plan.computed import mapped, pooled
from verdict_cli.plan.escalated import escalated
from verdict_cli.plan.inputs import cast
from verdict_cli.plan.node import Asked, Cast, Fields, Gives, Node, Rule
from verdict_cli.plan.scope import Scope, Upstream
from verdict_cli.plan.seats import Path, Seat
from verdict_cli.units import ANSWERED_BY, Asking, MapUnit, Pool

_RULE_ROOTS = (*PROMPT_ROOTS, "response", "output")
_CODE_KEYS = ("map", "validate", "process", "propagate")


def compile_node(
    seat: Seat,
    place: Upstream,
    children: tuple[int, ...],
    scope: Scope,
    warn: Callable[[str, str, Path], None],
) -> tuple[Node | None, Record | None]:
    """The node of a seat, and what it gives on.

    The node is None, and the problems told, when it cannot be compiled; what it gives on is None only when that
    cannot be known either, so that the units behind it are checked wherever they can be.
    """
    bench = Bench(seat, scope, warn)
    unit = seat.unit
    trouble = unit.problem()
    if trouble:
        key, message, hint = trouble
        bench.problem("bad-unit", message, hint, *([key] if key else []))
        return None, None
    casts = _casts(bench)
    settings = unit.settings() | {"name": seat.name}
    if isinstance(unit, Asking):
        scale = bench.scale(unit)
        if scale is None and unit.scale is not None:
            return None, None
        settings |= {} if scale is None else {"scale": scale.display()}
        scope.fixed = {"unit": _known(settings)}
        made = asked(bench, unit, scale)
    else:
        scope.fixed = {"unit": _known(settings)}
        assert isinstance(unit, MapUnit | Pool)
        made = mapped(bench, unit) if isinstance(unit, MapUnit) else pooled(bench, unit)
    if made is None:
        return None, None
    made = _processed(bench, made)
    output = _declared_output(bench, made.output)
    inside = scope.with_fields(response=made.response, output=output)
    rules = _rules(bench, inside)
    propagate, output = _propagated(bench, inside, output)
    escalation = escalated(bench, scope.with_fields(response=made.response, output=output))
    if escalation is not None and escalation.stages:
        output = Record({**output.fields, ANSWERED_BY: TEXT})
    if seat.pinned:
        _check_pinned(bench)
    if made.work is None:
        return None, output
    node = Node(
        id=place.id,
        name=seat.name,
        index=place.index,
        unit=unit,
        parents=place.parents,
        children=children,
        work=made.work,
        casts=casts,
        settings=settings,
        rules=rules,
        propagate=propagate,
        output=output,
        pinned=seat.pinned,
        escalation=escalation,
        calibrations=tuple(bench.calibrations),
        code=tuple(code for key in _CODE_KEYS if (code := code_at(bench, key)) is not None),
    )
    return node, output


def _known(settings: dict[str, Any]) -> Record:
    return Record(dict.fromkeys(settings, Unknown()))


def _casts(bench: Bench) -> tuple[Cast, ...]:
    """Where each input field comes from; the scope then knows all of them, filled or not."""
    unit = bench.seat.unit
    wanted = bench.fields(unit.input, "input")
    if isinstance(unit, Asking):
        wanted = {**unit.wants(), **wanted}
    casts = []
    for name, kind in wanted.items():
        try:
            casts.append(cast(name, kind, bench.scope))
        except ExpressionError as error:
            path = ("input", name) if unit.input and name in unit.input else ()
            bench.problem("bad-input", error.message, error.hint, *path)
    bench.scope.input = wanted or None
    return tuple(casts)


def _processed(bench: Bench, made: Made) -> Made:
    """What a unit defined in Python makes of its response; where it declares no output, the response's fields."""
    code = code_at(bench, "process")
    if code is None or not isinstance(made.work, Asked):
        return made
    gives = code.gives or made.output
    return Made(replace(made.work, process=processing(code, bench.scope, gives)), made.response, gives)


def _rules(bench: Bench, scope: Scope) -> tuple[Rule, ...]:
    rules = (
        bench.expression(text, _RULE_ROOTS, scope, "validate", at)
        for at, text in enumerate(bench.seat.unit.rules)
    )
    code = code_at(bench, "validate")
    functions = () if code is None else (called(code, scope),)
    return (*(rule for rule in rules if rule is not None), *functions)


def _propagated(bench: Bench, scope: Scope, output: Record) -> tuple[Gives | None, Record]:
    """What replaces the output, None where nothing does, and the fields that are then passed on."""
    code = code_at(bench, "propagate")
    if code is not None:
        given = giving(bench, code, scope, "propagate")
        return given, given.gives or Record({})
    if bench.seat.unit.propagate is None:
        return None, output
    made = {
        name: bench.expression(text, _RULE_ROOTS, scope, "propagate", name)
        for name, text in bench.seat.unit.propagate.items()
    }
    passed = Fields(tuple((name, one) for name, one in made.items() if one is not None))
    return passed, Record({name: one.type if one else Unknown() for name, one in made.items()})


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
            hint = f"it gives {', '.join(output.fields)}; `propagate` makes new fields"
            bench.problem("unknown-field", f"the unit gives no {name!r}", hint, "output", name, key=True)
        elif not fits(given, kind):
            message = f"{name!r} is to be {kind.spell()}, but the unit gives {given.spell()}"
            bench.problem("wrong-type", message, "declare the type that is given", "output", name)
        else:
            kept[name] = kind
    return Record(kept or dict(output.fields))


def _check_pinned(bench: Bench) -> None:
    uses = bench.scope.uses
    for column in sorted(uses.columns)[:1] or (["…"] if uses.whole_row else []):
        said = f"`source.{column}`" if uses.columns else "`source`"
        bench.problem(
            "pinned-uses-row",
            f"a pinned unit runs once, but this one uses {said}",
            "take the row out of it, or leave `pin` out",
        )
