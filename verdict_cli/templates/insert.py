"""How a value is written into a prompt (language.md, section 2)."""

from __future__ import annotations

from typing import Any

import orjson

from verdict_cli.errors import RowError


def insert(value: Any, spec: str = "") -> str:
    """The text of a value: strings as they are, numbers as Python prints them, lists of strings one a line,
    a conversation as its transcript, anything else as compact JSON. RowError for null and for a format
    specification that does not fit.
    """
    if value is None:
        raise RowError("it is null; a prompt needs a value", kind="missing-value")
    if spec:
        try:
            return format(value, spec)
        except (ValueError, TypeError) as fault:
            raise RowError(f"the format {spec!r} does not fit {value!r:.80}: {fault}") from None
    if isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return "\n".join(value)
    if is_conversation(value):
        return transcript(value)
    return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS).decode()


def is_conversation(value: Any) -> bool:
    """Whether the value is a list of turns, each a mapping of exactly `role` and `content`."""
    return isinstance(value, list | tuple) and all(
        isinstance(turn, dict) and turn.keys() == {"role", "content"} for turn in value
    )


def transcript(conversation: list[dict[str, str]] | tuple[dict[str, str], ...]) -> str:
    """The turns, each between tags that name its speaker, a blank line between them."""
    return "\n\n".join(f"<{turn['role']}>\n{turn['content']}\n</{turn['role']}>" for turn in conversation)
