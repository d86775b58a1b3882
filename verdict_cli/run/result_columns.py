"""A row's result and its calls as flat rows of `results.parquet` and `calls.parquet`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import isfinite
from typing import Any

import orjson

from verdict_cli.language.expressions.entry_lists import TURN
from verdict_cli.language.fields.types import (
    NUMBER,
    TEXT,
    DistributionType,
    FieldType,
    ListType,
    PlainType,
    RecordType,
    ScaleType,
    TextListType,
    UnknownType,
    without_null,
)
from verdict_cli.messages import Call, Message, Result, cost_of
from verdict_cli.plan.levels import ITEM_COLUMN, in_lists
from verdict_cli.plan.node import Node, Plan
from verdict_cli.run.row import PINNED_ROW
from verdict_cli.storage.datasets.dataset import Dataset, rename_columns
from verdict_cli.storage.datasets.files import format_of
from verdict_cli.storage.datasets.parquet import list_types
from verdict_cli.storage.tables.column_types import ORDERED_KEY, ColumnKind, DeclaredType, encode_json_text

_KINDS: dict[str, ColumnKind] = {"str": "str", "int": "int", "float": "float", "bool": "bool"}
_SCHEMA_KINDS: dict[str, ColumnKind] = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}

CALL_COLUMNS: dict[str, ColumnKind] = {
    "row": "int",
    "id": "null",
    "unit": "str",
    "item": "str",
    "call": "int",
    "attempt": "int",
    "model": "str",
    "served_model": "str",
    "system_fingerprint": "str",
    "service_tier": "str",
    "params": "str",
    "messages": "str",
    "reply": "str",
    "reasoning": "str",
    "finish_reason": "str",
    "logprobs": "native",
    "mass": "float",
    "prompt_tokens": "int",
    "completion_tokens": "int",
    "cached_tokens": "int",
    "cache_write_tokens": "int",
    "reasoning_tokens": "int",
    "usage_note": "str",
    "cost_usd": "float",
    "latency_s": "float",
    "recalled": "bool",
    "cached": "bool",
    "repaired": "bool",
    "failure": "str",
    "error": "str",
}

ADDED_CALL_COLUMNS = frozenset({"usage_note"})
"""Those that runs of earlier versions lack."""
_JSON_TEXT = DeclaredType({"type": "string", "contentMediaType": "application/json"})
CALL_TYPES = {
    "logprobs": DeclaredType(ListType(ListType(RecordType({"token": TEXT, "logprob": NUMBER}))).json_schema()),
    "messages": _JSON_TEXT,
    "params": _JSON_TEXT,
}
"""The types of columns of calls that are lists or JSON text. Of log probabilities: for each position of the reply, its
alternatives, the chosen one first."""

_REQUEST_COLUMNS = (
    "row",
    "id",
    "unit",
    "item",
    "call",
    "attempt",
    "model",
    "messages",
    "failure",
    "error",
    "latency_s",
)
_REPLY_COLUMNS = (
    *_REQUEST_COLUMNS, "reply", "finish_reason", "logprobs", "mass", "prompt_tokens", "completion_tokens", "cost_usd", "recalled", "cached",
    "repaired", "params", "served_model", "system_fingerprint", "service_tier", "reasoning", "cached_tokens",
    "cache_write_tokens", "reasoning_tokens", "usage_note",
)  # fmt: skip
_RESULT_COLUMNS: dict[str, ColumnKind] = {
    "row": "int",
    "id": "null",
    "status": "str",
    "failure.kind": "str",
    "failure.message": "str",
    "failure.node": "str",
    "calls": "int",
    "cost_usd": "float",
}

Cells = tuple[tuple[str, ...], list[Any]]
"""A row of a table: the names of its columns, and its values."""


def result_columns(
    plan: Plan, source: Sequence[str], declared: Mapping[str, DeclaredType] | None = None
) -> dict[str, ColumnKind]:
    """The columns of `results.parquet` in order, each with the narrowest kind that is known before the run. ``declared`` are
    their types, by default those that the plan declares."""
    declared = declared_columns(plan) if declared is None else declared
    columns = dict(_RESULT_COLUMNS)
    if plan.early:
        columns["saved"] = "int"
    if plan.conditions:
        columns["skipped"] = "native"
    columns |= {f"source.{column}": "null" for column in source}
    for node in plan.nodes:
        if node.groups:
            columns[f"{node.id}.{ITEM_COLUMN}"] = "json"
        columns |= {f"{node.id}.{name}": _kind(kind) for name, kind in node.result.fields.items()}
    if plan.output_node is not None:
        columns |= {f"output.{name}": _kind(kind) for name, kind in plan.output_node.result.fields.items()}
    return columns | {name: "native" for name in columns if name in declared and declared[name].shape is not None}


def column_types(plan: Plan, dataset: Dataset) -> dict[str, DeclaredType]:
    """The declared columns, and the dataset's that are lists and mappings by the types of its Parquet files."""
    if {format_of(path) for path in dataset.files} != {"parquet"}:
        return declared_columns(plan)
    of_files = [rename_columns(dataset.columns, list_types(path)) for path in dataset.files]
    same = {
        name: DeclaredType(schema)
        for name, schema in of_files[0].items()
        if all(schema == schemas_of_file.get(name) for schemas_of_file in of_files)
    }
    typed = plan.row_types.fields if plan.row_types else {}
    types = {f"source.{name}": kind for name, kind in same.items() if kind.shape is not None and name not in typed}
    return types | declared_columns(plan)


