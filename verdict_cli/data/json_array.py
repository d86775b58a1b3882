"""A JSON file that holds one array of objects. It is held in memory whole; JSON Lines are not."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import orjson

from verdict_cli.data.jsonl import Record, broken, no_object, parse
from verdict_cli.data.opened import opened
from verdict_cli.errors import DataError, Problem


def records(path: Path) -> Iterator[Record]:
    """The array's objects with their 0-based places in it (`line_of` finds the line)."""
    text = _text(path)
    try:
        items = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        if _is_lines(text):
            raise DataError(_lines(path)) from error
        problem = broken(text, error)
        raise DataError(problem.at(str(path), error.lineno, problem.column, "")) from error
    if isinstance(items, dict):
        raise DataError(
            Problem(
                "not-an-array",
                "expected an array of objects, found one object",
                "put the object in [ ], or name the file .jsonl if it stands on one line",
                str(path),
            )
        )
    if not isinstance(items, list):
        raise DataError(Problem("not-an-array", "expected an array of objects", "", str(path)))
    for place, item in enumerate(items):
        yield place, item if isinstance(item, dict) else no_object(item)


def line_of(path: Path, place: int) -> int:
    """The line, from 1, on which the item at ``place`` starts. Decodes the file again, for an error's sake."""
    text = _text(path).decode()
    space, decoder = re.compile(r"[\s,]*"), json.JSONDecoder()
    at = text.index("[") + 1
    for _ in range(place):
        _, at = decoder.raw_decode(text, _end(space, text, at))
    return text.count("\n", 0, _end(space, text, at)) + 1


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


def _text(path: Path) -> bytes:
    with opened(path) as stream:
        return stream.read()


def _is_lines(text: bytes) -> bool:
    first = text.lstrip().split(b"\n", 1)
    return len(first) == 2 and isinstance(parse(first[0]), dict)


def _lines(path: Path) -> Problem:
    return Problem(
        "json-lines",
        "the file holds JSON lines, not one JSON array",
        "let its name end in .jsonl",
        str(path),
    )
