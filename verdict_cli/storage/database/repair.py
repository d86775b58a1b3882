"""Copy what can be read of a damaged database into a new one."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from msgspec import Struct

from verdict_cli.storage.database.records import (
    CallContent,
    StoredRow,
    check,
    decode,
    decode_text,
)
from verdict_cli.storage.database.schema import (
    DamagedError,
    connect,
    create,
    database_files,
    insert,
    select,
)
from verdict_cli.storage.paths import output_errors, sync_directory

_LARGEST = 1 << 62


class Repair(Struct, frozen=True):
    """What was copied: the calls and rows; and where the damaged file is kept."""

    calls: int
    rows: int
    kept: Path

    def message(self, path: Path) -> str:
        """What is told."""
        return (
            f"{path} is damaged: {self.rows:,} finished rows and {self.calls:,} calls could be read, and the rest is "
            f"called again; the damaged file is kept as {self.kept.name}"
        )


def repair(path: Path) -> Repair:
    """Replace a damaged database by a new one with the records that can be read. OutputError when the disk refuses.

    A row is copied where all of its calls are, a call where all of its texts are.
    """
    part = path.with_name(f"{path.name}.part")
    damaged = _free_name(path)
    with output_errors(path):
        part.unlink(missing_ok=True)
        part.touch(mode=0o600)
        with closing(connect(part, "rw")) as new:
            create(new)
            counts = _copy(path, new)
        for file in database_files(path):
            file.replace(damaged.with_name(damaged.name + file.name.removeprefix(path.name)))
        part.replace(path)
        sync_directory(path.parent)
    return Repair(counts["calls"], counts["rows"], damaged)


def _free_name(path: Path) -> Path:
    number = 1
    while (name := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    return name


def _copy(path: Path, new: sqlite3.Connection) -> Counter[str]:
    """Copy what can be read, in one transaction; return how many records of each table."""
    counts: Counter[str] = Counter()
    numbers: dict[str, set[int]] = {"texts": set(), "calls": set()}
    try:
        old = connect(path, "rw")
    except sqlite3.Error:
        return counts
    with closing(old):
        new.execute("BEGIN")
        for table in ("texts", "calls", "rows", "meta", "batches"):
            insert(new, table, _readable(old, table, numbers, counts))
        new.execute("COMMIT")
    return counts


def _readable(
    old: sqlite3.Connection, table: str, numbers: dict[str, set[int]], counts: Counter[str]
) -> Iterator[tuple[Any, ...]]:
    """The records of a table that can be used."""
    for record in _records(old, table):
        try:
            _check(table, record, numbers)
        except DamagedError:
            continue
        if table in numbers:
            numbers[table].add(record[0])
        counts[table] += 1
        yield record


def _records(old: sqlite3.Connection, table: str) -> Iterator[tuple[Any, ...]]:
    """The records of a table that can be read: where one cannot, the next ones are looked for at growing distances."""
    columns = select(table).removeprefix("SELECT ")
    query = f"SELECT rowid, {columns} NOT INDEXED WHERE rowid > ? ORDER BY rowid"
    last, step = -_LARGEST, 1
    while last < _LARGEST:
        try:
            for rowid, *record in old.execute(query, (last,)):
                yield tuple(record)
                last, step = rowid, 1
            return
        except sqlite3.DatabaseError:
            last = step if last < 0 else last + step
            step *= 2


def _check(table: str, record: tuple[Any, ...], numbers: dict[str, set[int]]) -> None:
    """DamagedError for a record that cannot be used."""
    if table == "calls":
        check(record[:-2], record[-2])
        content = decode(CallContent, record[11])
        if any(number not in numbers["texts"] for _, number, _ in content.messages):
            raise DamagedError("a text is missing")
        return
    check(record[:-1], record[-1])
    if table == "texts":
        decode_text(record[1])
    elif table == "rows":
        row = decode(StoredRow, record[2])
        if row.names not in numbers["texts"] or any(
            call.number not in numbers["calls"] for call in row.calls
        ):
            raise DamagedError("a call is missing")