def declared_columns(plan: Plan) -> dict[str, DeclaredType]:
    """What the plan declares of the columns of `results.parquet`: each output field's type, with its scale; of the dataset's
    columns and the entries of `each`, those that are lists and mappings."""
    types: dict[str, FieldType] = {
        f"{node.id}.{name}": kind for node in plan.nodes for name, kind in node.result.fields.items()
    }
    if plan.output_node is not None:
        types |= {f"output.{name}": kind for name, kind in plan.output_node.result.fields.items()}
    columns = {
        name: DeclaredType(schema) for name, kind in types.items() if (schema := _declared_schema(without_null(kind)))
    }
    others = {f"{node.id}.{ITEM_COLUMN}": _entries_type(plan, node) for node in plan.nodes if node.groups}
    others |= {f"source.{name}": kind for name, kind in (plan.row_types.fields if plan.row_types else {}).items()}
    others |= {"skipped": TextListType()} if plan.conditions else {}
    lists = {name: DeclaredType(without_null(kind).json_schema()) for name, kind in others.items()}
    return columns | {name: declared for name, declared in lists.items() if declared.shape is not None}


def _entries_type(plan: Plan, node: Node) -> FieldType:
    """The type of the column of the entries at which a unit inside `each` was run."""
    groups = [plan.groups[index] for index in node.groups]
    turn = RecordType({name: TURN.fields[name] for name in ("index", "role", "content")})
    names = {group.name: turn if group.entry == TURN else group.entry for group in groups}
    kind: FieldType = RecordType(names)
    for _ in groups:
        kind = ListType(kind)
    return kind


def _declared_schema(kind: FieldType) -> dict[str, Any]:
    """The field's JSON Schema, which says of an ordered scale that it is one, and of a distribution its values."""
    if isinstance(kind, DistributionType):
        keys = orjson.loads(encode_json_text(dict.fromkeys(kind.scale.values() or ())))
        number = {"type": "number"}
        return {"type": "object", "properties": dict.fromkeys(keys, number), "additionalProperties": number}
    schema = kind.json_schema()
    ordered = isinstance(kind, ScaleType) and kind.scale.ordered and "enum" in schema
    return schema | {ORDERED_KEY: True} if ordered else schema


