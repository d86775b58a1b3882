"""Compile one unit into a node: input casts, escalation and everything else that the unit declares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from verdict_cli.errors import ReplyError
from verdict_cli.language.expressions.expression import compile_expression
from verdict_cli.language.expressions.paths import ExpressionError
from verdict_cli.language.fields.field_keys import InputDefault, fits, is_path_key, plain_type
from verdict_cli.language.fields.types import TEXT, FieldType, RecordType, TranscriptType, UnknownType
from verdict_cli.language.units.base import ABSTAIN, ANSWERED_BY, LLMUnit
from verdict_cli.language.units.choice_base import OPTIONS_HINT, ChoiceUnit
from verdict_cli.language.units.map import MapUnit
from verdict_cli.language.units.pools import Pool
from verdict_cli.model import Model
from verdict_cli.plan.compile_context import PROMPT_ROOTS, CompileContext, CompiledUnit
from verdict_cli.plan.compile_llm_unit import compile_llm_unit
from verdict_cli.plan.compile_pool import compile_map, compile_pool
from verdict_cli.plan.compile_python import code_at, compile_output_function, compile_process, compile_python_unit
from verdict_cli.plan.expand import UnitInstance
from verdict_cli.plan.node import Cast, CompiledRule, Escalation, LLMNode, Node, OutputFields, OutputFunction
from verdict_cli.plan.row_steps import InstancePath
from verdict_cli.plan.scope import NodeScope, Upstream

_ROOTS = (*PROMPT_ROOTS, "response", "output")


def compile_escalation(context: CompileContext, scope: NodeScope) -> Escalation | None:
    """The unit's escalation; None where it has none, or, reported, where it is invalid.

    ``scope`` knows the response and the output as it is passed on.
    """
    unit = context.instance.unit
    if unit.escalate is None:
        return None
    asks = isinstance(unit, LLMUnit)
    issue = unit.escalate.validation_error()
    chain = [target for target in unit.escalate.chain() if target != ABSTAIN]
    if not issue and chain and not asks:
        message = f"a {unit.type_name} calls no model that another could replace"
        issue = ("to", message, "only `to: abstain` is possible here")
    if not issue and context.instance.pinned:
        issue = ("", "a pinned unit is asked once for all rows", "leave `pin` or `escalate` out")
    if not issue and chain and ANSWERED_BY in scope.fixed["output"].fields:
        issue = ("", f"the output has a field {ANSWERED_BY!r} of its own", "give it another name")
    if issue:
        key, message, hint = issue
        context.problem("bad-escalate", message, hint, "escalate", *([key] if key else []))
        return None
    text = unit.escalate.when
    if not isinstance(text, str):
        from verdict_cli.language.calibrations import Threshold  # here, because few bounds are fitted

        fitted = context.fitted(text, Threshold, "escalate", "when")
        if fitted is None:
            return None
        text = fitted.when()
    when = context.expression(text, _ROOTS if asks else (*_ROOTS, "outputs"), scope, "escalate", "when")
    stages: list[tuple[Model, ...] | None] = [
        context.instance.names.policy(target, (*context.instance.path, "escalate", "to")) for target in chain
    ]
    model_stages = tuple(models for models in stages if models)
    if when is None or len(model_stages) < len(chain):
        return None
    return Escalation(when, model_stages, unit.escalate.chain()[-1] == ABSTAIN, unit.escalate.audit_share or 0.0)


_CODE_KEYS = ("class", "map", "validate", "process", "propagate")


def compile_node(
    instance: UnitInstance,
    position: Upstream,
    children: tuple[int, ...],
    scope: NodeScope,
    warn: Callable[[str, str, InstancePath], None],
) -> tuple[Node | None, RecordType | None]:
    """The node of a unit and its output's fields.

    The node is None, with its errors reported, when it cannot be compiled. The output is None only when it is unknown
    too, so that later units are checked as far as possible.
    """
    context = CompileContext(instance, scope, warn)
    unit = instance.unit
    issue = unit.validation_error()
    if issue:
        key, message, hint = issue
        context.problem("bad-unit", message, hint, *([key] if key else []))
        return None, None
    # Input fields first: the prompt, the options and the rules resolve `input` by them.
    casts = compile_input(context)
    settings = unit.settings() | {"name": instance.name}
    if isinstance(unit, LLMUnit):
        scale = context.scale(unit)
        if scale is None and unit.scale is not None:
            return None, None
        settings |= {} if scale is None else {"scale": scale.display()}
        scope.fixed = {"unit": _known(settings)}
        compiled = compile_llm_unit(context, unit, scale)
    else:
        scope.fixed = {"unit": _known(settings)}
        assert isinstance(unit, MapUnit | Pool)
        compiled = compile_map(context, unit) if isinstance(unit, MapUnit) else compile_pool(context, unit)
    if compiled is None:
        return None, None
    compiled = _processed(context, compiled)
    output = _declared_output(context, compiled.output)
    inside = scope.with_fields(response=compiled.response, output=output)
    # Rules see what the reply gave, before `propagate` replaces it; `escalate.when` sees what is passed on.
    rules = _rules(context, inside)
    propagate, output = _propagated(context, inside, output)
    escalation = compile_escalation(context, scope.with_fields(response=compiled.response, output=output))
    if escalation is not None and escalation.stages:
        output = RecordType({**output.fields, ANSWERED_BY: TEXT}, output.unknown)
    # Only now is known whether a prompt or an expression shows the options, and so whether they must come from somewhere.
    casts += compile_option_inputs(context)
    if instance.pinned:
        _check_pinned(context)
    if compiled.work is None:
        return None, output
    node = Node(
        id=position.id,
        name=instance.name,
        index=position.index,
        unit=unit,
        parents=position.parents,
        children=children,
        work=compiled.work,
        casts=casts,
        settings=settings,
        rules=rules,
        propagate=propagate,
        output=output,
        pinned=instance.pinned,
        groups=instance.flow.groups,
        checked=instance.flow.checked,
        needs=frozenset(scope.uses.needs - scope.uses.tested),
        escalation=escalation,
        calibrations=tuple(context.calibrations),
        code=tuple(code for key in _CODE_KEYS if (code := code_at(context, key)) is not None),
    )
    return node, output


def _known(settings: dict[str, Any]) -> RecordType:
    return RecordType(dict.fromkeys(settings, UnknownType()))


def _processed(context: CompileContext, compiled: CompiledUnit) -> CompiledUnit:
    """What a unit defined in Python makes of its response; where it declares no output, the response's fields."""
    code = code_at(context, "process")
    if code is None or not isinstance(compiled.work, LLMNode):
        return compiled
    output_fields = code.output_fields or compiled.output
    return CompiledUnit(
        replace(compiled.work, process=compile_process(code, context.scope, output_fields)),
        compiled.response,
        output_fields,
    )


