"""Messages in the older forms of OpenTelemetry's GenAI conventions: one event for each message (1.28 to 1.36), the two
content events before them, and the numbered attributes of OpenLLMetry."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import orjson

_EVENT_ROLES = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
_CONTENT_EVENTS = {"gen_ai.content.prompt": ("input", "gen_ai.prompt"), "gen_ai.content.completion": ("output", "gen_ai.completion")}  # fmt: skip
_NUMBERED = re.compile(r"gen_ai\.(prompt|completion)\.(\d{1,6})\.(?:tool_calls\.(\d{1,6})\.)?(\w+)", re.ASCII)


def numbered_messages(values: Mapping[str, Any], side: str) -> list[Any]:
    """The messages in attributes such as `gen_ai.prompt.0.content`; of several completions, the first."""
    messages: dict[int, dict[str, Any]] = {}
    calls: dict[int, dict[int, dict[str, Any]]] = {}
    for name, value in values.items():
        match = _NUMBERED.fullmatch(name)
        if match is None or match[1] != ("prompt" if side == "input" else "completion"):
            continue
        number = int(match[2])
        message = messages.setdefault(number, {"role": "user" if side == "input" else "assistant", "content": None})
        if match[3] is not None:
            calls.setdefault(number, {}).setdefault(int(match[3]), {})[match[4]] = value
        elif match[4] in ("role", "content", "tool_call_id"):
            message[match[4]] = parsed_parts(value)
    for number, by_place in calls.items():
        messages[number]["tool_calls"] = [by_place[place] for place in sorted(by_place)]
    kept = sorted(messages)[: None if side == "input" else 1]
    return [_with_content(messages[number]) for number in kept]


def event_messages(name: Any, values: Mapping[str, Any], body: Any = None) -> tuple[str, list[Any]]:
    """(`input` or `output`, messages) of an event or a log record of a span; no messages where it is another one.

    The content is the record's body, or the event's attributes, as JSON text in `gen_ai.event.content`.
    """
    if name in _CONTENT_EVENTS:
        side, key = _CONTENT_EVENTS[name]
        found = parsed(values.get(key))
        return side, found if isinstance(found, list) else [] if found is None else [
            {"role": _role(side), "content": str(found)}
        ]
    if name != "gen_ai.choice" and name not in _EVENT_ROLES:
        return "", []
    said = next(
        (each for each in (body, parsed(values.get("gen_ai.event.content")), values) if isinstance(each, Mapping)), {}
    )
    if name == "gen_ai.choice":
        if said.get("index") not in (None, 0):
            return "output", []
        inner = parsed(said.get("message"))
        if isinstance(inner, str):
            inner = {"content": inner}
        return "output", [_message(inner if isinstance(inner, Mapping) else said, "assistant")]
    return "input", [_message(said, _EVENT_ROLES[name])]


def _role(side: str) -> str:
    return "user" if side == "input" else "assistant"


def _message(said: Mapping[str, Any], role: str) -> dict[str, Any]:
    message = {"role": role, "content": parsed_parts(said.get("content"))}
    calls = parsed(said.get("tool_calls"))
    if isinstance(calls, list):
        message["tool_calls"] = calls
    if role == "tool" and isinstance(said.get("id"), str):
        message["tool_call_id"] = said["id"]
    return _with_content(message)


def _with_content(message: dict[str, Any]) -> dict[str, Any]:
    """The message; a missing content, of one that calls no tool, is empty: it was not recorded."""
    return message if message["content"] is not None or message.get("tool_calls") else {**message, "content": ""}


def parsed(value: Any) -> Any:
    """A JSON text as its value; any other value as it is."""
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        try:
            return orjson.loads(value)
        except orjson.JSONDecodeError:
            return value
    return value


def parsed_parts(value: Any) -> Any:
    """A content: a text, or parts that were written as JSON text."""
    found = parsed(value)
    is_parts = isinstance(found, list) and all(isinstance(part, dict) and "type" in part for part in found) and found
    return found if is_parts else value
