"""Values on the wire: JSON with NaN, log-probabilities."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from verdict_cli.messages import Alternative, NamedValues, is_number

_MOST_LEVELS = 250
"""The levels of a value that every reader takes."""


def loads(text: bytes) -> Any:
    """The value. Raises ValueError for anything that is not JSON in UTF-8, or cannot be written as such again."""
    try:
        value = orjson.loads(text)
        if text.count(b"[") + text.count(b"{") < _MOST_LEVELS:
            return value
    except orjson.JSONDecodeError:
        try:
            value = json.loads(text, parse_int=_whole)
        except RecursionError:
            raise ValueError("nested too deeply") from None
    try:
        orjson.dumps(value)
    except TypeError as error:
        raise ValueError(_UNWRITABLE.get(str(error), str(error))) from None
    return value


_UNWRITABLE = {"Recursion limit reached": "nested too deeply"}
_MOST_DIGITS = 18
"""The digits of a whole number of 64 bits; a longer one is read as a float, as orjson does."""


def _whole(digits: str) -> int | float:
    return int(digits) if len(digits) <= _MOST_DIGITS else float(digits)


def objects(value: Any) -> list[NamedValues]:
    """The objects in a list; none for anything else."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def object_at(value: Any, key: str) -> NamedValues:
    """The object under a key; empty where there is none."""
    inner = value.get(key) if isinstance(value, Mapping) else None
    return inner if isinstance(inner, Mapping) else {}


def read_logprobs(positions: Any) -> tuple[tuple[Alternative, ...], ...] | None:
    """The alternatives at each position, the chosen token first.

    A position is a list of ``{"token", "logprob"}``, or the OpenAI API's ``{"token", "logprob", "top_logprobs"}``;
    the list may be under the API's ``content`` key. A missing or null ``logprob`` becomes NaN, which the readers of the
    distribution interpret. None for null. Raises ValueError for any other shape.
    """
    if positions is not None and isinstance(positions, Mapping):
        positions = positions.get("content")
    if positions is None:
        return None
    if not _is_list(positions):
        raise ValueError(f"logprobs must be a list of positions, not {_kind(positions)}")
    return tuple(_position(position) for position in positions)


def _position(position: Any) -> tuple[Alternative, ...]:
    if _is_list(position):
        return tuple(_alternative(item) for item in position)
    chosen = _alternative(position)
    alternatives = position.get("top_logprobs")
    if alternatives is None:
        return (chosen,)
    if not _is_list(alternatives):
        raise ValueError(f"top_logprobs must be a list, not {_kind(alternatives)}")
    listed = (_alternative(item) for item in alternatives)
    return (chosen, *(other for other in listed if other.token != chosen.token))


def _alternative(item: Any) -> Alternative:
    if not isinstance(item, Mapping) or not isinstance(item.get("token"), str):
        raise ValueError(
            "an alternative must be a mapping with a token, such as {token: A, logprob: -0.1}"
        )
    token, logprob = item["token"], item.get("logprob")
    if logprob is None:
        return Alternative(token, math.nan)
    if not is_number(logprob):
        raise ValueError(f"the logprob of {token!r:.80} must be a number, not {_kind(logprob)}")
    if logprob > sys.float_info.max:
        raise ValueError(f"the logprob of {token!r:.80} is out of range")
    return Alternative(token, float(logprob))


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _kind(value: Any) -> str:
    return type(value).__name__


def is_strict(schema: Any) -> bool:
    """Whether the API's strict mode takes the schema: every object closed, every property required."""
    if isinstance(schema, list | tuple):
        return all(is_strict(part) for part in schema)
    if not isinstance(schema, Mapping):
        return True
    if schema.get("type") == "object":
        properties = schema.get("properties", {})
        if schema.get("additionalProperties") is not False or set(
            schema.get("required", ())
        ) != set(properties):
            return False
        return all(is_strict(part) for part in properties.values())
    return all(is_strict(part) for part in schema.values())
