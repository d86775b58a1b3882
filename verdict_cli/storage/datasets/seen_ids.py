"""Ids that were seen, in bounded memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3

MOST_IN_MEMORY = 1_000_000


class SeenIds:
    """A set of ids; with more than `MOST_IN_MEMORY` of them, a temporary table of SQLite on the disk."""

    def __init__(self) -> None:
        self._ids: set[str | int] = set()
        self._table: sqlite3.Connection | None = None

    def add(self, identity: str | int) -> bool:
        """Add an id; whether it is new."""
        if self._table is None:
            count = len(self._ids)
            self._ids.add(identity)
            if len(self._ids) > MOST_IN_MEMORY:
                self._move()
            return len(self._ids) > count or self._table is not None
        # A type of its own for each: SQLite's integers have 64 bits, and 1 and "1" are two ids.
        return self._insert(identity) > 0

    def _move(self) -> None:
        """Put the ids on the disk."""
        import sqlite3  # here, because it takes 10 ms and hardly a dataset is so long

        self._table = sqlite3.connect("", isolation_level=None)
        self._table.execute("PRAGMA journal_mode = OFF")
        self._table.execute("CREATE TABLE ids (id TEXT PRIMARY KEY) WITHOUT ROWID")
        self._table.execute("BEGIN")
        for identity in self._ids:
            self._insert(identity)
        self._ids.clear()

    def _insert(self, identity: str | int) -> int:
        assert self._table is not None
        text = f"{type(identity).__name__}:{identity}".encode("utf-8", "surrogatepass")
        return self._table.execute("INSERT OR IGNORE INTO ids VALUES (?)", (text,)).rowcount