def _rules(context: CompileContext, scope: NodeScope) -> tuple[CompiledRule, ...]:
    rules = (
        context.expression(text, _ROOTS, scope, "validate", at) for at, text in enumerate(context.instance.unit.rules)
    )
    code = code_at(context, "validate")
    functions = () if code is None else (compile_python_unit(code, scope),)
    return (*(rule for rule in rules if rule is not None), *functions)


def _propagated(
    context: CompileContext, scope: NodeScope, output: RecordType
) -> tuple[OutputFunction | None, RecordType]:
    """What replaces the output, None where nothing does, and the fields that are then passed on."""
    code = code_at(context, "propagate")
    if code is not None:
        function = compile_output_function(context, code, scope, "propagate")
        return function, function.output_fields
    if context.instance.unit.propagation is None:
        return None, output
    expressions = {
        name: context.expression(text, _ROOTS, scope, "propagate", name)
        for name, text in context.instance.unit.propagation.items()
    }
    passed = OutputFields(
        tuple((name, expression) for name, expression in expressions.items() if expression is not None)
    )
    return passed, RecordType(
        {name: expression.type if expression else UnknownType() for name, expression in expressions.items()}
    )


def _declared_output(context: CompileContext, output: RecordType) -> RecordType:
    unit = context.instance.unit
    if unit.output is None:
        return output
    kept: dict[str, FieldType] = {}
    for name, kind in context.fields(unit.output, "output").items():
        given = output.kind_of(name)
        if given is None and unit.propagation is not None and name in unit.propagation:
            continue
        if given is None:
            hint = f"it gives {', '.join(output.fields)}; `propagate` makes new fields"
            context.problem("unknown-field", f"the unit gives no {name!r}", hint, "output", name, key=True)
        elif not fits(given, kind):
            message = f"{name!r} is to be {kind.type_name()}, but the unit gives {given.type_name()}"
            context.problem("wrong-type", message, "declare the type that is given", "output", name)
        else:
            kept[name] = kind
    return RecordType(kept) if kept else output


