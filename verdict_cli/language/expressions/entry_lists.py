"""The functions that give a list for `each`: `turns(source.messages)`, the turns of a conversation, and
`match_calls(source.messages, source.expected)`, an agent's tool calls next to the expected ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
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
    number_messages,
    read_tool_call,
    role_name,
)
from verdict_cli.language.fields.types import (
    INTEGER,
    TEXT,
    ListType,
    OptionalType,
    RecordType,
    TranscriptType,
    UnknownType,
)
from verdict_cli.messages import JsonObject, NamedValues

TURN = RecordType(
    {
        "index": INTEGER,
        "role": TEXT,
        "content": TEXT,
        "before": TranscriptType(),
        "message": UnknownType(),
    }
)
TURNS = ListType(TURN)
"""The type of what `turns` gives."""


class Turn(NamedValues):
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

    def row_columns(self) -> JsonObject:
        """What the results have of it."""
        return {key: self._own[key] for key in ("index", "role", "content")}


class Turns(list[Turn]):
    """The turns of a conversation as an expression's value: other lists of turns become plain data."""


def turns(messages: Any, role: str | None = None) -> Turns:
    """An entry for each message, or for each of one role: its index, role and text, the messages before it, and
    itself. The text of a message that only calls tools says which. RowError for anything but a list of messages, and where
    nobody has the role, but somebody has one that no chat API knows."""
    try:
        read = number_messages(messages)
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
    chosen = Turns()
    digest = blake2b(digest_size=16)
    for position, (number, message) in enumerate(zip(read.numbers, read, strict=True)):
        digest.update(_content([number, message]))
        if role is None or message["role"] == role:
            chosen.append(Turn(read, position, digest.hexdigest()))
    return chosen


def _content(value: Any) -> bytes:
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)
    except TypeError:  # beyond 64 bits, half a surrogate pair, or deeply nested
        return repr(value).encode("utf-8", "surrogatepass")


MATCHES = ListType(
    RecordType(
        {"tool": TEXT, "match": TEXT, "expected": TEXT, "made": TEXT, "turn": OptionalType(INTEGER)}
    )
)
"""The type of what `match_calls` gives."""


def match_calls(messages: Any, expected: Any) -> list[JsonObject]:
    """An entry for each expected call, then one for each call that was not expected.

    `match` is `exact` where the tool and all arguments are equal, `arguments` where the tool was called with other arguments,
    `missing` where it was not, and `extra` for a call that was not expected. Every call counts once, in any order. Arguments
    are compared as JSON values: their order does not matter, and 5 equals 5.0.

    Args:
        messages: A conversation, or the list of the calls that were made.
        expected: The list of the calls, in any API's form.

    Raises:
        RowError: one of them is neither.
    """
    calls = _calls_of_turns(messages)
    wanted = _calls(expected, "the expected calls")
    matches: dict[int, int] = {}
    # Equal calls are matched first, so that none of them is taken as another call's with other arguments.
    for exactly in (True, False):
        for index, call in enumerate(wanted):
            free = (
                number
                for number, (_, candidate) in enumerate(calls)
                if number not in matches.values()
                and (_same(candidate, call) if exactly else candidate[0] == call[0])
            )
            if index not in matches and (nearest := next(free, None)) is not None:
                matches[index] = nearest
    entries = []
    for index, call in enumerate(wanted):
        turn, called = calls[matches[index]] if index in matches else (None, None)
        match = "missing"
        if called is not None:
            match = "exact" if _same(called, call) else "arguments"
        entries.append(_entry(call[0], match, call, called, turn))
    extra = [call for number, call in enumerate(calls) if number not in matches.values()]
    return entries + [_entry(call[0], "extra", None, call, turn) for turn, call in extra]


_NamedCall = tuple[str, Any]
"""A tool's name, and its arguments: a JSON value, or a text that is not JSON."""


def _same(left: _NamedCall, right: _NamedCall) -> bool:
    return left[0] == right[0] and equal_json(left[1], right[1])


def equal_json(left: Any, right: Any) -> bool:
    """Whether two JSON values are equal: 5 and 5.0 are, true and 1 are not, as they are in Python."""
    todo = [(left, right)]
    while todo:
        left, right = todo.pop()
        if isinstance(left, dict) and isinstance(right, dict):
            if left.keys() != right.keys():
                return False
            todo += [(left[key], right[key]) for key in left]
        elif isinstance(left, list) and isinstance(right, list):
            if len(left) != len(right):
                return False
            todo += zip(left, right, strict=True)
        elif isinstance(left, bool) != isinstance(right, bool) or left != right:
            return False
    return True


def _entry(
    tool: str, match: str, expected: _NamedCall | None, called: _NamedCall | None, turn: int | None
) -> JsonObject:
    return {
        "tool": tool,
        "match": match,
        "expected": _text(expected),
        "made": _text(called),
        "turn": turn,
    }


def _text(call: _NamedCall | None) -> str:
    if call is None:
        return ""
    name, arguments = call
    return f"{name}({arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)})"


def _calls_of_turns(messages: Any) -> list[tuple[int | None, _NamedCall]]:
    """(number of its turn, call) of each call in the messages."""
    if isinstance(messages, list | tuple) and not any(
        isinstance(message, dict) and "role" in message for message in messages
    ):
        return [(None, call) for call in _calls(messages, "the calls that were made")]
    try:
        read = number_messages(messages)
    except ConversationError as error:
        raise RowError(f"`match_calls`: {error}", kind="input") from None
    return [
        (number, _call(call))
        for number, message in zip(read.numbers, read, strict=True)
        for call in message.get("tool_calls", ())
    ]


def _calls(value: Any, subject: str) -> list[_NamedCall]:
    if not isinstance(value, list | tuple):
        raise RowError(f"`match_calls`: {subject} are {value!r:.80}, not a list", kind="input")
    try:
        return [_call(read_tool_call(call)) for call in value]
    except ConversationError as error:
        raise RowError(f"`match_calls`: {subject}: {error}", kind="input") from None


def _call(call: JsonObject) -> _NamedCall:
    name, text = call["function"]["name"], call["function"]["arguments"]
    try:
        return name, json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        return name, text


ENTRY_LISTS: Mapping[str, Callable[..., list[Any]]] = {"turns": turns, "match_calls": match_calls}
"""The functions by name. No other expression can call them."""

ENTRY_LIST_TYPES: Mapping[str, ListType] = {"turns": TURNS, "match_calls": MATCHES}
"""The types of what they give."""
