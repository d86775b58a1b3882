"""A Parquet table whose column types are found while it is written."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from importlib import import_module
from itertools import chain, repeat
from operator import itemgetter
from pathlib import Path
from types import TracebackType
from typing import Any

from verdict_cli.errors import OutputError
from verdict_cli.storage.datasets.parquet import widened
from verdict_cli.storage.tables.column_types import (
    ColumnKind,
    DeclaredType,
    Json,
    array,
    column_kind_of,
    encode_json_text,
    field,
    fits_shape,
    wider,
)

_GROUP_BYTES = 32 << 20
_Run = tuple[tuple[str, ...], list[Sequence[Any]]]
"""Consecutive rows with the same columns: the names, and the values of each row."""


class ParquetTable:
    """A table at ``path``. It is written as ``path`` with the ending ``.part`` and renamed when it is closed.

    Columns are in the order of their first appearance, after those of ``columns`` (name -> kind), which always exist
    and are at least that wide. A column takes the narrowest kind that holds all of its values exactly: bool, int
    (64 bits), float, str, the lists and structs of its declared type (``native``, only where ``columns`` says so), else
    JSON text in every cell (the Arrow field's metadata then says ``verdict: json``; `read_table` decodes it). Where a later
    row group does not fit, the file is rewritten as a stream. A thread writes row groups of ``row_group`` rows, or of about
    32 MB of text. ``declared`` are the types of columns by name, which `declared_types` reads.
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
            for name, known in self._declared.items()
            if (shape := known.shape) is not None
        }
        self._kinds: dict[str, ColumnKind] = {
            name: "json" if kind == "native" and name not in self._shapes else kind
            for name, kind in (columns or {}).items()
        }
        self._exact = dict.fromkeys(self._kinds, True)
        self._pending: list[_Run] = []
        self._names: tuple[str, ...] = ()  # of the last of these runs, which has the rows
        self._rows: list[Sequence[Any]] = []
        self._pending_rows = self._pending_bytes = 0
        self._types: list[
            type
        ] = []  # of the last row; its texts and nested values have the indices below
        self._texts: itemgetter[Any] | None = None
        self._nested: list[int] = []
        self._native: list[int] = []
        self._parts = tuple(
            path.with_name(f"{path.name}{ending}") for ending in (".part", ".part2")
        )
        self._generation = 0
        self._writer: Any = None
        self._written: dict[str, ColumnKind] = {}
        self._thread = ThreadPoolExecutor(1, "table")
        self._flushing: Future[Any] | None = None
        with self._disk():
            path.parent.mkdir(parents=True, exist_ok=True)
            for part in self._parts:
                part.unlink(missing_ok=True)

    def write(self, row: Mapping[str, Any]) -> None:
        """Add a row of at least one column. Raises OutputError when the disk refuses."""
        self.add(tuple(row), tuple(row.values()))

    def add(self, names: tuple[str, ...], values: Sequence[Any]) -> None:
        types = [*map(type, values)]
        if names != self._names:
            self._begin(names)
            self._note_types(types)
        elif types != self._types:
            self._note_types(types)
        if self._nested:
            values = list(values)
            for at in self._nested:
                values[at] = Json(encode_json_text(values[at]))
        self._rows.append(values)
        self._pending_rows += 1
        if self._texts is not None:
            self._pending_bytes += sum(map(len, self._texts(values)))
        for at in self._native:
            self._pending_bytes += _size(values[at])
        if self._pending_rows >= self._row_group or self._pending_bytes >= _GROUP_BYTES:
            self._hand_over()

    def _begin(self, names: tuple[str, ...]) -> None:
        """Begin a run of rows with these columns."""
        if not names:
            raise ValueError("a row of a table needs a column")
        if self._flushing is None:
            # It is imported while there is nothing to write yet.
            self._flushing = self._thread.submit(import_module, "pyarrow.parquet")
        self._names, self._rows = names, []
        self._pending.append((names, self._rows))

    def _note_types(self, types: list[type]) -> None:
        self._types = types
        nested = [at for at, kind in enumerate(types) if issubclass(kind, dict | list | tuple)]
        self._native = [at for at in nested if self._kinds.get(self._names[at]) == "native"]
        self._nested = [at for at in nested if at not in self._native]
        texts = [at for at, kind in enumerate(types) if issubclass(kind, str)] + self._nested
        self._texts = (
            itemgetter(*texts, *texts[-1:]) if texts else None
        )  # of two or more, so that it gives a tuple

    def end(self) -> None:
        """Start writing the last rows; `close` waits for it."""
        self._hand_over()

    def close(self) -> None:
        """Write what is pending, and rename the file."""
        try:
            self.end()
            self._thread.shutdown()
            if self._flushing is not None:
                self._flushing.result()
            with self._disk():
                self._writer.close()
                with self._part.open("rb+") as file:
                    os.fsync(file.fileno())
                self._part.replace(self._path)
        except BaseException:
            self.discard()
            raise

    def discard(self) -> None:
        self._thread.shutdown()
        with suppress(OSError):
            if self._writer is not None:
                self._writer.close()
        for part in self._parts:
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

    @property
    def name(self) -> str:
        return self._path.name

    @property
    def columns(self) -> dict[str, tuple[ColumnKind, bool]]:
        """The columns so far: the kind of each, and whether each of its integers is exactly a float."""
        return {name: (kind, self._exact.get(name, True)) for name, kind in self._kinds.items()}

    @property
    def _part(self) -> Path:
        return self._parts[self._generation % 2]

    def _schema(self) -> Any:
        import pyarrow as pa

        return pa.schema(
            [field(name, kind, self._declared.get(name)) for name, kind in self._kinds.items()]
        )

    def _open(self) -> None:
        import pyarrow.parquet as pq

        self._writer = pq.ParquetWriter(
            self._part, self._schema(), compression="zstd", write_page_checksum=True
        )
        self._written = dict(self._kinds)

    def _hand_over(self) -> None:
        """Gives the pending rows to the writing thread, once it has finished the previous ones."""
        if self._flushing is not None:
            self._flushing.result()
        runs, self._pending, self._names = self._pending, [], ()
        self._pending_rows = self._pending_bytes = 0
        self._flushing = self._thread.submit(self._flush, runs)

    def _flush(self, runs: list[_Run]) -> None:
        """One row group of the rows."""
        columns = self._columns(runs)
        with self._disk():
            if self._writer is None:
                self._open()
            elif self._kinds != self._written:
                self._write_again()
            if runs:
                forms = {
                    name: self._shapes[name] if kind == "native" else kind
                    for name, kind in self._kinds.items()
                }
                self._write_group([array(columns[name], form) for name, form in forms.items()])

    def _columns(self, runs: list[_Run]) -> dict[str, list[Any]]:
        """The rows by column; widens the kinds to fit them."""
        columns: dict[str, list[Any]] = {
            name: [] for name in chain(self._kinds, *(names for names, _ in runs))
        }
        for names, rows in runs:
            there = dict(zip(names, zip(*rows, strict=True), strict=True))
            for name, column in columns.items():
                column.extend(there.get(name) or repeat(None, len(rows)))
        for name, values in columns.items():
            if self._kinds.get(name) == "native" and fits_shape(values, self._shapes[name]):
                continue
            kind, exact = column_kind_of(values)
            self._exact[name] = exact = exact and self._exact.get(name, True)
            self._kinds[name] = wider(self._kinds.get(name, "null"), kind, exact=exact)
        return columns

    def _write_group(self, arrays: list[Any]) -> None:
        import pyarrow as pa

        self._writer.write_table(
            pa.Table.from_arrays(arrays, schema=self._schema()), row_group_size=len(arrays[0])
        )

    def _write_again(self) -> None:
        """Copy the rows on disk to a new file with the wider schema, which the next row groups are appended to."""
        import pyarrow.parquet as pq

        self._writer.close()
        old = self._part
        self._generation += 1
        self._open()
        with pq.ParquetFile(old, page_checksum_verification=True) as file:
            for group in range(file.num_row_groups):
                (batch,) = file.read_row_group(group).combine_chunks().to_batches()
                self._write_group(widened(batch, self._schema()))
        old.unlink()

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
    """About how many bytes the value takes."""
    if isinstance(value, str):
        return len(value)
    inner = (
        value.values()
        if isinstance(value, Mapping)
        else value
        if isinstance(value, list | tuple)
        else ()
    )
    return 8 + sum(map(_size, inner))
