"""What is forgiven in a written value: case aside, surrounding spaces, quotes and one final period."""

from __future__ import annotations

_QUOTES = "\"'`“”‘’*"


def bare(text: str) -> str:
    """The text without surrounding white space, quotes, emphasis and a final period."""
    text = text.strip()
    while True:
        less = text.strip(_QUOTES).strip()
        if less.endswith(".") and not less[:-1].endswith("."):
            less = less[:-1].strip()
        if less == text:
            return less
        text = less
