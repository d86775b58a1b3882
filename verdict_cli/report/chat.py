"""Conversations as chats: their turns as a page shows them, and their beginning in a cell of a table."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import orjson

from verdict_cli.language.conversation import (
    ConversationError,
    NumberedMessages,
    arguments_text,
    content_text,
    conversation_images,
    looks_like_conversation,
    number_messages,
    transcript,
)
from verdict_cli.messages import JsonObject
from verdict_cli.plural import plural
from verdict_cli.regex import regex
from verdict_cli.report.compress import NESTED

CHAT_TEXT = "[{"
"""How a conversation begins that is JSON text."""
_PREVIEWED = 8
"""Messages of a conversation that are read for a cell."""
_MOST_ADDRESS = 200
_DATA_ADDRESS = regex(r"data:([\w.+-]+/[\w.+-]+)?((?:;[\w=.+-]+)*),", re.ASCII)


def is_plain(value: Any, most: int) -> bool:
    """Whether the value is no conversation and no text of more characters: most values are shown as they are."""
    if isinstance(value, str):
        return len(value) <= most and not value.startswith(CHAT_TEXT)
    return not isinstance(value, NESTED)


def as_conversation(value: Any, most: int | None = None) -> NumberedMessages | None:
    """The messages of a conversation, also of one that is JSON text, as the results have it; None for any other value.
    With ``most``, only so many messages are read."""
    if isinstance(value, str):
        if not (value.startswith(CHAT_TEXT) and ('"role"' in value or '"from"' in value)):
            return None
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError:
            return None
    if not looks_like_conversation(value):
        return None
    try:
        return number_messages(value if most is None else value[:most])
    except ConversationError:
        return None


def chat_preview(value: Any) -> Any:
    """The beginning of a conversation as its transcript; another value as it is."""
    messages = as_conversation(value, _PREVIEWED)
    return value if messages is None else str(transcript(messages))


def chat_turns(messages: NumberedMessages, cut: Callable[[str], str], most: int) -> JsonObject:
    """The turns for the page's script, and how many are left out because those before have `most` characters or more."""
    turns = []
    size = 0
    for number, message in zip(messages.numbers, messages, strict=True):
        if size >= most:
            break
        calls = [
            [call["function"]["name"], cut(arguments_text(call["function"]["arguments"]))]
            for call in message.get("tool_calls", ())
        ]
        text = cut(content_text(message.get("content")))
        size += len(text) + sum(len(arguments) for _, arguments in calls)
        turns.append(
            {
                "number": number,
                "role": message["role"],
                "name": message.get("name") or "",
                "text": text,
                "images": image_notes(conversation_images([message])),
                "calls": calls,
            }
        )
    return {"turns": turns, "left": len(messages) - len(turns)}


def image_notes(addresses: Sequence[str]) -> list[str]:
    """What a page shows in place of images: the kind and size of those within the data, the addresses of others."""
    return [_image_note(address) for address in addresses]


def _image_note(address: str) -> str:
    match = _DATA_ADDRESS.match(address)
    if match is None:
        return address if len(address) <= _MOST_ADDRESS else f"{address[:_MOST_ADDRESS]}…"
    if address.endswith("…"):  # as the table of calls cuts it
        return match[1] or "image"
    size = len(address) - match.end()
    if ";base64" in match[2]:
        size = size * 3 // 4 - address[-2:].count("=")
    return f"{match[1] or 'image'}, {_size(size)}"


def _size(count: int) -> str:
    if count < 1_000:
        return plural(count, "byte")
    return f"{count / 1_000:.1f} kB" if count < 1_000_000 else f"{count / 1_000_000:.1f} MB"
