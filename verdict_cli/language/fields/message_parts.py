"""Messages in the form of OpenTelemetry's GenAI conventions (`parts`), as messages with a `content`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def without_parts(message: Any) -> list[Any]:
    """The messages that a message with `parts` stands for: one, or one for each result of a tool. Any other value as it
    is."""
    if not isinstance(message, Mapping) or "content" in message or not isinstance(message.get("parts"), list | tuple):
        return [message]
    parts = [part if isinstance(part, Mapping) else {} for part in message["parts"]]
    head = {key: value for key, value in message.items() if key not in ("parts", "finish_reason")}
    results = [part for part in parts if part.get("type") == "tool_call_response"]
    calls = [part for part in parts if part.get("type") == "tool_call"]
    rest = [part for part in parts if part not in results and part not in calls]
    found = [
        {
            **head,
            "role": "tool",
            "content": _text(part.get("response", part.get("result"))),
            "tool_call_id": part.get("id"),
        }
        for part in results
    ]
    if rest or calls or not found:
        said = {**head, "content": _content(rest) if rest or not calls else None}
        found.insert(0, {**said, "tool_calls": [_call(part) for part in calls]} if calls else said)
    return found


def _content(parts: list[Any]) -> Any:
    """The text of text parts; with others, a list of all of them."""
    if all(part.get("type") == "text" and isinstance(part.get("content"), str) for part in parts):
        return "\n".join(part["content"] for part in parts)
    return [
        {"type": "text", "text": part["content"]} if part.get("type") == "text" and "content" in part else dict(part)
        for part in parts
    ]


def _call(part: Mapping[str, Any]) -> dict[str, Any]:
    function = {"name": part.get("name"), "arguments": _text(part.get("arguments"))}
    return {"id": part.get("id"), "type": "function", "function": function}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
