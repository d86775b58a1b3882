"""Parse a written value, ignoring case, surrounding spaces and quotes, and a final period."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from verdict_cli.language.scales.written_number import Ends, read_number

_QUOTES = "\"'`“”‘’"


def bare(text: str) -> str:
    """The text without surrounding white space and quotes and without one final period; never empty for a text."""
    text = text.strip()
    inner = text.strip(_QUOTES).strip()
    if inner.endswith(".") and not inner.endswith(".."):
        inner = inner[:-1].strip().strip(_QUOTES).strip()
    return inner or text


def folded(text: str) -> str:
    """The bare text in one case."""
    return bare(text).casefold()


_NORMALIZATIONS: tuple[Callable[[str], str], ...] = (str, str.strip, bare, folded)


def match_value(text: str, tokens: Sequence[tuple[str, Any]]) -> tuple[Any] | None:
    """(value,) of the (token, value) pair that the text names, ignoring as little as possible.

    None when it names none, or several with what had to be ignored.
    """
    for normalize in _NORMALIZATIONS:
        word = normalize(text)
        values = [value for token, value in tokens if normalize(token) == word]
        if values:
            return (values[0],) if all(value == values[0] for value in values) else None
    return None


_ANSWERS = frozenset(("yes", "no", "true", "false"))
_LABELS = _ANSWERS | {
    "correct", "incorrect", "right", "wrong", "safe", "unsafe", "harmful", "harmless", "toxic", "pass", "fail",
    "passed", "failed", "valid", "invalid", "positive", "negative", "neutral", "spam", "ham", "error",
    "hallucination", "hallucinated", "faithful", "factual", "supported", "unsupported", "refuted", "entailment",
    "contradiction", "refusal", "compliance", "relevant", "irrelevant", "attributable", "consistent", "inconsistent",
    "accept", "reject", "accepted", "rejected", "tie", "win", "loss",
}  # fmt: skip
_COMPARISON = re.compile(r"\S+\s*(?:[<>=]=?)+\s*\S+")
_NEGATED = re.compile(r"(?:not|no|non|without)[\s_-]+")


def are_labels(words: Sequence[str]) -> bool:
    """Whether the words, worst first, look like labels of which none is better: `yes` or `no` at an end, a comparison such
    as `A>B`, or two words that are labels or a word and its negation."""
    plain = [folded(word) for word in words]
    if any(_COMPARISON.fullmatch(word) for word in plain) or _ANSWERS & {plain[0], plain[-1]}:
        return True
    if len(plain) != 2:
        return False
    one, other = sorted(plain, key=len)
    negated = other.endswith(one) and _NEGATED.fullmatch(other[: -len(one)]) is not None
    return negated or _LABELS.issuperset(plain)


def quoted(value: Any) -> str:
    """A value of a reply in a message, cut to 200 characters. The message may be shown to the model, so nothing but a text
    is spelled as in Python."""
    if isinstance(value, str):
        return f"{value!r:.200}"
    try:
        return f"{json.dumps(value, ensure_ascii=False, default=str):.200}"
    except (TypeError, ValueError, RecursionError):
        return f"a {type(value).__name__}"  # nested too deeply


def parse_number(text: str, ends: Ends = None) -> Decimal | None:
    """The number that the bare text writes, None when it is not one number, or when it is not clear which."""
    return read_number(bare(text), ends)
