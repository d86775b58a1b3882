"""A finished table as CSV or JSON Lines."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import orjson

from verdict_cli.data.table_reader import read_table, table_columns
from verdict_cli.errors import OutputError, UsageError


def export(parquet: Path, to: Path, *, inert: bool = False) -> None:
    """Writes the table ``parquet`` to ``to``, whose ending (``.csv`` or ``.jsonl``) says how.

    JSON Lines keep nulls (and NaN becomes null); in CSV a null is an empty cell, and booleans, lists and mappings are
    JSON. With ``inert``, a text in CSV that a spreadsheet would compute has an apostrophe before it. The file is there only once it is whole. Raises OutputError when the disk refuses, UsageError for
    another ending.
    """
    write = _WRITERS.get(to.suffix.lower())
    if write is None:
        raise UsageError(f"{to}: a table is exported to {' or '.join(_WRITERS)}", hint="change the ending")
    part = to.with_name(f"{to.name}.part")
    try:
        with part.open("w", encoding="utf-8", newline="") as file:
            write(file, parquet, inert)
        part.replace(to)
    except OSError as error:
        with suppress(OSError):
            part.unlink()
        raise OutputError(
            f"{to}: cannot be written: {error.strerror or error}",
            hint="free some space, check the permissions, or choose another --out",
        ) from error


class _Lines:
    """Ends the lines of a file as Unix does."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, line: str) -> int:
        """Writes a line that ends with a carriage return and a line feed."""
        return self._file.write(f"{line[:-2]}\n")


def _csv(file: IO[str], parquet: Path, inert: bool) -> None:
    writer = csv.writer(_Lines(file), lineterminator="\r\n")  # which also quotes a lone carriage return
    shown = _inert if inert else _cell
    writer.writerow([shown(name) for name in table_columns(parquet)])
    for row in _rows(parquet):
        writer.writerow([shown(value) for value in row.values()])


def _jsonl(file: IO[str], parquet: Path, _: bool) -> None:
    for row in _rows(parquet):
        file.write(_json(row) + "\n")


def _rows(parquet: Path) -> Iterator[dict[str, Any]]:
    for batch in read_table(parquet, batch=1000):
        for values in zip(*batch.values(), strict=True):
            yield dict(zip(batch, values, strict=True))


def _cell(value: Any) -> Any:
    return _json(value) if isinstance(value, bool | list | dict) else value


def _inert(value: Any) -> Any:
    """The cell, in which no spreadsheet sees a formula."""
    cell = _cell(value)
    return f"'{cell}" if isinstance(cell, str) and cell.lstrip(" ").startswith(_FORMULA) else cell


def _json(value: Any) -> str:
    try:
        return orjson.dumps(value).decode()
    except TypeError:  # an integer beyond 64 bits, or half a surrogate pair
        finite = json.loads(json.dumps(value), parse_constant=lambda _: None)
        return json.dumps(finite, separators=(",", ":"))


_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "|", "%", "\uff1d", "\uff0b", "\uff0d", "\uff20")

_WRITERS: Mapping[str, Callable[[IO[str], Path, bool], None]] = {".csv": _csv, ".jsonl": _jsonl}
