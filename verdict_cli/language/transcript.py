"""The transcript of a conversation in a prompt: numbered turns, filters that keep the numbers, images (language-2.md, C1)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from verdict_cli.language.conversation import CHAT_ROLES, MessageData, read_conversation, role_name


class NumberedMessages(list[MessageData]):
    """Messages in the one form, with their numbers in the conversation that they were taken from."""

    def __init__(self, messages: Sequence[MessageData], numbers: Sequence[int]) -> None:
        super().__init__(messages)
        self.numbers = numbers

    def part(self, indices: slice) -> NumberedMessages:
        """Some of the messages; they keep their numbers."""
        return NumberedMessages(self[indices], self.numbers[indices])


class Transcript(str):
    """The text of a conversation, with the addresses of the images in it."""

    images: tuple[str, ...] = ()


def numbered(value: Any) -> NumberedMessages:
    """The messages of a conversation in any form, numbered from 1. Raises ConversationError."""
    if isinstance(value, NumberedMessages):
        return value
    messages = read_conversation(value)
    return NumberedMessages(messages, range(1, len(messages) + 1))


def filtered(value: Any, name: str, argument: int | str) -> NumberedMessages:
    """Some messages of a conversation, by one of MESSAGE_FILTERS; they keep their numbers. Raises ConversationError."""
    messages = numbered(value)
    if name in ("last", "first"):
        count = min(int(argument), len(messages))
        return messages.part(slice(len(messages) - count, None) if name == "last" else slice(count))
    role, wanted = role_name(str(argument)), name == "only"
    kept = [index for index, message in enumerate(messages) if (message["role"] == role) == wanted]
    return NumberedMessages([messages[index] for index in kept], [messages.numbers[index] for index in kept])


MESSAGE_FILTERS: dict[str, type] = {"last": int, "first": int, "without": str, "only": str}
"""Filters of a conversation, and the type of their argument: a number of messages, or a role."""


def transcript(value: Any) -> Transcript:
    """The messages as numbered turns: `[1] user: …`. A debate, whose speakers all have names of their own, has tags of
    these names instead, as in the ancestor's library: `<Proponent>`, unless a speech has such a tag of its own. Raises
    ConversationError."""
    messages = numbered(value)
    pairs = zip(messages.numbers, messages, strict=True)
    if all(map(_is_speech, messages)) and not _writes_tags(messages):
        tagged = (f"<{message['role']}>\n{message['content']}\n</{message['role']}>" for message in messages)
        return Transcript("\n\n".join(tagged))
    lines = (_indented(line) for number, message in pairs for line in _lines(f"[{number}]", message))
    made = Transcript("\n".join(lines))
    made.images = conversation_images(messages)
    return made


def _indented(text: str) -> str:
    """The text with its further lines indented, so that none of them can pass for a turn."""
    return "\n    ".join(text.splitlines())


def _is_speech(message: MessageData) -> bool:
    return (
        message.keys() == {"role", "content"}
        and message["role"] not in CHAT_ROLES
        and isinstance(message["content"], str)
    )


def _writes_tags(messages: Sequence[MessageData]) -> bool:
    """Whether a speech contains a speaker's tag, with which it could end its own turn and write one of another speaker."""
    tags = {tag for message in messages for tag in (f"<{message['role']}>", f"</{message['role']}>")}
    return any(tag in message["content"] for message in messages for tag in tags)


def message_text(value: Any) -> Transcript:
    """One message in any form, as a turn without a number. Raises ConversationError."""
    messages = read_conversation([value])
    made = Transcript("\n".join(line.strip() for message in messages for line in _lines("", message)))
    made.images = conversation_images(messages)
    return made


def _lines(number: str, message: MessageData) -> Iterator[str]:
    role, name = message["role"], message.get("name")
    speaker = f"{role} {name}" if name else role
    if message.get("content") not in (None, "") or not message.get("tool_calls"):
        yield f"{number} {speaker}: {content_text(message.get('content'))}"
    for call in _calls(message):
        yield f"{number} {role} {call}"


def calls_text(message: MessageData) -> str:
    """The tool calls of a message, one a line: `called search({"q": "x"})`."""
    return "\n".join(_calls(message))


def _calls(message: MessageData) -> Iterator[str]:
    for call in message.get("tool_calls", ()):
        yield f"called {call['function']['name']}({arguments_text(call['function']['arguments'])})"


def content_text(content: Any) -> str:
    """The text of a message's content. Images and other parts are named, not printed."""
    if content is None or isinstance(content, str):
        return content or ""
    return " ".join(part["text"] if part.get("type") == "text" else f"({_part_name(part)})" for part in content)


def _part_name(part: Mapping[str, Any]) -> str:
    kind = part.get("type")
    return "image" if kind == "image_url" else str(kind or "part").replace("_", " ")


def conversation_images(messages: Sequence[MessageData]) -> tuple[str, ...]:
    """The addresses of the images in the messages, in order."""
    return tuple(
        part["image_url"]["url"]
        for message in messages
        if isinstance(message.get("content"), list)
        for part in message["content"]
        if part.get("type") == "image_url"
    )


def arguments_text(text: str) -> str:
    """A tool's arguments in JSON's usual spelling; as they are where they are not JSON."""
    try:
        return json.dumps(json.loads(text), ensure_ascii=False) if text.strip() else "{}"
    except (ValueError, RecursionError):
        return text
