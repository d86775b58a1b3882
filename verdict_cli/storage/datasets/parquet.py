"""Read Parquet files as plain Python values, batch by batch."""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from verdict_cli.errors import DataError, Problem
from verdict_cli.storage.datasets.files import unreadable
from verdict_cli.storage.datasets.json_files import HeaderCheck, JsonRecord
from verdict_cli.storage.tables.column_types import (
    ColumnKind,
    DeclaredType,
    array,
    declared_type,
    decode_json_text,
    field,
    is_json,
    wider,
)

_BATCH = 1000


def header(path: Path) -> tuple[str, ...]:
    """The file's column names."""
    with open_parquet(path) as file:
        return tuple(file.schema_arrow.names)


def kinds(path: Path) -> dict[str, ColumnKind | None]:
    """Column -> its kind; None for a kind that our tables do not have."""
    with open_parquet(path) as file:
        return {column.name: _kind_of(column) for column in file.schema_arrow}


def _kind_of(column: Any) -> ColumnKind | None:
    """The kind of an Arrow field; None for a kind that our tables do not have."""
    import pyarrow as pa

    tests: dict[ColumnKind, Callable[[Any], bool]] = {
        "null": pa.types.is_null,
        "bool": pa.types.is_boolean,
        "int": pa.types.is_integer,
        "float": pa.types.is_floating,
        "str": lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind),
    }
    if is_json(column):
        return "json"
    return next((kind for kind, fits in tests.items() if fits(column.type)), None)


def parquet_records(path: Path, check: HeaderCheck) -> Iterator[JsonRecord]:
    """The rows with their numbers, from 1. Dates and times become ISO text, decimals floats, bytes UTF-8 text."""
    if columns := header(path):
        check(columns)
    number = 0
    for batch in batches(path, None, _BATCH):
        names = tuple(batch)
        for values in zip(*batch.values(), strict=True):
            number += 1
            wrong = next((value for value in values if isinstance(value, Problem)), None)
            yield number, wrong or dict(zip(names, values, strict=True))


def batches(path: Path, columns: Sequence[str] | None, size: int) -> Iterator[dict[str, list[Any]]]:
    """Column -> values, at most ``size`` rows at a time; only ``columns`` are read. Bytes that are not UTF-8 are a Problem."""
    with open_parquet(path) as file:
        schema = file.schema_arrow
        names = list(schema.names if columns is None else columns)
        plain = {name: _converter(schema.field(name)) for name in names}
        for batch in file.iter_batches(batch_size=size, columns=names):
            yield {name: plain[name](batch.column(name).to_pylist()) for name in names}


def arrow_batches(path: Path, columns: Sequence[str], size: int) -> Iterator[Any]:
    """`pyarrow.RecordBatch`es of these columns, for counting without converting to Python values."""
    with open_parquet(path) as file:
        yield from file.iter_batches(batch_size=size, columns=list(columns))


def read_rows_at(
    path: Path, positions: Sequence[int], columns: Sequence[str], size: int
) -> Iterator[dict[str, list[Any]]]:
    """Column -> values of the rows at these ascending positions, a batch at a time. Row groups without one are not read."""
    import numpy as np

    sorted_positions = np.asarray(positions, dtype=np.int64)
    start = 0
    for part in table_files(path):
        with open_parquet(part) as file:
            schema = file.schema_arrow
            known = [name for name in columns if name in schema.names]
            plain = {name: _converter(schema.field(name)) for name in known}
            for group in range(file.num_row_groups):
                end = start + file.metadata.row_group(group).num_rows
                first, last = np.searchsorted(sorted_positions, [start, end])
                here = sorted_positions[first:last] - start
                start = end
                if not len(here):
                    continue
                done = 0
                for batch in file.iter_batches(batch_size=size, row_groups=[group], columns=known):
                    first, last = np.searchsorted(here, [done, done + batch.num_rows])
                    if last > first:
                        chosen = batch.take(array((here[first:last] - done).tolist(), "int"))
                        values = {name: plain[name](chosen.column(name).to_pylist()) for name in known}
                        yield {name: values.get(name) or [None] * chosen.num_rows for name in columns}
                    done += batch.num_rows


def table_files(path: Path) -> list[Path]:
    """The files of a table in order: those of a folder, or the file itself."""
    return sorted(path.glob("*.parquet")) if path.is_dir() else [path]


def count_rows(path: Path) -> int:
    """The number of rows of a table."""
    total = 0
    for part in table_files(path):
        with open_parquet(part) as file:
            total += file.metadata.num_rows
    return total


