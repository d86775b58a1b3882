"""A Parquet table whose column types are found while it is written."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import repeat
from pathlib import Path
from types import TracebackType
from typing import Any

from verdict_cli.errors import OutputError
from verdict_cli.messages import NamedValues
from verdict_cli.storage.datasets.parquet import widened
from verdict_cli.storage.tables.column_types import (
    ColumnKind,
    DeclaredType,
    array,
    column_kind_of,
    field,
    fits_shape,
    wider,
)

_GROUP_BYTES = 32 << 20
_SAMPLED = 53
"""Of so many values, one is measured: a prime, since the calls of each row follow in the same order."""


class ParquetTable:
    """A table at ``path``. It is written as ``path`` with the ending ``.part`` and renamed when it is closed.

    Columns are in the order of their first appearance, after those of ``columns`` (name -> kind), which always exist
    and are at least that wide. A column takes the narrowest kind that holds all of its values exactly: bool, int
    (64 bits), float, str, the lists and structs of its declared type (``native``, only where ``columns`` says so), else
    JSON text in every cell (the Arrow field's metadata then says ``verdict: json``; `read_table` decodes it). Where a later
    row group does not fit, the file is rewritten as a stream. A row group has ``row_group`` rows, or about 32 MB of text.
    ``declared`` are the types of columns by name, which `declared_types` reads.
    Leaving the ``with`` block by an exception removes the unfinished file.
    """

    def __init__(
        self,
        path: Path,
        columns: Mapping[str, ColumnKind] | None = None,
        row_group: int = 5000,
        declared: Mapping[str, DeclaredType] | None = None,
    ) -> None:
        self._path, self._row_group = path, row_group
        self._declared = declared or {}
        self._shapes = {
            name: shape
            for name, column_type in self._declared.items()
            if (shape := column_type.shape) is not None
        }
        self._kinds: dict[str, ColumnKind] = {
            name: "json" if kind == "native" and name not in self._shapes else kind
            for name, kind in (columns or {}).items()
        }
        self._pending: dict[str, list[Any]] = {}
        self._pending_rows = self._pending_bytes = 0
        self._part = path.with_name(f"{path.name}.part")
        self._narrow = path.with_name(f"{path.name}.part2")
        self._writer: Any = None
        self._written: Any = None
        with self._disk():
            path.parent.mkdir(parents=True, exist_ok=True)
            for part in (self._part, self._narrow):
                part.unlink(missing_ok=True)

    def write(self, row: NamedValues) -> None:
        """Add a row. Raises OutputError when the disk refuses."""
        self.add({name: (value,) for name, value in row.items()})

    def add(self, columns: Mapping[str, Sequence[Any]]) -> None:
        """Add rows by column, one column at least. Raises OutputError when the disk refuses."""
        rows = len(next(iter(columns.values())))
        for name, values in columns.items():
            column = self._pending.setdefault(name, [])
            column.extend(repeat(None, self._pending_rows - len(column)))
            column.extend(values)
            sample = values[::_SAMPLED]  # of each value, it would take long
            self._pending_bytes += rows * sum(map(_size, sample)) // len(sample)
        self._pending_rows += rows
        if self._pending_rows >= self._row_group or self._pending_bytes >= _GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        """Write what is pending, and rename the file."""
        try:
            self._flush()
            with self._disk():
                self._writer.close()
                with self._part.open("rb+") as file:
                    os.fsync(file.fileno())
                self._part.replace(self._path)
        except BaseException:
            self.discard()
            raise

    def discard(self) -> None:
        with suppress(OSError):
            if self._writer is not None:
                self._writer.close()
        for part in (self._part, self._narrow):
            with suppress(OSError):
                part.unlink()

    def __enter__(self) -> ParquetTable:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()

    def _schema(self) -> Any:
        import pyarrow as pa

        return pa.schema(
            [field(name, kind, self._declared.get(name)) for name, kind in self._kinds.items()]
        )

    def _open(self) -> None:
        import pyarrow.parquet as pq

        self._written = self._schema()
        self._writer = pq.ParquetWriter(
            self._part, self._written, compression="zstd", write_page_checksum=True
        )

    def _flush(self) -> None:
        """Write one row group of what is pending."""
        columns, rows = self._pending, self._pending_rows
        self._pending, self._pending_rows, self._pending_bytes = {}, 0, 0
        arrays = []
        for name in dict.fromkeys((*self._kinds, *columns)):
            column = columns.get(name, [])
            column.extend(repeat(None, rows - len(column)))
            arrays.append(self._array(name, column))
        with self._disk():
            if self._writer is None:
                self._open()
            elif not self._schema().equals(self._written, check_metadata=True):
                self._write_again()
            if rows:
                self._write_group(arrays)

    def _array(self, name: str, values: Sequence[Any]) -> Any:
        """The values as an array of the column's kind, which is widened to hold them."""
        kind = self._kinds.get(name, "null")
        is_native = kind == "native" and fits_shape(values, self._shapes[name])
        if not is_native:
            kind = wider(kind, column_kind_of(values))
        try:
            values_array = array(values, self._shapes[name] if is_native else kind)
        except UnicodeEncodeError:
            kind = "json"
            values_array = array(values, kind)
        self._kinds[name] = kind
        return values_array

    def _write_group(self, arrays: list[Any]) -> None:
        import pyarrow as pa

        self._writer.write_table(
            pa.Table.from_arrays(arrays, schema=self._written), row_group_size=len(arrays[0])
        )

    def _write_again(self) -> None:
        """Copy the rows on disk to a new file with the wider schema, which the next row groups are appended to."""
        import pyarrow.parquet as pq

        self._writer.close()
        self._part.replace(self._narrow)
        self._open()
        with pq.ParquetFile(self._narrow, page_checksum_verification=True) as file:
            for group in range(file.num_row_groups):
                (batch,) = file.read_row_group(group).combine_chunks().to_batches()
                self._write_group(widened(batch, self._written))
        self._narrow.unlink()

    @contextmanager
    def _disk(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OutputError(
                f"{self._path}: the table cannot be written: {error.strerror or error}",
                hint="free some space, check the permissions, or choose another --out",
            ) from error


def _size(value: Any) -> int:
    """About how many bytes a value takes."""
    if isinstance(value, str):
        return len(value)
    if value is None or isinstance(value, int | float):
        return 8  # before the next check, which takes much longer
    if isinstance(value, Mapping):
        return sum(map(_size, value.values()))
    return sum(map(_size, value)) if isinstance(value, list | tuple) else 8
