"""What a run has committed, in numbered segments: small databases that are put together elsewhere while the run works."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from verdict_cli.storage.database.schema import (
    TABLES,
    connect,
    create,
    database_files,
    insert,
    last_number,
    open_foreign,
    select,
)

INTERVAL_S = 5.0
"""How often a segment is written."""
LARGEST = 8_000_000
"""Bytes by which the database has grown, from which one is written at once."""
_GROWING, _SMALL = ("texts", "calls"), ("meta", "batches")
_MARKS = " UNION ALL ".join(f"SELECT name, checksum FROM {table}" for table in _SMALL)


class SegmentWriter:
    """The segments of one database: calls and texts that no earlier one has, and what else is small, whole.

    Only the last one has finished rows: they can be made again from their calls. Where a repaired database takes the place
    of the former one, a new ``series`` begins, whose first segment has everything.
    """

    def __init__(self, database: Path) -> None:
        self.series = ""
        self.count = 0
        """The segments of the series so far."""
        self._database = database
        self._inode = 0
        self._size = 0
        self._done: tuple[dict[str, int], list[Any]] = ({}, [])
        self._written = self._done

    def is_large(self) -> bool:
        """Whether the database has grown by so much that the next segment is due."""
        return self._measure() - self._size >= LARGEST

    def _measure(self) -> int:
        size = 0
        for file in database_files(self._database):
            with suppress(FileNotFoundError):  # the log was merged meanwhile
                size += file.stat().st_size
        return size

    def skip(self) -> None:
        """Continue behind what the database holds: who reads the segments has that."""
        self._inode = self._database.stat().st_ino
        self._size = self._measure()
        with closing(connect(self._database, "rw")) as source:
            self._done = _state(source)

    def write(self, part: Path, *, is_last: bool = False) -> bool:
        """Write the next segment to a new file; False where there is nothing new. `confirm` says that it has arrived.

        sqlite3.Error or OSError where the database or the disk refuses.
        """
        if not self._database.exists():
            return False
        self._size = self._measure()
        inode = self._database.stat().st_ino
        if inode != self._inode:
            self._inode, self.series, self.count = inode, os.urandom(8).hex(), 0
            self._done = (dict.fromkeys(_GROWING, 0), [])
        with closing(connect(self._database, "rw")) as source:
            source.execute("BEGIN")
            self._written = _state(source)
            if self._written == self._done and not is_last:
                return False
            tables = (*_GROWING, *_SMALL, *(("rows",) if is_last else ()))
            _write(source, part, tables, self._done[0])
        return True

    def confirm(self) -> None:
        """Continue behind the segment that was written."""
        self._done = self._written
        self.count += 1


def _state(source: sqlite3.Connection) -> tuple[dict[str, int], list[Any]]:
    """The last number of each table that grows, and the checksums of the small tables' records."""
    last = {table: last_number(source, table) for table in _GROWING}
    return last, source.execute(_MARKS).fetchall()


def _write(
    source: sqlite3.Connection, part: Path, tables: tuple[str, ...], done: dict[str, int]
) -> None:
    part.unlink(missing_ok=True)
    create_database(part)
    with closing(connect(part, "rw")) as target:
        target.execute("BEGIN")
        for table in tables:
            _copy(source, target, table, done.get(table, 0))
        target.execute("COMMIT")


def _copy(
    source: sqlite3.Connection, target: sqlite3.Connection, table: str, after: int = 0
) -> None:
    """Copy records as they are; their checksums are checked when they are read."""
    where = f" WHERE number > {after}" if table in _GROWING else ""
    insert(target, table, source.execute(select(table) + where))


def create_database(path: Path) -> None:
    """Create a database without records, which only its owner can read."""
    path.touch(mode=0o600)
    with closing(connect(path, "rw")) as target:
        create(target)


def add_segment(segment: Path, database: Path) -> None:
    """Add the next segment of a series to a database.

    DataError where the segment cannot be read, sqlite3.Error where the database cannot be written.
    """
    with closing(connect(database, "rw")) as target, closing(open_foreign(segment)) as source:
        target.execute("BEGIN")
        for table in _SMALL:
            target.execute(f"DELETE FROM {table}")
        for table in TABLES:
            _copy(source, target, table)
        target.execute("COMMIT")
