"""One recorded call, read and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from verdict_cli.llm.providers.wire_values import read_logprobs
from verdict_cli.messages import MOST_TOKENS, Alternative, Usage


@dataclass(frozen=True, slots=True)
class CallName:
    """What names a recorded call. At least one of ``row`` (0-based line) and ``id`` is there."""

    row: int | None
    id: str | None
    unit: str
    call: int
    attempt: int


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """What a model said; ``text`` is None for a call that failed, ``failure`` and ``error`` then say how."""

    text: str | None
    finish_reason: str
    logprobs: tuple[tuple[Alternative, ...], ...] | None
    usage: Usage
    model: str
    failure: str
    error: str


_SHARED = -1
"""The row of units that run once for all rows."""


def read_name(record: Any) -> CallName:
    """The call that a record is of. Raises ValueError that says what is wrong with it."""
    if not isinstance(record, Mapping):
        raise ValueError(f"a recorded call must be an object, not {type(record).__name__}")
    unit = record.get("unit")
    if not isinstance(unit, str) or not unit:
        raise ValueError('"unit" must be the id of a node, such as judge or judge[1]')
    row = record.get("row")
    if row is not None:
        row = _SHARED if row == _SHARED else _whole(row, "row")
    name = row_name(record.get("id"))
    if row is None and name is None:
        raise ValueError('a recorded call needs "id" or "row"')
    call, attempt = (_whole(record.get(key) or 0, key) for key in ("call", "attempt"))
    return CallName(row, name, unit, call, attempt)


def row_name(value: Any) -> str | None:
    """A row's id as recordings compare it: 3 and "3" are the same row, since a CSV file has only texts."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f'"id" must be a text or a whole number, not {value!r}')
    return str(value)


def check_reply(record: Mapping[str, Any]) -> None:
    """Raises ValueError unless there is a reply, or a failure in its place."""
    reply = record.get("reply")
    if reply is None and not record.get("failure"):
        raise ValueError('"reply" is missing')
    if reply is not None and not isinstance(reply, str):
        raise ValueError(f'"reply" must be a text, not {type(reply).__name__}: write JSON replies as text')


def read_recorded(record: Mapping[str, Any]) -> RecordedCall:
    """The record's outcome. Raises ValueError that says what is wrong with it."""
    usage = record.get("usage")
    tokens = usage if isinstance(usage, Mapping) else record
    counts = (tokens.get(key) or 0 for key in ("prompt_tokens", "completion_tokens"))
    return RecordedCall(
        text=record["reply"] if record.get("reply") is not None else None,
        finish_reason=str(record.get("finish_reason") or "stop"),
        logprobs=read_logprobs(record.get("logprobs")),
        usage=Usage(*(_whole(count, "usage") for count in counts)),
        model=str(record.get("model") or ""),
        failure=str(record.get("failure") or ""),
        error=str(record.get("error") or ""),
    )


def _whole(value: Any, key: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_TOKENS:
        raise ValueError(f'"{key}" must be a whole number from 0 to 10^12, not {value!r:.40}')
    return value
