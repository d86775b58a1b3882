"""What a run needs of its process and machine: standard descriptors, open files, disk. Checked before a call is paid."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from verdict_cli.errors import OutputError, UsageError

FILES_BESIDE_CALLS = 48
"""Files that a run opens beside the connections of its calls: some 25 while rows run, more while modules are imported."""
LEAST_SPACE = 8 * 2**20
"""Bytes that the smallest run with a report needs."""


def open_standard_descriptors() -> None:
    """Open the null device on descriptors 0, 1 and 2 that are closed, as `nohup verdict run … <&-` leaves them.

    Otherwise the next file or socket gets the number: text for the terminal would go into a journal, and the event loop of
    uvloop aborts the process when it closes such a descriptor.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(
                os.devnull, os.O_RDWR
            )  # the lowest free number, as all below it are open
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
        if getattr(sys, name) is None:
            setattr(
                sys,
                name,
                os.fdopen(number, "r" if number == 0 else "w", encoding="utf-8", closefd=False),
            )


def calls_at_once(count: int) -> int:
    """How many calls may be in flight: as many as asked for, or as the limit of open files allows once it is raised as far as
    the system lets a process do. UsageError where not even a call would have a file."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return count
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = count + FILES_BESIDE_CALLS
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return count
    if hard == resource.RLIM_INFINITY or hard > soft:
        most = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        except (OSError, ValueError):  # macOS states no hard limit and has one
            most = soft
        soft = most
    if soft <= FILES_BESIDE_CALLS:
        raise UsageError(
            f"this process may open {soft} files, and a run needs {FILES_BESIDE_CALLS + 1} and one for each call at once",
            hint="raise the limit, such as by `ulimit -n 1024`",
        )
    return min(count, soft - FILES_BESIDE_CALLS)


def check_space(folder: Path) -> None:
    """OutputError where the folder's disk has no room for a run."""
    try:
        free = shutil.disk_usage(folder).free
    except OSError:
        return  # the first write says it
    if free < LEAST_SPACE:
        raise OutputError(
            f"the disk of {folder} has {free / 2**20:.1f} MB left, and a run needs {LEAST_SPACE >> 20} at least",
            hint="free some space, or choose another --out",
        )
