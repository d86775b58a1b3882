"""The thread that writes to a database: what was added together is committed together."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from time import monotonic
from typing import Any

from verdict_cli.errors import OutputError
from verdict_cli.storage.database.schema import TABLES, insert, refused

GROUP_S = 0.01
"""The least time between the starts of two commits: half of the 20 ms of which a kill may lose the records. The other half is
for the commit itself."""
MOST_WAITING = 20_000
"""Records that wait to be written, from which rows wait, too: memory does not grow behind a slow disk."""
_Addition = tuple[str, tuple[Any, ...]]
"""A table and its record, or a statement and its values."""


class Writer:
    """Takes records from the thread of the event loop, and writes them in a thread of its own.

    After an error nothing more is taken; `close` tries again to write what is left.
    ``on_failure`` receives the error in the writing thread.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self.error: OutputError | None = None
        self.on_failure: Callable[[OutputError], None] = lambda _: None
        self._connection = connection
        self._opened = path.stat()
        self._lock = threading.Lock()
        self._group: list[_Addition] = []
        """What the next commit writes, in the order in which it was added."""
        self.added = self.committed = 0
        """The records and statements that were added, and those that are on the disk."""
        self._wake, self._closing = threading.Event(), threading.Event()
        self._urgent = threading.Event()
        """Set where somebody waits for the next commit, which then does not wait for `GROUP_S`."""
        self._written = threading.Condition(self._lock)
        """Notified of each commit, and of an error."""
        self._thread: threading.Thread | None = None

    @property
    def waiting(self) -> int:
        """How many records are not written yet."""
        return self.added - self.committed

    def insert(self, table: str, record: tuple[Any, ...]) -> None:
        """Add a record. Raises OutputError after one could not be written."""
        self._check()
        with self._lock:
            self._group.append((table, record))
            self.added += 1
            if len(self._group) == 1:
                self._wake.set()
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="run.db", daemon=True)
                self._thread.start()

    def execute(self, statement: str, values: tuple[Any, ...]) -> None:
        """Add a statement, which is executed after the records that were added before it. Raises as `insert`."""
        self.insert(statement, values)

    async def flush(self) -> None:
        """Wait until everything added before is on the disk. Raises OutputError when the disk refuses."""
        if self.waiting:
            await asyncio.to_thread(self.wait)
        self._check()

    def wait(self) -> None:
        """As `flush`, without an event loop."""
        with self._written:
            self._check()
            last = self.added
            self._urgent.set()
            self._written.wait_for(lambda: self.error is not None or self.committed >= last)
        self._check()

    async def wait_for_room(self) -> None:
        """Return once few enough records wait."""
        if self.waiting > MOST_WAITING:
            await self.flush()

    def close(self) -> None:
        """Write what is left, and close the connection. Raises OutputError when the disk refuses."""
        self._closing.set()
        self._urgent.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
        try:
            if self._group:
                self._commit(self._take())
        except (sqlite3.Error, OSError) as error:
            raise refused(self.path, error) from error
        finally:
            self._connection.close()

    def _check(self) -> None:
        if self.error is not None:
            raise self.error

    def _work(self) -> None:
        begun = 0.0
        while self.error is None:
            self._wake.wait()
            self._urgent.wait(max(0.0, begun + GROUP_S - monotonic()))
            begun = monotonic()
            group = self._take()
            if group:
                self._write(group)
            elif self._closing.is_set():
                return

    def _take(self) -> list[_Addition]:
        with self._lock:
            self._wake.clear()
            self._urgent.clear()
            if self._closing.is_set():
                self._wake.set()
                self._urgent.set()
            group, self._group = self._group, []
        return group

    def _write(self, group: list[_Addition]) -> None:
        try:
            self._commit(group)
        except (sqlite3.Error, OSError) as error:
            self.error = refused(self.path, error)
            self.on_failure(self.error)
        with self._written:
            if self.error is None:
                self.committed += len(group)
            else:
                self._group = group + self._group
            self._written.notify_all()

    def _commit(self, group: list[_Addition]) -> None:
        connection = self._connection
        if not os.path.samestat(self._opened, self.path.stat()):
            # A write to a file that was removed or moved meanwhile still succeeds, and is lost.
            raise FileNotFoundError("another file is in its place")
        connection.execute("BEGIN IMMEDIATE")
        try:
            for are_records, additions in groupby(
                group, key=lambda addition: addition[0] in TABLES
            ):
                if are_records:
                    _insert(connection, additions)
                    continue
                for statement, values in additions:
                    connection.execute(statement, values)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
            raise


def _insert(connection: sqlite3.Connection, additions: Iterable[_Addition]) -> None:
    """Insert the records of each table together."""
    records: dict[str, list[tuple[Any, ...]]] = {}
    for table, record in additions:
        records.setdefault(table, []).append(record)
    for table, of_table in records.items():
        insert(connection, table, of_table)
