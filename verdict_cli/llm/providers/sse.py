"""A streamed reply: server-sent events put together to the body that the same call would give unstreamed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from verdict_cli.llm.providers.secrets import redact
from verdict_cli.llm.providers.wire_values import loads

_MOST_CALLS = 128
"""The most tool calls of one reply."""
_LONGEST_LINE = 2**20
"""A line that people watch is no longer than so many bytes."""


def assembled(content: bytes, hidden: tuple[str, ...] = ()) -> dict[str, Any]:
    """The chat completion of a stream's events, each without what is ``hidden``. Raises ValueError for events that are
    none and for a stream that ends before its reply does.
    """
    whole: dict[str, Any] = {}
    message = _Message()
    positions: list[Any] = []
    finish = None
    for line in content.splitlines():
        found = _event(line)
        if found is None:
            continue
        event: dict[str, Any] = redact(found, hidden)
        if event.get("error"):
            return event
        whole |= {key: event[key] for key in ("model", "usage") if event.get(key)}
        for choice in _listed(event.get("choices")):
            message.add(_mapping(choice.get("delta")))
            positions += _listed(_mapping(choice.get("logprobs")).get("content"))
            finish = choice.get("finish_reason") or finish
    if finish is None:
        raise ValueError("the stream ended before the reply did")
    choice = {
        "message": message.whole(),
        "finish_reason": finish,
        "logprobs": {"content": positions} if positions else None,
    }
    return {**whole, "choices": [choice]}


class _Message:
    """What the events have said so far: text to text, a tool's arguments to those of the same call."""

    def __init__(self) -> None:
        self.texts: dict[str, list[str]] = {}
        self.calls: dict[int, dict[str, list[str]]] = {}

    def add(self, delta: Mapping[str, Any]) -> None:
        """Adds an event's part."""
        for key in ("content", "refusal"):
            if isinstance(delta.get(key), str):
                self.texts.setdefault(key, []).append(delta[key])
        for part in _listed(delta.get("tool_calls")):
            place = part.get("index") or 0
            if not isinstance(place, int) or not 0 <= place < _MOST_CALLS:
                raise ValueError(f"a tool call has the index {place!r:.40}")
            call = self.calls.setdefault(place, {"name": [], "arguments": []})
            for key, said in call.items():
                if isinstance(text := _mapping(part.get("function")).get(key), str):
                    said.append(text)

    def whole(self) -> dict[str, Any]:
        """The message."""
        made: dict[str, Any] = {"content": None} | {key: "".join(said) for key, said in self.texts.items()}
        if self.calls:
            functions = [{key: "".join(said) for key, said in self.calls[at].items()} for at in sorted(self.calls)]
            made["tool_calls"] = [{"type": "function", "function": function} for function in functions]
        return made


def _mapping(value: Any) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ValueError(f"{value!r:.40} stands where an object was expected")
    return value


def _listed(value: Any) -> list[Any]:
    """The objects of a list; none for null."""
    if not value:
        return []
    if not isinstance(value, list):
        raise ValueError(f"{value!r:.40} stands where a list was expected")
    return [_mapping(one) for one in value]


class Pieces:
    """The text of a stream's events as their bytes come in, for people to watch; what is broken is left to `assembled`."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, content: bytes) -> str:
        """The text of the events that these bytes end."""
        *lines, self._rest = (self._rest + content).split(b"\n")
        self._rest = self._rest[:_LONGEST_LINE]
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
