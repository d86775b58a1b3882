"""Traces as OTLP JSON (the file exporter of OpenTelemetry's collector), with the GenAI conventions: one row a trace.

A trace without a span of a model call is not a row.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson
from msgspec import Struct

from verdict_cli.features.imports.logs import LogPlace, LogRow, log_objects, not_in_format, parsed
from verdict_cli.messages import JsonObject, NamedValues
from verdict_cli.plural import plural
from verdict_cli.regex import regex

_EVENT_ROLES = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
_CONTENT_EVENTS = {"gen_ai.content.prompt": ("input", "gen_ai.prompt"), "gen_ai.content.completion": ("output", "gen_ai.completion")}  # fmt: skip
_ROLES = {"input": "user", "output": "assistant"}
_NUMBERED = regex(
    r"gen_ai\.(prompt|completion)\.(\d{1,6})\.(?:tool_calls\.(\d{1,6})\.)?(\w+)", re.ASCII
)


_DETAILS = "gen_ai.client.inference.operation.details"
"""The event, or the log record, that has a call's messages in the conventions since 1.37."""
_OPENINFERENCE = regex(r"llm\.(input|output)_messages\.(\d{1,6})\.message\.(.+)", re.ASCII)


def _with_openinference(values: JsonObject) -> JsonObject:
    """The attributes, with those of OpenInference under the names of the GenAI conventions."""
    renamed: JsonObject = {}
    for name, value in values.items():
        match = _OPENINFERENCE.fullmatch(name)
        if match is None:
            continue
        head = f"gen_ai.{'prompt' if match[1] == 'input' else 'completion'}.{match[2]}"
        field = match[3].replace("tool_call.function.", "").replace("tool_call.id", "id")
        if field.startswith("contents.") and field.endswith("message_content.text"):
            before = renamed.get(f"{head}.content")
            renamed[f"{head}.content"] = value if before is None else f"{before}\n{value}"
        else:
            renamed[f"{head}.{field}"] = value
    if "llm.model_name" in values:
        renamed["gen_ai.request.model"] = values["llm.model_name"]
    return {**renamed, **values}


def numbered_messages(values: NamedValues, side: str) -> list[Any]:
    """The messages in attributes such as `gen_ai.prompt.0.content`; of several completions, the first."""
    messages: dict[int, JsonObject] = {}
    calls: dict[int, dict[int, JsonObject]] = {}
    for name, value in values.items():
        match = _NUMBERED.fullmatch(name)
        if match is None or match[1] != ("prompt" if side == "input" else "completion"):
            continue
        number = int(match[2])
        message = messages.setdefault(number, {"role": _ROLES[side], "content": None})
        if match[3] is not None:
            calls.setdefault(number, {}).setdefault(int(match[3]), {})[match[4]] = value
        elif match[4] in ("role", "content", "tool_call_id"):
            message[match[4]] = parsed_parts(value)
    for number, by_index in calls.items():
        messages[number]["tool_calls"] = [by_index[index] for index in sorted(by_index)]
    numbers = sorted(messages)[: None if side == "input" else 1]
    return [_with_content(messages[number]) for number in numbers]


def event_messages(name: Any, values: NamedValues, body: Any = None) -> tuple[str, list[Any]]:
    """(`input` or `output`, messages) of an event or a log record of a span; no messages where it is another one.

    The content is the record's body, or the event's attributes, as JSON text in `gen_ai.event.content`.
    """
    if name in _CONTENT_EVENTS:
        side, key = _CONTENT_EVENTS[name]
        prompt = parsed(values.get(key))
        if prompt is not None and not isinstance(prompt, list):
            prompt = [{"role": _ROLES[side], "content": str(prompt)}]
        return side, prompt or []
    if name != "gen_ai.choice" and name not in _EVENT_ROLES:
        return "", []
    contents = (body, parsed(values.get("gen_ai.event.content")), values)
    event = next((content for content in contents if isinstance(content, Mapping)), {})
    if name == "gen_ai.choice":
        if event.get("index") not in (None, 0):
            return "output", []
        inner = parsed(event.get("message"))
        if isinstance(inner, str):
            inner = {"content": inner}
        return "output", [_message(inner if isinstance(inner, Mapping) else event, "assistant")]
    return "input", [_message(event, _EVENT_ROLES[name])]


def _message(content: NamedValues, role: str) -> JsonObject:
    message = {"role": role, "content": parsed_parts(content.get("content"))}
    calls = parsed(content.get("tool_calls"))
    if isinstance(calls, list):
        message["tool_calls"] = calls
    if role == "tool" and isinstance(content.get("id"), str):
        message["tool_call_id"] = content["id"]
    return _with_content(message)


def _with_content(message: JsonObject) -> JsonObject:
    """The message; a missing content, of one that calls no tool, is empty: it was not recorded."""
    return (
        message
        if message["content"] is not None or message.get("tool_calls")
        else {**message, "content": ""}
    )


def parsed_parts(value: Any) -> Any:
    """A content: a text, or parts that were written as JSON text."""
    content = parsed(value)
    is_parts = (
        isinstance(content, list)
        and all(isinstance(part, dict) and "type" in part for part in content)
        and content
    )
    return content if is_parts else value


_SCORE = "gen_ai.evaluation."
_SIDES = ("input", "output")


class _Talk(Struct):
    """The messages of a call, and its span."""

    span: str | None = None
    input: list[Any] = []
    output: list[Any] = []


class _Trace(Struct):
    """What a row needs of a trace: `called` are the messages of the call that ended last, `logged` those of log records."""

    called: _Talk | None = None
    logged: _Talk | None = None
    ended: int = -1
    model: Any = None
    scores: JsonObject = {}
    explanations: JsonObject = {}
    metadata: JsonObject = {}


