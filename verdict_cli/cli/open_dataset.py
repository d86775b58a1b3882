"""cli.dataset"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from verdict_cli.cli.console import print_error
from verdict_cli.errors import DataError
from verdict_cli.language.package_files import datasets, file_or_named
from verdict_cli.plan.node import Plan
from verdict_cli.run.data_preflight.preflight_data import preflight
from verdict_cli.run.preflight import check_dataset
from verdict_cli.storage.datasets.dataset import Dataset, DatasetFacts
from verdict_cli.storage.datasets.files import find_files
from verdict_cli.storage.datasets.local_copy import copy_stdin, local_copy_of_url
from verdict_cli.storage.object_store.folder import is_remote_url, path_of


def open_dataset(plan: Plan, data: str, spool_to: Path, *, skip_bad_rows: bool = False) -> Dataset:
    """The dataset as the plan wants it. What is not in files is copied to some in `spool_to` first: `-`, which is
    standard input, and what a URL names. A bare name such as `xstest_sample` that is no file is the sample of that name."""
    if data == "-":
        files: tuple[Path, ...] = (copy_stdin(sys.stdin.buffer, spool_to),)
    else:
        files = local_copy_of_url(data, spool_to) if is_remote_url(data) else _located(path_of(data))
    return check_dataset(plan, files, skip_bad_rows=skip_bad_rows)


def checked(
    plan: Plan,
    found: Dataset,
    *,
    limit: int | None = None,
    sample: int | None = None,
    seed: int = 0,
    quiet: bool = False,
) -> DatasetFacts:
    """What the dataset holds, once the pipeline is checked against it; its warnings are printed unless ``quiet``.

    Raises DataError and SpecError.
    """
    facts, warnings = preflight(plan, found, limit=limit, sample=sample, seed=seed)
    for warning in () if quiet else warnings:
        print_error(f"warning: {warning}")
    return facts


def _located(data: str) -> tuple[Path, ...]:
    """The files of a path or of a sample's name. DataError where there are none, with the name of the sample that is meant."""
    given = Path(data)
    if not given.is_dir() and (named := file_or_named(given, datasets)) != given:
        return (named,)
    try:
        return find_files(data)
    except DataError as error:
        if error.problem.code != "file-not-found" or given.stem not in datasets():
            raise
        hint = f"the sample {given.stem} comes with verdict: give its name, {given.stem}, without folder and ending"
        raise DataError(replace(error.problem, hint=hint)) from None
