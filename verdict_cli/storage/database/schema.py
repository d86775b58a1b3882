"""The tables of a database, and how a file with them is opened."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from itertools import islice
from operator import methodcaller
from pathlib import Path
from urllib.parse import quote

from verdict_cli.errors import DataError, OutputError, Problem

FORMAT = 1
"""The version of the tables."""
TABLES = {
    "meta": ("name", "value", "checksum"),
    "texts": ("number", "text", "checksum"),
    "calls": (
        "number", "digest", "row", "unit", "item", "call", "attempt", "model", "failure", "cost_usd", "made",
        "record", "checksum", "usable",
    ),
    "rows": ("row", "status", "record", "checksum"),
    "batches": ("name", "record", "checksum"),
}  # fmt: skip
"""The columns of each table."""
SCHEMA = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value, checksum INTEGER)",
    "CREATE TABLE texts (number INTEGER PRIMARY KEY, text, checksum INTEGER)",
    "CREATE TABLE calls (number INTEGER PRIMARY KEY, digest BLOB, row INTEGER, unit TEXT, item TEXT, call INTEGER, "
    "attempt INTEGER, model TEXT, failure TEXT, cost_usd REAL, made INTEGER, record, checksum INTEGER, "
    "usable INTEGER)",
    "CREATE TABLE rows (row INTEGER PRIMARY KEY, status TEXT, record, checksum INTEGER)",
    "CREATE TABLE batches (name TEXT PRIMARY KEY, record, checksum INTEGER)",
    "CREATE INDEX calls_by_digest ON calls (digest) WHERE digest IS NOT NULL",
)
BUSY_S = 30.0
"""How long another program may keep the database locked."""
_LONGEST = 1 << 28
"""Bytes of the longest value that is read from a database that another person may have made."""


class DamagedError(Exception):
    """A database, or a record of it, that does not hold what was written."""


@contextmanager
def damage_raised() -> Iterator[None]:
    """Raise what SQLite says of a damaged file as DamagedError."""
    try:
        yield
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError as error:
        raise DamagedError(str(error)) from None


def connect(path: Path, mode: str = "rwc") -> sqlite3.Connection:
    """A connection, which any one thread at a time may use. sqlite3.Error where the file cannot be opened."""
    name = f"file:{quote(os.fsencode(path.absolute()))}?mode={mode}"
    connection = sqlite3.connect(
        name, timeout=BUSY_S, isolation_level=None, uri=True, check_same_thread=False
    )
    # A damaged text is read, and then its record's checksum is wrong: as an error of SQLite it would look like a busy database.
    connection.text_factory = methodcaller("decode", "utf-8", "replace")
    try:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST)
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        connection.setlimit(sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH, 0)
        connection.execute("PRAGMA trusted_schema=OFF")
        connection.execute("PRAGMA cell_size_check=ON")
        connection.execute("PRAGMA mmap_size=0")
    except BaseException:
        connection.close()
        raise
    return connection


def create(connection: sqlite3.Connection) -> None:
    """Create the tables, unless they exist."""
    connection.execute("BEGIN IMMEDIATE")
    if not connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
        for statement in SCHEMA:
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version={FORMAT}")
    connection.execute("COMMIT")


def check_schema(connection: sqlite3.Connection) -> None:
    """DamagedError where the file has other tables than `SCHEMA`, or anything beside them."""
    with damage_raised():
        entries = connection.execute("SELECT name, sql FROM sqlite_schema").fetchall()
    statements = {sql for name, sql in entries if not _is_automatic(name)}
    if statements != set(SCHEMA):
        raise DamagedError("it does not have the tables of a run")


def check_pages(path: Path) -> None:
    """DamagedError where a page of a database cannot be read. The file stays as it is."""
    if not path.stat().st_size:
        raise DamagedError("the file is empty")
    with damage_raised(), closing(connect(path, "rw")) as connection:
        (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise DamagedError(found)


def _is_automatic(name: object) -> bool:
    return isinstance(name, str) and name.startswith("sqlite_autoindex_")


def open_foreign(path: Path) -> sqlite3.Connection:
    """A database that another person may have made, for reading. DataError where it is none of a run's."""
    if path.is_fifo():
        raise unreadable(path, "it is a pipe")  # opening it would wait for a writer
    try:
        path.open("rb").close()  # SQLite does not say why it cannot open a file
        try:
            return _open_checked(path, "ro")
        except sqlite3.OperationalError:
            # SQLite opens the log of a database beside it, unless told that nobody writes: a folder may be read-only.
            if path.with_name(f"{path.name}-wal").exists():
                raise
            return _open_checked(path, "ro&immutable=1")
    except (OSError, sqlite3.Error, DamagedError) as error:
        raise unreadable(path, getattr(error, "strerror", None) or error) from None


def _open_checked(path: Path, mode: str) -> sqlite3.Connection:
    connection = connect(path, mode)
    try:
        check_schema(connection)
        connection.execute("PRAGMA query_only=ON")
    except BaseException:
        connection.close()
        raise
    return connection


def unreadable(path: Path, error: object) -> DataError:
    """The error of a database that cannot be read."""
    return DataError(
        Problem(
            "database",
            f"the database cannot be read: {error}",
            "name the directory of a run, or copy its run.db again",
            str(path),
        )
    )


def refused(path: Path, error: sqlite3.Error | OSError) -> OutputError:
    """The error of a database that cannot be written."""
    message = getattr(error, "strerror", None) or str(error)
    if "locked" in message:
        return OutputError(
            f"{path} is locked by another program",
            hint="close the program that has it open; the same command resumes the run",
        )
    if isinstance(error, FileNotFoundError):
        return OutputError(
            f"{path} was removed or moved while the run was writing to it",
            hint="move its directory back and run the same command, or run it with another --out",
        )
    return OutputError(
        f"{path}: the database cannot be written: {message}",
        hint="free some space, check the permissions, or choose another --out; the same command resumes the run",
    )


def database_files(path: Path) -> list[Path]:
    """The file and SQLite's own files beside it, as far as they exist."""
    files = (path.with_name(path.name + ending) for ending in ("", "-wal", "-shm"))
    return [file for file in files if file.exists()]


def select(table: str) -> str:
    """The query for the records of a table."""
    return f"SELECT {', '.join(TABLES[table])} FROM {table}"


def last_number(connection: sqlite3.Connection, table: str) -> int:
    """The number of the last record of a table, 0 for an empty one."""
    number: int | None = connection.execute(f"SELECT max(number) FROM {table}").fetchone()[0]
    return number or 0


def insert(
    connection: sqlite3.Connection, table: str, records: Iterable[tuple[object, ...]]
) -> None:
    """Insert records; one of the same primary key replaces the former one.

    Several are inserted by one statement: each statement waits for Python's lock once, behind the event loop.
    """
    columns = TABLES[table]
    one = f"({','.join('?' * len(columns))})"
    remaining = iter(records)
    while some := list(islice(remaining, _AT_ONCE)):
        values = [value for record in some for value in record]
        connection.execute(
            f"INSERT OR REPLACE INTO {table} VALUES {','.join([one] * len(some))}", values
        )


_AT_ONCE = 64
