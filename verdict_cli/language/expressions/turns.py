"""`turns(source.messages)`: the turns of a conversation as entries of `each`."""

from __future__ import annotations

from typing import Any

from verdict_cli.errors import RowError
from verdict_cli.language.conversation import ConversationError
from verdict_cli.language.fields.types import INTEGER, TEXT, ListType, RecordType, TranscriptType, UnknownType
from verdict_cli.language.transcript import NumberedMessages, content_text, numbered

TURNS = ListType(
    RecordType({"index": INTEGER, "role": TEXT, "content": TEXT, "before": TranscriptType(), "message": UnknownType()})
)
"""The type of what `turns` gives."""


def turns(messages: Any, role: str | None = None) -> list[dict[str, Any]]:
    """An entry for each message, or for each of one role: its index, role and text, the messages before it, and
    itself. RowError for anything but a list of messages."""
    try:
        read = numbered(messages)
    except ConversationError as error:
        raise RowError(f"`turns`: {error}", kind="input") from None
    return [
        {
            "index": number - 1,
            "role": message["role"],
            "content": content_text(message.get("content")),
            "before": NumberedMessages(zip(read.numbers[:place], read[:place], strict=True)),
            "message": message,
        }
        for place, (number, message) in enumerate(zip(read.numbers, read, strict=True))
        if role is None or message["role"] == role
    ]
