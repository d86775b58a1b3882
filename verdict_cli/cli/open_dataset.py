"""Open the dataset of a command, and check it against the pipeline."""

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
    """Open the dataset with the options of the plan. Raises DataError.

    Standard input (`-`) and the file of a URL are first copied to the folder `spool_to`. A name such as `xstest_sample` is
    the sample shipped with verdict, unless there is such a file.
    """
    if data == "-":
        files: tuple[Path, ...] = (copy_stdin(sys.stdin.buffer, spool_to),)
    else:
        files = local_copy_of_url(data, spool_to) if is_remote_url(data) else _find_files(path_of(data))
    return check_dataset(plan, files, skip_bad_rows=skip_bad_rows)


def checked(
    plan: Plan,
    dataset: Dataset,
    *,
    limit: int | None = None,
    sample: int | None = None,
    seed: int = 0,
    quiet: bool = False,
) -> DatasetFacts:
    """Check the dataset against the pipeline and return its facts. Warnings are printed unless ``quiet``.

    Raises DataError and SpecError.
    """
    facts, warnings = preflight(plan, dataset, limit=limit, sample=sample, seed=seed)
    for warning in () if quiet else warnings:
        print_error(f"warning: {warning}")
    return facts


def _find_files(data: str) -> tuple[Path, ...]:
    """The files of a path, or of a sample's name. DataError if there are none, with a hint if a sample is meant."""
    path = Path(data)
    if not path.is_dir() and (named := file_or_named(path, datasets)) != path:
        return (named,)
    try:
        return find_files(data)
    except DataError as error:
        if error.problem.code != "file-not-found" or path.stem not in datasets():
            raise
        hint = f"the sample {path.stem} is shipped with verdict: give its name, {path.stem}, without folder and suffix"
        raise DataError(replace(error.problem, hint=hint)) from None
