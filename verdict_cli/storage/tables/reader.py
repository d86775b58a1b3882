"""Read tables back, and export them as CSV or JSON Lines."""

from __future__ import annotations

import csv
import json
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import orjson

from verdict_cli.errors import DataError, OutputError, UsageError
from verdict_cli.messages import JsonObject
from verdict_cli.storage.datasets import parquet
from verdict_cli.storage.datasets.dataset import missing_column
from verdict_cli.storage.tables.column_types import ColumnKind, DeclaredType, array, declared_type
from verdict_cli.storage.tables.run_columns import later_columns


def table_columns(path: Path) -> tuple[str, ...]:
    """The table's column names, in order. Raises DataError for a file that is not a Parquet file."""
    with parquet.open_parquet(path) as file:
        return tuple(file.schema_arrow.names)


def column_kinds(path: Path) -> dict[str, ColumnKind | None]:
    """Column -> its kind, None for one that verdict does not write. Raises DataError if it is not a Parquet file."""
    with parquet.open_parquet(path) as file:
        return {column.name: parquet.kind_of(column) for column in file.schema_arrow}


def read_table(
    path: Path, columns: Sequence[str] | None = None, batch: int = 5000
) -> Iterator[dict[str, list[Any]]]:
    """Column -> values, for at most ``batch`` rows at a time; only ``columns`` are read from disk.

    A column that a later version added is null in the table of an earlier one. Raises DataError for a file that is not a
    Parquet file, and for a missing column.
    """
    for rows in read_arrow(path, columns, batch):
        yield {
            name: parquet.column_values(rows.column(name), rows.schema.field(name))
            for name in (rows.schema.names if columns is None else columns)
        }


def table_rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """The values of each row in these columns. Raises as `read_table` does."""
    for batch in read_table(path, columns):
        yield from zip(*(batch[name] for name in columns), strict=True)


def has_columns(path: Path, columns: Iterable[str]) -> bool:
    """Whether the table is there, with these columns but for those that a later version added."""
    return path.exists() and later_columns().union(table_columns(path)).issuperset(columns)


def read_arrow(
    path: Path, columns: Sequence[str] | None = None, batch: int = 10_000
) -> Iterator[Any]:
    """`pyarrow.RecordBatch`es of these columns, for counting without making Python values; later ones are null. Raises as
    `read_table` does."""
    import pyarrow as pa

    with parquet.open_parquet(path) as file:
        names = file.schema_arrow.names
        wanted = names if columns is None else columns
        absent = [name for name in wanted if name not in names]
        for name in absent:
            if name not in later_columns():
                raise DataError(missing_column(name, names).at(str(path), 0, 0, ""))
        present = [name for name in wanted if name in names] or names[:1]
        for values in parquet.observed_batches(path, file, present, batch):
            whole = values
            for name in absent:
                whole = whole.append_column(name, pa.nulls(values.num_rows))
            yield whole


def read_rows(
    path: Path, indices: Sequence[int], columns: Sequence[str] | None = None, batch: int = 1000
) -> Iterator[dict[str, list[Any]]]:
    """Column -> values of the rows at these ascending indices, at most ``batch`` rows at a time. Row groups without one are
    not read."""
    with parquet.open_parquet(path) as file:
        schema = file.schema_arrow
        names = schema.names if columns is None else columns
        present = [name for name in names if name in schema.names]
        end = 0
        for group in range(file.num_row_groups):
            start, end = end, end + file.metadata.row_group(group).num_rows
            if not _between(indices, start, end):
                continue
            batches = file.iter_batches(batch, row_groups=[group], columns=present)
            for rows in _picked(batches, start, indices):
                values = dict.fromkeys(names, [None] * rows.num_rows)
                for name in present:
                    values[name] = parquet.column_values(rows.column(name), schema.field(name))
                yield values


def _picked(batches: Iterable[Any], start: int, indices: Sequence[int]) -> Iterator[Any]:
    """The rows at these indices in batches that begin at the row ``start``."""
    for rows in batches:
        here = _between(indices, start, start + rows.num_rows)
        if len(here) == rows.num_rows:
            yield rows
        elif here:
            yield rows.take(array([index - start for index in here], "int"))
        start += rows.num_rows


def _between(indices: Sequence[int], start: int, end: int) -> Sequence[int]:
    return indices[bisect_left(indices, start) : bisect_left(indices, end)]


def declared_types(path: Path) -> dict[str, DeclaredType]:
    """Column -> what the pipeline declares of its values, as far as the table says it."""
    with parquet.open_parquet(path) as file:
        columns = list(file.schema_arrow)
    return {
        column.name: declared
        for column in columns
        if (declared := declared_type(column)) is not None
    }


def export_table(parquet: Path, to: Path, *, inert: bool = False) -> None:
    """Write the table ``parquet`` to ``to``, as CSV or JSON Lines by its ending (``.csv`` or ``.jsonl``).

    JSON Lines keep nulls (and NaN becomes null); in CSV a null is an empty cell, and booleans, lists and mappings are
    JSON. With ``inert``, a text in CSV that a spreadsheet would compute is prefixed with an apostrophe. The file appears
    when it is complete. Raises OutputError when the disk refuses, UsageError for another ending.
    """
    write = _WRITERS.get(to.suffix.lower())
    if write is None:
        raise UsageError(
            f"{to}: a table is exported to {' or '.join(_WRITERS)}", hint="change the ending"
        )
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
    """A file whose lines end with a line feed alone."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, line: str) -> int:
        """Write a line that ends with a carriage return and a line feed."""
        return self._file.write(f"{line[:-2]}\n")


def _csv(file: IO[str], parquet: Path, inert: bool) -> None:
    writer = csv.writer(
        _Lines(file), lineterminator="\r\n"
    )  # which also quotes a lone carriage return
    shown = _inert if inert else _cell
    writer.writerow([shown(name) for name in table_columns(parquet)])
    for row in _rows(parquet):
        writer.writerow([shown(value) for value in row.values()])


def _jsonl(file: IO[str], parquet: Path, _: bool) -> None:
    for row in _rows(parquet):
        file.write(_json(row) + "\n")


def _rows(parquet: Path) -> Iterator[JsonObject]:
    for batch in read_table(parquet, batch=1000):
        for values in zip(*batch.values(), strict=True):
            yield dict(zip(batch, values, strict=True))


def _cell(value: Any) -> Any:
    return _json(value) if isinstance(value, bool | list | dict) else value


def _inert(value: Any) -> Any:
    """The cell, written so that no spreadsheet takes it for a formula."""
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
