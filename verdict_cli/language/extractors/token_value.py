"""Where a reply's value is: the text must be one value of the scale, and a token must begin with it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from verdict_cli.errors import ReplyError
from verdict_cli.language.extractors.answer_text import visible
from verdict_cli.language.extractors.token_support import Support
from verdict_cli.messages import Alternative

QUOTES = "\"'`“”‘’"
_AROUND = QUOTES + "*_"  # quotes and markdown emphasis
_SPECIAL = re.compile(r"<.+>")
_SHOWN = 80

TokenPosition = tuple[Alternative, ...]


class FoundValue(NamedTuple):
    """The value that a reply writes, and where: an index in the text."""

    value: Any
    start: int


def find_value(text: str, support: Support, after: str | None) -> FoundValue:
    """The value that is the whole text, or all that follows the last ``after``. ReplyError for any other text."""
    begin, end = 0, len(text)
    if after is not None:
        found = text.rfind(after)
        if found < 0:
            raise ReplyError(f"the reply does not contain {after!r}", hint="ask for it in the prompt")
        begin = found + len(after)
    start, stop = _stripped(text, begin, end)
    period = True
    while start < stop:
        word = support.normal(text[start:stop])
        if word in support.exact:
            return FoundValue(support.exact[word], start)
        if period and text[stop - 1] == ".":
            period, stop = False, stop - 1
        elif text[start] in _AROUND:
            start += 1
        elif text[stop - 1] in _AROUND:
            stop -= 1
        else:
            break
        start, stop = _stripped(text, start, stop)
    rest = text[begin:].strip()
    shown = rest if len(rest) <= _SHOWN else rest[:_SHOWN] + "…"
    where = "the reply" if after is None else f"what follows {after!r}"
    raise ReplyError(
        f"{where} is not exactly one value of the scale: {shown!r}",
        hint="ask for the value alone, or use `after` where reasons come before it",
    )


def _stripped(text: str, start: int, stop: int) -> tuple[int, int]:
    while start < stop and text[start].isspace():
        start += 1
    while start < stop and text[stop - 1].isspace():
        stop -= 1
    return start, stop


def position_at(positions: Sequence[TokenPosition], text: str, start: int) -> tuple[int, str, str]:
    """The index of the position whose drawn token contains this place of the text, what that token has before it, and it.

    ReplyError where the drawn tokens do not spell the text.
    """
    if len(positions) == 1 and any(spelled(one.token).strip() == text.strip() for one in positions[0]):
        return 0, text[:start], text  # recordings of one token often have its alternatives in another order
    pieces = [visible(spelled(position[0].token)) if position else "" for position in positions]
    # Some servers leave out the white space at the ends of the text, write reasoning before it, or a special token after it.
    while pieces and is_special(pieces[-1]) and not text.rstrip().endswith(pieces[-1].strip()):
        pieces.pop()
    written, wanted = "".join(pieces).rstrip(), text.strip()
    if not written.endswith(wanted):
        raise ReplyError("the reply's tokens do not spell its text", kind="no-logprobs")
    place = len(written) - len(wanted) + start - (len(text) - len(text.lstrip()))
    for index, piece in enumerate(pieces):
        if place < len(piece):
            return index, piece[:place], piece
        place -= len(piece)
    raise ReplyError("the reply's tokens end before its value", kind="no-logprobs")


def is_special(token: str) -> bool:
    """Whether a token is one of a tokenizer's own, such as `<|eot|>`."""
    return _SPECIAL.fullmatch(token.strip()) is not None


def spelled(token: str) -> str:
    """The token's text: some servers write a leading space as `▁` or `Ġ`."""
    return " " + token[1:] if token[:1] in ("▁", "Ġ") else token


def bare_token(token: str) -> str:
    """The token without the quotes, emphasis and final period that a reply may have around its value."""
    word = token.strip().strip(_AROUND).strip()
    return word[:-1] if word.endswith(".") and len(word) > 1 else word
