"""The tables of a run, streamed from its database in the rows' order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from verdict_cli.errors import DataError, Problem
from verdict_cli.llm.middleware.replies import free_reply
from verdict_cli.messages import Failure, JsonObject, sum_usd
from verdict_cli.run_facts import Counts
from verdict_cli.storage.database.database import Database
from verdict_cli.storage.database.records import RowCall, StoredCall, StoredRow
from verdict_cli.storage.database.repair import repair
from verdict_cli.storage.database.schema import DamagedError
from verdict_cli.storage.tables.column_types import ColumnKind, DeclaredType
from verdict_cli.storage.tables.run_columns import (
    CALL_COLUMNS,
    CallRecord,
    call_columns,
    column_kinds_of,
    column_types_of,
)
from verdict_cli.storage.tables.writer import ParquetTable

RESULTS = "results.parquet"
CALLS = "calls.parquet"
TABLES = (RESULTS, CALLS)
_GROUP = 200
"""Rows and calls that are read together."""


class TableColumns(Struct, frozen=True):
    """The columns of the results, with the types that are known before the run."""

    kinds: Mapping[str, ColumnKind]
    declared: Mapping[str, DeclaredType]

    def as_json(self) -> Any:
        """The columns as the database has them."""
        return {
            "kinds": dict(self.kinds),
            "declared": {name: kind.schema for name, kind in self.declared.items()},
        }

    @classmethod
    def from_json(cls, fields: Any) -> TableColumns:
        """The columns of `as_json`. DataError for anything else."""
        kinds = msgspec.convert(fields["kinds"], dict[str, ColumnKind])
        schemas = msgspec.convert(fields["declared"], dict[str, JsonObject])
        return cls(kinds, {name: DeclaredType(schema) for name, schema in schemas.items()})


def write_tables(path: Path, database: Path, columns: TableColumns, rows: int) -> Counts:
    """Write both tables into the folder ``path``, and return the counts of a run of so many rows.

    DataError for a damaged database, which is then replaced by what can be read of it.
    """
    counts = Counts(rows)
    try:
        with Database.open_foreign(database) as source:
            _write(path, source, columns, counts)
            counts.cost_usd = sum_usd(counts.cost_usd, source.retracted_usd)
    except DamagedError:
        message = repair(database).message(database)
        raise DataError(
            Problem(
                "damaged-database",
                message,
                "the command that started the run asks what is lost again",
                str(database),
            )
        ) from None
    return counts


def _write(path: Path, source: Database, columns: TableColumns, counts: Counts) -> None:
    of_calls = column_kinds_of(CALL_COLUMNS), column_types_of(CALL_COLUMNS)
    with (
        ParquetTable(path / RESULTS, columns.kinds, declared=columns.declared) as results,
        ParquetTable(path / CALLS, of_calls[0], declared=of_calls[1]) as calls,
    ):
        for rows in _groups(source.rows()):
            answers = _calls(source, rows)
            counts.add_calls([(call.model, call.reply) for call in answers])
            if answers:
                calls.add(call_columns(answers))
            of_data = [row for row in rows if row.row >= 0]
            for row in of_data:
                failure = None if row.failure is None else Failure(*row.failure, "")
                counts.add_row(row.status, failure, row.saved, row.stages)
            for number, group in groupby(of_data, attrgetter("names")):
                values = zip(*[row.values for row in group], strict=True)
                results.add(dict(zip(source.names_at(number), values, strict=True)))


def _groups(rows: Iterator[StoredRow]) -> Iterator[list[StoredRow]]:
    """The rows, several at a time: few enough to be in the processor's cache."""
    group: list[StoredRow] = []
    size = 0
    for row in rows:
        group.append(row)
        size += 1 + len(row.calls)
        if size >= _GROUP:
            yield group
            group, size = [], 0
    if group:
        yield group


def _calls(source: Database, rows: Sequence[StoredRow]) -> list[CallRecord]:
    """The calls of the rows. DamagedError where one cannot be read."""
    stored = source.calls([call.number for row in rows for call in row.calls])
    source.read_texts(
        [number for call in stored.values() for _, number, _ in call.content.messages]
    )
    return [_call(source, row, call, stored[call.number]) for row in rows for call in row.calls]


def _call(source: Database, row: StoredRow, call: RowCall, stored: StoredCall) -> CallRecord:
    reply = stored.content.reply
    if reply is not None and call.shared:
        reply = free_reply(reply, shared=True)
    elif reply is not None and call.recalled:
        reply = replace(reply, recalled=True)
    return CallRecord(
        row.row,
        None if row.row < 0 else row.id,
        call.unit,
        call.item,
        call.call,
        call.attempt,
        stored.model,
        source.messages(stored.content),
        reply,
        call.failure,
        call.error,
        0.0 if reply is None else reply.latency_s,
        call.repaired,
        call.mass,
    )
