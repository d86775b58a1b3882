"""How much of a file is read, for whoever displays it: readers report it at each piece, and do nothing where nobody listens."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct


class FileRead(Struct, frozen=True):
    """What is read of a file: so many bytes on disk, or rows of a table, of all."""

    path: Path
    unit: Literal["bytes", "rows"]
    done: int
    total: int


Observer = Callable[[FileRead], None]
_OBSERVER: ContextVar[Observer | None] = ContextVar("file_reads", default=None)


@contextmanager
def reads_observed(observer: Observer | None) -> Iterator[None]:
    """Within the context, `observer` receives how much is read of each file; with None nobody does, and nothing is counted."""
    token = _OBSERVER.set(observer)
    try:
        yield
    finally:
        _OBSERVER.reset(token)


def is_observed() -> bool:
    """Whether somebody listens, so that a reader may count."""
    return _OBSERVER.get() is not None


def report_read(path: Path, unit: Literal["bytes", "rows"], done: int, total: int) -> None:
    """Report how much of the file is read so far."""
    if (observer := _OBSERVER.get()) is not None:
        observer(FileRead(path, unit, done, total))


def open_observed(path: Path, buffer_bytes: int) -> io.BufferedReader[Any]:
    """The file, opened for reading. It reports its bytes, as they are on disk, at each buffer that is filled. Raises OSError."""
    return io.BufferedReader(
        _ObservedFile(path) if is_observed() else path.open("rb", buffering=0), buffer_bytes
    )


class _ObservedFile(io.FileIO):
    """A file that reports how much of it is read."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "rb")
        self._path, self._done, self._size = path, 0, os.fstat(self.fileno()).st_size

    def readinto(self, buffer: Any) -> int | None:
        count = super().readinto(buffer)
        self._done += count or 0
        report_read(self._path, "bytes", self._done, self._size)
        return count
