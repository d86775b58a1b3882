"""Locks on files, which end with the process that holds them."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from verdict_cli.errors import JournalError
from verdict_cli.storage.paths import output_errors

_LOCKED_ERRNOS = {errno.EACCES, errno.EAGAIN, errno.EWOULDBLOCK, errno.EDEADLK}


def lock_file(descriptor: int) -> bool:
    """Lock the open file until it is closed; False where another process has locked it.

    OSError where files have no locks.
    """
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


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the lock file at the path. JournalError at once where another process holds it.

    The lock is a file of its own: closing a second descriptor of a database would end SQLite's locks on it.
    """
    with output_errors(path):
        descriptor = _locked(path)
    try:
        yield
    finally:
        if os.name == "posix":  # Windows removes no open file
            with suppress(OSError):
                path.unlink()
        os.close(descriptor)


def _locked(path: Path) -> int:
    """A descriptor of the file, which it locks."""
    while True:
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        descriptor = os.open(path, flags, 0o600)
        try:
            if not lock_file(descriptor):
                raise JournalError(
                    f"another run is writing to {path.parent}",
                    hint="wait until it has ended, or choose another --out",
                )
            # The process that held the lock may have removed the file since it was opened here.
            if path.exists() and os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock file at the path."""
    try:
        with path.open("rb+") as file:
            return not lock_file(file.fileno())
    except OSError:
        return False
