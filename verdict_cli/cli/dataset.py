"""Reading a dataset for a command: found, or copied from standard input."""

from __future__ import annotations

import sys
from pathlib import Path

from verdict_cli.data import Dataset, fetched, locate, spool
from verdict_cli.engines.ready import dataset
from verdict_cli.places import is_url, path_of
from verdict_cli.plan import Plan


def opened(plan: Plan, data: str, spool_to: Path, *, skip_bad_rows: bool = False) -> Dataset:
    """The dataset as the plan wants it. What is not in files is copied to some in `spool_to` first: `-`, which is
    standard input, and what a URL names."""
    if data == "-":
        files: tuple[Path, ...] = (spool(sys.stdin.buffer, spool_to),)
    else:
        files = fetched(data, spool_to) if is_url(data) else locate(path_of(data))
    return dataset(plan, files, skip_bad_rows=skip_bad_rows)
