"""The shared cache of replies: a database in the user's cache directory, readable by its owner only."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from verdict_cli.errors import OutputError
from verdict_cli.messages import Reply
from verdict_cli.storage.database.database import Database
from verdict_cli.storage.database.records import CallContent
from verdict_cli.storage.database.schema import DamagedError, database_files

CACHE_FILE_NAME = "replies-2.db"
MOST_BYTES = 2 << 30
"""The size of the cache: the oldest replies are removed beyond it."""
_ROOM = 0.9
"""The share of it that is left when replies are removed, so that this is rare."""


def cache_directory(environ: Mapping[str, str] = os.environ, platform: str = sys.platform) -> Path:
    """`VERDICT_CACHE_DIR`, else the platform's directory for caches."""
    chosen = environ.get("VERDICT_CACHE_DIR")
    if chosen:
        return Path(chosen)
    if platform == "win32":
        return (
            Path(environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
            / "verdict"
            / "Cache"
        )
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
    """Replies by digest. Its methods belong to one thread, that of the event loop; another thread writes.

    A disk error after `open` switches the cache off and does not stop the run: ``error`` has its message.
    """

    def __init__(self, database: Database) -> None:
        self.path = database.path
        self.error = ""
        self._database = database
        self._removed: set[bytes] = set()

    @classmethod
    def open(cls, path: Path | None = None) -> CacheStore:
        """Open or create the store at ``path``, by default in `cache_directory`. Raises OutputError if that fails."""
        path = path or cache_directory() / CACHE_FILE_NAME
        try:
            database = Database.open(path, durable=False, shared=True)
            database.limit(MOST_BYTES, _ROOM)
        except (OutputError, DamagedError, sqlite3.Error) as error:
            raise OutputError(
                f"{path}: the cache cannot be used: {getattr(error, 'message', error)}",
                hint="set VERDICT_CACHE_DIR to another directory, run `verdict cache clear`, or give --no-cache",
            ) from None
        return cls(database)

    def get(self, digest: bytes) -> Reply | None:
        """The reply stored under the digest, None if there is none."""
        if self.error or digest in self._removed:
            return None
        try:
            calls = self._database.find(digest)
        except sqlite3.Error as error:
            self.error = str(error)
            return None
        return calls[0].content.reply if calls and calls[0].usable else None

    def put(self, digest: bytes, model: str, reply: Reply) -> None:
        """Store a reply."""
        self._removed.discard(digest)
        try:
            if not self.error:
                self._database.add_call(digest, (0, "", "", 0, 0), model, CallContent(reply))
        except OutputError as error:
            self.error = error.message

    def remove(self, digest: bytes) -> None:
        """Remove the reply under the digest."""
        self._removed.add(digest)
        try:
            if not self.error:
                self._database.remove_calls(digest)
        except OutputError as error:
            self.error = error.message

    def contents(self) -> CacheContents:
        """What is on disk."""
        size = sum(part.stat().st_size for part in database_files(self.path))
        return CacheContents({spent.model: spent.calls for spent in self._database.spent()}, size)

    def close(self) -> None:
        """Write the replies not yet written, and close the file."""
        try:
            self._database.close()
        except OutputError as error:
            self.error = error.message
