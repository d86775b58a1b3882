"""Printing: results to standard output, everything else to standard error."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Any

import orjson

from verdict_cli.regex import regex

_CONTROLS = regex("[\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
"""Characters that JSON does not escape, but that can control a terminal: C1 controls, direction marks, zero-width characters."""


def is_interactive() -> bool:
    """Whether a person can answer: standard input and standard error are a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def print_error(message: str) -> None:
    """Print an error or a warning to standard error, with control characters escaped."""
    _to_stderr(f"verdict: {printable(message)}\n")


def print_message(message: str) -> None:
    """Print a progress message to standard error, with control characters escaped."""
    _to_stderr(f"{printable(message)}\n")


def _to_stderr(text: str) -> None:
    try:
        sys.stderr.write(text)
    except BrokenPipeError:
        raise
    except OSError:
        pass  # a full disk: there is nobody to tell


def print_report(text: str) -> None:
    """Print a result to standard output, with control characters escaped."""
    sys.stdout.write(printable(text))


def print_json(data: Any) -> None:
    """Print one JSON document to standard output, with characters that can control a terminal escaped."""
    text = orjson.dumps(data, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS).decode()
    sys.stdout.write(_CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + "\n")


def aligned(rows: Sequence[Sequence[str]], left: int | None = None) -> list[str]:
    """The rows of a table as lines: the first ``left`` columns, by default all, to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    left = len(widths) if left is None else left
    sides = ["<" if column < left else ">" for column in range(len(widths))]
    return [
        "  ".join(
            f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True)
        ).rstrip()
        for row in rows
    ]


_COMMANDS = regex(r"^(\s*):(?=:)|#(?=#\[)", re.MULTILINE)
"""Where GitHub's log would read a command in a line: `::error …` at its start, `##[error]` anywhere."""


def printable(text: str) -> str:
    """Escape the control characters of a text, which could control a terminal, and commands to the log of a CI. Line breaks
    stay."""
    escaped = "".join(
        letter
        if letter in "\n\t" or letter.isprintable()
        else letter.encode("unicode_escape").decode()
        for letter in text
    )
    return without_commands(escaped)


def without_commands(text: str) -> str:
    """The text with the first character of each command to GitHub's log escaped: it may come from a provider or the data."""
    return _COMMANDS.sub(lambda match: f"{match[1] or ''}\\x{ord(match[0][-1]):02x}", text)
