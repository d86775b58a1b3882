"""Parts of a benchmark that need the recorded sets: without them, the missing file is named, and the rest continues."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from verdict_cli.errors import DataError


@contextmanager
def left_out_without_recordings() -> Iterator[None]:
    """Leave out the block where a file of the recordings is missing, and say which."""
    try:
        yield
    except DataError as error:
        if error.problem.code != "file-not-found":
            raise
        sys.stderr.write(f"left out: {error}\n")
