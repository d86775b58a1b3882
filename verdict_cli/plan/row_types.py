"""Checking and converting a dataset's row by `dataset.schema`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from verdict_cli.errors import ReplyError
from verdict_cli.fields import INTEGER, NUMBER, TRUTH, FieldType, Image, Record
from verdict_cli.scales import Boolean


def caster(types: Record, folder: Path = Path()) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    """A function that gives back the row with the declared columns read as their types.

    A text in a column of numbers or truth values is converted: CSV knows only texts. The path of an image is
    taken from `folder`, the dataset's own. The function raises
    ValueError with the reason for a row that breaks the schema.
    """

    def cast(row: Mapping[str, Any]) -> Mapping[str, Any]:
        made = dict(row)
        for name, kind in types.fields.items():
            if name not in made:
                raise ValueError(f"the column {name!r} is missing")
            try:
                made[name] = kind.read(_converted(made[name], kind, folder))
            except (ReplyError, ValueError) as error:
                reason = error.message if isinstance(error, ReplyError) else str(error)
                raise ValueError(f"the column {name!r}: {reason}") from None
        return made

    return cast


def _converted(value: Any, kind: FieldType, folder: Path) -> Any:
    if not isinstance(value, str):
        return value
    if isinstance(kind, Image):
        return value if ":" in value[:12] else str(folder / value)
    if kind == INTEGER:
        return int(value)
    if kind == NUMBER:
        return float(value)
    return Boolean().read(value) if kind == TRUTH else value
