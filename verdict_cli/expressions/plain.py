"""What an expression may give: the values that JSON has."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import Any

from jinja2 import Undefined

from verdict_cli.errors import RowError
from verdict_cli.expressions.sandbox import LARGEST_BITS


def plain(value: Any) -> Any:
    """The value with mappings as dicts and with tuples and what filters such as `map` give as lists.

    RowError for a value that is not there, and for one that JSON has not: a method that was not called, a complex
    number.
    """
    if isinstance(value, int) and value.bit_length() > LARGEST_BITS:
        raise RowError("the result is too large a whole number")
    if value is None or type(value) in (str, int, float, bool):
        return value
    if isinstance(value, Undefined):
        raise RowError(value._undefined_message, kind="missing-value")
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Mapping):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | Iterator | KeysView | ValuesView | ItemsView):
        return [plain(item) for item in value]
    if callable(value):
        raise RowError(f"`{getattr(value, '__name__', value)}` is a method: call it with `()`")
    raise RowError(f"the result is a {type(value).__name__}, which is no value of JSON")
