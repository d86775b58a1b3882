"""Scan a dataset once for every problem, then stream its rows; fingerprint its content and selection."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from msgspec.structs import replace

from verdict_cli.config_model import display_value
from verdict_cli.errors import DataError, Problem, VerdictError
from verdict_cli.messages import JsonObject, NamedValues, Row
from verdict_cli.plural import plural
from verdict_cli.regex import regex
from verdict_cli.storage.datasets import excel, json_files, parquet, separated
from verdict_cli.storage.datasets.dataset import (
    UNDECIDED,
    USUAL_IDS,
    Dataset,
    DatasetFacts,
    Selection,
    content_key,
    fill_blanks,
    is_blank,
    missing_column,
    missing_required,
    rename_columns,
    required_columns,
)
from verdict_cli.storage.datasets.files import Reading, format_of
from verdict_cli.storage.datasets.fingerprint import dataset_fingerprint, file_stamps
from verdict_cli.storage.datasets.seen_ids import SeenIds

_READERS: Mapping[str | None, Callable[[Path, Reading], Iterator[json_files.JsonRecord]]] = {
    "jsonl": json_files.jsonl_records,
    "json": json_files.json_array_records,
    "csv": separated.csv_records,
    "tsv": separated.tsv_records,
    "parquet": parquet.parquet_records,
    "xlsx": excel.excel_records,
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


def scan(  # noqa: C901 - one pass does all that a file is read for
    dataset: Dataset,
    *,
    limit: int | None = None,
    sample: int | None = None,
    seed: int = 0,
    on_row: Callable[[int, NamedValues], None] | None = None,
    draw: int = 0,
) -> DatasetFacts:
    """Read every row that the run could select, so that a DataError is raised before any model call.

    With ``skip_bad_rows`` bad rows are counted instead. A dataset without rows is a DataError too. ``limit`` and ``sample``
    are at least 1; with both, the sample is of the first ``limit`` rows. ``on_row`` receives the index and the source of
    each row that could be selected; ``draw`` of those rows, drawn at random, are in the result.
    """
    stamps = file_stamps(dataset)
    drawn = RowSample(draw, seed)
    bad = _BadRows()
    readings: list[Reading] = []
    rows_of = _without_absent_id(dataset)
    ids = _UniqueColumns() if rows_of.id is None else None
    total = skipped = kept = 0
    columns: tuple[str, ...] = ()
    unseen = {name: dataset.columns.get(name, name) for name in dataset.blank_columns}
    blanks: Counter[str] = Counter()
    for record, source in _records(rows_of, readings=readings):
        total += 1
        if type(record) is dict and dataset.blank_columns:
            unseen = {name: column for name, column in unseen.items() if column not in record}
            _count_blanks(blanks, dataset, record)
        if isinstance(source, tuple):
            skipped += 1
            if source and not dataset.skip_bad_rows and bad.add(source):
                break
        elif source is not None:
            columns = columns or tuple(source)
            if kept == drawn.next:
                drawn.add(_row(rows_of, total - 1, record, source))
            kept += 1
            if ids is not None:
                ids.add(source)
            if on_row is not None:
                on_row(total - 1, source)
            if kept == limit:
                break
    bad.refuse(total)
    if not kept:
        raise DataError(_empty(dataset, total, skipped))
    identity = rows_of.id if ids is None else ids.first()
    selection = Selection(limit, sample, seed, kept, identity)
    return DatasetFacts(
        selection.taken,
        total,
        skipped,
        columns,
        dataset_fingerprint(dataset, selection),
        selection,
        stamps=stamps,
        drawn=tuple(_identified(row, identity) for row in drawn.rows()),
        notes=_notes(dataset, readings, identity),
        blanks=blanks,
        unseen=tuple(unseen),
    )


def _count_blanks(blanks: Counter[str], dataset: Dataset, record: NamedValues) -> None:
    """Count the row under each of its blank columns, and once under ""."""
    names = [
        name
        for name in dataset.blank_columns
        if is_blank(record.get(dataset.columns.get(name, name)))
    ]
    if names:
        blanks.update(["", *names])


_MOST_TOLD = 10
_COLUMN = regex(r"column '([^']*)'")
"""The columns that a row's problem names: one row stands for all whose problem is the same."""


