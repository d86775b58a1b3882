"""A row's outcome and its calls as flat rows of `results.parquet` and `calls.parquet` (language.md, section 12)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from verdict_cli.data import Kind
from verdict_cli.fields import FieldType, OnScale, Plain, Unknown
from verdict_cli.plan import Plan
from verdict_cli.runtime import PINNED_ROW
from verdict_cli.values import Call, Message, Result, cost_of

_KINDS: dict[str, Kind] = {"str": "str", "int": "int", "float": "float", "bool": "bool"}
_SCHEMA_KINDS: dict[str, Kind] = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}

CALL_COLUMNS: dict[str, Kind] = {
    "row": "int",
    "id": "null",
    "unit": "str",
    "call": "int",
    "attempt": "int",
    "model": "str",
    "params": "str",
    "messages": "str",
    "reply": "str",
    "finish_reason": "str",
    "logprobs": "str",
    "prompt_tokens": "int",
    "completion_tokens": "int",
    "cost_usd": "float",
    "latency_s": "float",
    "recalled": "bool",
    "cached": "bool",
    "repaired": "bool",
    "failure": "str",
    "error": "str",
}


def result_columns(plan: Plan, source: Sequence[str]) -> dict[str, Kind]:
    """The columns of `results.parquet` in order, each with the narrowest kind that is known beforehand."""
    columns: dict[str, Kind] = {
        "row": "int",
        "id": "null",
        "status": "str",
        "failure.kind": "str",
        "failure.message": "str",
        "failure.node": "str",
        "calls": "int",
        "cost_usd": "float",
    }
    if plan.early:
        columns["saved"] = "int"
    columns |= {f"source.{column}": "null" for column in source}
    for node in plan.nodes:
        columns |= {f"{node.id}.{name}": _kind(kind) for name, kind in node.output.fields.items()}
    if plan.output_node is not None:
        columns |= {f"output.{name}": _kind(kind) for name, kind in plan.output_node.output.fields.items()}
    return columns


def result_row(plan: Plan, result: Result) -> dict[str, Any]:
    """One row of `results.parquet`."""
    failure = result.failure
    row: dict[str, Any] = {
        "row": result.row.index,
        "id": result.row.id,
        "status": result.status,
        "failure.kind": None if failure is None else failure.kind,
        "failure.message": None if failure is None else failure.message,
        "failure.node": None if failure is None else failure.node,
        "calls": len(result.calls),
        "cost_usd": cost_of(result.calls),
    }
    if plan.early:
        row["saved"] = sum(result.saved.values())
    for column, value in result.row.source.items():
        row[f"source.{column}"] = value
    for node, output in zip(plan.nodes, result.outputs, strict=True):
        for name, value in (output or {}).items():
            row[f"{node.id}.{name}"] = value
    if plan.output_node is not None:
        for name, value in (result.outputs[plan.output_node.index] or {}).items():
            row[f"output.{name}"] = value
    return row


def call_row(call: Call) -> dict[str, Any]:
    """One row of `calls.parquet`."""
    request, reply = call.request, call.reply
    shared = request.row is PINNED_ROW
    row: dict[str, Any] = {
        "row": request.row.index,
        "id": None if shared else request.row.id,
        "unit": request.node,
        "call": request.call,
        "attempt": request.attempt,
        "model": request.model.name,
        "messages": orjson.dumps([_message(one) for one in request.messages]).decode(),
        "failure": call.failure or None,
        "error": call.error or None,
        "latency_s": call.latency_s,
    }
    if reply is not None:
        row |= {
            "reply": reply.text,
            "finish_reason": reply.finish_reason,
            "logprobs": _logprobs(reply.logprobs),
            "prompt_tokens": reply.usage.prompt_tokens,
            "completion_tokens": reply.usage.completion_tokens,
            "cost_usd": reply.cost_usd,
            "recalled": reply.recalled,
            "cached": reply.cached,
            "repaired": call.repaired,
            "params": reply.sent or None,
        }
    return row


def _message(message: Message) -> dict[str, Any]:
    """A message as it is recorded; a picture's bytes are cut, its place and beginning stay."""
    said: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.images:
        said["images"] = [
            {"at": at, "image": url if len(url) <= 200 else f"{url[:199]}…"} for at, url in message.images
        ]
    return said


def _logprobs(positions: Any) -> str | None:
    if positions is None:
        return None
    spelled = [[{"token": one.token, "logprob": one.logprob} for one in position] for position in positions]
    return orjson.dumps(spelled).decode()


def _kind(kind: FieldType) -> Kind:
    if isinstance(kind, Plain):
        return _KINDS[kind.name]
    if isinstance(kind, OnScale):
        return _SCHEMA_KINDS.get(str(kind.json_schema().get("type")), "null")
    return "null" if isinstance(kind, Unknown) else "json"
