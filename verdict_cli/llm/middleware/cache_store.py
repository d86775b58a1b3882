"""The file of replies that runs share: SQLite, for its owner only, in the user's cache directory."""

from __future__ import annotations

import os
import sqlite3
import sys
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import orjson

from verdict_cli.errors import OutputError
from verdict_cli.messages import Reply
from verdict_cli.storage.journal.entry import read_reply, reply_fields

CACHE_FILE_NAME = "replies-1.sqlite3"
PRUNE_EVERY_S = 0.2
"""How long replies are gathered before they are written together."""
_BUSY_S = 10.0
_TABLE = (
    "CREATE TABLE IF NOT EXISTS replies "
    "(key BLOB PRIMARY KEY, model TEXT NOT NULL, made INTEGER NOT NULL, reply BLOB NOT NULL)"
)


def cache_directory(environ: Mapping[str, str] = os.environ, platform: str = sys.platform) -> Path:
    """`VERDICT_CACHE_DIR`, else the platform's place for caches."""
    chosen = environ.get("VERDICT_CACHE_DIR")
    if chosen:
        return Path(chosen)
    if platform == "win32":
        return Path(environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "verdict" / "Cache"
    if platform == "darwin":
        return Path.home() / "Library" / "Caches" / "verdict"
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "verdict"


@dataclass(frozen=True, slots=True)
class Kept:
    """What a store holds: how many replies of which model, and the bytes of its file."""

    models: Mapping[str, int]
    size: int

    @property
    def replies(self) -> int:
        """All replies."""
        return sum(self.models.values())


class CacheStore:
    """Replies by key. ``get``, ``put`` and ``drop`` are for one thread, that of the event loop; a thread of the
    store's own writes. What the disk refuses later than `open` ends the keeping, not the run: ``trouble`` says why.
    """

    def __init__(self, path: Path, reader: sqlite3.Connection) -> None:
        self.path = path
        self.trouble = ""
        self._reader = reader
        self._new: dict[bytes, tuple[str, Reply] | None] = {}
        self._swap = threading.Lock()
        self._closing = threading.Event()
        self._writer: sqlite3.Connection | None = None
        self._thread = ThreadPoolExecutor(1, "cache")
        self._scheduled = False

    @classmethod
    def open(cls, path: Path | None = None) -> CacheStore:
        """The store at ``path`` (default: `NAME` in `directory`), made where there is none. OutputError when refused."""
        path = path or cache_directory() / CACHE_FILE_NAME
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            reader = _connected(path)
            try:
                reader.execute("PRAGMA journal_mode=WAL")
                reader.execute(_TABLE)
            except sqlite3.Error:
                reader.close()
                raise
        except (OSError, sqlite3.Error) as fault:
            raise OutputError(
                f"{path}: the cache cannot be used: {getattr(fault, 'strerror', None) or fault}",
                hint="set VERDICT_CACHE_DIR to another directory, run `verdict cache clear`, or give --no-cache",
            ) from None
        return cls(path, reader)

    def get(self, key: bytes) -> Reply | None:
        """The reply kept for the key, None where there is none."""
        if key in self._new:
            try:
                kept = self._new[key]
            except KeyError:  # just written
                pass
            else:
                return None if kept is None else kept[1]
        if self.trouble:
            return None
        try:
            found = self._reader.execute("SELECT reply FROM replies WHERE key = ?", (key,)).fetchone()
            return None if found is None else read_reply(orjson.loads(found[0]))
        except sqlite3.Error as fault:
            self.trouble = str(fault)
        except (ValueError, KeyError, TypeError):  # a damaged entry is asked for again
            self.drop(key)
        return None

    def put(self, key: bytes, model: str, reply: Reply) -> None:
        """Keeps a reply."""
        self._write_soon(key, (model, reply))

    def drop(self, key: bytes) -> None:
        """Takes a reply out."""
        self._write_soon(key, None)

    def kept(self) -> Kept:
        """What is on the disk."""
        counted = self._reader.execute("SELECT model, count(*) FROM replies GROUP BY model ORDER BY 2 DESC, 1")
        return Kept(dict(counted.fetchall()), sum(part.stat().st_size for part in files(self.path)))

    def close(self) -> None:
        """Writes what is left and lets go of the file."""
        self._closing.set()
        self._thread.submit(self._flush).result()
        self._thread.submit(self._let_go).result()
        self._thread.shutdown()
        self._reader.close()

    def _write_soon(self, key: bytes, what: tuple[str, Reply] | None) -> None:
        if self.trouble:
            return
        with self._swap:
            self._new[key] = what
            scheduled, self._scheduled = self._scheduled, True
        if not scheduled:
            self._thread.submit(self._gather)

    def _gather(self) -> None:
        self._closing.wait(PRUNE_EVERY_S)
        self._flush()

    def _flush(self) -> None:
        with self._swap:
            batch = dict(self._new)
            self._scheduled = False
        if not batch:
            return
        try:
            if self._writer is None:
                self._writer = _connected(self.path)
                self._writer.execute("PRAGMA synchronous=NORMAL")
            self._write(self._writer, batch)
        except sqlite3.Error as fault:
            self.trouble = str(fault)
        with self._swap:
            for key, what in batch.items():
                if self._new.get(key, self) is what:
                    del self._new[key]

    @staticmethod
    def _write(writer: sqlite3.Connection, batch: Mapping[bytes, tuple[str, Reply] | None]) -> None:
        made = int(time.time())
        rows = []
        for key, what in batch.items():
            if what is not None:
                try:
                    rows.append((key, what[0], made, orjson.dumps(reply_fields(what[1]))))
                except TypeError:  # half a surrogate pair, which orjson does not write
                    continue
        gone = [(key,) for key, what in batch.items() if what is None]
        with writer:
            writer.execute("BEGIN IMMEDIATE")
            writer.executemany("DELETE FROM replies WHERE key = ?", gone)
            writer.executemany("INSERT OR REPLACE INTO replies VALUES (?, ?, ?, ?)", rows)

    def _let_go(self) -> None:
        if self._writer is not None:
            self._writer.close()


def files(path: Path) -> list[Path]:
    """The store's file and those that SQLite keeps beside it, as far as they are there."""
    return [part for ending in ("", "-wal", "-shm") if (part := path.with_name(path.name + ending)).exists()]


def _connected(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None)
