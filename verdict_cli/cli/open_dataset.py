"""Open and check the dataset of a command."""

from __future__ import annotations

import glob
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import replace

from verdict_cli.cli.console import print_error, print_message
from verdict_cli.cli.progress import show_reading
from verdict_cli.errors import DataError
from verdict_cli.language.package_files import datasets, file_or_named
from verdict_cli.plan.node import Plan
from verdict_cli.registry import feature_part
from verdict_cli.run.preflight import dataset_for, preflight
from verdict_cli.storage.datasets.dataset import Dataset, DatasetFacts
from verdict_cli.storage.datasets.files import find_files
from verdict_cli.storage.datasets.local_copy import copy_stdin, local_copy_of_url
from verdict_cli.storage.paths import is_remote_url, path_of


def open_dataset(plan: Plan, data: str, spool_to: Path, *, skip_bad_rows: bool = False) -> Dataset:
    """The dataset of the plan. Standard input (`-`), a pipe's JSON lines and the content of a URL are copied to files in `spool_to` first.

    A bare name such as `xstest_sample` that is not a file is the sample of that name, `hf:OWNER/NAME[:SPLIT]` a split of the
    Hugging Face hub.
    """
    origins: dict[Path, str] = {}
    if data == "-":
        files: tuple[Path, ...] = (copy_stdin(sys.stdin.buffer, spool_to),)
        origins[files[0]] = "standard input"
    elif Path(data).is_fifo():
        with Path(data).open("rb") as pipe:
            files = (copy_stdin(pipe, spool_to),)
        origins[files[0]] = data
    elif is_remote_url(data):
        files = local_copy_of_url(data, spool_to)
        folder = data.rstrip("/")
        if len(files) > 1 or glob.has_magic(data):
            folder = folder.rpartition("/")[0] if glob.has_magic(data) else folder
            origins = {file: f"{folder}/{file.name}" for file in files}
        else:
            origins[files[0]] = data
    else:
        files = dataset_files(data)
    return dataset_for(plan, files, skip_bad_rows=skip_bad_rows, origins=origins)


@contextmanager
def opened_dataset(plan: Plan, data: str, *, skip_bad_rows: bool = False) -> Iterator[Dataset]:
    """As `open_dataset`, with a directory for copies that is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="verdict-") as spool_to:
        yield open_dataset(plan, data, Path(spool_to), skip_bad_rows=skip_bad_rows)


def check_data(
    plan: Plan,
    dataset: Dataset,
    *,
    limit: int | None = None,
    sample: int | None = None,
    seed: int = 0,
    traced: bool = False,
    quiet: bool = False,
    warn: Callable[[str], None] = print_error,
) -> DatasetFacts:
    """The selected rows, once the pipeline is checked against them; notes and warnings are printed. With `quiet`, the progress
    is not. Raises DataError, SpecError."""
    with show_reading(quiet=quiet):
        facts = preflight(plan, dataset, limit=limit, sample=sample, seed=seed, traced=traced)
    for note in facts.notes:
        warn(f"note: {note}")
    for warning in facts.warnings:
        warn(f"warning: {warning}")
    return facts


def dataset_files(data: str) -> tuple[Path, ...]:
    """The files of a path, a sample or a split of the hub. DataError where there are none, which hints at a sample of a
    similar path; UsageError and FetchError for a split that the hub does not give."""
    if data.startswith("hf:"):
        fetch = feature_part("benchmarks", "download.hub_dataset")
        if fetch is not None:
            return find_files(str(fetch(data, print_message)))
    data = path_of(data)
    path = Path(data)
    if not path.is_dir() and (file := file_or_named(path, datasets)) != path:
        return (file,)
    try:
        return find_files(data)
    except DataError as error:
        if error.problem.code != "file-not-found" or path.stem not in datasets():
            raise
        hint = f"the sample {path.stem} is shipped with verdict: give its name, {path.stem}, without folder and suffix"
        raise DataError(replace(error.problem, hint=hint)) from None
