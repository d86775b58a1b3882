"""`turns(source.messages)`: the turns of a conversation as entries of `each`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any

import orjson

from verdict_cli.errors import RowError
from verdict_cli.language.conversation import (
    CHAT_ROLES,
    ConversationError,
    NumberedMessages,
    calls_text,
    content_text,
    numbered,
    role_name,
)
from verdict_cli.language.fields.types import INTEGER, TEXT, ListType, RecordType, TranscriptType, UnknownType

TURN = RecordType(
    {"index": INTEGER, "role": TEXT, "content": TEXT, "before": TranscriptType(), "message": UnknownType()}
)
TURNS = ListType(TURN)
"""The type of what `turns` gives."""


class Turn(Mapping[str, Any]):
    """A message of a conversation with those before it, which are taken from the conversation when they are read: copies
    for every turn would grow with the square of the turns.

    ``digest`` is of the message and all before it.
    """

    def __init__(self, conversation: NumberedMessages, position: int, digest: str) -> None:
        self.digest = digest
        self._conversation, self._position = conversation, position
        message = conversation[position]
        self._own = {
            "index": conversation.numbers[position] - 1,
            "role": message["role"],
            "content": content_text(message.get("content")) or calls_text(message),
            "before": None,
            "message": message,
        }

    def __getitem__(self, key: str) -> Any:
        return self._conversation.part(slice(self._position)) if key == "before" else self._own[key]

    def __contains__(self, key: object) -> bool:
        return key in self._own

    def __iter__(self) -> Iterator[str]:
        return iter(self._own)

    def __len__(self) -> int:
        return len(self._own)

    def row_columns(self) -> dict[str, Any]:
        """What the results have of it."""
        return {key: self._own[key] for key in ("index", "role", "content")}


class Turns(list[Turn]):
    """The turns of a conversation as an expression's value: other lists of turns become plain data."""


def turns(messages: Any, role: str | None = None) -> Turns:
    """An entry for each message, or for each of one role: its index, role and text, the messages before it, and
    itself. The text of a message that only calls tools says which. RowError for anything but a list of messages, and where
    nobody has the role, but somebody has one that no chat API knows."""
    try:
        read = numbered(messages)
    except ConversationError as error:
        raise RowError(f"`turns`: {error}", kind="input") from None
    role = None if role is None else role_name(role)
    roles = dict.fromkeys(message["role"] for message in read)
    if role is not None and role not in roles and not CHAT_ROLES.issuperset(roles):
        hint = f"write one of them: `turns(…, {next(iter(roles))!r})`"
        raise RowError(
            f"`turns`: nobody has the role {role!r}: the roles are {', '.join(map(repr, roles))}",
            hint=hint,
            kind="input",
        )
    found = Turns()
    digest = blake2b(digest_size=16)
    for position, (number, message) in enumerate(zip(read.numbers, read, strict=True)):
        digest.update(_content([number, message]))
        if role is None or message["role"] == role:
            found.append(Turn(read, position, digest.hexdigest()))
    return found


def _content(value: Any) -> bytes:
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)
    except TypeError:  # beyond 64 bits, half a surrogate pair, or deeply nested
        return repr(value).encode("utf-8", "surrogatepass")
