"""A wire protocol: how a request is written for a kind of server, and how its reply is turned into a chat completion.

Every protocol is pure functions. The client, the retries and what makes a reply usable are the same for all of them
(`native.py`, `chat_completions.read_envelope`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from verdict_cli.llm.providers.json_mode import JsonMode
from verdict_cli.llm.providers.wire_values import content, loads
from verdict_cli.messages import Message, Request

Envelope = Mapping[str, Any]
"""A decoded reply body."""


@dataclass(frozen=True, slots=True)
class WireProtocol:
    """One provider's API.

    ``path`` gives what follows the base URL, from the model's name and whether the reply is streamed. ``body`` writes
    the request; it raises Refused for settings that the API does not have. ``to_chat`` turns a decoded reply into the
    form of a chat completion, with all prompt tokens under ``usage.prompt_tokens``. ``assemble`` puts the events of a
    streamed reply together to the body that the same call gives unstreamed, and ``text_of`` is the text that an event
    adds. ``version`` is the path segment that a base URL may lack.
    """

    name: str
    version: str
    path: Callable[[str, bool], str]
    headers: Callable[[str], Mapping[str, str]]
    body: Callable[[Request, str, JsonMode], dict[str, Any]]
    to_chat: Callable[[Envelope], dict[str, Any]]
    assemble: Callable[[Iterable[Envelope]], dict[str, Any]]
    text_of: Callable[[Envelope], str]


def events(body: bytes) -> Iterator[dict[str, Any]]:
    """The JSON objects of a stream of server-sent events. ValueError for an event that is not an object."""
    for line in body.splitlines():
        data = line.removeprefix(b"data:").strip()
        if not line.startswith(b"data:") or not data or data == b"[DONE]":
            continue
        event = loads(data)
        if not isinstance(event, dict):
            raise ValueError("an event is not a JSON object")
        yield event


def split_system(messages: Sequence[Message]) -> tuple[str, list[Message]]:
    """The system messages' text, and the others: for APIs that take the system prompt apart from the conversation."""
    system = "\n\n".join(message.content for message in messages if message.role == "system")
    return system, [message for message in messages if message.role != "system"]


def parts_of(message: Message) -> list[dict[str, Any]]:
    """A message's content as OpenAI's parts (``text`` and ``image_url``), also where it is text alone."""
    written = content(message)
    return [{"type": "text", "text": written}] if isinstance(written, str) else written


def data_url(url: str) -> tuple[str, str] | None:
    """(media type, base64 data) of a ``data:`` URL; None for another address."""
    head, comma, data = url.partition(",")
    if not comma or not head.startswith("data:") or not head.endswith(";base64"):
        return None
    return head.removeprefix("data:").removesuffix(";base64"), data


def count(value: Any) -> int:
    """A number of tokens; 0 for anything else."""
    return value if type(value) is int and value >= 0 else 0


def objects(value: Any) -> list[Mapping[str, Any]]:
    """The objects in a list; none for anything else."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def object_at(value: Any, key: str) -> Mapping[str, Any]:
    """The object under a key; empty where there is none."""
    found = value.get(key) if isinstance(value, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def chat_completion(
    text: str,
    finish_reason: str,
    usage: Mapping[str, Any] | None,
    *,
    model: str = "",
    arguments: Any = None,
    refusal: str | None = None,
    logprobs: list[dict[str, Any]] | None = None,
    extra: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A reply in the form of a chat completion. ``arguments``: those of a call of our own tool."""
    message: dict[str, Any] = {"content": text}
    if arguments is not None:
        message["tool_calls"] = [{"type": "function", "function": {"name": "reply", "arguments": arguments}}]
    if refusal:
        message["refusal"] = refusal
    choice = {"message": message, "finish_reason": finish_reason, "logprobs": logprobs and {"content": logprobs}}
    return {"choices": [choice], "usage": usage, "model": model, **(extra or {})}
