"""The folder of fetched benchmarks, and the file that a benchmark is judged on."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from verdict_cli.benchmarks.card import Card, CardFile
from verdict_cli.benchmarks.importers import IMPORTERS, import_benchmark
from verdict_cli.benchmarks.reproduce import write
from verdict_cli.errors import DataError, UsageError
from verdict_cli.language.package_files import folder
from verdict_cli.llm.middleware.cache_store import cache_directory


def data_directory() -> Path:
    """`VERDICT_DATA_DIR`, else the folder `datasets` beside the cache of replies."""
    chosen = os.environ.get("VERDICT_DATA_DIR")
    return Path(chosen) if chosen else cache_directory() / "datasets"


def local_path(card: Card, file: CardFile) -> Path:
    """The path of the file once it is fetched."""
    return data_directory() / card.name / file.name


def fetched_file(card: Card) -> Path | None:
    """The first fetched file of the card with rows for a judge; None if none has been fetched."""
    paths = (local_path(card, file) for file in card.files if file.holds == "data")
    return next((path for path in paths if path.exists()), None)


@dataclass(frozen=True, slots=True)
class BenchmarkData:
    """The data of a benchmark in the form that its pipeline reads; `sample`: they are the small sample of this project."""

    path: Path
    sample: bool


def find_benchmark(card: Card, path: Path | None) -> BenchmarkData:
    """The data to judge: the given file, else the fetched one, else the sample that comes with the program.

    A benchmark's own file is first converted to a file in `data_directory`. Raises UsageError if there are no data.
    """
    own = path or fetched_file(card)
    if own is not None:
        if not own.exists():
            raise UsageError(f"the file {own} does not exist", hint=f"{card.source} has the benchmark's own")
        return BenchmarkData(_converted(card, own), sample=False)
    if card.sample is not None:
        return BenchmarkData(folder("datasets") / card.sample, sample=True)
    raise UsageError(f"no data of {card.name} were found", hint=f"give --data PATH; they come from {card.source}")


def _converted(card: Card, own: Path) -> Path:
    """The file with the pipeline's columns: itself, unless it is in the benchmark's own form."""
    if card.name not in IMPORTERS:
        return own
    target = data_directory() / card.name / f"{own.name.partition('.')[0]}.imported.jsonl"
    try:
        write(target, import_benchmark(card.name, own).rows())
    except DataError as error:
        if error.problem.code != "bad-header":
            raise
        return own
    return target