class ResultRows:
    """Makes rows of `results.parquet`. Column names are cached: most rows have the same fields."""

    def __init__(self, plan: Plan) -> None:
        self._early = bool(plan.early)
        self._prefixes = ["source", *(node.id for node in plan.nodes)]
        self._last = None if plan.output_node is None else plan.output_node.index
        self._conditional = bool(plan.conditions)
        self._inside = [node for node in plan.nodes if node.groups]
        self._names = lru_cache(maxsize=1000)(self._column_names)

    def row(self, result: Result) -> Cells:
        """The row of a result."""
        failure, source = result.failure, result.row.source
        outputs: Sequence[Any] = result.outputs
        last = None if self._last is None else outputs[self._last]
        if self._inside:
            outputs, last = self._in_lists(result)
        values: list[Any] = [
            result.row.index,
            result.row.id,
            result.status,
            None if failure is None else failure.kind,
            None if failure is None else failure.message,
            None if failure is None else failure.node,
            len(result.calls),
            cost_of(result.calls),
        ]
        if self._early:
            values.append(sum(result.saved.values()))
        if self._conditional:
            skipped = [*result.skipped]
            if self._last is not None and self._prefixes[self._last + 1] in skipped:
                skipped.append("output")
            values.append(skipped or None)
        values += source.values()
        for output in outputs:
            values += output.values() if output else ()
        if last:
            values += last.values()
        return self._names(tuple(source), *[tuple(output or ()) for output in outputs], tuple(last or ())), values

    def _in_lists(self, result: Result) -> tuple[list[Any], Any]:
        """The outputs with one list a field for units inside `each`, beside the list of their entries; the last one's."""
        outputs = [*result.outputs]
        last = None if self._last is None else outputs[self._last]
        for node in self._inside:
            lists = in_lists(node, outputs[node.index])
            if lists is None:
                continue
            if node.index == self._last:
                last = lists
            outputs[node.index] = {ITEM_COLUMN: result.entries.get(node.index), **lists}
        return outputs, last

    def _column_names(self, *fields: tuple[str, ...]) -> tuple[str, ...]:
        """The names of a row's columns; ``fields`` are those of its source, of each unit's output, and of the last unit's."""
        names = [*_RESULT_COLUMNS, *(["saved"] if self._early else []), *(["skipped"] if self._conditional else [])]
        names += [f"{prefix}.{name}" for prefix, own in zip(self._prefixes, fields[:-1], strict=True) for name in own]
        return (*names, *(f"output.{name}" for name in fields[-1]))


def call_row(call: Call) -> Cells:
    """The row of a call."""
    request, reply = call.request, call.reply
    values: list[Any] = [
        request.row.index,
        None if request.row is PINNED_ROW else request.row.id,
        request.node,
        request.row.item,
        request.call,
        request.attempt,
        request.model.name,
        _json([_message(message) for message in request.messages]),
        call.failure or None,
        call.error or None,
        call.latency_s,
    ]
    if reply is None:
        return _REQUEST_COLUMNS, values
    usage = reply.usage
    values += (
        reply.text,
        reply.finish_reason,
        _logprobs(reply.logprobs),
        call.mass,
        usage.prompt_tokens,
        usage.completion_tokens,
        reply.cost_usd,
        reply.recalled,
        reply.cached,
        call.repaired,
        reply.sent or None,
        reply.model or None,
        reply.system_fingerprint or None,
        reply.service_tier or None,
        reply.reasoning or None,
        usage.cached_tokens,
        usage.cache_write_tokens,
        usage.reasoning_tokens,
        usage.note or None,
    )
    return _REPLY_COLUMNS, values


def _message(message: Message) -> dict[str, Any]:
    """A message as it is recorded, with the position and the first 200 characters of each image."""
    fields: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.images:
        fields["images"] = [
            {"at": at, "image": url if len(url) <= 200 else f"{url[:199]}…"} for at, url in message.images
        ]
    return fields


def _logprobs(positions: Any) -> list[list[dict[str, Any]]] | None:
    if positions is None:
        return None
    return [
        [{"token": token.token, "logprob": token.logprob if isfinite(token.logprob) else None} for token in position]
        for position in positions
    ]


def _json(value: Any) -> str:
    try:
        return orjson.dumps(value).decode()
    except TypeError:  # half a surrogate pair, which a row of the data may have
        return json.dumps(value, separators=(",", ":"))


def _kind(kind: FieldType) -> ColumnKind:
    kind = without_null(kind)
    if isinstance(kind, PlainType):
        return _KINDS[kind.name]
    if isinstance(kind, ScaleType):
        return _SCHEMA_KINDS.get(str(kind.json_schema().get("type")), "null")
    return "null" if isinstance(kind, UnknownType) else "json"
