"""A streamed reply: server-sent events put together to the body that the same call would give unstreamed."""

from __future__ import annotations

from typing import Any

from verdict_cli.providers.json_values import loads


def assembled(content: bytes) -> dict[str, Any]:
    """The chat completion of a stream's events. Raises ValueError for events that are none and for a stream that
    ends before its reply does.
    """
    whole: dict[str, Any] = {}
    message: dict[str, Any] = {"content": None}
    positions: list[Any] = []
    finish = None
    for line in content.splitlines():
        event = _event(line)
        if event is None:
            continue
        if event.get("error"):
            return event
        whole |= {key: event[key] for key in ("model", "usage") if event.get(key)}
        for choice in event.get("choices") or ():
            _add(message, choice.get("delta") or {})
            positions += (choice.get("logprobs") or {}).get("content") or ()
            finish = choice.get("finish_reason") or finish
    if finish is None:
        raise ValueError("the stream ended before the reply did")
    choice = {
        "message": message,
        "finish_reason": finish,
        "logprobs": {"content": positions} if positions else None,
    }
    return {**whole, "choices": [choice]}


def _add(message: dict[str, Any], delta: dict[str, Any]) -> None:
    """Adds an event's part to the message: text to text, a tool's arguments to those of the same call."""
    for key in ("content", "refusal"):
        if isinstance(delta.get(key), str):
            message[key] = (message.get(key) or "") + delta[key]
    for part in delta.get("tool_calls") or ():
        calls = message.setdefault("tool_calls", [])
        place = part.get("index") or 0
        while len(calls) <= place:
            calls.append({"type": "function", "function": {"name": "", "arguments": ""}})
        function = part.get("function") or {}
        for key in ("name", "arguments"):
            calls[place]["function"][key] += function.get(key) or ""


class Pieces:
    """The text of a stream's events as their bytes come in, for people to watch; what is broken is left to `assembled`."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, content: bytes) -> str:
        """The text of the events that these bytes end."""
        *lines, self._rest = (self._rest + content).split(b"\n")
        said = []
        for line in lines:
            try:
                event = _event(line.rstrip(b"\r")) or {}
                said += [_said(choice.get("delta") or {}) for choice in event.get("choices") or ()]
            except (ValueError, AttributeError, TypeError):
                continue
        return "".join(said)


def _said(delta: dict[str, Any]) -> str:
    """What an event's part adds to the reply: text, or the arguments of the tool that stands for it."""
    parts = [delta.get("content")]
    parts += [(part.get("function") or {}).get("arguments") for part in delta.get("tool_calls") or ()]
    return "".join(part for part in parts if isinstance(part, str))


def _event(line: bytes) -> dict[str, Any] | None:
    """The event that a line of the stream spells, None for a line that has none. ValueError for one that is broken."""
    data = line.removeprefix(b"data:").strip()
    if not line.startswith(b"data:") or not data or data == b"[DONE]":
        return None
    event = loads(data)
    if not isinstance(event, dict):
        raise ValueError("an event is no JSON object")
    return event
