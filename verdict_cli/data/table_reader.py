"""A finished table, read back as it was written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from verdict_cli.data import parquet
from verdict_cli.data.columns import missing
from verdict_cli.data.table_kinds import Kind
from verdict_cli.errors import DataError


def table_columns(path: Path) -> tuple[str, ...]:
    """The table's column names, in order. Raises DataError for a file that is no Parquet file."""
    return parquet.header(path)


def column_kinds(path: Path) -> dict[str, Kind | None]:
    """Column -> what it holds; None for what no table of ours holds. Raises DataError for a file that is no Parquet file."""
    return parquet.kinds(path)


def read_table(
    path: Path, columns: Sequence[str] | None = None, batch: int = 5000
) -> Iterator[dict[str, list[Any]]]:
    """Column -> values, for at most ``batch`` rows at a time; only the asked ``columns`` are read from disk.

    Raises DataError for a file that is no Parquet file, and for a column it has not.
    """
    names = table_columns(path)
    lacking = next((column for column in columns or () if column not in names), None)
    if lacking is not None:
        raise DataError(missing(lacking, names).at(str(path), 0, 0, ""))
    yield from parquet.batches(path, columns, batch)


def read_arrow(path: Path, columns: Sequence[str], batch: int = 10_000) -> Iterator[Any]:
    """`pyarrow.RecordBatch`es of these columns, for what is counted without making Python values of it."""
    return parquet.arrow_batches(path, columns, batch)


def read_rows(
    path: Path, places: Sequence[int], columns: Sequence[str] | None = None, batch: int = 1000
) -> Iterator[dict[str, list[Any]]]:
    """Column -> values of the rows at these ascending places of the file, the values of at most ``batch`` at a time."""
    return parquet.picked(path, places, table_columns(path) if columns is None else columns, batch)
