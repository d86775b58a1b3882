"""CSV and TSV with a header line. Values stay strings; quoted cells may hold line breaks."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import IO

from verdict_cli.errors import DataError, Problem
from verdict_cli.storage.datasets import files
from verdict_cli.storage.datasets.files import SPREADSHEET, bounded_lines, open_bytes
from verdict_cli.storage.datasets.json_files import HeaderCheck, JsonRecord, not_utf8


def csv_records(path: Path, check: HeaderCheck, delimiter: str = "") -> Iterator[JsonRecord]:
    """The rows of a CSV file, each with the line on which it starts. Without a delimiter, it is the one of the header."""
    with open_bytes(path) as stream:
        lines = _Lines(path, stream)
        first = next(iter(lines), "")
        mark = delimiter or _delimiter(first)
        rows = _cells(lines, chain([first] if first else [], lines), mark)
        names = _header(path, rows)
        if names:
            check(names)
        for line, cells in rows:
            if isinstance(cells, Problem):
                yield line, cells
            elif len(cells) == len(names):
                yield line, dict(zip(names, cells, strict=True))
            else:
                message = f"the row has {len(cells)} cells, the header has {len(names)}"
                hint = f"quote cells that hold a {_MARKS.get(mark, mark)} or a line break"
                yield line, Problem("cell-count", message, hint)


def tsv_records(path: Path, check: HeaderCheck) -> Iterator[JsonRecord]:
    """The rows of a TSV file, each with the line on which it starts."""
    return csv_records(path, check, "\t")


def _delimiter(first: str) -> str:
    """A comma, unless the header has none outside quotes, and has semicolons, tabs or bars: spreadsheet programs write them
    where the comma is the decimal sign."""
    counts = {mark: len(next(csv.reader([first], delimiter=mark), [])) for mark in ",;\t|"}
    return "," if counts[","] > 1 else max(counts, key=counts.__getitem__)


class _Lines:
    """The stream's lines as text, keeping the first problem of their encoding until it is taken."""

    def __init__(self, path: Path, stream: IO[bytes]) -> None:
        self._stream = bounded_lines(path, stream)
        self._trouble: Problem | None = None

    def __iter__(self) -> Iterator[str]:
        for line in self._stream:
            try:
                yield line.decode()
            except UnicodeDecodeError as error:
                self._trouble = self._trouble or not_utf8(error)
                yield line.decode(errors="replace")

    def taken(self) -> Problem | None:
        """The problem of the lines since the last call."""
        problem, self._trouble = self._trouble, None
        return problem


_MARKS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
_ZIPPED = "PK\x03\x04"
"""The first letters of a zip archive, which spreadsheets are."""


def _header(path: Path, rows: Iterator[tuple[int, list[str] | Problem]]) -> tuple[str, ...]:
    """The names in the first of the rows, which is taken; none for an empty file."""
    for line, cells in rows:
        if isinstance(cells, Problem):
            raise DataError(cells.at(str(path), line, 0, ""))
        problem = header_problem(cells)
        if problem:
            raise DataError(problem.at(str(path), line, 0, ""))
        return tuple(cells)
    return ()


def header_problem(names: list[str]) -> Problem | None:
    """What is wrong with the names of columns, None if nothing is."""
    if names[0].startswith(_ZIPPED):
        return Problem("bad-header", "this is a spreadsheet or another zip archive, no text", SPREADSHEET)
    if "" in names:
        where = names.index("") + 1
        return Problem("bad-header", f"column {where} of the header has no name", "give every column a name")
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        return Problem("bad-header", f"the header names {twice!r} twice", "rename one of the columns")
    return None


def _cells(lines: _Lines, texts: Iterator[str], delimiter: str) -> Iterator[tuple[int, list[str] | Problem]]:
    """Each row that is not blank: its first line, and its cells or why they cannot be told."""
    csv.field_size_limit(files.LONGEST_LINE)
    reader = csv.reader(texts, delimiter=delimiter, strict=True)
    while True:
        start = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            hint = 'a cell that holds quotes is written "…""…"; every opening quote needs its closing one'
            yield start, lines.taken() or Problem("broken-csv", f"the row cannot be read: {error}", hint)
            continue
        if problem := lines.taken():
            yield start, problem
        elif cells:
            yield start, cells
