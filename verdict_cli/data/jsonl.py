"""JSON Lines: one object a line; blank lines do not count."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from verdict_cli.data.opened import opened
from verdict_cli.errors import Problem

Record = tuple[int, dict[str, Any] | Problem]
"""A record's place in its file (line, or for a JSON array the 0-based item), and its values or what is wrong with it."""


def records(path: Path) -> Iterator[Record]:
    """The file's objects with their lines, from 1. Integers beyond 64 bits become floats."""
    with opened(path) as stream:
        for line, text in enumerate(stream, 1):
            if not text.isspace():
                yield line, parse(text)


def parse(text: bytes) -> dict[str, Any] | Problem:
    """The object that one line spells, or what is wrong with the line."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        return broken(text, error)
    return value if isinstance(value, dict) else no_object(value)


def no_object(value: Any) -> Problem:
    """The problem of a row that is something else."""
    name = {list: "a list", str: "a string", bool: "a boolean", type(None): "null"}.get(
        type(value), "a number"
    )
    return Problem(
        "not-an-object",
        f"a row must be an object, this is {name}",
        "a file that is one JSON list of rows has the ending .json"
        if name == "a list"
        else 'write it as {"column": value}',
    )


def broken(text: bytes, error: orjson.JSONDecodeError) -> Problem:
    """Why ``text`` is no JSON; ``column`` is set, ``line`` is not."""
    try:
        text.decode()
    except UnicodeDecodeError as undecoded:
        return not_utf8(undecoded)
    near = text.decode()[max(0, error.pos - 2) : error.pos + 9]
    hint = "JSON has no NaN and no Infinity: write null" if "NaN" in near or "Infinity" in near else ""
    return Problem("broken-json", f"not valid JSON: {error.msg}", hint, column=error.colno)


def not_utf8(error: UnicodeDecodeError) -> Problem:
    """The problem of bytes that are not UTF-8."""
    return Problem(
        "bad-encoding",
        f"not valid UTF-8: byte 0x{error.object[error.start]:02x} at byte {error.start + 1} of the line",
        "save the file as UTF-8",
    )
