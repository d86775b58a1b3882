"""Reading a dataset for a command: found, or copied from standard input."""

from __future__ import annotations

import sys
from pathlib import Path

from verdict_cli.data import Dataset, locate, spool
from verdict_cli.engines.ready import dataset
from verdict_cli.plan import Plan


def opened(plan: Plan, data: str, spool_to: Path, *, skip_bad_rows: bool = False) -> Dataset:
    """The dataset as the plan wants it. `-` is standard input, copied to a file in `spool_to` first."""
    files = (spool(sys.stdin.buffer, spool_to),) if data == "-" else locate(data)
    return dataset(plan, files, skip_bad_rows=skip_bad_rows)
