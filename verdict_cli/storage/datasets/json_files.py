"""Read JSON Lines and JSON arrays of objects."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any

import orjson

from verdict_cli.errors import DataError, Problem
from verdict_cli.messages import JsonObject, NamedValues
from verdict_cli.regex import regex
from verdict_cli.storage.datasets.files import (
    BOM,
    LONGEST_LINE,
    Reading,
    bounded_lines,
    open_bytes,
)

_LIST_OF_ROWS = "a file that is one JSON list of rows has the ending .json"
JsonRecord = tuple[int, JsonObject | Problem]
"""A record's position in its file (line, or for a JSON array the 0-based item), and its values or its problem."""


def jsonl_records(path: Path, reading: Reading | None = None) -> Iterator[JsonRecord]:
    """The file's objects with their lines, from 1, without those that need not be read."""
    with open_bytes(path) as stream:
        passed = 0
        # Rows that need not be read were checked when the dataset was read first.
        while reading is not None and reading.unread and (read_past := stream.readline()):
            passed += 1
            reading.unread -= not read_past.isspace()
        for line, text in enumerate(bounded_lines(path, stream), passed + 1):
            if not text.isspace():
                yield line, parse_json_line(text)


def parse_json_line(text: bytes) -> JsonObject | Problem:
    """The object in one line, or the line's problem."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        if text.startswith(BOM):  # of a file that was appended to another one
            return parse_json_line(text.removeprefix(BOM))
        return broken_json(text, error)
    if not isinstance(value, dict):
        return not_an_object(value)
    return _exact(text) if _is_inexact(text, value) else value


_DIGITS = bytes(48 if chr(byte) in "0123456789" else 32 for byte in range(256))
"""Each byte as a zero or a space, so that 19 digits in succession are found by a search for a text: with a pattern, that
takes twenty times as long as everything else."""
_LONG_NUMBER = b"0" * 19


def _is_inexact(text: bytes, value: JsonObject) -> bool:
    """Whether orjson may have changed the object: it keeps the last of duplicate keys, and makes large integers floats.

    A lost key has lost its quotes. Quotes that are escaped by their number are left to `_exact`, which takes ten times as long.
    """
    if rb"\u0022" in text:
        return True
    unquoted = text.translate(_DIGITS, b'"')
    if _LONG_NUMBER in unquoted:
        return True
    try:
        quotes = orjson.dumps(value).count(b'"')
    except TypeError:
        return True
    return quotes != len(text) - len(unquoted)


def _exact(text: bytes) -> JsonObject | Problem:
    """The object with integers of any size, or the problem of a key that it has twice."""
    duplicates: list[str] = []

    def keep(pairs: list[tuple[str, Any]]) -> JsonObject:
        values = dict(pairs)
        if len(values) < len(pairs):
            counts = Counter(key for key, _ in pairs)
            duplicates.append(next(key for key, count in counts.items() if count > 1))
        return values

    try:
        value: JsonObject = json.loads(text, object_pairs_hook=keep)
    except (ValueError, RecursionError) as error:
        return Problem(
            "broken-json", f"the row cannot be read: {error}", "write very long numbers as text"
        )
    if duplicates:
        return Problem(
            "duplicate-key",
            f"the key {duplicates[0]!r} is a duplicate",
            "name each key of an object once",
        )
    return value


def not_an_object(value: Any, list_hint: str = _LIST_OF_ROWS) -> Problem:
    """The problem of a row that is not an object."""
    name = {list: "a list", str: "a string", bool: "a boolean", type(None): "null"}.get(
        type(value), "a number"
    )
    hint = 'write each row as {"column": value, …}'
    if name == "a list":
        hint += f"; {list_hint}"
    return Problem("not-an-object", f"a row must be an object, this is {name}", hint)


def broken_json(text: bytes, error: orjson.JSONDecodeError) -> Problem:
    """Why ``text`` is not JSON; ``column`` is set, ``line`` is not."""
    try:
        line = text.decode()
    except UnicodeDecodeError as undecoded:
        return not_utf8(undecoded)
    return Problem(
        "broken-json",
        f"not valid JSON: {error.msg}",
        _broken_hint(line, error.pos),
        column=error.colno,
    )


_ONE_A_LINE = "a .jsonl file has one object a line"


def _broken_hint(line: str, position: int) -> str:
    """How to write a line of JSON lines that is broken at this position."""
    near = line[max(0, position - 2) : position + 9]
    if "NaN" in near or "Infinity" in near:
        return "JSON has no NaN and no Infinity: write null"
    start = line.strip()
    if start.startswith("{'") or near.lstrip("{[, :").startswith(("'", "None", "True", "False")):
        return "this is a Python value, no JSON: write it by json.dumps"
    return _hint_of_rest(line[position:].strip(), start)


def _hint_of_rest(rest: str, start: str) -> str:
    """The hint where the line is broken before ``rest``."""
    if not rest and start.startswith("["):
        return _LIST_OF_ROWS
    if not rest and start.startswith("{"):
        return f"{_ONE_A_LINE}: this one goes over several lines, or is cut off; `jq -c . FILE` writes it on one"
    if rest == ",":
        return f"{_ONE_A_LINE}, without commas between them: leave them out, or write a list with the ending .json"
    return f"{_ONE_A_LINE}: begin each on a line of its own" if rest.startswith("{") else ""


def not_utf8(error: UnicodeDecodeError) -> Problem:
    """The problem of bytes that are not UTF-8."""
    return Problem(
        "bad-encoding",
        f"not valid UTF-8: byte 0x{error.object[error.start]:02x} at byte {error.start + 1} of the line",
        "save the file as UTF-8",
    )


def json_array_records(path: Path, _: Reading | None = None) -> Iterator[JsonRecord]:
    """The array's objects with their 0-based positions (`line_of` finds the line). One object at a time is in memory."""
    for position, (line, column, text) in enumerate(_array_items(path)):
        item = parse_json_line(text)
        if isinstance(item, Problem) and item.code in ("broken-json", "bad-encoding"):
            raise DataError(item.at(str(path), line, column + max(0, item.column - 1), ""))
        if isinstance(item, Problem) and text.startswith(b"["):
            item = not_an_object([], "a table of a header and its rows can be saved as CSV")
        yield position, item


