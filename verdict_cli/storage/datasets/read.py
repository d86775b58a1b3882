"""Scan a dataset once for every problem, then stream its rows; fingerprint its content and selection."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from verdict_cli.errors import DataError, Problem, VerdictError
from verdict_cli.messages import Row
from verdict_cli.storage.datasets import excel, json_files, parquet, separated
from verdict_cli.storage.datasets.dataset import (
    Dataset,
    DatasetFacts,
    Selection,
    content_key,
    missing_column,
    missing_required,
    rename_columns,
    required_columns,
)
from verdict_cli.storage.datasets.files import format_of
from verdict_cli.storage.datasets.fingerprint import dataset_fingerprint, file_stamps


@dataclass(frozen=True, slots=True)
class _Format:
    records: Callable[..., Iterator[json_files.JsonRecord]]
    has_header: bool = False
    line_of: Callable[[Path, int], int] | None = None


_FORMATS: Mapping[str | None, _Format] = {
    "jsonl": _Format(json_files.jsonl_records),
    "json": _Format(json_files.json_array_records, line_of=json_files.line_of),
    "csv": _Format(separated.csv_records, has_header=True),
    "tsv": _Format(separated.tsv_records, has_header=True),
    "parquet": _Format(parquet.parquet_records, has_header=True),
    "xlsx": _Format(excel.excel_records, has_header=True),
}

EVERYTHING = Selection()


class RowSample:
    """At most ``size`` random rows of a stream of unknown length, by reservoir sampling.

    ``next`` is the place of the next row to add. The places between are skipped by Li's algorithm L (1994), so that a row
    that is not drawn costs one comparison.
    """

    def __init__(self, size: int, seed: int) -> None:
        self._size = size
        self._draw = random.Random(seed)
        self._rows: list[Row] = []
        self._share = 1.0
        self.next = 0 if size else -1

    def add(self, row: Row) -> None:
        """Take the row at the place ``next``."""
        if len(self._rows) < self._size:
            self._rows.append(row)
        else:
            self._rows[self._draw.randrange(self._size)] = row
        self.next += 1
        if len(self._rows) == self._size:
            self._share *= math.exp(math.log(1.0 - self._draw.random()) / self._size)
            self.next += int(math.log(1.0 - self._draw.random()) / math.log1p(-self._share))

    def rows(self) -> tuple[Row, ...]:
        """The rows drawn so far, in their order."""
        return tuple(sorted(self._rows, key=lambda row: row.index))


_IDS = (str, int)


def scan(
    dataset: Dataset,
    *,
    limit: int | None = None,
    sample: int | None = None,
    seed: int = 0,
    on_row: Callable[[int, Mapping[str, Any]], None] | None = None,
    draw: int = 0,
) -> DatasetFacts:
    """Read every row that the run could select, so that a DataError is raised before any model call.

    With ``skip_bad_rows`` bad rows are counted instead. A dataset without rows is a DataError too. ``limit`` and ``sample``
    are at least 1; with both, the sample is of the first ``limit`` rows. ``on_row`` receives the index and the source of
    each row that could be selected; ``draw`` of those rows, drawn at random, are in the result.
    """
    stamps = file_stamps(dataset)
    drawn = RowSample(draw, seed)
    total = skipped = kept = 0
    columns: tuple[str, ...] = ()
    for record, source in _records(dataset):
        total += 1
        if isinstance(source, Problem):
            skipped += 1
        elif source is not None:
            columns = columns or tuple(source)
            if kept == drawn.next:
                drawn.add(_row(dataset, total - 1, record, source))
            kept += 1
            if on_row is not None:
                on_row(total - 1, source)
            if kept == limit:
                break
    if not kept:
        raise DataError(_empty(dataset, total, skipped))
    rows = kept if sample is None else min(sample, kept)
    selection = Selection(limit, sample, seed, kept)
    fingerprint = dataset_fingerprint(dataset, selection)
    return DatasetFacts(rows, total, skipped, columns, fingerprint, selection, stamps=stamps, drawn=drawn.rows())


def stream_rows(dataset: Dataset, selection: Selection = EVERYTHING, *, skipped: Sequence[range] = ()) -> Iterator[Row]:
    """The selected rows in the dataset's order, streamed; ``selection`` is that of a `scan`. Equal rows share a key.

    ``skipped`` are ascending ranges of places among the selected rows, which are read past.
    A sample is drawn without replacement by selection sampling (Knuth, The Art of Computer Programming,
    volume 2, 3.4.2, algorithm S), which needs no list of the rows drawn.
    """
    taken = place = unread = _unread(dataset, selection, skipped)
    ranges = iter(skipped)
    skip = next(ranges, None)
    remaining, left, draw = selection.sample, selection.kept, random.Random(selection.seed).random
    for index, (record, source) in enumerate(_records(dataset, unread), unread):
        if source is None or isinstance(source, Problem):
            continue
        if remaining is not None:
            chosen = draw() * left < remaining
            remaining -= chosen
            left -= 1
        if remaining is None or chosen:
            while skip is not None and place >= skip.stop:
                skip = next(ranges, None)
            if skip is None or place < skip.start:
                yield _row(dataset, index, record, source)
            place += 1
        taken += 1
        if taken == selection.limit or remaining == 0:
            return


def _format(dataset: Dataset, path: Path) -> _Format:
    if dataset.delimiter is None or format_of(path) != "csv":
        return _FORMATS[format_of(path)]
    return _Format(partial(separated.csv_records, delimiter=dataset.delimiter), has_header=True)


def _unread(dataset: Dataset, selection: Selection, skipped: Sequence[range]) -> int:
    """How many records at the start need not be read: those of skipped rows, where each record is a row."""
    if dataset.cast or dataset.keep or dataset.skip_bad_rows or selection.sample is not None:
        return 0
    end = 0
    for rows in skipped:
        if rows.start != end:
            break
        end = rows.stop
    return end


def _records(dataset: Dataset, unread: int = 0) -> Iterator[tuple[Any, Mapping[str, Any] | Problem | None]]:
    """Each row's record, and its source: None if ``where`` drops it, a Problem for a bad row to skip.

    The first ``unread`` are left out: they were checked, and are not needed.
    """
    ahead = json_files.UnreadRows(unread)
    needed = frozenset(required_columns(dataset).values())
    as_read = not (dataset.columns or dataset.cast or dataset.keep) and dataset.id is None
    for path in dataset.files:
        source = _format(dataset, path)
        if source.records is json_files.jsonl_records:
            records = json_files.jsonl_records(path, ahead)
        elif source.has_header:
            records = source.records(path, partial(_check_header, dataset, path))
        else:
            records = source.records(path)
        for position, record in records:
            if ahead.left:
                ahead.left -= 1
                continue
            if as_read and type(record) is dict and record.keys() >= needed:
                yield record, record
                continue
            item = record if isinstance(record, Problem) else _source(dataset, needed, record)
            if isinstance(item, Problem):
                line = source.line_of(path, position) if source.line_of else position
                item = item.at(str(path), line, item.column, item.path)
                if not dataset.skip_bad_rows:
                    raise DataError(item)
            yield record, item


def _check_header(dataset: Dataset, path: Path, names: tuple[str, ...]) -> None:
    absent = missing_required(dataset, names)
    if absent:
        raise DataError(absent.at(str(path), 1, 0, ""))


def _source(dataset: Dataset, needed: frozenset[str], values: dict[str, Any]) -> Mapping[str, Any] | Problem | None:
    if not values.keys() >= needed:
        return missing_required(dataset, values)
    source: Mapping[str, Any] = rename_columns(dataset.columns, values) if dataset.columns else values
    try:
        if dataset.cast:
            source = dataset.cast(source)
    except ValueError as error:
        return Problem("schema", f"the row breaks the schema: {error}")
    try:
        if dataset.keep and not dataset.keep(source):
            return None
    except VerdictError as error:
        return Problem("where", f"`where` fails on this row: {error.message}", error.hint)
    if dataset.id is not None:
        identity = row_identity(dataset.id, source)
        if identity is None and dataset.id not in source:
            return missing_column(dataset.id, source)
        if isinstance(identity, bool) or not isinstance(identity, _IDS):
            return Problem(
                "bad-id", f"the id column {dataset.id!r} holds {identity!r}", "an id is a string or an integer"
            )
    return source


def _row(dataset: Dataset, index: int, values: dict[str, Any], source: Mapping[str, Any]) -> Row:
    key = content_key(values)
    if dataset.id is None:
        return Row(index, index, source, key, placed=True)
    return Row(index, row_identity(dataset.id, source), source, key)


def row_identity(column: str, source: Mapping[str, Any]) -> Any:
    """The id of a row: a column of that name, else the value at the path, such as `conv.id`."""
    if column in source:
        return source[column]
    value: Any = source
    for name in column.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _empty(dataset: Dataset, total: int, skipped: int) -> Problem:
    more = f" and {len(dataset.files) - 1} more" if len(dataset.files) > 1 else ""
    file = f"{dataset.files[0]}{more}"
    if not total:
        return Problem("empty-dataset", "the dataset holds no rows", "", file)
    if skipped == total:
        return Problem("empty-dataset", f"all {total} rows are bad", "run without --skip-bad-rows", file)
    bad = f" ({skipped} of them are bad)" if skipped else ""
    return Problem("empty-dataset", f"`where` leaves none of the {total} rows{bad}", "loosen dataset.where", file)
