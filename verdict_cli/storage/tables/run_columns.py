"""The columns of `results.parquet` and `calls.parquet` that do not follow from the pipeline.

Whoever writes, checks or shows a table takes its columns from these two lists. A column that is added here is in the tables of
new runs, on the reference page of the tables and, with a ``title``, in the report's table of rows; runs of earlier versions
have null there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from math import isfinite
from operator import attrgetter
from typing import Any

import orjson
from msgspec import Struct

from verdict_cli.messages import Call, JsonObject, Message, Reply, Result, cost_of
from verdict_cli.storage.tables.column_types import ColumnKind, DeclaredType

_REPLY = "reply."


class CallRecord(Struct, frozen=True, gc=False):
    """A call as `calls.parquet` has it. ``id`` is that of its row, None for a pinned unit."""

    row: int
    id: str | int | None
    unit: str
    item: str
    call: int
    attempt: int
    model: str
    messages: tuple[Message, ...]
    reply: Reply | None
    failure: str
    error: str
    latency_s: float
    repaired: bool
    mass: float | None

    @classmethod
    def of(cls, call: Call) -> CallRecord:
        """The record of a call that was made."""
        request = call.request
        row = request.row
        return cls(
            row.index,
            None if row.index < 0 else row.id,
            request.node,
            row.item,
            request.call,
            request.attempt,
            request.model.name,
            request.messages,
            call.reply,
            call.failure,
            call.error,
            call.latency_s,
            call.repaired,
            call.mass,
        )


class RunColumn(Struct, frozen=True):
    """A column: its name and kind, how its value is found in a `Result` or a `CallRecord`, and what it means.

    ``value`` is the path to an attribute, null where a call has no reply, or a function. ``blank``: "" is null.
    ``declared`` is the type of lists and of JSON text. ``since`` is the version that writes it for the first time: the tables
    of earlier ones lack it, and are read as if it were null; "" for the columns of every table. Only runs whose plan has ``only`` have the column. ``title`` is
    the heading in the report's table of rows, "" where it is not a column of that table.
    """

    name: str
    kind: ColumnKind
    value: str | Callable[[Any], Any]
    meaning: str
    declared: DeclaredType | None = None
    since: str = ""
    only: str = ""
    title: str = ""
    blank: bool = False

    @property
    def getter(self) -> Callable[[Any], Any]:
        """What takes a `Result` or a `CallRecord`, or the reply where the path begins with it."""
        return self.value if callable(self.value) else attrgetter(self.value.removeprefix(_REPLY))


def _failure(name: str) -> Callable[[Result], Any]:
    return lambda result: None if result.failure is None else getattr(result.failure, name)


def _messages(call: CallRecord) -> str:
    return _json([_message(message) for message in call.messages])


def _message(message: Message) -> JsonObject:
    """A message as it is recorded, with the position and the first 200 characters of each image."""
    fields: JsonObject = {"role": message.role, "content": message.content}
    if message.images:
        fields["images"] = [
            {"at": position, "image": url if len(url) <= 200 else f"{url[:199]}…"}
            for position, url in message.images
        ]
    return fields


def _logprobs(call: CallRecord) -> list[list[JsonObject]] | None:
    if call.reply is None or call.reply.logprobs is None:
        return None
    return [
        [
            {"token": token.token, "logprob": token.logprob if isfinite(token.logprob) else None}
            for token in position
        ]
        for position in call.reply.logprobs
    ]


def _json(value: Any) -> str:
    try:
        return orjson.dumps(value).decode()
    except TypeError:  # half a surrogate pair, which a row of the data may have
        return json.dumps(value, separators=(",", ":"))


_JSON_TEXT = DeclaredType({"type": "string", "contentMediaType": "application/json"})
_ALTERNATIVE = {
    "type": "object",
    "properties": {"token": {"type": "string"}, "logprob": {"type": "number"}},
    "required": ["token", "logprob"],
    "additionalProperties": False,
}
_LOGPROBS = DeclaredType({"type": "array", "items": {"type": "array", "items": _ALTERNATIVE}})
_TEXTS = DeclaredType({"type": "array", "items": {"type": "string"}})

RESULT_COLUMNS = (
    RunColumn("row", "int", "row.index", "the row's place in the dataset, from 0"),
    RunColumn("id", "null", "row.id", "its `id`, else its place", title="Row"),
    RunColumn("status", "str", "status", "`ok`, `failed` or `abstained`"),
    RunColumn(
        "failure.kind", "str", _failure("kind"), "why the row failed, in a word", title="Failure"
    ),
    RunColumn("failure.message", "str", _failure("message"), "why it failed"),
    RunColumn("failure.node", "str", _failure("node"), "the unit that failed"),
    RunColumn("calls", "int", lambda result: len(result.calls), "how many calls the row took"),
    RunColumn(
        "cost_usd",
        "float",
        lambda result: cost_of(result.calls),
        "their cost, null if a price is unknown",
    ),
    RunColumn(
        "saved",
        "int",
        lambda result: sum(result.saved.values()),
        "the calls that `until` saved",
        only="early",
    ),
    RunColumn(
        "skipped",
        "native",
        lambda result: list(result.skipped) or None,
        "the units that `when` skipped, and `output` if they give it",
        declared=_TEXTS,
        only="conditions",
    ),
)

CALL_COLUMNS = (
    RunColumn("row", "int", "row", "the row, -1 for a pinned unit"),
    RunColumn("id", "null", "id", "the row's id"),
    RunColumn("unit", "str", "unit", "the unit that called"),
    RunColumn("item", "str", "item", "the entry inside `each`, else empty"),
    RunColumn(
        "call",
        "int",
        "call",
        "the number of the call within the unit, from 0",
    ),
    RunColumn("attempt", "int", "attempt", "the number of the attempt, from 0"),
    RunColumn("model", "str", "model", "the model as the pipeline names it"),
    RunColumn(
        "served_model",
        "str",
        "reply.model",
        "what answered, as the provider names it, often with a date",
        blank=True,
    ),
    RunColumn(
        "system_fingerprint",
        "str",
        "reply.system_fingerprint",
        "the server's configuration, where the provider states it",
        blank=True,
    ),
    RunColumn(
        "service_tier",
        "str",
        "reply.service_tier",
        "the tier that served the call, where the provider states it",
        blank=True,
    ),
    RunColumn(
        "params",
        "str",
        "reply.sent",
        "the settings as sent",
        declared=_JSON_TEXT,
        blank=True,
    ),
    RunColumn("messages", "str", _messages, "the messages", declared=_JSON_TEXT),
    RunColumn("reply", "str", "reply.text", "the text of the reply"),
    RunColumn(
        "reasoning",
        "str",
        "reply.reasoning",
        "the text of the model's thinking, where the provider gives it",
        blank=True,
    ),
    RunColumn("finish_reason", "str", "reply.finish_reason", "why the reply ended"),
    RunColumn(
        "logprobs",
        "native",
        _logprobs,
        "for each position of the reply its alternatives, the chosen one first",
        declared=_LOGPROBS,
    ),
    RunColumn(
        "mass",
        "float",
        "mass",
        "the probability of the scale's tokens, where the reply was read for it",
    ),
    RunColumn(
        "prompt_tokens",
        "int",
        "reply.usage.prompt_tokens",
        "tokens of the prompt that were charged",
    ),
    RunColumn(
        "completion_tokens",
        "int",
        "reply.usage.completion_tokens",
        "tokens of the reply that were charged",
    ),
    RunColumn(
        "cached_tokens",
        "int",
        "reply.usage.cached_tokens",
        "of the prompt's tokens, those read from the provider's cache",
    ),
    RunColumn(
        "cache_write_tokens",
        "int",
        "reply.usage.cache_write_tokens",
        "of the prompt's tokens, those written to it",
    ),
    RunColumn(
        "reasoning_tokens",
        "int",
        "reply.usage.reasoning_tokens",
        "of the reply's tokens, those of the model's thinking",
    ),
    RunColumn(
        "usage_note",
        "str",
        "reply.usage.note",
        "how contradictory numbers of tokens were read, else null",
        since="0.1.0",
        blank=True,
    ),
    RunColumn(
        "cost_usd",
        "float",
        "reply.cost_usd",
        "what the call cost, null if its price is unknown",
    ),
    RunColumn(
        "latency_s",
        "float",
        "latency_s",
        "how long the provider took, for a reply from a cache when it was asked",
    ),
    RunColumn(
        "request",
        "str",
        "reply.request",
        "the HTTP request of a decision model, which several questions of a row may share",
        since="0.1.0",
        blank=True,
    ),
    RunColumn(
        "recalled",
        "bool",
        "reply.recalled",
        "whether the reply is that of the run before it was resumed",
    ),
    RunColumn(
        "cached",
        "bool",
        "reply.cached",
        "whether the reply is from verdict's own [cache](../calls.md#cache)",
    ),
    RunColumn(
        "repaired",
        "bool",
        lambda call: None if call.reply is None else call.repaired,
        "whether the reply was read although it deviates from the format",
    ),
    RunColumn(
        "failure",
        "str",
        "failure",
        "why the call failed, in a word, else null",
        blank=True,
    ),
    RunColumn("error", "str", "error", "the message of the failure", blank=True),
)


_OF_CALLS = [
    (column.name, column.getter, str(column.value).startswith(_REPLY), column.blank)
    for column in CALL_COLUMNS
]


def call_columns(calls: Sequence[CallRecord]) -> dict[str, list[Any]]:
    """The calls as a table, by column."""
    replies = [call.reply for call in calls]
    answered = None not in replies
    columns: dict[str, list[Any]] = {}
    for name, get, of_reply, blank in _OF_CALLS:
        if not of_reply:
            values = [*map(get, calls)]
        elif answered:
            values = [*map(get, replies)]
        else:
            values = [None if reply is None else get(reply) for reply in replies]
        columns[name] = [value or None for value in values] if blank else values
    return columns


def column_kinds_of(columns: Iterable[RunColumn]) -> dict[str, ColumnKind]:
    """Name -> kind."""
    return {column.name: column.kind for column in columns}


def column_types_of(columns: Iterable[RunColumn]) -> dict[str, DeclaredType]:
    """Name -> type, of the columns that have one."""
    return {column.name: column.declared for column in columns if column.declared is not None}


@cache
def later_columns() -> frozenset[str]:
    """The names of the columns that tables of earlier versions may lack."""
    return frozenset(column.name for column in (*RESULT_COLUMNS, *CALL_COLUMNS) if column.since)
