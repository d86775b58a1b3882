"""Tables put behind one another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from verdict_cli.data.table_kinds import Kind
from verdict_cli.data.table_reader import read_table
from verdict_cli.data.table_writer import ParquetTable


def joined(tables: Iterable[Path], into: Path, columns: Mapping[str, Kind]) -> None:
    """Writes the rows of all tables, in order, as one table: the same bytes as if it had been given every row itself.

    ``columns`` are those that all tables were given. Streamed: one row group is held at a time.
    """
    with ParquetTable(into, columns) as whole:
        for path in tables:
            for batch in read_table(path):
                names = tuple(batch)
                for values in zip(*batch.values(), strict=True):
                    whole.add(names, values)
