"""`turns(source.messages)`: the turns of a conversation as entries of `each`."""

from __future__ import annotations

from typing import Any

from verdict_cli.errors import RowError
from verdict_cli.language.fields.types import (
    INTEGER,
    TEXT,
    ListType,
    RecordType,
    TranscriptType,
    UnknownType,
    is_message,
)

TURNS = ListType(
    RecordType(
        {"index": INTEGER, "role": TEXT, "content": UnknownType(), "before": TranscriptType(), "message": UnknownType()}
    )
)
"""The type of what `turns` gives."""


def turns(messages: Any, role: str | None = None) -> list[dict[str, Any]]:
    """An entry for each message, or for each of one role: its index, role and content, the messages before it, and
    itself. RowError for anything but a list of messages."""
    if not isinstance(messages, list | tuple):
        raise RowError(f"`turns` takes a list of messages, not {messages!r:.80}", kind="input")
    for place, message in enumerate(messages):
        if not is_message(message):
            raise RowError(f"entry {place} is no message with a `role` and a `content`: {message!r:.80}", kind="input")
    return [
        {
            "index": place,
            "role": message["role"],
            "content": message["content"],
            "before": list(messages[:place]),
            "message": message,
        }
        for place, message in enumerate(messages)
        if role is None or message["role"] == role
    ]
