"""Printing: reports and documents to standard output, everything else to standard error."""

from __future__ import annotations

import sys
from typing import Any

import orjson


def complain(message: str) -> None:
    """An error or a warning, to standard error; control characters are shown, not sent."""
    sys.stderr.write(f"verdict: {visible(message)}\n")


def say(message: str) -> None:
    """A message about what is going on, to standard error."""
    sys.stderr.write(f"{visible(message)}\n")


def document(data: Any) -> None:
    """One JSON document, to standard output."""
    sys.stdout.write(orjson.dumps(data, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS).decode() + "\n")


def visible(text: str) -> str:
    """The text with control characters, which could steer a terminal, as escapes; line breaks stay."""
    return "".join(
        letter if letter in "\n\t" or letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )
