"""Read Parquet files as plain Python values, batch by batch."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from verdict_cli.errors import DataError, Problem
from verdict_cli.messages import JsonObject
from verdict_cli.storage.datasets.files import LONGEST_LINE, Reading, unreadable
from verdict_cli.storage.datasets.json_files import JsonRecord
from verdict_cli.storage.file_reads import is_observed, report_read
from verdict_cli.storage.tables.column_types import (
    ColumnKind,
    array,
    declared_type,
    decode_json_text,
    field,
    is_json,
)

_BATCH = 1000


def kind_of(column: Any) -> ColumnKind | None:
    """The kind of an Arrow field; None for a kind that our tables do not have."""
    import pyarrow as pa

    kinds: tuple[tuple[Callable[[Any], bool], ColumnKind], ...] = (
        (pa.types.is_string, "str"),
        (pa.types.is_large_string, "str"),
        (pa.types.is_integer, "int"),
        (pa.types.is_floating, "float"),
        (pa.types.is_boolean, "bool"),
        (pa.types.is_null, "null"),
    )
    for is_type, kind in kinds:
        if is_type(column.type):
            return "json" if kind == "str" and is_json(column) else kind
    declared = declared_type(column)
    if declared and declared.shape and field("", "native", declared).type == column.type:
        return "native"
    return None


def list_types(path: Path) -> dict[str, JsonObject]:
    """Column -> the JSON Schema of its values, for the columns whose values are lists or mappings of a known form."""
    with open_parquet(path) as file:
        schemas = {
            column.name: _json_schema(column.type)
            for column in file.schema_arrow
            if not is_json(column)
        }
    return {
        name: schema
        for name, schema in schemas.items()
        if schema.get("type") in ("array", "object")
    }


def _json_schema(kind: Any) -> JsonObject:
    """The JSON Schema of the plain values of an Arrow type, {} where it has no one form."""
    import pyarrow as pa

    types = pa.types
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return {"type": "array", "items": _json_schema(kind.value_type)}
    if types.is_struct(kind):
        fields = [kind.field(index) for index in range(kind.num_fields)]
        return {
            "type": "object",
            "properties": {field.name: _json_schema(field.type) for field in fields},
        }
    plain = {
        "boolean": (types.is_boolean,),
        "integer": (types.is_integer,),
        "number": (types.is_floating, types.is_duration),
        "string": (types.is_string, types.is_large_string, types.is_temporal),
    }
    for name, tests in plain.items():
        if any(is_type(kind) for is_type in tests):
            return {"type": name}
    return {}


def parquet_records(path: Path, reading: Reading) -> Iterator[JsonRecord]:
    """The rows with their numbers, from 1. Dates and times become ISO text, durations seconds, decimals numbers, bytes text.

    A value that has no such form is null where nothing uses its column, which is told, else its row's problem.
    """
    with open_parquet(path) as file:
        schema = file.schema_arrow
        _check_size(path, file)
        names = tuple(schema.names)
        if names:
            reading.check_header(names)
        opaque = {column.name for column in schema if _may_be_opaque(column.type)}
        number = 0
        for rows in observed_batches(path, file, schema.names, _BATCH):
            batch = {
                name: column_values(rows.column(name), schema.field(name), sparse=True)
                for name in names
            }
            problems: dict[int, Problem] = {}
            for name in opaque:
                for index, value in enumerate(batch[name]):
                    problem = _problem_in(value)
                    if problem is None:
                        continue
                    if name in reading.used:
                        problems[index] = replace(
                            problem, message=f"the column {name!r} holds {problem.message}"
                        )
                    else:
                        batch[name][index] = None
                        message = f"the column {name!r} is left out where it holds {problem.message}; nothing uses it"
                        reading.note(path, "unused-bytes", message)
            for index, values in enumerate(zip(*batch.values(), strict=True)):
                number += 1
                yield number, problems.get(index) or dict(zip(names, values, strict=True))


_MOST_VALUES = 32 << 20
"""Values of a nested column in a row group: compressed, 60 million of one list take a kilobyte, and gigabytes when read."""


def _check_size(path: Path, file: Any) -> None:
    """DataError where a row may take more memory than `LONGEST_LINE` bytes of text do, by the file's own counts."""
    for number in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(number)
        for column in map(group.column, range(group.num_columns)):
            is_nested = column.num_values > group.num_rows
            bytes_a_row = column.total_uncompressed_size // max(1, group.num_rows)
            values_a_row = column.num_values // max(1, group.num_rows)
            if max(bytes_a_row, 8 * values_a_row) > LONGEST_LINE or (
                is_nested and column.num_values > _MOST_VALUES
            ):
                message = f"rows of the column {column.path_in_schema!r} are too large: {column.num_values:,} values, "
                message += f"{column.total_uncompressed_size:,} bytes in {group.num_rows:,} rows"
                hint = (
                    "shorten them, or write the file with smaller row groups: row_group_size=1000"
                )
                raise DataError(Problem("too-long", message, hint, str(path)))


def _may_be_opaque(kind: Any) -> bool:
    """Whether values of the type may have no form in JSON."""
    import pyarrow as pa

    if isinstance(kind, pa.BaseExtensionType):
        return _may_be_opaque(kind.storage_type)
    types = pa.types
    nested = (
        types.is_map,
        types.is_struct,
        types.is_list,
        types.is_large_list,
        types.is_fixed_size_list,
    )
    if any(is_nested(kind) for is_nested in nested):
        return any(_may_be_opaque(kind.field(index).type) for index in range(kind.num_fields))
    plain = (
        types.is_primitive,
        types.is_null,
        types.is_decimal,
        types.is_string,
        types.is_large_string,
    )
    return not any(is_plain(kind) for is_plain in plain)


def _problem_in(value: Any) -> Problem | None:
    """The first problem within the value."""
    if isinstance(value, Problem):
        return value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return next((problem for item in inner if (problem := _problem_in(item)) is not None), None)


def observed_batches(path: Path, file: Any, columns: list[str], size: int) -> Iterator[Any]:
    """The batches of an open file, which report how many rows are read."""
    if not is_observed():
        yield from file.iter_batches(batch_size=size, columns=columns)
        return
    done, total = 0, file.metadata.num_rows
    for batch in file.iter_batches(batch_size=size, columns=columns):
        yield batch
        done += batch.num_rows
        report_read(path, "rows", done, total)


def count_rows(path: Path) -> int:
    with open_parquet(path) as file:
        return int(file.metadata.num_rows)


def widened(table: Any, schema: Any) -> list[Any]:
    """The columns of a table or a batch with the types of a schema, each of which holds all of their values."""
    import pyarrow as pa

    arrays = []
    for to in schema:
        if to.name not in table.schema.names:
            arrays.append(pa.nulls(table.num_rows, to.type))
            continue
        own, column = table.schema.field(to.name), table.column(to.name)
        if own.type == to.type and is_json(own) == is_json(to):
            arrays.append(column)
        elif column.null_count == len(column):
            arrays.append(pa.nulls(len(column), to.type))
        else:
            arrays.append(array(column_values(column, own), kind_of(to) or "json"))
    return arrays


@contextmanager
def open_parquet(path: Path) -> Iterator[Any]:
    """The open `pyarrow.parquet.ParquetFile`. Raises DataError for any other or a damaged file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            _refuse_duplicates(path, file.schema_arrow.names)
            yield file
    except FileNotFoundError as error:
        raise DataError(unreadable(path, error)) from error
    except (pa.ArrowException, ValueError, OSError) as error:
        message = (
            "not a Parquet file"
            if not _has_magic_number(path)
            else f"the Parquet file is damaged: {error}"
        )
        hint = "write it again, or give its name the ending of its format"
        raise DataError(Problem("not-parquet", message, hint, str(path))) from error


def _refuse_duplicates(path: Path, names: Sequence[str]) -> None:
    """A row is a mapping of column names to values, and pyarrow cannot read a column whose name is not unique."""
    if len(set(names)) < len(names):
        ((duplicate, _),) = Counter(names).most_common(1)
        message = f"two columns are named {duplicate!r}"
        raise DataError(Problem("bad-header", message, "rename one of them", str(path)))


def _has_magic_number(path: Path) -> bool:
    try:
        with path.open("rb") as raw:
            return raw.read(4) == b"PAR1"
    except OSError:
        return False


def column_values(column: Any, field: Any, *, sparse: bool = False) -> list[Any]:
    """The plain values of an Arrow array, whose field says whether its text is JSON.

    ``sparse``: as a dataset is read. All structs of a column have all of its fields, so that a null one is a key that the row
    does not have; and NaN is how numpy, pandas and polars write a number that is missing.
    """
    if is_json(field):
        return [None if text is None else decode_json_text(text) for text in column.to_pylist()]
    return _plain_values(column, sparse)


def _plain_values(column: Any, sparse: bool) -> list[Any]:
    """The values as JSON has them. `to_pylist` alone fails for times that Python's types do not hold."""
    import pyarrow as pa

    kind, types = column.type, pa.types
    if types.is_string(kind) or types.is_large_string(kind) or types.is_null(kind):
        plain: list[Any] = column.to_pylist()
        return plain
    readers: tuple[tuple[Callable[[Any], bool], Callable[[Any, bool], list[Any]]], ...] = (
        (types.is_decimal, _decimals),
        (types.is_interval, _others),  # they are temporal, too
        (types.is_temporal, _times),
        (types.is_primitive, _primitives),
        (types.is_dictionary, _dictionaries),
        (types.is_struct, _structs),
        (types.is_map, _maps),
        (types.is_list, _lists),
        (types.is_large_list, _lists),
        (types.is_fixed_size_list, _fixed_lists),
    )
    for is_type, read in readers:
        if is_type(kind):
            return read(column, sparse)
    return _others(column, sparse)


def _dictionaries(column: Any, sparse: bool) -> list[Any]:
    return _plain_values(column.dictionary_decode(), sparse)


def _lists(column: Any, sparse: bool) -> list[Any]:
    return _slices(column, _plain_values(column.values, sparse), list)


def _primitives(column: Any, sparse: bool) -> list[Any]:
    import pyarrow as pa

    values: list[Any] = column.to_pylist()
    if sparse and pa.types.is_floating(column.type):
        return [None if value is None or value != value else float(value) for value in values]  # noqa: PLR0124 - NaN
    is_half = pa.types.is_float16(column.type) and not column.null_count
    return list(map(float, values)) if is_half else values


def _present(column: Any) -> list[bool]:
    """Where a column has a value."""
    from verdict_cli.storage.datasets.arrow_vectors import present

    is_there: list[bool] = present(column).tolist()
    return is_there


def _decimals(column: Any, _: bool) -> list[Any]:
    number = float if column.type.scale > 0 else int
    return [None if value is None else number(value) for value in column.to_pylist()]


def _structs(column: Any, sparse: bool) -> list[Any]:
    kind = column.type
    fields = [_plain_values(inner, sparse) for inner in column.flatten()]
    names = [kind.field(index).name for index in range(kind.num_fields)]
    rows = zip(*fields, strict=True) if fields else iter([()] * len(column))
    is_there = _present(column)
    return [
        _struct(names, row, sparse) if there else None
        for row, there in zip(rows, is_there, strict=True)
    ]


def _maps(column: Any, sparse: bool) -> list[Any]:
    keys = map(str, _plain_values(column.keys, sparse))
    items = _plain_values(column.items, sparse)
    return _slices(column, list(zip(keys, items, strict=True)), dict)


def _fixed_lists(column: Any, sparse: bool) -> list[Any]:
    flat, size = iter(_plain_values(column.flatten(), sparse)), column.type.list_size
    return [[*islice(flat, size)] if there else None for there in _present(column)]


def _others(column: Any, _: bool) -> list[Any]:
    import pyarrow as pa

    kind = column.type
    try:
        return [_plain(value) for value in column.to_pylist()]
    except (pa.ArrowException, ValueError, OverflowError, TypeError, ImportError):
        unknown = Problem(
            "unknown-type",
            f"values of the type {kind}, which cannot be read",
            "leave that column out",
        )
        return [unknown if there else None for there in column.is_valid().to_pylist()]


def _struct(names: Sequence[str], values: Sequence[Any], sparse: bool) -> JsonObject:
    fields = zip(names, values, strict=True)
    return {name: value for name, value in fields if value is not None} if sparse else dict(fields)


def _slices(column: Any, flat: list[Any], form: Callable[[list[Any]], Any]) -> list[Any]:
    """The slice of the values of each of its rows, from a column of lists or maps."""
    offsets, is_there = column.offsets.to_pylist(), _present(column)
    bounds = zip(offsets, offsets[1:], is_there, strict=False)
    return [form(flat[start:end]) if there else None for start, end, there in bounds]


_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def _times(column: Any, _: bool) -> list[Any]:
    """Dates and times as ISO text, durations as seconds."""
    import numpy as np
    import pyarrow as pa

    kind, types = column.type, pa.types
    is_short = types.is_date32(kind) or types.is_time32(kind)
    counts = column.cast(pa.int32() if is_short else pa.int64()).to_pylist()
    if types.is_date(kind):
        unit: Any = "D" if types.is_date32(kind) else "ms"
        days = [
            None if count is None else np.datetime64(count, unit).astype("datetime64[D]")
            for count in counts
        ]
        return [None if day is None else str(day) for day in days]
    if types.is_duration(kind):
        return [None if count is None else count / _PER_SECOND[kind.unit] for count in counts]
    zone = _zone(kind.tz) if types.is_timestamp(kind) and kind.tz else None
    texts = [None if count is None else _time(count, kind.unit, zone) for count in counts]
    return [text and text.partition("T")[2] for text in texts] if types.is_time(kind) else texts


def _time(count: int, unit: Any, zone: datetime.tzinfo | None) -> str:
    """The ISO text of a time since 1970, as `isoformat` writes it; with nine digits of a second where six do not do."""
    import numpy as np

    seconds, rest = divmod(count, _PER_SECOND[unit])
    nanoseconds = rest * (10**9 // _PER_SECOND[unit])
    try:
        moment = _EPOCH + datetime.timedelta(seconds=seconds, microseconds=nanoseconds // 1000)
        moment = moment.astimezone(zone) if zone else moment.replace(tzinfo=None)
    except OverflowError:  # years that Python's times do not have
        text = str(np.datetime64(count, unit))
        return (text.rstrip("0").rstrip(".") if "." in text else text) + ("+00:00" if zone else "")
    if nanoseconds % 1000:
        text = moment.isoformat(timespec="microseconds")
        return f"{text[:26]}{nanoseconds % 1000:03d}{text[26:]}"
    return moment.isoformat()


@lru_cache
def _zone(name: str) -> datetime.tzinfo:
    """The time zone; UTC where this machine does not know it, so that the moment stays the same."""
    import pyarrow as pa

    try:
        zone: datetime.tzinfo = pa.lib.string_to_tzinfo(name)
    except (KeyError, ValueError, OSError, ImportError):
        return datetime.UTC
    return zone


def _plain(value: Any) -> Any:
    match value:
        case None | str() | int() | float():
            return value
        case dict():
            return {str(key): _plain(item) for key, item in value.items()}
        case list():
            return [_plain(item) for item in value]
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                return Problem(
                    "bad-encoding", "bytes that are not UTF-8 text", "leave that column out"
                )
        case _:  # such as a UUID
            return str(value)
