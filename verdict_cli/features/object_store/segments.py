"""The segments of a run in its store: sent while it works, and put together on another machine."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event, Thread
from time import monotonic

import orjson

from verdict_cli.errors import JournalError, OutputError
from verdict_cli.messages import JsonObject
from verdict_cli.storage.database.database import RUN_DB
from verdict_cli.storage.database.segments import (
    INTERVAL_S,
    SegmentWriter,
    add_segment,
    create_database,
)
from verdict_cli.storage.stores import RunStore

FOLDER, WRITER = "segments", "writer.json"


@dataclass
class SegmentSender:
    """Sends the segments of one writer's database. The first one replaces those of the writers before it."""

    directory: RunStore
    owner: str
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
        segments = SegmentWriter(self.directory.copy / RUN_DB)
        sent = monotonic()
        while not self._ended.wait(INTERVAL_S / 10):
            if monotonic() - sent < INTERVAL_S and not segments.is_large():
                continue
            # The next one has what could not be sent. Who lost the lease is told before the next call.
            with suppress(OutputError, JournalError, sqlite3.Error, OSError):
                self._send(segments)
            sent = monotonic()

    def _send(self, segments: SegmentWriter) -> None:
        part = self.directory.copy / "segment.db"
        try:
            if not segments.write(part):
                return
            name = f"{FOLDER}/{segments.series}/{segments.count:08}.db"
            stored = self.directory.copy / name
            stored.parent.mkdir(parents=True, exist_ok=True)
            part.replace(stored)
            part = stored
            self.directory.put(name)
        finally:
            part.unlink(missing_ok=True)
        if not segments.count:
            self._replace_earlier(segments.series)
        segments.confirm()

    def _replace_earlier(self, series: str) -> None:
        announce(self.directory, self.owner, series)
        names = self.directory.folder.names(FOLDER)
        prefix = f"{FOLDER}/{series}/"
        self.directory.remove([name for name in names if not name.startswith(prefix)])


def announce(directory: RunStore, owner: str, series: str) -> None:
    """Tell who writes, and which segments have the run until there are newer ones ("": the whole database has it)."""
    path = directory.copy / WRITER
    path.write_bytes(orjson.dumps({"owner": owner, "series": series}))
    directory.put(WRITER)


def writer_of(directory: RunStore) -> dict[str, str]:
    """Who began a run in the store that did not end, and the series of its segments; nothing where all ended."""
    return json_object(directory.folder.read(WRITER))


def json_object(content: bytes | None) -> JsonObject:
    """The object in JSON; an empty one for anything else."""
    try:
        value = orjson.loads(content or b"{}")
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def fetch(directory: RunStore, series: str) -> None:
    """Make the database of the copy from the segments of a series; an empty one where none was sent ("")."""
    names = directory.folder.names(f"{FOLDER}/{series}") if series else []
    database, segment = directory.copy / RUN_DB, directory.copy / "segment.db"
    create_database(database)
    for name in names:
        directory.folder.get(name, segment)
        add_segment(segment, database)
        segment.unlink()


def remove(directory: RunStore) -> None:
    """Remove the segments, once the store has the whole database."""
    directory.remove([WRITER, *directory.folder.names(FOLDER)])