def _check_pinned(context: CompileContext) -> None:
    uses = context.scope.uses
    for column in sorted(uses.columns)[:1] or (["…"] if uses.whole_row else []):
        source = f"`source.{column}`" if uses.columns else "`source`"
        context.problem(
            "pinned-uses-row",
            f"a pinned unit runs once, but this one uses {source}",
            "take the row out of it, or leave `pin` out",
        )


_REQUIRED: Any = object()
"""In place of a default: the field has none."""


def compile_input(context: CompileContext) -> tuple[Cast, ...]:
    """Where each input field comes from; the scope then knows all of them, filled or not."""
    unit = context.instance.unit
    keys = dict(unit.input or {})
    paths: dict[str, str] = {name: key for name, key in keys.items() if isinstance(key, str) and is_path_key(key)}
    defaults = {name: key.default for name, key in keys.items() if isinstance(key, InputDefault)}
    typed = {
        name: key.type if isinstance(key, InputDefault) else key for name, key in keys.items() if name not in paths
    }
    required = unit.required_inputs() if isinstance(unit, LLMUnit) else {}
    if isinstance(unit, ChoiceUnit):
        required = {name: kind for name, kind in required.items() if name in keys}
    types: dict[str, FieldType] = {**required, **context.fields(typed, "input")}
    casts = []
    for name in dict.fromkeys([*required, *keys]):
        try:
            if name in paths:
                cast = _path_cast(name, types.get(name), paths[name], context.scope)
                types[name] = cast.type
            else:
                default = defaults.get(name, _REQUIRED)
                if isinstance(types[name], TranscriptType) and default is _REQUIRED:
                    default = []  # a conversation that nobody started
                cast = _cast(name, types[name], context.scope, default, pinned=context.instance.pinned)
            casts.append(cast)
        except ExpressionError as error:
            types.setdefault(name, UnknownType())
            path = ("input", name) if name in keys else ()
            context.problem("bad-input", error.message, error.hint, *path)
    context.scope.input = types or None
    return tuple(casts)


def compile_option_inputs(context: CompileContext) -> tuple[Cast, ...]:
    """Where the texts of options come from that neither `options` nor `input` gives, where the unit needs them: its
    prompt or an expression shows them, or its output is made from them."""
    unit, uses = context.instance.unit, context.scope.uses
    if not isinstance(unit, ChoiceUnit):
        return ()
    wanted = {name: kind for name, kind in unit.required_inputs().items() if name not in (unit.input or {})}
    if not (unit.needs_letter() or uses.whole_input or not uses.inputs.isdisjoint(wanted)):
        return ()
    casts = []
    for name, kind in wanted.items():
        try:
            casts.append(_cast(name, kind, context.scope, _REQUIRED, pinned=context.instance.pinned))
        except ExpressionError as error:
            context.problem("bad-input", error.message, OPTIONS_HINT)
            break
    return tuple(casts)


