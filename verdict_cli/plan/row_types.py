"""Checking and converting a dataset's row by `dataset.schema`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from verdict_cli.errors import ReplyError
from verdict_cli.fence import ALLOW_OUTSIDE, Fence, OutsideError
from verdict_cli.fields import INTEGER, NUMBER, TRUTH, FieldType, Image, Record, is_url
from verdict_cli.scales import Boolean


def caster(
    types: Record, folder: Path = Path(), fence: Fence | None = None
) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    """A function that gives back the row with the declared columns read as their types.

    A text in a column of numbers or truth values is converted: CSV knows only texts. The path of an image is
    taken from `folder`, the dataset's own, and may leave it only where `fence` allows it. The function raises
    ValueError with the reason for a row that breaks the schema.
    """

    within = Fence() if fence is None else fence.of(folder)

    def cast(row: Mapping[str, Any]) -> Mapping[str, Any]:
        made = dict(row)
        for name, kind in types.fields.items():
            if name not in made:
                raise ValueError(f"the column {name!r} is missing")
            try:
                made[name] = kind.read(_converted(made[name], kind, folder, within))
            except OutsideError as error:
                raise ValueError(f"the column {name!r}: {error}; {ALLOW_OUTSIDE}") from None
            except (ReplyError, ValueError) as error:
                reason = error.message if isinstance(error, ReplyError) else str(error)
                raise ValueError(f"the column {name!r}: {reason}") from None
        return made

    return cast


def _converted(value: Any, kind: FieldType, folder: Path, fence: Fence) -> Any:
    if isinstance(kind, Record) and isinstance(value, Mapping):
        pictured = {name: one for name, one in kind.fields.items() if isinstance(one, Image | Record)}
        return dict(value) | {
            name: _converted(value[name], one, folder, fence)
            for name, one in pictured.items()
            if name in value
        }
    if not isinstance(value, str):
        return value
    if isinstance(kind, Image):
        return value if is_url(value) else str(fence.path(folder, value))
    if kind == INTEGER:
        return int(value)
    if kind == NUMBER:
        return float(value)
    return Boolean().read(value) if kind == TRUTH else value
