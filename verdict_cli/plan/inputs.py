"""Casting: where the fields of a unit's input come from (language.md, sections 6.2 and 6.4)."""

from __future__ import annotations

from verdict_cli.expressions import ExpressionError
from verdict_cli.fields import FieldType, Transcript, fits
from verdict_cli.plan.node import Cast
from verdict_cli.plan.scope import Scope


def cast(name: str, kind: FieldType, scope: Scope) -> Cast:
    """The source of one input field. ExpressionError when none or several could fill it.

    A field of the same name and a fitting type comes first, then the only field of the same type. Without a unit
    before it, the field is the row's column of that name. A conversation that nobody started is empty.
    """
    upstream = [scope.upstream[index] for index in scope.parents]
    if isinstance(kind, Transcript) and not any(
        isinstance(found, Transcript) for unit in upstream for found in unit.output.fields.values()
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
    same = [
        (unit, field) for unit in upstream for field, found in unit.output.fields.items() if found == kind
    ]
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
