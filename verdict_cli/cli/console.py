"""Printing: reports and documents to standard output, everything else to standard error."""

from __future__ import annotations

import re
import sys
from typing import Any

import orjson

_STEERING = re.compile("[\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
"""What JSON need not escape: C1 controls, marks of direction, signs without width."""


def print_error(message: str) -> None:
    """An error or a warning, to standard error; control characters are shown, not sent."""
    sys.stderr.write(f"verdict: {printable(message)}\n")


def print_message(message: str) -> None:
    """A message about what is going on, to standard error."""
    sys.stderr.write(f"{printable(message)}\n")


def print_report(text: str) -> None:
    """What a command is asked for, to standard output; control characters are shown, not sent."""
    sys.stdout.write(printable(text))


def document(data: Any) -> None:
    """One JSON document, to standard output; signs that could steer a terminal are spelled by JSON's escapes."""
    text = orjson.dumps(data, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS).decode()
    sys.stdout.write(_STEERING.sub(lambda sign: f"\\u{ord(sign[0]):04x}", text) + "\n")


def printable(text: str) -> str:
    """The text with control characters, which could steer a terminal, as escapes; line breaks stay."""
    return "".join(
        letter if letter in "\n\t" or letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )
