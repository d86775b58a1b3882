"""Resolve scalars by the core schema of YAML 1.2 (YAML 1.2.2, section 10.3)."""

from __future__ import annotations

import json
import re
from typing import Any


class UnfitError(Exception):
    """A scalar that has no value."""

    def __init__(self, code: str, message: str, hint: str) -> None:
        super().__init__(message)
        self.code, self.message, self.hint = code, message, hint


# YAML 1.2.2, section 10.3.2, in its order.
_NULL = re.compile(r"null|Null|NULL|~|")
_BOOL = re.compile(r"(true|True|TRUE)|false|False|FALSE")
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_UNBOUNDED = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")


def resolve(text: str, tag: str | None, *, plain: bool) -> Any:
    """The value of a scalar with this tag. Raises UnfitError."""
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        text = _joined(text)
    if tag in ("!", "!!str") or (tag is None and not plain):
        return text
    if tag in (None, "!!null") and _NULL.fullmatch(text):
        return None
    truth = _BOOL.fullmatch(text)
    if tag in (None, "!!bool") and truth:
        return truth[1] is not None
    if tag in (None, "!!int") and _INT.fullmatch(text):
        return _whole(text)
    if tag in (None, "!!float") and (_FLOAT.fullmatch(text) or _UNBOUNDED.fullmatch(text)):
        number = float("nan") if _UNBOUNDED.fullmatch(text) else float(text)
        if not abs(number) < float("inf"):
            shown = text if len(text) <= 40 else f"{text[:40]}…"
            raise UnfitError("not-finite", f"{shown} is not a finite number", "If text is meant, put it in quotes.")
        return number
    if tag is None:
        return text
    raise UnfitError("tag", *wrong_tag(tag, json.dumps(text[:40], ensure_ascii=False)))


_DIGITS = 300
"""The most digits of a whole number. A longer one exceeds every float."""


def _whole(text: str) -> int:
    if len(text.lstrip("+-")) > _DIGITS:
        message = f"a whole number of {len(text):,} characters is too long"
        raise UnfitError("number-too-long", message, "If text is meant, put it in quotes.")
    base = {"0o": 8, "0x": 16}.get(text[:2], 10)
    return int(text[2:] if base != 10 else text, base)


def _joined(text: str) -> str:
    """JSON's ``"\\ud83d\\ude00"`` as one character. Raises UnfitError for half a pair."""
    try:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        hint = "Write the character itself, or both halves of the pair."
        raise UnfitError("surrogate", "a `\\u` escape is half of a surrogate pair", hint) from None


_CORE = ("!!str", "!!int", "!!float", "!!bool", "!!null", "!!map", "!!seq")


def format_tag(tag: str | None) -> str | None:
    """The tag in its short form."""
    if tag is None or tag.startswith("!"):
        return tag
    core = tag.removeprefix("tag:yaml.org,2002:")
    return f"!!{core}" if core != tag else f"!<{tag}>"


def wrong_tag(tag: str | None, value: str) -> tuple[str, str]:
    """Message and hint for a tag that the value cannot have."""
    if tag in _CORE:
        return f"{value} is not a `{tag}`", "Remove the tag or change the value."
    return f"the tag `{tag}` is not allowed", f"Remove it: the only tags are {', '.join(_CORE)}."