class _BadRows:
    """The rows that cannot be read: the first of each kind, and how many there are."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, ...], Problem] = {}
        self._untold = 0

    def add(self, problems: Sequence[Problem]) -> bool:
        """Take a row's problems; whether those of other rows would only be consequences of them."""
        is_known = True
        for problem in problems:
            kind = (problem.code, *_COLUMN.findall(problem.message))
            if kind not in self._told and len(self._told) < _MOST_TOLD:
                self._told[kind] = problem
                is_known = False
        self._untold += is_known
        return problems[0].code == "broken-json"

    def refuse(self, total: int) -> None:
        """Raise DataError where there are any."""
        if not self._told:
            return
        first, *more = self._told.values()
        if self._untold:
            message = f"{self._untold:,} more of the {total:,} rows cannot be used"
            more.append(
                Problem("more-bad-rows", message, "--skip-bad-rows leaves them out", first.file)
            )
        raise DataError(first, *more)


class _UniqueColumns:
    """The columns with a usual name whose values are all different."""

    def __init__(self) -> None:
        self._seen: dict[str, SeenIds] | None = None

    def add(self, source: NamedValues) -> None:
        if self._seen is None:
            self._seen = {name: SeenIds() for name in USUAL_IDS if name in source}
        if not self._seen:
            return
        for name in [*self._seen]:
            value = source.get(name)
            if (
                not isinstance(value, _IDS)
                or isinstance(value, bool)
                or value == ""
                or not self._seen[name].add(value)
            ):
                del self._seen[name]

    def first(self) -> str | None:
        """The one that identifies the rows, None where none does."""
        return next(iter(self._seen or ()), None)


def _notes(
    dataset: Dataset, readings: Sequence[Reading], identity: str | None
) -> tuple[Problem, ...]:
    """What is told of a dataset that can be read."""
    first = dataset.name_of(dataset.files[0])
    notes = [note for reading in readings for note in reading.notes]
    blank = sum(reading.blank for reading in readings)
    if blank:
        message = f"{plural(blank, 'blank row is|blank rows are')} left out"
        notes.append(Problem("blank-rows", message, "", first))
    if identity != dataset.id:
        by = "their numbers" if identity is None else f"the column {identity!r}"
        absent = f"there is no column {dataset.id!r}, so " if dataset.id else ""
        notes.append(Problem("row-ids", f"{absent}rows are identified by {by}", "", first))
    return tuple(notes)


class Finished(Protocol):
    """Rows that are not read again, by their numbers."""

    def __contains__(self, row: int) -> bool: ...

    @property
    def first_missing(self) -> int:
        """The first row that is not among them."""


def stream_rows(
    dataset: Dataset, selection: Selection = EVERYTHING, *, finished: Finished | None = None
) -> Iterator[Row]:
    """The selected rows in the dataset's order, streamed; ``selection`` is that of a `scan`. Equal rows share a key.

    Rows that are ``finished`` are read past.
    A sample is drawn without replacement by selection sampling (Knuth, The Art of Computer Programming,
    volume 2, 3.4.2, algorithm S), which needs no list of the rows drawn.
    """
    dataset = (
        _without_absent_id(dataset)
        if selection.id == UNDECIDED
        else replace(dataset, id=selection.id)
    )
    taken = selected = unread = _unread(dataset, selection, finished)
    if taken == selection.limit:
        return
    remaining, left, draw = selection.sample, selection.kept, random.Random(selection.seed).random
    for index, (record, source) in enumerate(_records(dataset, unread), unread):
        if source is None:
            continue
        if isinstance(source, tuple):
            if dataset.skip_bad_rows or not source:
                continue
            raise DataError(*source)
        chosen = remaining is None or draw() * left < remaining
        if remaining is not None:
            remaining -= chosen
            left -= 1
        if chosen:
            is_of_shard = selected % selection.shards == selection.shard
            selected += 1
            if is_of_shard and (finished is None or index not in finished):
                yield _row(dataset, index, record, source)
        taken += 1
        if taken == selection.limit or remaining == 0:
            return


def _without_absent_id(dataset: Dataset) -> Dataset:
    """The dataset; without the name of its id column where it may be absent, and the first file lacks it."""
    if not dataset.is_id_optional or dataset.id is None:
        return dataset
    column = dataset.columns.get(dataset.id, dataset.id)
    names: list[tuple[str, ...]] = []
    first = dataset.files[0]
    try:
        records = _READERS[format_of(first)](
            first, Reading(names.append, delimiter=dataset.delimiter or "")
        )
        record = next((record for _, record in records if isinstance(record, dict)), None)
    except DataError:  # the reading of the rows reports it
        return dataset
    known = [*names[:1], *([tuple(record)] if record is not None else [])]
    return dataset if not known or column in known[0] else replace(dataset, id=None)


def _unread(dataset: Dataset, selection: Selection, finished: Finished | None) -> int:
    """How many records at the start need not be read: those of finished rows, where each record is a row."""
    if (
        finished is None
        or dataset.cast
        or dataset.keep
        or dataset.skip_bad_rows
        or selection.sample is not None
    ):
        return 0
    return min(finished.first_missing, selection.kept)


