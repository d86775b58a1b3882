"""Reading a dataset for a command: found, or copied from standard input."""

from __future__ import annotations

import sys
from pathlib import Path

from verdict_cli.cli.streams import complain
from verdict_cli.data import Dataset, Facts, fetched, locate, spool
from verdict_cli.engines.preflight import preflight
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


def checked(
    plan: Plan,
    found: Dataset,
    *,
    limit: int | None = None,
    sample: int | None = None,
    seed: int = 0,
    quiet: bool = False,
) -> Facts:
    """What the dataset holds, once the pipeline is checked against it; its warnings are printed unless ``quiet``.

    Raises DataError and SpecError.
    """
    facts, warnings = preflight(plan, found, limit=limit, sample=sample, seed=seed)
    for warning in () if quiet else warnings:
        complain(f"warning: {warning}")
    return facts
