"""One writer a file."""

from __future__ import annotations

import errno
import os
import sys

_TAKEN = {errno.EACCES, errno.EAGAIN, errno.EWOULDBLOCK, errno.EDEADLK}


def lock(descriptor: int) -> bool:
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
