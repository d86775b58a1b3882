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


def export(parquet: Path, to: Path) -> None:
    """Writes the table ``parquet`` to ``to``, whose ending (``.csv`` or ``.jsonl``) says how.

    JSON Lines keep nulls (and NaN becomes null); in CSV a null is an empty cell, and booleans, lists and mappings are
    JSON. The file is there only once it is whole. Raises OutputError when the disk refuses, UsageError for
    another ending.
    """
    write = _WRITERS.get(to.suffix.lower())
    if write is None:
        raise UsageError(f"{to}: a table is exported to {' or '.join(_WRITERS)}", hint="change the ending")
    part = to.with_name(f"{to.name}.part")
    try:
        with part.open("w", encoding="utf-8", newline="") as file:
            write(file, parquet)
        part.replace(to)
    except OSError as error:
        with suppress(OSError):
            part.unlink()
        raise OutputError(
            f"{to}: cannot be written: {error.strerror or error}",
            hint="free some space, check the permissions, or choose another --out",
        ) from error


def _csv(file: IO[str], parquet: Path) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(table_columns(parquet))
    for row in _rows(parquet):
        writer.writerow([_cell(value) for value in row.values()])


def _jsonl(file: IO[str], parquet: Path) -> None:
    for row in _rows(parquet):
        file.write(_json(row) + "\n")


def _rows(parquet: Path) -> Iterator[dict[str, Any]]:
    for batch in read_table(parquet, batch=1000):
        for values in zip(*batch.values(), strict=True):
            yield dict(zip(batch, values, strict=True))


def _cell(value: Any) -> Any:
    return _json(value) if isinstance(value, bool | list | dict) else value


def _json(value: Any) -> str:
    try:
        return orjson.dumps(value).decode()
    except TypeError:  # an integer beyond 64 bits, or half a surrogate pair
        finite = json.loads(json.dumps(value), parse_constant=lambda _: None)
        return json.dumps(finite, separators=(",", ":"))


_WRITERS: Mapping[str, Callable[[IO[str], Path], None]] = {".csv": _csv, ".jsonl": _jsonl}
