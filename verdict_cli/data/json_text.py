"""Values as JSON text in a table's column, so that exactly the written value is read back."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import orjson

METADATA = {b"verdict": b"json"}
"""Arrow field metadata of a column in which every value that is not null is JSON text."""


def is_json(field: Any) -> bool:
    """Whether the Arrow field's values are JSON text."""
    return bool(field.metadata) and field.metadata.get(b"verdict") == b"json"


def encode(value: Any) -> str:
    """The JSON text, keys in their own order.

    A leading space, which JSON allows, marks text that needs the standard library's decoder: integers beyond
    64 bits, halves of surrogate pairs, NaN and infinities (written as Python writes them).
    """
    try:
        text = orjson.dumps(value, default=_as_dict, option=orjson.OPT_NON_STR_KEYS)
    except TypeError:
        return " " + json.dumps(value, default=_as_dict, separators=(",", ":"))
    if b"null" in text and _holds_non_finite(value):
        return " " + json.dumps(value, default=_as_dict, separators=(",", ":"))
    return text.decode()


def decode(text: str) -> Any:
    """The value that `encode` was given; tuples have become lists, and keys strings."""
    return json.loads(text) if text.startswith(" ") else orjson.loads(text)


def _as_dict(value: Any) -> dict[Any, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a table cannot hold a {type(value).__name__}")


def _holds_non_finite(value: Any) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, Mapping):
        return any(map(_holds_non_finite, value.values()))
    return isinstance(value, list | tuple) and any(map(_holds_non_finite, value))
