"""Reading a dataset for a command: found, or copied from standard input."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from verdict_cli.cli.streams import complain
from verdict_cli.data import Dataset, Facts, fetched, locate, spool
from verdict_cli.engines.preflight import preflight
from verdict_cli.engines.ready import dataset
from verdict_cli.errors import DataError
from verdict_cli.places import is_url, path_of
from verdict_cli.plan import Plan
from verdict_cli.spec.shipped import datasets, file_or_named


def opened(plan: Plan, data: str, spool_to: Path, *, skip_bad_rows: bool = False) -> Dataset:
    """The dataset as the plan wants it. What is not in files is copied to some in `spool_to` first: `-`, which is
    standard input, and what a URL names. A bare name such as `xstest_sample` that is no file is the sample of that name."""
    if data == "-":
        files: tuple[Path, ...] = (spool(sys.stdin.buffer, spool_to),)
    else:
        files = fetched(data, spool_to) if is_url(data) else _located(path_of(data))
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


def _located(data: str) -> tuple[Path, ...]:
    """The files of a path or of a sample's name. DataError where there are none, with the name of the sample that is meant."""
    given = Path(data)
    if not given.is_dir() and (named := file_or_named(given, datasets)) != given:
        return (named,)
    try:
        return locate(data)
    except DataError as error:
        if error.problem.code != "file-not-found" or given.stem not in datasets():
            raise
        hint = f"the sample {given.stem} comes with verdict: give its name, {given.stem}, without folder and ending"
        raise DataError(replace(error.problem, hint=hint)) from None
