"""The folder of fetched benchmarks, and the pipeline and the file that a benchmark is judged with."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from verdict_cli.cli.console import print_message
from verdict_cli.cli.estimate import NamedRun
from verdict_cli.errors import DataError, UsageError
from verdict_cli.features.benchmarks.card import Card, CardFile, card, cards
from verdict_cli.features.benchmarks.importers import IMPORTERS, import_benchmark
from verdict_cli.language.package_files import folder, named_config
from verdict_cli.llm.middleware.cache_store import cache_directory
from verdict_cli.report.study_files import write_rows


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


def benchmark_run(name: str) -> NamedRun | None:
    """The pipeline and the data of a benchmark; None where no card has that name."""
    if name not in cards():
        return None
    known = card(name)
    if known.config is None:
        raise UsageError(f"{name} has no pipeline to judge it with", hint=f"verdict estimate CONFIG {name}")
    located = find_benchmark(known, None)
    rows = known.files[0].rows if located.sample else None
    if located.sample:
        scaled = "the number of its rows is not known" if rows is None else f"scaled to its {rows:,} rows"
        print_message(f"{known.title} is not fetched: estimated from this project's sample, {scaled}")
    return NamedRun(named_config(known.config), str(located.path), known.settings, rows)


def _converted(card: Card, own: Path) -> Path:
    """The file with the pipeline's columns: itself, unless it is in the benchmark's own form."""
    if card.name not in IMPORTERS:
        return own
    target = data_directory() / card.name / f"{own.name.partition('.')[0]}.imported.jsonl"
    try:
        write_rows(target, import_benchmark(card.name, own).rows())
    except DataError as error:
        if error.problem.code != "bad-header":
            raise
        return own
    return target