def line_of(path: Path, position: int) -> int:
    """The line, from 1, where the item starts. Reads the file again, so it is for error messages only."""
    return next(islice(_array_items(path), position, None))[0]


_NO_SPACE = regex(r"[^ \t\r\n]")
_CHUNK = 1 << 20
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, strict=False)
"""Finds the end of an item. Its values are not used: orjson reads the item again, by stricter rules."""


def _array_items(path: Path) -> Iterator[tuple[int, int, bytes]]:
    """The line and the column, from 1, and the text of each item of an array."""
    with open_bytes(path) as stream:
        reader = _ArrayReader(path, stream)
        if reader.next_character() != "[":
            raise DataError(reader.not_an_array())
        reader.at += 1
        if reader.next_character() == "]":
            reader.at += 1
        else:
            mark = ","
            while mark == ",":
                yield reader.next_item()
                mark = reader.next_character()
                reader.at += 1
            if mark != "]":
                reader.at -= 1
                raise reader.broken("expected a comma or the end of the array", reader.at)
        if reader.next_character():
            raise reader.broken("unexpected text after the array", reader.at)


class _ArrayReader:
    """A window of the file, from the item that is read. Bytes are characters of the same number: non-ASCII ones occur in
    strings only, and cut nothing."""

    def __init__(self, path: Path, stream: IO[bytes]) -> None:
        self.path, self.stream = path, stream
        self.text = ""
        self.at = 0
        self._line, self._line_start, self._counted = 1, 0, 0

    def next_character(self) -> str:
        """The next character that is not white space, which is then at ``at``; "" at the end of the file."""
        while True:
            text = _NO_SPACE.search(self.text, self.at)
            self.at = text.start() if text else len(self.text)
            if self.at < len(self.text) or not self._read_more():
                return self.text[self.at : self.at + 1]

    def next_item(self) -> tuple[int, int, bytes]:
        """The line, column and text of the item, which is then behind ``at``. Raises DataError."""
        self.next_character()
        while True:
            try:
                end = _DECODER.raw_decode(self.text, self.at)[1]
                if end < len(self.text) or not self._read_more():
                    break
            except json.JSONDecodeError as error:
                is_cut = (
                    error.msg.startswith("Unterminated string") or error.pos > len(self.text) - 8
                )
                if not is_cut or not self._read_more():
                    raise self.broken(error.msg, error.pos) from None
            except RecursionError:
                raise self.broken("it is nested too deeply", self.at) from None
            if len(self.text) - self.at > LONGEST_LINE:
                message = f"the item is longer than {LONGEST_LINE:,} bytes"
                problem = Problem("too-long", message, "put large values in files, or shorten them")
                raise DataError(problem.at(str(self.path), *self._position(self.at), ""))
        position = self._position(self.at)
        text = self.text[self.at : end].encode("latin-1")
        self.at = end
        return *position, text

    def broken(self, message: str, position: int) -> DataError:
        """The error of text that is not JSON."""
        line = self.text[self.text.rfind("\n", 0, position) + 1 : position + 9].encode("latin-1")
        try:
            line.decode()
        except UnicodeDecodeError as undecoded:
            if undecoded.reason != "unexpected end of data":
                return DataError(
                    not_utf8(undecoded).at(str(self.path), *self._position(position), "")
                )
        problem = Problem("broken-json", f"not valid JSON: {message}")
        return DataError(problem.at(str(self.path), *self._position(position), ""))

    def not_an_array(self) -> Problem:
        """The problem of a file that does not begin with a bracket."""
        first = self.text.lstrip().encode("latin-1").split(b"\n", 1)
        if len(first) == 2 and isinstance(parse_json_line(first[0]), dict):
            message = "the file holds JSON lines, not one JSON array"
            return Problem("json-lines", message, "let its name end in .jsonl", str(self.path))
        if first[0].startswith(b"{"):
            message = "expected an array of objects, found one object"
            return Problem("not-an-array", message, self._hint_of_object(), str(self.path))
        return Problem("not-an-array", "expected an array of objects", "", str(self.path))

    def _hint_of_object(self) -> str:
        """Where the rows of a file are whose value is one object."""
        while len(self.text) < LONGEST_LINE and self._read_more():
            pass
        try:
            value = orjson.loads(self.text.encode("latin-1"))
        except orjson.JSONDecodeError:
            return "put the objects in [ ], with commas between them; or one on each line of a .jsonl file"
        return _hint_of_rows(value)

    def _read_more(self) -> bool:
        """Read as much as is in the window, at least; False at the end of the file."""
        chunk = self.stream.read(max(_CHUNK, len(self.text) - self.at))
        if not chunk:
            return False
        self._position(self.at)
        self.text = self.text[self.at :] + chunk.decode("latin-1")
        self._line_start -= self.at
        self._counted -= self.at
        self.at = 0
        return True

    def _position(self, position: int) -> tuple[int, int]:
        """The line and the column there, from 1. The lines of each character are counted once."""
        if position > self._counted:
            self._line += self.text.count("\n", self._counted, position)
            newline = self.text.rfind("\n", self._counted, position)
            self._line_start = self._line_start if newline < 0 else newline + 1
            self._counted = position
        return self._line, position - self._line_start + 1


def _hint_of_rows(value: NamedValues) -> str:
    """Where the rows are in one object: as other tools write tables."""
    lists = [
        name
        for name, item in value.items()
        if isinstance(item, list) and item and isinstance(item[0], dict)
    ]
    if lists:
        return f"the rows are under {lists[0]!r}: `jq .{lists[0]} FILE` writes them as an array"
    inner = list(value.values())
    if value.keys() >= {"columns", "data"} or (
        inner and all(isinstance(item, list) for item in inner)
    ):
        return _PANDAS
    if len(inner) > 1 and all(isinstance(item, dict) for item in inner):
        if all(item.keys() == inner[0].keys() for item in inner) and all(
            key.isdigit() for key in inner[0]
        ):
            return _PANDAS
        return "the rows are the values of the object: `jq '[.[]]' FILE` writes them as an array"
    return "put the object in [ ], or name the file .jsonl if it is on one line"


_PANDAS = "the object holds columns, not rows: pandas writes rows by to_json(orient='records')"
