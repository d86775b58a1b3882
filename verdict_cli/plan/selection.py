"""What `dataset` says of a row: the types of its columns, and whether it is read at all."""

from __future__ import annotations

from collections.abc import Callable

from verdict_cli.expressions import Expression
from verdict_cli.fields import FieldType, Record, field_type
from verdict_cli.plan.bench import compiled
from verdict_cli.plan.scope import Scope
from verdict_cli.plan.seats import Path
from verdict_cli.spec import Namespace
from verdict_cli.spec.namespace import UnknownNameError


def row_types(names: Namespace) -> Record | None:
    """The declared columns' types, None where none are declared; tells of a type that is unknown."""
    declared = names.spec.file.dataset.types
    if declared is None:
        return None
    types: dict[str, FieldType] = {}
    for name, key in declared.items():
        path = ("dataset", "schema", name)
        try:
            types[name] = names.sound(field_type(key, names.scale_named), path)
        except UnknownNameError as error:
            message = error.message.replace("scale", "type or scale", 1)
            names.problem("unknown-type", message, error.hint, path)
    return Record(types)


def where(
    names: Namespace, types: Record | None, use_column: Callable[[str, Namespace, Path], None]
) -> Expression | None:
    """The expression that chooses rows, None where all are read; tells when it can never be evaluated."""
    text = names.spec.file.dataset.where
    if text is None:
        return None
    path = ("dataset", "where")
    scope = Scope((), (), types.fields if types else {})
    made = compiled(
        text,
        ("source",),
        scope.resolve,
        lambda message, hint: names.problem("bad-expression", message, hint, path),
    )
    for column in sorted(scope.uses.columns):
        use_column(column, names, path)
    return made
