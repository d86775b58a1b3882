"""The store of cached replies: an SQLite file in the user's cache directory, readable by its owner only."""

from __future__ import annotations

import os
import sqlite3
import sys
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import orjson
from msgspec import Struct

from verdict_cli.errors import OutputError
from verdict_cli.messages import Reply
from verdict_cli.storage.journal.entry import read_reply, reply_fields

CACHE_FILE_NAME = "replies-1.sqlite3"
WRITE_DELAY_S = 0.2
"""How long replies are collected before they are written in one transaction."""
_BUSY_S = 10.0
_TABLE = (
    "CREATE TABLE IF NOT EXISTS replies "
    "(key BLOB PRIMARY KEY, model TEXT NOT NULL, made INTEGER NOT NULL, reply BLOB NOT NULL)"
)


def cache_directory(environ: Mapping[str, str] = os.environ, platform: str = sys.platform) -> Path:
    """`VERDICT_CACHE_DIR`, else the platform's directory for caches."""
    chosen = environ.get("VERDICT_CACHE_DIR")
    if chosen:
        return Path(chosen)
    if platform == "win32":
        return Path(environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "verdict" / "Cache"
    if platform == "darwin":
        return Path.home() / "Library" / "Caches" / "verdict"
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "verdict"


class CacheContents(Struct, frozen=True):
    """The number of replies by model, and the size of the file in bytes."""

    models: Mapping[str, int]
    size: int

    @property
    def replies(self) -> int:
        return sum(self.models.values())


class CacheStore:
    """Replies by key. ``get``, ``put`` and ``remove`` belong to one thread, that of the event loop; a second thread writes.

    A disk error after `open` switches the cache off and does not stop the run: ``error`` has its message.
    """

    def __init__(self, path: Path, reader: sqlite3.Connection) -> None:
        self.path = path
        self.error = ""
        self._reader = reader
        self._pending: dict[bytes, tuple[str, Reply] | None] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._writer: sqlite3.Connection | None = None
        self._thread = ThreadPoolExecutor(1, "cache")
        self._scheduled = False

    @classmethod
    def open(cls, path: Path | None = None) -> CacheStore:
        """Open or create the store at ``path``, by default in `cache_directory`. Raises OutputError if that fails."""
        path = path or cache_directory() / CACHE_FILE_NAME
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            reader = _connect(path)
            try:
                reader.execute("PRAGMA journal_mode=WAL")
                reader.execute(_TABLE)
            except sqlite3.Error:
                reader.close()
                raise
        except (OSError, sqlite3.Error) as error:
            raise OutputError(
                f"{path}: the cache cannot be used: {getattr(error, 'strerror', None) or error}",
                hint="set VERDICT_CACHE_DIR to another directory, run `verdict cache clear`, or give --no-cache",
            ) from None
        return cls(path, reader)

    def get(self, key: bytes) -> Reply | None:
        """The reply stored under the key, None if there is none."""
        if key in self._pending:
            try:
                pending = self._pending[key]
            except KeyError:  # just written
                pass
            else:
                return None if pending is None else pending[1]
        if self.error:
            return None
        try:
            row = self._reader.execute("SELECT reply FROM replies WHERE key = ?", (key,)).fetchone()
            return None if row is None else read_reply(orjson.loads(row[0]))
        except sqlite3.Error as error:
            self.error = str(error)
        except (ValueError, KeyError, TypeError):  # a damaged entry counts as missing
            self.remove(key)
        return None

    def put(self, key: bytes, model: str, reply: Reply) -> None:
        self._write_soon(key, (model, reply))

    def remove(self, key: bytes) -> None:
        self._write_soon(key, None)

    def contents(self) -> CacheContents:
        """What is on disk."""
        counts = self._reader.execute("SELECT model, count(*) FROM replies GROUP BY model ORDER BY 2 DESC, 1")
        return CacheContents(dict(counts.fetchall()), sum(part.stat().st_size for part in store_files(self.path)))

    def close(self) -> None:
        """Write the replies not yet written, and close the file."""
        self._closing.set()
        self._thread.submit(self._flush).result()
        self._thread.submit(self._close_writer).result()
        self._thread.shutdown()
        self._reader.close()

    def _write_soon(self, key: bytes, entry: tuple[str, Reply] | None) -> None:
        if self.error:
            return
        with self._lock:
            self._pending[key] = entry
            scheduled, self._scheduled = self._scheduled, True
        if not scheduled:
            self._thread.submit(self._flush_later)

    def _flush_later(self) -> None:
        self._closing.wait(WRITE_DELAY_S)
        self._flush()

    def _flush(self) -> None:
        with self._lock:
            batch = dict(self._pending)
            self._scheduled = False
        if not batch:
            return
        try:
            if self._writer is None:
                self._writer = _connect(self.path)
                self._writer.execute("PRAGMA synchronous=NORMAL")
            self._write(self._writer, batch)
        except sqlite3.Error as error:
            self.error = str(error)
        with self._lock:
            for key, entry in batch.items():
                if self._pending.get(key, self) is entry:
                    del self._pending[key]

    @staticmethod
    def _write(writer: sqlite3.Connection, batch: Mapping[bytes, tuple[str, Reply] | None]) -> None:
        now = int(time.time())
        rows = []
        for key, entry in batch.items():
            if entry is not None:
                try:
                    rows.append((key, entry[0], now, orjson.dumps(reply_fields(entry[1]))))
                except TypeError:  # orjson does not write half a surrogate pair
                    continue
        removed = [(key,) for key, entry in batch.items() if entry is None]
        with writer:
            writer.execute("BEGIN IMMEDIATE")
            writer.executemany("DELETE FROM replies WHERE key = ?", removed)
            writer.executemany("INSERT OR REPLACE INTO replies VALUES (?, ?, ?, ?)", rows)

    def _close_writer(self) -> None:
        if self._writer is not None:
            self._writer.close()


def store_files(path: Path) -> list[Path]:
    """The store's file and SQLite's own files beside it, as far as they exist."""
    return [part for ending in ("", "-wal", "-shm") if (part := path.with_name(path.name + ending)).exists()]


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None)