def otlp_traces(path: Path) -> Iterator[LogRow]:
    """The traces in the order of their first span. Only what a row needs of each is held in memory.

    The conversation is that of the call that ended last: its input and its output messages, of the span, of its events, or
    of log records in the same file. Raises DataError for a document without `resourceSpans`, and a span without ids.
    """
    traces: dict[str, _Trace] = defaultdict(_Trace)
    for place, resource in _resources(path):
        if "scopeLogs" in resource:
            with place.known_shape():
                _add_records(place, resource, traces)
            continue
        for position, scope in enumerate(place.required(resource, "scopeSpans", list)):
            inside = place.within(f"scopeSpans[{position}]")
            for number, span in enumerate(inside.required(scope, "spans", list)):
                with (inner := inside.within(f"spans[{number}]")).known_shape():
                    _add(inner, span, traces)
    talks = {identity: trace.called or trace.logged for identity, trace in traces.items()}
    if not any(talks.values()):
        raise not_in_format(
            path,
            f"none of its {plural(len(traces), 'trace')} has messages: neither `gen_ai.*` nor OpenInference's `llm.*_messages`",
            "content is recorded only if the instrumentation is told to: OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true",
        )
    for identity, talk in talks.items():
        if talk is None:
            continue
        trace, place = traces[identity], LogPlace(path, f"trace {identity}")
        with place.known_shape():
            yield place.row(
                identity=identity,
                messages=talk.input + talk.output,
                scores=trace.scores,
                model=trace.model,
                explanations=trace.explanations,
                metadata=trace.metadata,
                trace_id=identity,
                span_id=talk.span,
            )


def _resources(path: Path) -> Iterator[tuple[LogPlace, JsonObject]]:
    """The resources' spans: of one document, or of one a line."""
    for name, item in log_objects(path, "resourceSpans"):
        kind = next((kind for kind in ("resourceSpans", "resourceLogs") if kind in item), None)
        if kind is None:
            yield LogPlace(path, name), item
            continue
        for position, resource in enumerate(LogPlace(path, name).required(item, kind, list)):
            place = LogPlace(path, f"{name}: {kind}[{position}]")
            yield place, place.required({kind: resource}, kind, dict)


def _add(place: LogPlace, span: Any, traces: dict[str, _Trace]) -> None:
    identity, span_id = place.required(span, "traceId", str), place.required(span, "spanId", str)
    trace = traces[identity]
    values = _with_openinference(_attributes(span.get("attributes")))
    events = [
        (event.get("name"), _attributes(event.get("attributes")))
        for event in span.get("events") or []
        if isinstance(event, dict)
    ]
    for name, details in events:
        if name == _DETAILS:
            values |= details
        if name == "gen_ai.evaluation.result":
            _add_score(details, trace)
    sides = {
        side: _messages(place, values, side) or numbered_messages(values, side) for side in _SIDES
    }
    for name, details in events:
        side, messages = event_messages(name, details)
        if messages:
            sides[side] += messages
    ended = int(span.get("endTimeUnixNano") or 0)
    model = values.get("gen_ai.response.model") or values.get("gen_ai.request.model")
    if model and trace.called is None:
        trace.model = model
    if any(sides.values()) and ended >= trace.ended:
        system = values.get("gen_ai.system_instructions")
        parts = orjson.loads(system) if isinstance(system, str) and system else system
        instructions = [{"role": "system", "parts": parts}] if system else []
        trace.called = _Talk(span_id, instructions + sides["input"], sides["output"])
        trace.ended, trace.model = ended, model
    if not span.get("parentSpanId"):
        trace.metadata["name"] = span.get("name")


def _add_records(place: LogPlace, resource: Any, traces: dict[str, _Trace]) -> None:
    """Add the messages in log records. Of each trace, those of the span are kept whose records come last."""
    for position, scope in enumerate(place.required(resource, "scopeLogs", list)):
        inside = place.within(f"scopeLogs[{position}]")
        for record in inside.required(scope, "logRecords", list):
            if not isinstance(record, dict):
                continue
            values = _attributes(record.get("attributes"))
            name = values.get("event.name") or record.get("eventName")
            sides = [event_messages(name, values, _value(record.get("body")))] if name else []
            if name == _DETAILS:
                sides = [(side, _messages(inside, values, side)) for side in _SIDES]
            for side, messages in sides:
                if not messages:
                    continue
                span = inside.required(record, "spanId", str)
                trace = traces[inside.required(record, "traceId", str)]
                if trace.logged is None or trace.logged.span != span:
                    trace.logged = _Talk(span)
                talk = trace.logged.input if side == "input" else trace.logged.output
                talk += messages


def _add_score(values: JsonObject, trace: _Trace) -> None:
    name = str(values.get(f"{_SCORE}name", "score"))
    value = values.get(f"{_SCORE}score.value")
    trace.scores[name] = values.get(f"{_SCORE}score.label") if value is None else value
    if f"{_SCORE}explanation" in values:
        trace.explanations[name] = values[f"{_SCORE}explanation"]


def _messages(place: LogPlace, values: JsonObject, side: str) -> list[Any]:
    """The messages of a span: structured, or as JSON text, which is what most SDKs write."""
    name = f"gen_ai.{side}.messages"
    content = values.get(name)
    if isinstance(content, str):
        try:
            content = orjson.loads(content)
        except orjson.JSONDecodeError:
            content = content or None
    return [] if content is None else place.required({name: content}, name, list)


def _attributes(pairs: Any) -> JsonObject:
    return {
        pair["key"]: _value(pair.get("value"))
        for pair in pairs or []
        if isinstance(pair, dict) and "key" in pair
    }


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
