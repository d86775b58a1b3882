"""Read JSON Lines and JSON arrays of objects."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from verdict_cli.errors import DataError, Problem
from verdict_cli.storage.datasets.files import bounded_lines, open_bytes

JsonRecord = tuple[int, dict[str, Any] | Problem]
"""A record's position in its file (line, or for a JSON array the 0-based item), and its values or its problem."""


def jsonl_records(path: Path) -> Iterator[JsonRecord]:
    """The file's objects with their lines, from 1."""
    with open_bytes(path) as stream:
        for line, text in enumerate(bounded_lines(path, stream), 1):
            if not text.isspace():
                yield line, parse_json_line(text)


def parse_json_line(text: bytes) -> dict[str, Any] | Problem:
    """The object in one line, or the line's problem."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        return broken_json(text, error)
    if not isinstance(value, dict):
        return not_an_object(value)
    return _exact(text) if _is_inexact(text, value) else value


_DIGITS = bytes(48 if chr(byte) in "0123456789" else 32 for byte in range(256))
"""Each byte as a zero or a space, so that 19 digits in succession are found by a search for a text: with a pattern, that
takes twenty times as long as everything else."""
_LONG_NUMBER = b"0" * 19


def _is_inexact(text: bytes, value: dict[str, Any]) -> bool:
    """Whether orjson may have changed the object: it keeps the last of duplicate keys, and makes large integers floats.

    A lost key has lost its quotes. Escaped quotes are counted exactly by `_exact` only, which takes ten times as long.
    """
    unquoted = text.translate(_DIGITS, b'"')
    if _LONG_NUMBER in unquoted:
        return True
    has_escapes = b"\\" in text
    if has_escapes and rb"\u0022" in text:
        return True
    quotes = None if has_escapes else _count_quotes(value)
    if quotes is None:
        try:
            quotes = orjson.dumps(value).count(b'"')
        except TypeError:
            return True
    return quotes != len(text) - len(unquoted)


def _count_quotes(value: dict[str, Any]) -> int | None:
    """The quotes around the keys and texts of an object; None for one with objects or lists in it."""
    texts = len(value)
    for part in value.values():
        kind = type(part)
        if kind is str:
            texts += 1
        elif kind is dict or kind is list:
            return None
    return 2 * texts


def _exact(text: bytes) -> dict[str, Any] | Problem:
    """The object with integers of any size, or the problem of a key that it has twice."""
    duplicates: list[str] = []

    def keep(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            counts = Counter(key for key, _ in pairs)
            duplicates.append(next(key for key, count in counts.items() if count > 1))
        return made

    try:
        value: dict[str, Any] = json.loads(text, object_pairs_hook=keep)
    except (ValueError, RecursionError) as error:
        return Problem("broken-json", f"the row cannot be read: {error}", "write very long numbers as text")
    if duplicates:
        return Problem("duplicate-key", f"the key {duplicates[0]!r} is a duplicate", "name each key of an object once")
    return value


def not_an_object(value: Any) -> Problem:
    """The problem of a row that is not an object."""
    name = {list: "a list", str: "a string", bool: "a boolean", type(None): "null"}.get(type(value), "a number")
    return Problem(
        "not-an-object",
        f"a row must be an object, this is {name}",
        "a file that is one JSON list of rows has the ending .json"
        if name == "a list"
        else 'write it as {"column": value}',
    )


def broken_json(text: bytes, error: orjson.JSONDecodeError) -> Problem:
    """Why ``text`` is not JSON; ``column`` is set, ``line`` is not."""
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


def json_array_records(path: Path) -> Iterator[JsonRecord]:
    """The array's objects with their 0-based positions (`line_of` finds the line)."""
    text = _text(path)
    try:
        items = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        if _is_lines(text):
            raise DataError(_json_lines_problem(path)) from error
        problem = broken_json(text, error)
        raise DataError(problem.at(str(path), error.lineno, problem.column, "")) from error
    if isinstance(items, dict):
        raise DataError(
            Problem(
                "not-an-array",
                "expected an array of objects, found one object",
                "put the object in [ ], or name the file .jsonl if it is on one line",
                str(path),
            )
        )
    if not isinstance(items, list):
        raise DataError(Problem("not-an-array", "expected an array of objects", "", str(path)))
    for position, item in enumerate(items):
        yield position, item if isinstance(item, dict) else not_an_object(item)


def line_of(path: Path, position: int) -> int:
    """The line, from 1, where the item starts. Decodes the file again, so it is for error messages only."""
    text = _text(path).decode()
    space, decoder = re.compile(r"[\s,]*"), json.JSONDecoder()
    at = text.index("[") + 1
    for _ in range(position):
        _, at = decoder.raw_decode(text, _end(space, text, at))
    return text.count("\n", 0, _end(space, text, at)) + 1


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


def _text(path: Path) -> bytes:
    with open_bytes(path) as stream:
        return stream.read()


def _is_lines(text: bytes) -> bool:
    first = text.lstrip().split(b"\n", 1)
    return len(first) == 2 and isinstance(parse_json_line(first[0]), dict)


def _json_lines_problem(path: Path) -> Problem:
    return Problem(
        "json-lines", "the file holds JSON lines, not one JSON array", "let its name end in .jsonl", str(path)
    )
