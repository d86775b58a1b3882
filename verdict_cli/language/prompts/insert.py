"""Convert a value to text for a prompt."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from verdict_cli.errors import RowError

_WIDTH = re.compile(r"\d{5}")


def insert(value: Any, spec: str = "") -> str:
    """The text of a value: strings as they are, numbers as Python prints them, lists of strings one a line,
    a conversation as its transcript, anything else as compact JSON. RowError for null and for a format
    specification that does not fit.
    """
    if isinstance(value, str) and not spec:
        return value
    if value is None:
        raise RowError("it is null; a prompt needs a value", kind="missing-value")
    if spec:
        if _WIDTH.search(spec):
            raise RowError(f"the format {spec!r:.80} is wider than four digits")
        try:
            return format(value, spec)
        except (ArithmeticError, MemoryError, TypeError, ValueError) as fault:
            raise RowError(f"the format {spec!r} does not fit {value!r:.80}: {fault}") from None
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return "\n".join(value)
    if is_conversation(value):
        return transcript(value)
    return _compact_json(value)


def is_conversation(value: Any) -> bool:
    """Whether the value is a list of turns, each a mapping of exactly `role` and `content`."""
    return isinstance(value, list | tuple) and all(
        isinstance(turn, Mapping) and turn.keys() == {"role", "content"} for turn in value
    )


def transcript(conversation: Sequence[Mapping[str, str]]) -> str:
    """The turns, each between tags that name its speaker, a blank line between them."""
    return "\n\n".join(f"<{turn['role']}>\n{turn['content']}\n</{turn['role']}>" for turn in conversation)


def _compact_json(value: Any) -> str:
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
