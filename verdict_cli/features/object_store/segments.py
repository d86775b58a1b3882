"""What a run has committed, sent to its store in numbered segments while it works, and put together elsewhere."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from typing import Any

import orjson

from verdict_cli.errors import JournalError, OutputError
from verdict_cli.storage.database.database import RUN_DB
from verdict_cli.storage.database.schema import TABLES, connect, create, insert, open_foreign
from verdict_cli.storage.stores import RunStore

INTERVAL_S = 5.0
"""How often what was committed is sent."""
LARGEST = 8_000_000
"""Bytes by which the database has grown, from which it is sent at once."""
FOLDER, WRITER = "segments", "writer.json"
_GROWING, _SMALL = ("texts", "calls"), ("meta", "batches")
_GROUP = 1000
_MARKS = " UNION ALL ".join(f"SELECT name, checksum FROM {table}" for table in _SMALL)


@dataclass
class Segments:
    """The segments of one writer: calls and texts that no earlier one has, and what else is small, whole.

    Finished rows are not sent: a run that resumes from segments makes them again from their calls. The first segment has
    everything, so that the writer needs nothing of those before it.
    """

    directory: RunStore
    owner: str
    _series: str = ""
    _count: int = 0
    _inode: int = 0
    _sent: dict[str, int] = field(default_factory=dict)
    _marks: list[Any] = field(default_factory=list)
    _size: int = 0
    _ended: Event = field(default_factory=Event)
    _thread: Thread | None = None

    def start(self) -> None:
        self._thread = Thread(target=self._send_often, name="segments", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _send_often(self) -> None:
        sent = monotonic()
        while not self._ended.wait(INTERVAL_S / 10):
            if monotonic() - sent < INTERVAL_S and self._growth() < LARGEST:
                continue
            # The next one has what could not be sent. Who lost the lease is told before the next call.
            with suppress(OutputError, JournalError, sqlite3.Error, OSError):
                self.send()
            sent = monotonic()

    def _growth(self) -> int:
        size = 0
        for name in (RUN_DB, f"{RUN_DB}-wal"):
            with suppress(OSError):
                size += (self.directory.copy / name).stat().st_size
        return size - self._size

    def send(self) -> None:
        """Send what was committed since the last segment. Raises as the store and the database do."""
        path = self.directory.copy / RUN_DB
        if not path.exists():
            return
        self._size += self._growth()
        if path.stat().st_ino != self._inode:
            self._series, self._inode, self._count = os.urandom(8).hex(), path.stat().st_ino, 0
            self._sent, self._marks = dict.fromkeys(_GROWING, 0), []
        name = f"{FOLDER}/{self._series}/{self._count:08}.db"
        part = self.directory.copy / name
        part.parent.mkdir(parents=True, exist_ok=True)
        part.unlink(missing_ok=True)
        try:
            with closing(connect(path, "rw")) as source:
                source.execute("BEGIN")
                sent, marks = _state(source)
                if (sent, marks) == (self._sent, self._marks):
                    return
                _write(source, part, self._sent)
            self.directory.put(name)
        finally:
            part.unlink(missing_ok=True)
        if not self._count:
            self._replace_earlier()
        self._sent, self._marks = sent, marks
        self._count += 1

    def _replace_earlier(self) -> None:
        announce(self.directory, self.owner, self._series)
        names = self.directory.folder.names(FOLDER)
        prefix = f"{FOLDER}/{self._series}/"
        self.directory.remove([name for name in names if not name.startswith(prefix)])


def announce(directory: RunStore, owner: str, series: str) -> None:
    """Tell who writes, and which segments have the run until there are newer ones ("": the whole database has it)."""
    path = directory.copy / WRITER
    path.write_bytes(orjson.dumps({"owner": owner, "series": series}))
    directory.put(WRITER)


def _state(source: sqlite3.Connection) -> tuple[dict[str, int], list[Any]]:
    """The last number of each table that grows, and the checksums of the others' records."""
    last = {
        table: source.execute(f"SELECT coalesce(max(number), 0) FROM {table}").fetchone()[0]
        for table in _GROWING
    }
    return last, source.execute(_MARKS).fetchall()


def _write(source: sqlite3.Connection, part: Path, sent: dict[str, int]) -> None:
    part.touch(mode=0o600)
    with closing(connect(part, "rw")) as target:
        create(target)
        target.execute("BEGIN")
        for table in (*_GROWING, *_SMALL):
            _copy(source, target, table, sent.get(table, 0))
        target.execute("COMMIT")


def _copy(
    source: sqlite3.Connection, target: sqlite3.Connection, table: str, after: int = 0
) -> None:
    """Copy records as they are; their checksums are checked when they are read."""
    where = f"WHERE number > {after}" if table in _GROWING else ""
    query = f"SELECT {', '.join(TABLES[table])} FROM {table} {where}"
    records = source.execute(query)
    while group := records.fetchmany(_GROUP):
        insert(target, table, group)


def writer_of(directory: RunStore) -> dict[str, str]:
    """Who began a run in the store that did not end, and the series of its segments; nothing where all ended."""
    content = directory.folder.read(WRITER)
    try:
        writer = orjson.loads(content or b"{}")
    except orjson.JSONDecodeError:
        return {}
    return writer if isinstance(writer, dict) else {}


def fetch(directory: RunStore, series: str) -> None:
    """Make the database of the copy from the segments of a series; an empty one where none was sent ("")."""
    names = directory.folder.names(f"{FOLDER}/{series}") if series else []
    path, segment = directory.copy / RUN_DB, directory.copy / "segment.db"
    path.touch(mode=0o600)
    with closing(connect(path, "rw")) as target:
        create(target)
        for name in names:
            directory.folder.get(name, segment)
            target.execute("BEGIN")
            with closing(open_foreign(segment)) as source:
                for table in _SMALL:
                    target.execute(f"DELETE FROM {table}")
                for table in (*_GROWING, *_SMALL):
                    _copy(source, target, table)
            target.execute("COMMIT")
            segment.unlink()


def remove(directory: RunStore) -> None:
    """Remove the segments, once the store has the whole database."""
    directory.remove([WRITER, *directory.folder.names(FOLDER)])