def _records(
    dataset: Dataset, unread: int = 0, readings: list[Reading] | None = None
) -> Iterator[tuple[Any, NamedValues | tuple[Problem, ...] | None]]:
    """Each row's record, and its source: None if ``where`` drops it, its problems for a bad row.

    The first ``unread`` are left out: they were checked, and are not needed. ``readings`` receives that of each file.
    """
    blank_names = {dataset.columns.get(name, name) for name in dataset.blank_columns}
    needed = frozenset(required_columns(dataset).values()) - blank_names
    fills = bool(dataset.blank_columns or dataset.unlabelled)
    as_read = not (dataset.columns or dataset.cast or dataset.keep) and dataset.id is None
    for path in dataset.files:
        reading = Reading(
            partial(_check_header, dataset, path), needed, dataset.delimiter or "", unread
        )
        if readings is not None:
            readings.append(reading)
        try:
            for position, record in _READERS[format_of(path)](path, reading):
                if reading.unread:
                    reading.unread -= 1
                    continue
                if as_read and type(record) is dict and record.keys() >= needed:
                    yield record, fill_blanks(dataset, record) if fills else record
                    continue
                item = (
                    (record,) if isinstance(record, Problem) else _source(dataset, needed, record)
                )
                if isinstance(item, tuple):
                    line = (
                        json_files.line_of(path, position)
                        if format_of(path) == "json"
                        else position
                    )
                    item = tuple(
                        problem.at(dataset.name_of(path), line, problem.column, "")
                        for problem in item
                    )
                elif item is not None and fills:
                    item = fill_blanks(dataset, item)
                yield record, item
        except DataError as error:
            if path not in dataset.origins:
                raise
            raise DataError(
                *(replace(problem, file=dataset.origins[path]) for problem in error.problems)
            ) from error
        unread = reading.unread


def _check_header(dataset: Dataset, path: Path, names: tuple[str, ...]) -> None:
    absent = missing_required(dataset, names)
    if absent:
        raise DataError(*(problem.at(str(path), 1, 0, "") for problem in absent))


def _source(
    dataset: Dataset, needed: frozenset[str], values: JsonObject
) -> NamedValues | tuple[Problem, ...] | None:
    if not values.keys() >= needed:
        return missing_required(dataset, values)
    source: NamedValues = rename_columns(dataset.columns, values) if dataset.columns else values
    try:
        if dataset.cast:
            source = dataset.cast(source)
    except ValueError as error:
        return (Problem("schema", f"the row breaks the schema: {error}"),)
    try:
        if dataset.keep and not dataset.keep(source):
            return None
    except VerdictError as error:
        return (Problem("where", f"`where` fails on this row: {error.message}", error.hint),)
    problem = None if dataset.id is None else _id_problem(dataset.id, source)
    return source if problem is None else (problem,)


def _id_problem(column: str, source: NamedValues) -> Problem | None:
    """Why a row has no id, None where it has one."""
    identity = row_identity(column, source)
    if identity is None and column not in source:
        return missing_column(column, source)
    if isinstance(identity, bool) or not isinstance(identity, _IDS):
        message = f"the id column {column!r} holds {display_value(identity)}"
        return Problem("bad-id", message, "an id is a string or an integer")
    return None


def _row(dataset: Dataset, index: int, values: JsonObject, source: NamedValues) -> Row:
    key = content_key(values)
    if dataset.id is None:
        return Row(index, index, source, key, placed=True)
    return Row(index, row_identity(dataset.id, source), source, key)


def _identified(row: Row, identity: str | None) -> Row:
    """The row by the column that turned out to identify it."""
    return replace(row, id=row.source[identity], placed=False) if identity and row.placed else row


def row_identity(column: str, source: NamedValues) -> Any:
    """The id of a row: a column of that name, else the value at the path, such as `conv.id`."""
    if column in source:
        return source[column]
    value: Any = source
    for name in column.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _empty(dataset: Dataset, total: int, skipped: int) -> Problem:
    more = f" and {len(dataset.files) - 1} more" if len(dataset.files) > 1 else ""
    file = f"{dataset.name_of(dataset.files[0])}{more}"
    if not total:
        return Problem("empty-dataset", "the dataset holds no rows", "", file)
    if skipped == total:
        return Problem(
            "empty-dataset", f"all {total} rows are bad", "run without --skip-bad-rows", file
        )
    bad = f" ({skipped} of them are bad)" if skipped else ""
    return Problem(
        "empty-dataset",
        f"`where` leaves none of the {total} rows{bad}",
        "loosen dataset.where",
        file,
    )