class ParquetFolder:
    """The tables in a folder, read in the order of their names as one: the part of `pyarrow.parquet.ParquetFile` that is used
    here. A column has the narrowest kind that holds those of all tables. Raises DataError for a folder without tables."""

    def __init__(self, path: Path) -> None:
        self._files = table_files(path)
        if not self._files:
            raise DataError(Problem("not-parquet", "the folder has no Parquet files", "", str(path)))
        self._schemas = [_schema_of(file, file.stat().st_mtime_ns) for file in self._files]
        self.schema_arrow = self._schemas[0]
        if any(not schema.equals(self.schema_arrow, check_metadata=True) for schema in self._schemas):
            self.schema_arrow = _widest(self._schemas)

    def iter_batches(self, *, batch_size: int = 65_536, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """The `pyarrow.RecordBatch`es of the columns."""
        names = list(self.schema_arrow.names if columns is None else columns)
        for path, schema in zip(self._files, self._schemas, strict=True):
            known = [name for name in names if name in schema.names]
            with open_parquet(path) as file:
                for batch in file.iter_batches(batch_size=batch_size, columns=known):
                    yield self._widened(batch, names)

    def _widened(self, batch: Any, names: Sequence[str]) -> Any:
        """The batch with the columns' types in all tables."""
        import pyarrow as pa

        wanted = [self.schema_arrow.field(name) for name in names]
        arrays = []
        for to in wanted:
            if to.name not in batch.schema.names:
                arrays.append(pa.nulls(batch.num_rows, to.type))
                continue
            own, column = batch.schema.field(to.name), batch.column(to.name)
            if own.type == to.type and is_json(own) == is_json(to):
                arrays.append(column)
            else:
                arrays.append(array(_converter(own)(column.to_pylist()), _kind_of(to) or "json"))
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(wanted))


@lru_cache(maxsize=20_000)
def _schema_of(path: Path, modified: int) -> Any:
    """The table's schema, kept until the file is ``modified``: reports open a folder many times."""
    with open_parquet(path) as file:
        return file.schema_arrow


def _widest(schemas: Sequence[Any]) -> Any:
    """The columns of all tables, in the order of their first appearance."""
    import pyarrow as pa

    kinds: dict[str, ColumnKind] = {}
    declared: dict[str, DeclaredType | None] = {}
    for schema in schemas:
        for column in schema:
            kind = _kind_of(column) or "json"
            kinds[column.name] = wider(kinds.get(column.name, "null"), kind, exact=True)
            declared[column.name] = declared.get(column.name) or declared_type(column)
    return pa.schema([field(name, kind, declared[name]) for name, kind in kinds.items()])


@contextmanager
def open_parquet(path: Path) -> Iterator[Any]:
    """The open `pyarrow.parquet.ParquetFile`, or a `ParquetFolder`. Raises DataError for any other or a damaged file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if path.is_dir():
        yield ParquetFolder(path)
        return
    try:
        with path.open("rb") as raw, pq.ParquetFile(raw, page_checksum_verification=True) as file:
            _refuse_duplicates(path, file.schema_arrow.names)
            yield file
    except FileNotFoundError as error:
        raise DataError(unreadable(path, error)) from error
    except (pa.ArrowException, ValueError, OSError) as error:
        message = "not a Parquet file" if not _has_magic_number(path) else f"the Parquet file is damaged: {error}"
        hint = "write it again, or give its name the ending of its format"
        raise DataError(Problem("not-parquet", message, hint, str(path))) from error


def _refuse_duplicates(path: Path, names: Sequence[str]) -> None:
    """A row is a mapping of column names to values, and pyarrow cannot read a column whose name is not unique."""
    duplicate = next((name for name, count in Counter(names).items() if count > 1), None)
    if duplicate is not None:
        message = f"two columns are named {duplicate!r}"
        raise DataError(Problem("bad-header", message, "rename one of them", str(path)))


def _has_magic_number(path: Path) -> bool:
    try:
        with path.open("rb") as raw:
            return raw.read(4) == b"PAR1"
    except OSError:
        return False


def _converter(field: Any) -> Callable[[list[Any]], list[Any]]:
    import pyarrow as pa

    kind = field.type
    if is_json(field):
        return lambda values: [None if value is None else decode_json_text(value) for value in values]
    if any(
        test(kind)
        for test in (
            pa.types.is_boolean,
            pa.types.is_integer,
            pa.types.is_floating,
            pa.types.is_string,
            pa.types.is_large_string,
            pa.types.is_null,
        )
    ):
        return lambda values: values
    if pa.types.is_map(kind):
        return lambda values: [None if value is None else _plain(dict(value)) for value in values]
    return lambda values: [_plain(value) for value in values]


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {str(key): _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case datetime.date() | datetime.time():
            return value.isoformat()
        case decimal.Decimal():
            return float(value)
        case datetime.timedelta():
            return value.total_seconds()
        case uuid.UUID():
            return str(value)
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                return Problem("bad-encoding", "a cell holds bytes that are not UTF-8 text", "leave that column out")
        case _:
            return value
