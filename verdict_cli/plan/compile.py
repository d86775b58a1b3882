"""Compile one unit into a node: input casts, escalation and everything else that the unit declares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from verdict_cli.language.expressions.paths import ExpressionError
from verdict_cli.language.fields.field_keys import fits
from verdict_cli.language.fields.types import TEXT, FieldType, RecordType, TranscriptType, UnknownType
from verdict_cli.language.units.base import LLMUnit
from verdict_cli.language.units.escalate import ABSTAIN, ANSWERED_BY
from verdict_cli.language.units.map import MapUnit
from verdict_cli.language.units.pools import Pool
from verdict_cli.model import Model
from verdict_cli.plan.compile_context import PROMPT_ROOTS, CompileContext, CompiledUnit
from verdict_cli.plan.compile_llm_unit import compile_llm_unit
from verdict_cli.plan.compile_map_pool import compile_map, compile_pool
from verdict_cli.plan.compile_python import code_at, compile_python_unit, giving, processing
from verdict_cli.plan.expand import InstancePath, UnitInstance
from verdict_cli.plan.node import Cast, CompiledRule, Escalation, Gives, LLMNode, Node, OutputFields
from verdict_cli.plan.scope import NodeScope, Upstream


def cast(name: str, kind: FieldType, scope: NodeScope) -> Cast:
    """The source of one input field. ExpressionError when none or several could fill it.

    A field of the same name and a fitting type comes first, then the only field of the same type. Without a unit
    before it, the field is the row's column of that name. A conversation that nobody started is empty.
    """
    upstream = [scope.upstream[index] for index in scope.parents]
    if isinstance(kind, TranscriptType) and not any(
        isinstance(found, TranscriptType) for unit in upstream for found in unit.output.fields.values()
    ):
        return Cast(name, kind, None)
    if not upstream:
        column = scope.resolve(("source", name))
        if not fits(column.type, kind):
            raise ExpressionError(
                f"the input field {name!r} is to be {kind.spell()}, but the column is {column.type.spell()}",
                "declare the type that `dataset.schema` gives",
            )
        return Cast(name, kind, column.paths[0])
    named = [unit for unit in upstream if name in unit.output.fields]
    if len(named) > 1:
        raise ExpressionError(
            f"the input field {name!r} stands in several outputs: {', '.join(unit.id for unit in named)}",
            "say which in the prompt (`previous.NAME[0].…`), or pool them first",
        )
    if named:
        found = named[0].output.fields[name]
        if not fits(found, kind):
            raise ExpressionError(
                f"the input field {name!r} is to be {kind.spell()}, but {named[0].id} gives {found.spell()}",
                "declare the type that is given, or convert it with `propagate`",
            )
        return Cast(name, kind, scope.resolve(("previous", name)).paths[0])
    same = [(unit, field) for unit in upstream for field, found in unit.output.fields.items() if found == kind]
    if len(same) != 1:
        said = ", ".join(f"{unit.id}.{field}" for unit, field in same)
        raise ExpressionError(
            f"nothing fills the input field {name!r} of type {kind.spell()}"
            if not same
            else f"several fields could fill the input field {name!r}: {said}",
            "rename an upstream field with `propagate`, or leave `input` out",
        )
    unit, field = same[0]
    scope.uses.units.add(unit.index)
    return Cast(name, kind, ("previous", unit.id, field), from_field=f"{unit.id}.{field}")


_ROOTS = (*PROMPT_ROOTS, "response", "output")


def compile_escalation(bench: CompileContext, scope: NodeScope) -> Escalation | None:
    """The unit's escalation, None where it has none, or, told, where it makes no sense.

    ``scope`` knows the response and the output as it is passed on.
    """
    unit = bench.seat.unit
    if unit.escalate is None:
        return None
    asks = isinstance(unit, LLMUnit)
    trouble = unit.escalate.validation_error()
    chain = [one for one in unit.escalate.chain() if one != ABSTAIN]
    if not trouble and chain and not asks:
        message = f"a {unit.type_name} asks no model that another could stand in for"
        trouble = ("to", message, "only `to: abstain` is possible here")
    if not trouble and bench.seat.pinned:
        trouble = ("", "a pinned unit is asked once for all rows", "leave `pin` or `escalate` out")
    if not trouble and chain and ANSWERED_BY in scope.fixed["output"].fields:
        trouble = ("", f"the output has a field {ANSWERED_BY!r} of its own", "give it another name")
    if trouble:
        key, message, hint = trouble
        bench.problem("bad-escalate", message, hint, "escalate", *([key] if key else []))
        return None
    text = unit.escalate.when
    if not isinstance(text, str):
        from verdict_cli.language.calibrations import Threshold  # here, because few bounds are fitted

        fitted = bench.fitted(text, Threshold, "escalate", "when")
        if fitted is None:
            return None
        text = fitted.when()
    when = bench.expression(text, _ROOTS if asks else (*_ROOTS, "outputs"), scope, "escalate", "when")
    stages: list[tuple[Model, ...] | None] = [
        bench.seat.names.policy(one, (*bench.seat.path, "escalate", "to")) for one in chain
    ]
    found = tuple(models for models in stages if models)
    if when is None or len(found) < len(chain):
        return None
    return Escalation(when, found, unit.escalate.chain()[-1] == ABSTAIN)


_RULE_ROOTS = (*PROMPT_ROOTS, "response", "output")
_CODE_KEYS = ("map", "validate", "process", "propagate")


def compile_node(
    seat: UnitInstance,
    place: Upstream,
    children: tuple[int, ...],
    scope: NodeScope,
    warn: Callable[[str, str, InstancePath], None],
) -> tuple[Node | None, RecordType | None]:
    """The node of a seat, and what it gives on.

    The node is None, and the problems told, when it cannot be compiled; what it gives on is None only when that
    cannot be known either, so that the units behind it are checked wherever they can be.
    """
    bench = CompileContext(seat, scope, warn)
    unit = seat.unit
    trouble = unit.validation_error()
    if trouble:
        key, message, hint = trouble
        bench.problem("bad-unit", message, hint, *([key] if key else []))
        return None, None
    casts = _casts(bench)
    settings = unit.settings() | {"name": seat.name}
    if isinstance(unit, LLMUnit):
        scale = bench.scale(unit)
        if scale is None and unit.scale is not None:
            return None, None
        settings |= {} if scale is None else {"scale": scale.display()}
        scope.fixed = {"unit": _known(settings)}
        made = compile_llm_unit(bench, unit, scale)
    else:
        scope.fixed = {"unit": _known(settings)}
        assert isinstance(unit, MapUnit | Pool)
        made = compile_map(bench, unit) if isinstance(unit, MapUnit) else compile_pool(bench, unit)
    if made is None:
        return None, None
    made = _processed(bench, made)
    output = _declared_output(bench, made.output)
    inside = scope.with_fields(response=made.response, output=output)
    rules = _rules(bench, inside)
    propagate, output = _propagated(bench, inside, output)
    escalation = compile_escalation(bench, scope.with_fields(response=made.response, output=output))
    if escalation is not None and escalation.stages:
        output = RecordType({**output.fields, ANSWERED_BY: TEXT})
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


def _known(settings: dict[str, Any]) -> RecordType:
    return RecordType(dict.fromkeys(settings, UnknownType()))


def _casts(bench: CompileContext) -> tuple[Cast, ...]:
    """Where each input field comes from; the scope then knows all of them, filled or not."""
    unit = bench.seat.unit
    wanted = bench.fields(unit.input, "input")
    if isinstance(unit, LLMUnit):
        wanted = {**unit.required_inputs(), **wanted}
    casts = []
    for name, kind in wanted.items():
        try:
            casts.append(cast(name, kind, bench.scope))
        except ExpressionError as error:
            path = ("input", name) if unit.input and name in unit.input else ()
            bench.problem("bad-input", error.message, error.hint, *path)
    bench.scope.input = wanted or None
    return tuple(casts)


def _processed(bench: CompileContext, made: CompiledUnit) -> CompiledUnit:
    """What a unit defined in Python makes of its response; where it declares no output, the response's fields."""
    code = code_at(bench, "process")
    if code is None or not isinstance(made.work, LLMNode):
        return made
    gives = code.gives or made.output
    return CompiledUnit(replace(made.work, process=processing(code, bench.scope, gives)), made.response, gives)