def _path_cast(name: str, kind: FieldType | None, text: str, scope: NodeScope) -> Cast:
    """The field from the path that `input` gives. ExpressionError where it is no path, or its value does not fit."""
    expression = compile_expression(text, ("source", "previous", *scope.entries), scope.resolve)
    if expression.path is None:
        raise ExpressionError(
            f"the input field {name!r}: {text!r} is not the path of one value",
            "a path is written `source.COLUMN` or `previous.UNIT.FIELD`, of several units `previous.UNIT[0].FIELD`",
        )
    if kind is not None and not fits(expression.type, kind):
        raise ExpressionError(
            f"the input field {name!r} is to be {kind.type_name()}, but {text} is {expression.type.type_name()}",
            "name a value of that type",
        )
    return Cast(name, kind or expression.type, expression.path)


def _cast(name: str, kind: FieldType, scope: NodeScope, default: Any, *, pinned: bool) -> Cast:
    """The source of one input field. ExpressionError when none or several could fill it.

    A field of the same name and a fitting type comes first, then the only field of the same type, then the only one on
    a scale whose values have that type. Without a unit before it that gives the field, it is the row's column of that
    name, then the default.
    """
    if default is not _REQUIRED:
        try:
            default = kind.read(default)
        except ReplyError as error:
            raise ExpressionError(f"the default of the input field {name!r}: {error.message}", "") from None
    upstream = scope.parent_units()
    if not upstream:
        return _column(name, kind, scope, default, pinned=pinned)
    named = [unit for unit in upstream if unit.output.kind_of(name) is not None]
    if len(named) > 1:
        raise ExpressionError(
            f"the input field {name!r} is in several outputs: {', '.join(unit.id for unit in named)}",
            f"say which: `input: {{{name}: 'previous.NAME[0].{name}'}}`, or pool them first",
        )
    if named:
        given_type = scope.seen(named[0]).kind_of(name)
        assert given_type is not None
        if not fits(given_type, kind):
            raise ExpressionError(
                f"the input field {name!r} is to be {kind.type_name()}, but {named[0].id} gives {given_type.type_name()}",
                "declare the type that is given, or convert it with `propagate`",
            )
        path = scope.at(named[0], (name,)).paths[0]
        if named[0].output.unknown and default is not _REQUIRED:
            return Cast(name, kind, path, optional=True, default=default)
        return Cast(name, kind, path)
    given = [(unit, field, given_type) for unit in upstream for field, given_type in scope.seen(unit).fields.items()]
    same = [(unit, field) for unit, field, given_type in given if given_type == kind]
    same = same or [(unit, field) for unit, field, given_type in given if plain_type(given_type) == kind]
    if not same and default is not _REQUIRED:
        return _column(name, kind, scope, default, pinned=pinned)
    return _only(name, kind, same, scope)


def _only(name: str, kind: FieldType, same: list[tuple[Upstream, str]], scope: NodeScope) -> Cast:
    """The only field of the same type."""
    if len(same) != 1:
        candidates = ", ".join(f"{unit.id}.{field}" for unit, field in same)
        raise ExpressionError(
            f"nothing fills the input field {name!r} of type {kind.type_name()}"
            if not same
            else f"several fields could fill the input field {name!r}: {candidates}",
            f"name a path: `input: {{{name}: previous.UNIT.FIELD}}`, rename an upstream field with `propagate`, or leave "
            "`input` out",
        )
    unit, field = same[0]
    return Cast(name, kind, scope.at(unit, (field,)).paths[0], from_field=f"{unit.id}.{field}")


def _column(name: str, kind: FieldType, scope: NodeScope, default: Any, *, pinned: bool) -> Cast:
    """The row's column of that name. With a default the row need not have it, and a pinned unit, which runs without a
    row, takes the default."""
    if default is not _REQUIRED and pinned:
        return Cast(name, kind, None, default=default)
    optional = default is not _REQUIRED
    column = scope.columns.get(name, UnknownType()) if optional else scope.resolve(("source", name)).type
    if not fits(column, kind):
        raise ExpressionError(
            f"the input field {name!r} is to be {kind.type_name()}, but the column is {column.type_name()}",
            "declare the type that `dataset.schema` gives",
        )
    return Cast(name, kind, ("source", name), optional=optional, default=default if optional else None)
