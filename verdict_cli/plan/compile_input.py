"""Compile where each input field of a unit comes from."""

from __future__ import annotations

import re
from typing import Any

from verdict_cli.errors import ReplyError
from verdict_cli.language.expressions.expression import compile_expression
from verdict_cli.language.expressions.paths import ExpressionError
from verdict_cli.language.fields.field_keys import InputDefault, fits, is_input_path
from verdict_cli.language.fields.types import FieldType, TranscriptType, UnknownType
from verdict_cli.language.units.base import LLMUnit
from verdict_cli.language.units.choice_base import OPTIONS_HINT, ChoiceUnit
from verdict_cli.plan.compile_context import CompileContext
from verdict_cli.plan.node import Cast
from verdict_cli.plan.scope import NodeScope, Upstream

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
                found = _path_cast(name, types.get(name), paths[name], context.scope)
                types[name] = found.type
            else:
                default = defaults.get(name, _REQUIRED)
                if isinstance(types[name], TranscriptType) and default is _REQUIRED:
                    default = []  # a conversation that nobody started
                found = _cast(name, types[name], context.scope, default, pinned=context.instance.pinned)
            casts.append(found)
        except ExpressionError as error:
            types.setdefault(name, UnknownType())
            path = ("input", name) if name in keys else ()
            context.problem("bad-input", error.message, error.hint, *path)
    context.scope.input = types or None
    return tuple(casts)


_ENTRY_PATH = re.compile(r"[A-Za-z_]\w*\.")


def is_path_key(key: Any) -> bool:
    """Whether an input field's key is a path, also one into an entry of `each`, rather than the name of a type."""
    return is_input_path(key) or (isinstance(key, str) and _ENTRY_PATH.match(key) is not None)


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

    A field of the same name and a fitting type comes first, then the only field of the same type. Without a unit
    before it that gives the field, it is the row's column of that name, then the default.
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
        found = scope.seen(named[0]).kind_of(name)
        assert found is not None
        if not fits(found, kind):
            raise ExpressionError(
                f"the input field {name!r} is to be {kind.type_name()}, but {named[0].id} gives {found.type_name()}",
                "declare the type that is given, or convert it with `propagate`",
            )
        path = scope.at(named[0], (name,)).paths[0]
        if named[0].output.unknown and default is not _REQUIRED:
            return Cast(name, kind, path, optional=True, default=default)
        return Cast(name, kind, path)
    same = [(unit, field) for unit in upstream for field, found in scope.seen(unit).fields.items() if found == kind]
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
