"""The thread that writes to a database: what was added together is committed together."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from verdict_cli.errors import OutputError
from verdict_cli.storage.database.schema import insert, refused

GROUP_S = 0.01
"""The least time between the starts of two commits: half of the 20 ms of which a kill may lose the records. The other half is
for the commit itself."""
MOST_WAITING = 20_000
"""Records that wait to be written, from which rows wait, too: memory does not grow behind a slow disk."""
_ORDER = ("texts", "calls", "rows", "meta", "batches")


class _Stage:
    """Records, and the statements that are executed after them."""

    def __init__(self) -> None:
        self.records: dict[str, list[tuple[Any, ...]]] = {name: [] for name in _ORDER}
        self.statements: list[tuple[str, tuple[Any, ...]]] = []


class _Group:
    """What one commit writes, in the order in which it was added."""

    def __init__(self) -> None:
        self.stages = [_Stage()]
        self.count = 0


class Writer:
    """Takes records from the thread of the event loop, and writes them in a thread of its own.

    After an error nothing more is taken; `close` tries again to write what is left.
    ``on_failure`` receives the error in the writing thread.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self.error: OutputError | None = None
        self.on_failure: Callable[[OutputError], None] = lambda _: None
        self.after_commit: Callable[[], None] = lambda: None
        self._connection = connection
        self._opened = path.stat()
        self._lock = threading.Lock()
        self._group = _Group()
        self.added = self.committed = 0
        """The records and statements that were added, and those that are on the disk."""
        self._wake, self._closing = threading.Event(), threading.Event()
        self._urgent = threading.Event()
        """Set where somebody waits for the next commit, which then does not wait for `GROUP_S`."""
        self._waiters: list[tuple[int, asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        self._thread: threading.Thread | None = None

    @property
    def waiting(self) -> int:
        """How many records are not written yet."""
        return self.added - self.committed

    def insert(self, table: str, record: tuple[Any, ...]) -> None:
        """Add a record. Raises OutputError after one could not be written."""
        self._check()
        with self._lock:
            if self._group.stages[-1].statements:
                self._group.stages.append(_Stage())
            self._group.stages[-1].records[table].append(record)
            self._count()

    def execute(self, statement: str, values: tuple[Any, ...]) -> None:
        """Add a statement, which is executed after the records of its group."""
        self._check()
        with self._lock:
            self._group.stages[-1].statements.append((statement, values))
            self._count()

    async def flush(self) -> None:
        """Wait until everything added before is on the disk. Raises OutputError when the disk refuses."""
        loop = asyncio.get_running_loop()
        with self._lock:
            # Within the lock: the thread that fails looks for waiters once, and then ends.
            self._check()
            if self.committed >= self.added:
                return
            future: asyncio.Future[None] = loop.create_future()
            self._waiters.append((self.added, loop, future))
            self._urgent.set()
        await future
        self._check()

    def wait(self) -> None:
        """As `flush`, without an event loop."""
        while self.waiting and self.error is None:
            sleep(0.001)
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
            if self._group.count:
                self._commit(self._take())
        except (sqlite3.Error, OSError) as error:
            raise refused(self.path, error) from error
        finally:
            self._connection.close()

    def _check(self) -> None:
        if self.error is not None:
            raise self.error

    def _count(self) -> None:
        self.added += 1
        self._group.count += 1
        if self._group.count == 1:
            self._wake.set()
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="run.db", daemon=True)
                self._thread.start()

    def _work(self) -> None:
        begun = 0.0
        while self.error is None:
            self._wake.wait()
            self._urgent.wait(max(0.0, begun + GROUP_S - monotonic()))
            begun = monotonic()
            group = self._take()
            if group.count:
                self._write(group)
            elif self._closing.is_set():
                return

    def _take(self) -> _Group:
        with self._lock:
            self._wake.clear()
            self._urgent.clear()
            if self._closing.is_set():
                self._wake.set()
                self._urgent.set()
            group, self._group = self._group, _Group()
        return group

    def _write(self, group: _Group) -> None:
        try:
            self._commit(group)
        except (sqlite3.Error, OSError) as error:
            self.error = refused(self.path, error)
            self._put_back(group)
            self.on_failure(self.error)
        with self._lock:
            if self.error is None:
                self.committed += group.count
            done = [waiter for waiter in self._waiters if self.error or waiter[0] <= self.committed]
            self._waiters = [waiter for waiter in self._waiters if waiter not in done]
        self.after_commit()
        for _, loop, future in done:
            with suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(_resolve, future)

    def _put_back(self, group: _Group) -> None:
        with self._lock:
            group.stages += self._group.stages
            group.count += self._group.count
            self._group = group

    def _commit(self, group: _Group) -> None:
        connection = self._connection
        if not os.path.samestat(self._opened, self.path.stat()):
            # A write to a file that was removed or moved meanwhile still succeeds, and is lost.
            raise FileNotFoundError("another file is in its place")
        connection.execute("BEGIN IMMEDIATE")
        try:
            for stage in group.stages:
                for table, records in stage.records.items():
                    if records:
                        insert(connection, table, records)
                for statement, values in stage.statements:
                    connection.execute(statement, values)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
            raise


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
