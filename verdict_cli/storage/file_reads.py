"""How much of a file is read, for whoever displays it: readers tell it at each piece, and do nothing where nobody watches."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class FileRead:
    """What is read of a file: so many bytes on disk, or rows of a table, of all."""

    path: Path
    unit: Literal["bytes", "rows"]
    done: int
    total: int


Watch = Callable[[FileRead], None]
_WATCH: ContextVar[Watch | None] = ContextVar("file_reads", default=None)


@contextmanager
def reading_watched(watch: Watch) -> Iterator[None]:
    """Within the context, `watch` receives how much is read of each file."""
    token = _WATCH.set(watch)
    try:
        yield
    finally:
        _WATCH.reset(token)


def is_watched() -> bool:
    """Whether somebody is told, so that a reader may count."""
    return _WATCH.get() is not None


def tell_read(path: Path, unit: Literal["bytes", "rows"], done: int, total: int) -> None:
    """Tell how much of the file is read so far."""
    if (watch := _WATCH.get()) is not None:
        watch(FileRead(path, unit, done, total))


def open_told(path: Path, buffer_bytes: int) -> io.BufferedReader[Any]:
    """The file, opened for reading. It tells its bytes, as they are on disk, at each buffer that is filled. Raises OSError."""
    return io.BufferedReader(_ToldFile(path) if is_watched() else path.open("rb", buffering=0), buffer_bytes)


class _ToldFile(io.FileIO):
    """A file that tells how much of it is read."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "rb")
        self._path, self._done, self._size = path, 0, os.fstat(self.fileno()).st_size

    def readinto(self, buffer: Any) -> int | None:
        count = super().readinto(buffer)
        self._done += count or 0
        tell_read(self._path, "bytes", self._done, self._size)
        return count
