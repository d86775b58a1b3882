"""The tables of a run, streamed from its database in the rows' order."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from verdict_cli.errors import DataError, Problem
from verdict_cli.messages import sum_usd
from verdict_cli.run.finished_rows import finished_rows
from verdict_cli.run_facts import Counts
from verdict_cli.storage.database.database import Database
from verdict_cli.storage.database.repair import repair
from verdict_cli.storage.database.schema import DamagedError
from verdict_cli.storage.tables.column_types import ColumnKind, DeclaredType
from verdict_cli.storage.tables.run_columns import (
    CALL_COLUMNS,
    call_columns,
    column_kinds_of,
    column_types_of,
)
from verdict_cli.storage.tables.writer import ParquetTable

RESULTS = "results.parquet"
CALLS = "calls.parquet"
TABLES = (RESULTS, CALLS)


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
        schemas = msgspec.convert(fields["declared"], dict[str, dict[str, Any]])
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
        for rows in finished_rows(source):
            for row in rows:
                stored = row.stored
                if stored.row >= 0:
                    counts.add_row(stored.status, row.failure, stored.saved, stored.stages)
            in_data = [row for row in rows if row.stored.row >= 0]
            for names, group in groupby(in_data, key=lambda row: row.names):
                values = [row.stored.values for row in group]
                results.add(dict(zip(names, zip(*values, strict=True), strict=True)))
            made = [call for row in rows for call in row.calls]
            counts.add_calls(made)
            if made:
                calls.add(call_columns(made))
