"""Paths such as `previous.judge[1].score`: how placeholders and expressions name a value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from msgspec import Struct

from verdict_cli.config_model import HintedError
from verdict_cli.errors import RowError
from verdict_cli.language.fields.types import FieldType, UnknownType
from verdict_cli.messages import NamedValues

ExpressionPath = tuple[str | int, ...]
"""A root (`source`, `previous`, `input`, `unit` …) and the keys and indices that follow it."""

ExpressionPaths = tuple[ExpressionPath, ...]
RowValues = NamedValues
"""What a prompt or an expression sees at a row, by root."""

_UNKNOWN = UnknownType()


class Resolved(Struct, frozen=True):
    """What a written path means: the paths to follow at run time, and the type of their values.

    One path gives its value; ``many`` gives the list of the values at all of ``paths``. ``trusted``: no row has written in
    it, because a pinned unit made it.
    """

    paths: ExpressionPaths
    type: FieldType = _UNKNOWN
    many: bool = False
    trusted: bool = False


Resolve = Callable[[ExpressionPath], Resolved]
"""Resolves a written path, or raises ExpressionError when nothing provides it."""


class ExpressionError(HintedError):
    """A path or an expression that can never be evaluated: what is wrong, and a hint."""


def unresolved(path: ExpressionPath) -> Resolved:
    """The path itself, of unknown type."""
    return Resolved((path,))


def format_expression_path(path: ExpressionPath) -> str:
    """The path as it is written: `previous.judge[1].score`."""
    text = str(path[0])
    for part in path[1:]:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if part.isidentifier() else f"[{part!r}]"
    return text


def overlap(first: ExpressionPath, second: ExpressionPath) -> bool:
    """Whether one path leads to the other's value, or to a part of it."""
    length = min(len(first), len(second))
    return first[:length] == second[:length]


def follow(path: ExpressionPath, values: RowValues) -> Any:
    """The value at the path: mapping keys and list items only. RowError names the missing part."""
    value: Any = values
    try:
        for part in path:
            if type(value) is not dict and not _holds(value, part):
                raise KeyError(part)
            value = value[part]
    except (KeyError, IndexError):
        raise RowError(_absent(path, values), kind="missing-value") from None
    return value


def _holds(value: Any, part: str | int) -> bool:
    """Whether a key or an index can be looked up in a value that is not a plain dict."""
    return isinstance(value, Mapping) or (isinstance(value, list | tuple) and isinstance(part, int))


def _absent(path: ExpressionPath, values: RowValues) -> str:
    value: Any = values
    depth = 0
    with suppress(KeyError, IndexError):
        while _holds(value, path[depth]):
            value = value[path[depth]]
            depth += 1
    owner = format_expression_path(path[:depth]) if depth else "the row"
    if value is None:
        return f"{format_expression_path(path)}: {owner} has no value"
    if isinstance(value, Mapping):
        return f"{format_expression_path(path)}: {owner} has no {path[depth]!r}, only {', '.join(map(str, value)) or 'nothing'}"
    return f"{format_expression_path(path)}: {owner} has no {path[depth]!r}"
