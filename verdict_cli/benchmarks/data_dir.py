"""Where fetched benchmarks stand, and which file a benchmark is judged on."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from verdict_cli.benchmarks.card import Card, CardFile
from verdict_cli.benchmarks.importers import IMPORTERS, imported
from verdict_cli.benchmarks.reproduce import write
from verdict_cli.errors import DataError, UsageError
from verdict_cli.language.package_files import folder
from verdict_cli.llm.middleware.cache_store import cache_directory


def data_directory() -> Path:
    """`VERDICT_DATA_DIR`, else the folder `datasets` beside the cache of replies."""
    chosen = os.environ.get("VERDICT_DATA_DIR")
    return Path(chosen) if chosen else cache_directory() / "datasets"


def place_of(card: Card, file: CardFile) -> Path:
    """Where the file stands once it is fetched."""
    return data_directory() / card.name / file.name


def fetched_splits(card: Card) -> Path | None:
    """The first file of the card with rows for a judge that has been fetched; None where none has."""
    places = (place_of(card, file) for file in card.files if file.holds == "data")
    return next((place for place in places if place.exists()), None)


@dataclass(frozen=True, slots=True)
class BenchmarkData:
    """The data of a benchmark as its pipeline reads them; `sample` tells that they are the small one of this project."""

    path: Path
    sample: bool


def find_benchmark(card: Card, given: Path | None) -> BenchmarkData:
    """The data to judge: what is given, else what was fetched, else the sample that comes with the program.

    A benchmark's own file is converted first, into a file of `home()`. UsageError where there is nothing.
    """
    own = given or fetched_splits(card)
    if own is not None:
        if not own.exists():
            raise UsageError(f"there is no file {own}", hint=f"{card.source} has the benchmark's own")
        return BenchmarkData(_converted(card, own), sample=False)
    if card.sample is not None:
        return BenchmarkData(folder("datasets") / card.sample, sample=True)
    raise UsageError(f"there are no data of {card.name}", hint=f"give --data PATH; they come from {card.source}")


def _converted(card: Card, own: Path) -> Path:
    """The file with the pipeline's columns: itself, where it is no file of the benchmark's own."""
    if card.name not in IMPORTERS:
        return own
    target = data_directory() / card.name / f"{own.name.partition('.')[0]}.imported.jsonl"
    try:
        write(target, imported(card.name, own).rows())
    except DataError as error:
        if error.problem.code != "bad-header":
            raise
        return own
    return target
