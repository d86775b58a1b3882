"""Traces as OTLP JSON (the file exporter of OpenTelemetry's collector), with the GenAI conventions: one row a trace.

A trace without a span of a model call is not a row.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from verdict_cli.features.imports.tool_logs import LogRow, known_shape, log_row, required
from verdict_cli.features.imports.tool_logs.json_stream import log_objects
from verdict_cli.features.imports.tool_logs.otlp_older import event_messages, numbered_messages

_SCORE = "gen_ai.evaluation."
_SIDES = ("input", "output")


def otlp_traces(path: Path) -> Iterator[LogRow]:
    """The traces in the order of their first span. Only what a row needs of each is held in memory.

    The conversation is that of the call that ended last: its input and its output messages, of the span, of its events, or
    of log records in the same file. Raises DataError for a document without `resourceSpans`, and a span without ids.
    """
    traces: dict[str, dict[str, Any]] = {}
    for place, resource in _resources(path):
        if "scopeLogs" in resource:
            with known_shape(path, place):
                _add_records(path, place, resource, traces)
            continue
        for at, scope in enumerate(required(path, place, resource, "scopeSpans", list)):
            for number, span in enumerate(required(path, f"{place}.scopeSpans[{at}]", scope, "spans", list)):
                inside = f"{place}.scopeSpans[{at}].spans[{number}]"
                with known_shape(path, inside):
                    _add(path, inside, span, traces)
    for identity, trace in traces.items():
        with known_shape(path, f"trace {identity}"):
            if trace["called"] or trace["logged"]["input"] or trace["logged"]["output"]:
                talk = trace if trace["called"] else trace["logged"]
                messages = talk["input"] + talk["output"]
                yield log_row(
                    path, f"trace {identity}", identity=identity, messages=messages, scores=trace["scores"], model=trace["model"],
                    explanations=trace["explanations"], metadata=trace["metadata"], trace_id=identity, span_id=talk["span"],
                )  # fmt: skip


def _resources(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The resources' spans: of one document, or of one a line."""
    for place, item in log_objects(path, "resourceSpans"):
        kind = next((kind for kind in ("resourceSpans", "resourceLogs") if kind in item), None)
        if kind is not None:
            for at, resource in enumerate(required(path, place, item, kind, list)):
                yield f"{place}: {kind}[{at}]", required(path, place, {kind: resource}, kind, dict)
        else:
            yield place, item


def _add(path: Path, place: str, span: Any, traces: dict[str, dict[str, Any]]) -> None:
    identity, own = required(path, place, span, "traceId", str), required(path, place, span, "spanId", str)
    trace = traces.setdefault(identity, _new_trace())
    values = _attributes(span.get("attributes"))
    sides = {side: _messages(path, place, values, side) or numbered_messages(values, side) for side in _SIDES}
    for event in span.get("events") or []:
        if isinstance(event, dict):
            side, found = event_messages(event.get("name"), _attributes(event.get("attributes")))
            if found:
                sides[side] += found
    asked, replied = sides["input"], sides["output"]
    ended = int(span.get("endTimeUnixNano") or 0)
    named = values.get("gen_ai.response.model") or values.get("gen_ai.request.model")
    if named and not trace["called"]:
        trace["model"] = named
    if (asked or replied) and ended >= trace["ended"]:
        system = values.get("gen_ai.system_instructions")
        instructions = (
            [{"role": "system", "parts": orjson.loads(system) if isinstance(system, str) else system}] if system else []
        )
        trace |= {"called": True, "ended": ended, "input": instructions + asked, "output": replied, "span": own}
        trace["model"] = named
    for event in span.get("events") or []:
        if isinstance(event, dict) and event.get("name") == "gen_ai.evaluation.result":
            _add_score(_attributes(event.get("attributes")), trace)
    if not span.get("parentSpanId"):
        trace["metadata"] |= {"name": span.get("name")}


def _new_trace() -> dict[str, Any]:
    return {
        "called": False,
        "ended": -1,
        "input": [],
        "output": [],
        "scores": {},
        "explanations": {},
        "metadata": {},
        "model": None,
        "span": None,
        "logged": {"span": None, "input": [], "output": []},
    }


def _add_records(path: Path, place: str, resource: Any, traces: dict[str, dict[str, Any]]) -> None:
    """Add the messages in log records. Of each trace, those of the span are kept whose records come last."""
    for at, scope in enumerate(required(path, place, resource, "scopeLogs", list)):
        for record in required(path, f"{place}.scopeLogs[{at}]", scope, "logRecords", list):
            values = _attributes(record.get("attributes")) if isinstance(record, dict) else {}
            name = values.get("event.name") or (record.get("eventName") if isinstance(record, dict) else None)
            side, found = event_messages(name, values, _value(record.get("body"))) if name else ("", [])
            if found:
                span = required(path, f"{place}.scopeLogs[{at}]", record, "spanId", str)
                trace = traces.setdefault(
                    required(path, f"{place}.scopeLogs[{at}]", record, "traceId", str), _new_trace()
                )
                if trace["logged"]["span"] != span:
                    trace["logged"] = {"span": span, "input": [], "output": []}
                trace["logged"][side] += found


def _add_score(values: dict[str, Any], trace: dict[str, Any]) -> None:
    name = str(values.get(f"{_SCORE}name", "score"))
    value = values.get(f"{_SCORE}score.value")
    trace["scores"][name] = values.get(f"{_SCORE}score.label") if value is None else value
    if f"{_SCORE}explanation" in values:
        trace["explanations"][name] = values[f"{_SCORE}explanation"]


def _messages(path: Path, place: str, values: dict[str, Any], side: str) -> list[Any]:
    """The messages of a span: structured, or as JSON text, which is what most SDKs write."""
    name = f"gen_ai.{side}.messages"
    found = values.get(name)
    if isinstance(found, str):
        try:
            found = orjson.loads(found)
        except orjson.JSONDecodeError:
            found = found or None
    return [] if found is None else required(path, place, {name: found}, name, list)


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair["key"]: _value(pair.get("value")) for pair in pairs or [] if isinstance(pair, dict) and "key" in pair}


def _value(value: Any) -> Any:
    """An `AnyValue` as plain data. 64-bit integers are texts in OTLP's JSON."""
    if not isinstance(value, dict) or not value:
        return None
    ((kind, inner),) = list(value.items())[:1]
    if kind == "intValue":
        return int(inner)
    if kind == "arrayValue":
        return [_value(item) for item in inner.get("values") or []]
    if kind == "kvlistValue":
        return _attributes(inner.get("values"))
    return inner
