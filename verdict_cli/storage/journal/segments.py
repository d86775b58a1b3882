"""A journal as write-once objects in a store, and the lock that allows a file one writer."""

from __future__ import annotations

import errno
import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep
from typing import IO

from verdict_cli.storage.object_store.folder import RemoteFolder

WHOLE = "journal.jsonl"
SEGMENT_FOLDER = "journal"
_SEGMENT = re.compile(r"/[0-9]{8}-([0-9]{10})-[^/]*$")
PACE_S = 0.5
"""Seconds between two objects, at least: a store lists and bills every object, and a run may take days."""


class Segments:
    """The object `WHOLE`, and in `SEGMENT_FOLDER` an object for each batch of lines sent since that was written.

    Objects are write-once with unique names, so a writer that was wrongly presumed dead cannot corrupt them. Their
    names begin with the writer's fencing token and sort in the order in which they were sent: what a writer sends after
    another took over sorts before the lines of that one. ``check`` returns the token, or raises where writing is not
    allowed.
    """

    def __init__(self, folder: RemoteFolder, check: Callable[[], int] = lambda: 0) -> None:
        self._folder, self._check = folder, check
        self._number = 0
        self._last = -PACE_S

    def names(self) -> list[str]:
        """The segments, in order."""
        return self._folder.names(SEGMENT_FOLDER)

    def copy_to(self, file: IO[bytes]) -> None:
        """Write all lines to the file."""
        with self._folder.opened(WHOLE) as whole:
            if whole is not None:
                shutil.copyfileobj(whole, file, 1 << 20)
        for content in self._folder.read_all(self.names()):
            file.write(content if content.endswith(b"\n") else content + b"\n")

    def wait(self) -> None:
        """Wait until the next segment may be sent."""
        sleep(max(0.0, self._last + PACE_S - monotonic()))
        self._last = monotonic()

    def put(self, lines: bytes) -> None:
        """Put the lines into the store as a segment."""
        token = self._check()
        if not self._number:
            found = (_SEGMENT.search(name) for name in self.names())
            self._number = max((int(match[1]) for match in found if match), default=0)
        self._number += 1
        self._folder.write(f"{SEGMENT_FOLDER}/{token:08}-{self._number:010}-{os.urandom(4).hex()}.jsonl", lines)

    def put_whole(self, path: Path) -> None:
        """Send the file, which has all lines, as `WHOLE`, and remove the segments that it replaces."""
        self._check()
        names = self.names()
        self._folder.send(path, WHOLE)
        self._folder.remove(names)

    def clear(self) -> None:
        """Remove all lines."""
        self._check()
        self._folder.remove([*self._folder.names(WHOLE), *self.names()])


_LOCKED_ERRNOS = {errno.EACCES, errno.EAGAIN, errno.EWOULDBLOCK, errno.EDEADLK}


def lock_file(descriptor: int) -> bool:
    """Lock the open file until it is closed; False where another process has locked it. OSError where files have no locks."""
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
        if error.errno in _LOCKED_ERRNOS:
            return False
        raise
    return True
