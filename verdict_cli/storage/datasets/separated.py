"""CSV and TSV with a header line. Values stay strings; quoted cells may hold line breaks."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import IO, Any

from verdict_cli.errors import DataError, Problem
from verdict_cli.messages import JsonObject
from verdict_cli.regex import regex
from verdict_cli.storage.datasets import files
from verdict_cli.storage.datasets.files import Reading, bounded_lines, open_bytes
from verdict_cli.storage.datasets.json_files import JsonRecord, not_utf8


def csv_records(path: Path, reading: Reading) -> Iterator[JsonRecord]:
    """The rows of a CSV file, each with the line on which it starts. Without a delimiter, it is the one of the header."""
    with open_bytes(path) as stream:
        lines = _Lines(path, stream)
        first = next(iter(lines), "")
        separator = _SEPARATOR_LINE.fullmatch(first)
        if separator:
            first = next(iter(lines), "")
        delimiter = reading.delimiter or (separator[1] if separator else _delimiter(first))
        yield from _records(path, reading, lines, first, delimiter, line=2 if separator else 1)


def tsv_records(path: Path, reading: Reading) -> Iterator[JsonRecord]:
    """The rows of a TSV file, each with the line on which it starts."""
    quotes = _has_quoted_cells(path)
    if not quotes:
        message = "quotes are read as part of the cells: some cells begin with a quote that nothing closes"
        reading.note(
            path, "literal-quotes", message, "save it as CSV where quotes are to enclose cells"
        )
    with open_bytes(path) as stream:
        lines = _Lines(path, stream)
        yield from _records(path, reading, lines, next(iter(lines), ""), "\t", quotes=quotes)


_SEPARATOR_LINE = regex(r'"?sep=([,;|:\t^~#])"?\s*', re.IGNORECASE)
"""The line by which Excel tells the delimiter."""


def _delimiter(first: str) -> str:
    """A comma, unless the header has none outside quotes, and has semicolons, tabs or bars: spreadsheet programs write them
    where the comma is the decimal sign."""
    try:
        counts = {mark: len(next(csv.reader([first], delimiter=mark), [])) for mark in ",;\t|"}
    except csv.Error:  # the reading of the header says why
        return ","
    return "," if counts[","] > 1 else max(counts, key=counts.__getitem__)


_QUOTED = regex(rb'"(?:[^"]|"")*+"')


def _has_quoted_cells(path: Path) -> bool:
    """Whether quotes enclose cells of a TSV file. In many, such as those of GLUE, they are text.

    They are text if every line has the header's number of tabs, more cells begin with a quote that is not closed than are
    escaped as a writer of quoted cells does it, and the rows cannot be read with cells in quotes.
    """
    with open_bytes(path) as stream:
        lines = bounded_lines(path, stream)
        header = next(lines, b"")
        tabs, unclosed, escaped = header.count(b"\t"), 0, 0
        for line in lines:
            if line.count(b"\t") != tabs and not line.isspace():
                return True
            if line.startswith(b'"') or b'\t"' in line:
                for cell in line.rstrip(b"\r\n").split(b"\t"):
                    if cell.startswith(b'"'):
                        is_quoted = _QUOTED.fullmatch(cell) is not None
                        unclosed += not is_quoted
                        escaped += is_quoted and b'"' in cell[1:-1]
    return header.startswith(b'"') or unclosed <= escaped or _reads_with_quotes(path, tabs + 1)


def _reads_with_quotes(path: Path, count: int) -> bool:
    """Whether every row of the TSV file has this many cells if quotes enclose cells."""
    with open_bytes(path) as stream:
        texts = (line.decode(errors="replace") for line in bounded_lines(path, stream))
        try:
            return all(
                len(cells) in (0, count) for cells in csv.reader(texts, delimiter="\t", strict=True)
            )
        except csv.Error:
            return False


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


def _records(
    path: Path,
    reading: Reading,
    lines: _Lines,
    first: str,
    delimiter: str,
    *,
    line: int = 1,
    quotes: bool = True,
) -> Iterator[JsonRecord]:
    """The rows below the header ``first``, which is on this line of the file."""
    rows = _cells(lines, chain([first] if first else [], lines), delimiter, line, quotes=quotes)
    names = _header(path, rows, reading)
    if names:
        reading.check_header(tuple(filter(None, names)))
    for number, cells in rows:
        if isinstance(cells, Problem):
            yield number, cells
        elif not any(cells) or not any(map(str.strip, cells)):
            reading.blank += 1
        elif len(cells) == len(names):
            yield number, named_cells(names, cells)
        else:
            message = f"the row has {len(cells)} cells, the header has {len(names)}"
            hint = f"quote cells that hold a {_MARKS.get(delimiter, delimiter)} or a line break"
            yield number, Problem("cell-count", message, hint)


def _header(
    path: Path, rows: Iterator[tuple[int, list[str] | Problem]], reading: Reading
) -> tuple[str, ...]:
    """The names in the first of the rows, which is taken; none for an empty file."""
    for line, cells in rows:
        if isinstance(cells, Problem):
            raise DataError(cells.at(str(path), line, 0, ""))
        check_names(cells, path, line, reading)
        return tuple(cells)
    return ()


def check_names(names: Sequence[str], path: Path, line: int, reading: Reading) -> None:
    """Raise DataError for a name that two columns have, or a header without any; note a column without a name."""
    if not any(names):
        raise DataError(
            Problem(
                "bad-header",
                "the header names no column",
                "name the columns in it",
                str(path),
                line,
            )
        )
    twice = next((name for name, count in Counter(filter(None, names)).items() if count > 1), None)
    if twice is not None:
        message = f"the header names {twice!r} twice"
        raise DataError(
            Problem("bad-header", message, "rename one of the columns", str(path), line)
        )
    if "" in names:  # such as the index that pandas writes
        where = list(names).index("") + 1
        reading.note(
            path,
            "no-name",
            f"column {where} has no name and is left out",
            "name it in the header to use it",
        )


def named_cells(names: Sequence[str], cells: Sequence[Any]) -> JsonObject:
    """The cells of the columns that have a name."""
    return {name: cell for name, cell in zip(names, cells, strict=False) if name}


def _cells(
    lines: _Lines, texts: Iterator[str], delimiter: str, line: int, *, quotes: bool
) -> Iterator[tuple[int, list[str] | Problem]]:
    """Each row that is not blank: its first line, and its cells or why they cannot be told."""
    csv.field_size_limit(files.LONGEST_LINE)
    reader = csv.reader(
        texts,
        delimiter=delimiter,
        quoting=csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE,
        strict=True,
    )
    while True:
        start = reader.line_num + line
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield start, lines.taken() or _broken(error)
            continue
        if problem := lines.taken():
            yield start, problem
        elif cells:
            yield start, cells


def _broken(error: csv.Error) -> Problem:
    if "new-line character" in str(error):
        message = (
            "the row cannot be read: a carriage return stands within a cell that has no quotes"
        )
        hint = "quote the cell; if each line of the file ends so, save it with line feeds"
        return Problem("broken-csv", message, hint)
    hint = 'a cell that holds quotes is written "…""…"; every opening quote needs its closing one'
    return Problem("broken-csv", f"the row cannot be read: {error}", hint)
