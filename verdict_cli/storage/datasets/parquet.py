"""Read Parquet files as plain Python values, batch by batch."""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from verdict_cli.errors import DataError, Problem
from verdict_cli.storage.datasets.files import unreadable
from verdict_cli.storage.datasets.json_files import HeaderCheck, JsonRecord
from verdict_cli.storage.tables.column_types import ColumnKind, array, decode_json_text, is_json

_BATCH = 1000


def header(path: Path) -> tuple[str, ...]:
    """The file's column names."""
    with open_parquet(path) as file:
        return tuple(file.schema_arrow.names)


def kinds(path: Path) -> dict[str, ColumnKind | None]:
    """Column -> its kind; None for a kind that our tables do not have."""
    import pyarrow as pa

    tests: dict[ColumnKind, Callable[[Any], bool]] = {
        "null": pa.types.is_null,
        "bool": pa.types.is_boolean,
        "int": pa.types.is_integer,
        "float": pa.types.is_floating,
        "str": lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind),
    }
    with open_parquet(path) as file:
        return {
            field.name: "json"
            if is_json(field)
            else next((kind for kind, fits in tests.items() if fits(field.type)), None)
            for field in file.schema_arrow
        }


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
    with open_parquet(path) as file:
        schema = file.schema_arrow
        plain = {name: _converter(schema.field(name)) for name in columns}
        start = 0
        for group in range(file.num_row_groups):
            end = start + file.metadata.row_group(group).num_rows
            first, last = np.searchsorted(sorted_positions, [start, end])
            here = sorted_positions[first:last] - start
            start = end
            if not len(here):
                continue
            done = 0
            for batch in file.iter_batches(batch_size=size, row_groups=[group], columns=list(columns)):
                first, last = np.searchsorted(here, [done, done + batch.num_rows])
                if last > first:
                    chosen = batch.take(array((here[first:last] - done).tolist(), "int"))
                    yield {name: plain[name](chosen.column(name).to_pylist()) for name in columns}
                done += batch.num_rows


@contextmanager
def open_parquet(path: Path) -> Iterator[Any]:
    """The open `pyarrow.parquet.ParquetFile`. Raises DataError for any other or a damaged file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

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
