"""A journal as write-once objects in a store, and the lock that keeps one writer a file."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import IO

from verdict_cli.storage.object_store.folder import RemoteFolder

WHOLE = "journal.jsonl"
SEGMENT_FOLDER = "journal"
PACE_S = 0.5
"""How far apart objects are begun: two a second are what lists and prices of stores bear for days."""


class Segments:
    """`WHOLE`, as it was last written, and an object of `FOLDER` for the lines of each time that some were sent since.

    An object is never changed, and its name nobody else's: a process that was thought dead does no harm. Their order
    is that in which they were sent, by whichever process. ``check`` raises what forbids to write.
    """

    def __init__(self, place: RemoteFolder, check: Callable[[], None] = lambda: None) -> None:
        self._place, self._check = place, check
        self._number = 0
        self._last = -PACE_S

    def names(self) -> list[str]:
        """The objects of lines, in order."""
        return self._place.names(SEGMENT_FOLDER)

    def news(self) -> Iterator[bytes]:
        """The lines that came since `WHOLE` was written; the last of an object that a crash cut off is no whole one."""
        for content in self._place.read_all(self.names()):
            yield from content.splitlines(keepends=True)

    def bring(self, file: IO[bytes]) -> None:
        """Writes all lines to the file."""
        with self._place.opened(WHOLE) as whole:
            if whole is not None:
                shutil.copyfileobj(whole, file, 1 << 20)
        for content in self._place.read_all(self.names()):
            file.write(content if content.endswith(b"\n") else content + b"\n")

    def wait(self) -> None:
        """Returns once the next object may be begun."""
        sleep(max(0.0, self._last + PACE_S - monotonic()))
        self._last = monotonic()

    def put(self, lines: bytes) -> None:
        """Returns once the lines are in the store."""
        self._check()
        if not self._number:
            names = self.names()
            self._number = int(Path(names[-1]).name.partition("-")[0]) if names else 0
        self._number += 1
        self._place.write(f"{SEGMENT_FOLDER}/{self._number:010}-{os.urandom(4).hex()}.jsonl", lines)

    def put_whole(self, path: Path) -> None:
        """Sends the file, which has all lines, as `WHOLE`, and removes the objects that it stands for."""
        self._check()
        names = self.names()
        self._place.send(path, WHOLE)
        self._place.remove(names)

    def clear(self) -> None:
        """Removes all lines."""
        self._check()
        self._place.remove([*self._place.names(WHOLE), *self.names()])


_TAKEN = {errno.EACCES, errno.EAGAIN, errno.EWOULDBLOCK, errno.EDEADLK}


def lock_file(descriptor: int) -> bool:
    """Whether the open file is now this process's alone, until it is closed. Raises OSError where files cannot be locked."""
    try:
        if sys.platform == "win32":
            import msvcrt

            here = os.lseek(descriptor, 0, os.SEEK_CUR)
            os.lseek(descriptor, 1 << 62, os.SEEK_SET)  # Windows hides locked bytes from readers
            try:
                msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
            finally:
                os.lseek(descriptor, here, os.SEEK_SET)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _TAKEN:
            return False
        raise
    return True
