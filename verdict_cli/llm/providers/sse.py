"""Streamed replies: server-sent events, assembled to the body that the same call returns without streaming."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from verdict_cli.llm.providers.http_errors import error_in
from verdict_cli.llm.providers.wire_values import loads
from verdict_cli.messages import JsonObject, NamedValues
from verdict_cli.regex import regex

_MAX_TOOL_CALLS = 128
"""The most tool calls of one reply."""
END: JsonObject = {}
"""The event that ends a stream of chat completions: `[DONE]`."""
_MAX_LINE = 2**20
"""The longest part of a line that `TextStream` holds, in bytes."""


def events(body: bytes) -> Iterator[JsonObject]:
    """The JSON objects of a stream of server-sent events. ValueError for an event that is not an object."""
    return (event for line in body.splitlines() if (event := read_event(line)) is not None)


def assemble(stream: Iterable[NamedValues]) -> JsonObject:
    """The chat completion in a stream's events.

    Raises ValueError for broken events and for a stream that ends before its reply does.
    """
    envelope: JsonObject = {}
    message = _Message()
    positions: list[Any] = []
    finish, has_ended = None, False
    for event in stream:
        has_ended |= event is END
        if error_in(event) is not None:
            return {**envelope, **event}
        envelope |= {
            key: event[key]
            for key in ("model", "usage", "service_tier", "system_fingerprint")
            if event.get(key)
        }
        for choice in first_choices(event):
            # Some servers stream the whole reply as one event.
            part = "delta" if "delta" in choice else "message"
            message.add(_mapping(choice.get(part)))
            positions += _listed(_mapping(choice.get("logprobs")).get("content"))
            finish = choice.get("finish_reason") or finish
    if finish is None:
        if not (message.texts and has_ended):
            raise ValueError("the stream ended before the reply did")
        finish = "stop"  # some servers end a stream without saying why
    choice = {
        "message": message.as_dict(),
        "finish_reason": finish,
        "logprobs": {"content": positions} if positions else None,
    }
    return {**envelope, "choices": [choice]}


def first_choices(event: NamedValues) -> list[Any]:
    """The parts of an event that belong to the first of several replies, which has the index 0 or none."""
    return [choice for choice in _listed(event.get("choices")) if not _mapping(choice).get("index")]


class _Message:
    """The message so far: texts by key, tool calls by index."""

    def __init__(self) -> None:
        self.texts: dict[str, list[str]] = {}
        self.calls: dict[int, dict[str, list[str]]] = {}

    def add(self, delta: NamedValues) -> None:
        for key in ("content", "refusal", "reasoning_content", "reasoning"):
            if isinstance(delta.get(key), str):
                self.texts.setdefault(key, []).append(delta[key])
        for part in _listed(delta.get("tool_calls")):
            index = part.get("index") or 0
            if not isinstance(index, int) or not 0 <= index < _MAX_TOOL_CALLS:
                raise ValueError(f"a tool call has the index {index!r:.40}")
            call = self.calls.setdefault(index, {"name": [], "arguments": []})
            for key, parts in call.items():
                if isinstance(text := _mapping(part.get("function")).get(key), str):
                    parts.append(text)

    def as_dict(self) -> JsonObject:
        message: JsonObject = {"content": None} | {
            key: "".join(parts) for key, parts in self.texts.items()
        }
        if self.calls:
            functions = [
                {key: "".join(parts) for key, parts in self.calls[index].items()}
                for index in sorted(self.calls)
            ]
            message["tool_calls"] = [
                {"type": "function", "function": function} for function in functions
            ]
        return message


def _mapping(value: Any) -> NamedValues:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ValueError(f"{value!r:.40} is not an object")
    return value


def _listed(value: Any) -> list[Any]:
    """The objects of a list; [] for null."""
    if not value:
        return []
    if not isinstance(value, list):
        raise ValueError(f"{value!r:.40} is not a list")
    return [_mapping(item) for item in value]


class TextStream:
    """The text of a stream's events as their bytes arrive, for display. Broken events are left to `assemble`.

    ``text_of`` is the text of one event.
    """

    def __init__(self, text_of: Callable[[NamedValues], str]) -> None:
        self._text_of = text_of
        self._rest = b""

    def feed(self, content: bytes) -> str:
        """The text of the events that these bytes complete."""
        *lines, self._rest = (self._rest + content).split(b"\n")
        self._rest = self._rest[:_MAX_LINE]
        texts: list[str] = []
        for line in lines:
            try:
                texts.append(self._text_of(read_event(line.rstrip(b"\r")) or {}))
            except (ValueError, AttributeError, TypeError):
                continue
        return "".join(texts)


def text_of(event: NamedValues) -> str:
    """The text that an event of a chat completion adds."""
    return "".join(_delta_text(choice.get("delta") or {}) for choice in first_choices(event))


def _delta_text(delta: JsonObject) -> str:
    """What an event adds to the reply: text, or the arguments of the tool whose call is the reply."""
    parts = [delta.get("content")]
    parts += [
        (part.get("function") or {}).get("arguments") for part in delta.get("tool_calls") or ()
    ]
    return "".join(part for part in parts if isinstance(part, str))


_EVENT = regex(rb"\s*(?:data|event|id|retry)?:")


def has_events(content: bytes) -> bool:
    """Whether a body is a stream of events."""
    return not content.startswith(b"{") and _EVENT.match(content) is not None


def read_event(line: bytes) -> JsonObject | None:
    """The event in a line of the stream, None for a line without one. Raises ValueError for a broken one."""
    data = line.removeprefix(b"data:").strip()
    if not line.startswith(b"data:") or not data:
        return None
    if data == b"[DONE]":
        return END
    event = loads(data)
    if not isinstance(event, dict):
        raise ValueError("an event is not a JSON object")
    return event
