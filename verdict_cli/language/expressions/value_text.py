"""The text of a value in a prompt: JSON's spelling, never Python's, and no null."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import orjson

from verdict_cli.errors import RowError
from verdict_cli.language.conversation import (
    ConversationError,
    looks_like_conversation,
    message_text,
    transcript,
)
from verdict_cli.regex import regex

_WIDTH = regex(r"\d{5}")
_NUMBER_FORMATS = "bcdeEfFgGnoxX%"


def insert(value: Any, spec: str = "") -> str:
    """The text of a value: strings as they are, numbers as Python prints them, `true` and `false`, lists of strings one
    a line, a conversation as its transcript, anything else as compact JSON. RowError for null, also inside the value,
    and for a format specification that does not fit.
    """
    if isinstance(value, str) and not spec:
        return value
    if value is None:
        raise RowError("it is null; a prompt needs a value", kind="missing-value")
    if isinstance(value, bool) and (not spec or spec[-1] not in _NUMBER_FORMATS):
        value = "true" if value else "false"
    if spec:
        return _formatted(value, spec)
    if isinstance(value, str | int | float):
        return str(value)
    is_list = isinstance(value, list | tuple)
    if is_list and all(isinstance(item, str) for item in value):
        return "\n".join(value)
    if looks_like_conversation(value if is_list else [value]):
        return _transcript(value)
    _refuse_null(value)
    return compact_json(value)


def _formatted(value: Any, spec: str) -> str:
    if _WIDTH.search(spec):
        raise RowError(f"the format {spec!r:.80} is wider than four digits")
    try:
        return format(value, spec)
    except (ArithmeticError, MemoryError, TypeError, ValueError) as fault:
        raise RowError(f"the format {spec!r} does not fit {value!r:.80}: {fault}") from None


def _transcript(value: Any) -> str:
    """The text of a conversation, or of one message, which has no number."""
    try:
        return transcript(value) if isinstance(value, list | tuple) else message_text(value)
    except ConversationError as error:
        raise RowError(str(error), kind="missing-value") from None


class _Printed:
    """A value that a format writes as a prompt does."""

    plain: type[Any]

    def __str__(self) -> str:
        return insert(self.plain(self))

    def __format__(self, spec: str) -> str:
        return insert(self.plain(self), spec)


class _Truth(_Printed, int):
    """A boolean. As a number (`%d`) it is 0 or 1."""

    plain = bool


class _Container(_Printed):
    """A value whose parts a format writes so too."""

    def __getitem__(self, key: Any) -> Any:
        return formattable(super().__getitem__(key))  # type: ignore[misc]


class _Fields(_Container, dict[Any, Any]):
    plain = dict


class _Items(_Container, list[Any]):
    plain = list


def formattable(value: Any) -> Any:
    """A value for a format string (`%`, `format`), in which it is written as in a prompt. RowError for null."""
    if isinstance(value, bool):
        return _Truth(value)
    if isinstance(value, Mapping):
        return _Fields(value)
    if isinstance(value, list | tuple):
        return _Items(value)
    return value if isinstance(value, str | int | float) else insert(value)


def _refuse_null(value: Any) -> None:
    """RowError that names the place of the first null inside the value."""
    todo: list[tuple[Any, Any]] = [(value, None)]
    while todo:
        item, path_to_item = todo.pop()
        if item is None:
            keys = []
            while path_to_item is not None:
                key, path_to_item = path_to_item
                keys.append(f"[{key!r}]")
            path = "".join(reversed(keys))
            raise RowError(
                f"{path:.200} in it is null; a prompt needs a value", kind="missing-value"
            )
        if isinstance(item, Mapping):
            todo += [(inner, (key, path_to_item)) for key, inner in reversed(list(item.items()))]
        elif isinstance(item, list | tuple):
            todo += [(item[index], (index, path_to_item)) for index in range(len(item) - 1, -1, -1)]


def compact_json(value: Any) -> str:
    """The value as JSON without spaces. RowError for one that JSON does not have."""
    try:
        return orjson.dumps(value, default=_as_json, option=orjson.OPT_NON_STR_KEYS).decode()
    except TypeError:  # beyond 64 bits, half a surrogate pair, deeply nested, or not a JSON value
        try:
            return json.dumps(value, default=_as_json, ensure_ascii=False, separators=(",", ":"))
        except (TypeError, ValueError, RecursionError) as fault:
            raise RowError(f"{type(value).__name__} cannot be written as JSON: {fault}") from None


def _as_json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a {type(value).__name__} is not a JSON value")