def _rules(bench: CompileContext, scope: NodeScope) -> tuple[CompiledRule, ...]:
    rules = (
        bench.expression(text, _RULE_ROOTS, scope, "validate", at) for at, text in enumerate(bench.seat.unit.rules)
    )
    code = code_at(bench, "validate")
    functions = () if code is None else (compile_python_unit(code, scope),)
    return (*(rule for rule in rules if rule is not None), *functions)


def _propagated(bench: CompileContext, scope: NodeScope, output: RecordType) -> tuple[Gives | None, RecordType]:
    """What replaces the output, None where nothing does, and the fields that are then passed on."""
    code = code_at(bench, "propagate")
    if code is not None:
        given = giving(bench, code, scope, "propagate")
        return given, given.gives or RecordType({})
    if bench.seat.unit.propagation is None:
        return None, output
    made = {
        name: bench.expression(text, _RULE_ROOTS, scope, "propagate", name)
        for name, text in bench.seat.unit.propagation.items()
    }
    passed = OutputFields(tuple((name, one) for name, one in made.items() if one is not None))
    return passed, RecordType({name: one.type if one else UnknownType() for name, one in made.items()})


def _declared_output(bench: CompileContext, output: RecordType) -> RecordType:
    unit = bench.seat.unit
    if unit.output is None:
        return output
    kept: dict[str, FieldType] = {}
    for name, kind in bench.fields(unit.output, "output").items():
        given = output.fields.get(name)
        if given is None and unit.propagation is not None and name in unit.propagation:
            continue
        if given is None:
            hint = f"it gives {', '.join(output.fields)}; `propagate` makes new fields"
            bench.problem("unknown-field", f"the unit gives no {name!r}", hint, "output", name, key=True)
        elif not fits(given, kind):
            message = f"{name!r} is to be {kind.spell()}, but the unit gives {given.spell()}"
            bench.problem("wrong-type", message, "declare the type that is given", "output", name)
        else:
            kept[name] = kind
    return RecordType(kept or dict(output.fields))


def _check_pinned(bench: CompileContext) -> None:
    uses = bench.scope.uses
    for column in sorted(uses.columns)[:1] or (["…"] if uses.whole_row else []):
        said = f"`source.{column}`" if uses.columns else "`source`"
        bench.problem(
            "pinned-uses-row",
            f"a pinned unit runs once, but this one uses {said}",
            "take the row out of it, or leave `pin` out",
        )
