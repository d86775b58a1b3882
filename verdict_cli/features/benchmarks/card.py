"""Data cards: what a benchmark's files are, where they come from, and under which terms."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Struct
from pydantic import Field, ValidationError

from verdict_cli.cli.console import print_message
from verdict_cli.cli.estimate import NamedRun
from verdict_cli.config_model import ConfigModel, Seq, Whole
from verdict_cli.errors import DataError, SpecError, UsageError
from verdict_cli.features.benchmarks.importers import IMPORTERS, import_benchmark
from verdict_cli.language.document.document import read_document
from verdict_cli.language.document.error_messages import explain_error, nearest_spelling
from verdict_cli.language.package_files import folder, named_config
from verdict_cli.llm.middleware.cache_store import cache_directory
from verdict_cli.plural import plural
from verdict_cli.storage.paths import write_rows


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


class BenchmarkData(Struct, frozen=True):
    """The data of a benchmark in the form that its pipeline reads; `sample`: they are the small sample of this project."""

    path: Path
    sample: bool


def find_benchmark(card: Card, path: Path | None) -> BenchmarkData:
    """The data to judge: the given file, else the fetched one, else the sample that comes with the program.

    A benchmark's own file is first converted to a file in `data_directory`. Raises UsageError if there are no data.
    """
    file = path or fetched_file(card)
    if file is not None:
        if not file.exists():
            raise UsageError(
                f"the file {file} does not exist", hint=f"{card.source} has the benchmark's own"
            )
        return BenchmarkData(_converted(card, file), sample=False)
    if card.sample is not None:
        return BenchmarkData(folder("datasets") / card.sample, sample=True)
    raise UsageError(
        f"no data of {card.name} were found", hint=f"give --data PATH; they come from {card.source}"
    )


def benchmark_run(name: str) -> NamedRun | None:
    """The pipeline and the data of a benchmark; None where no card has that name."""
    if name not in cards():
        return None
    benchmark = card(name)
    if benchmark.config is None:
        raise UsageError(
            f"{name} has no pipeline to judge it with", hint=f"verdict estimate CONFIG {name}"
        )
    located = find_benchmark(benchmark, None)
    rows = benchmark.files[0].rows if located.sample else None
    if located.sample:
        scaled = (
            "the number of its rows is not known"
            if rows is None
            else f"scaled to its {plural(rows, 'row')}"
        )
        print_message(
            f"{benchmark.title} is not fetched: estimated from this project's sample, {scaled}"
        )
    return NamedRun(named_config(benchmark.config), str(located.path), benchmark.settings, rows)


def _converted(card: Card, original: Path) -> Path:
    """The file with the pipeline's columns: itself, unless it is in the benchmark's own form."""
    if card.name not in IMPORTERS:
        return original
    target = data_directory() / card.name / f"{original.name.partition('.')[0]}.imported.jsonl"
    try:
        write_rows(target, import_benchmark(card.name, original).rows())
    except DataError as error:
        if error.problem.code != "bad-header":
            raise
        return original
    return target


ENDING = ".card.yaml"
UNKNOWN = "unknown"

Text = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=0), Whole]


class CardFile(ConfigModel):
    """One file of a benchmark."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.,=+-]*$")]
    """The file's name on disk; its ending tells the format."""
    holds: Literal["data", "replies", "results"] = "data"
    """What is in it: rows for a judge, recorded replies of judges, or published results."""
    url: Annotated[str, Field(pattern=r"^https?://\S+$")] | None = None
    """Where its authors publish it."""
    hub: Annotated[str, Field(pattern=r"^[\w.-]+/[\w.-]+(:[\w./-]+)?$")] | None = None
    """The dataset on the Hugging Face hub that it is, OWNER/NAME:SPLIT."""
    derived: Text | None = None
    """How a copy that has no address was made from what the authors publish."""
    sha256: Annotated[str, Field(pattern=r"^([0-9a-f]{64}|unknown)$")]
    """The SHA-256 of its bytes; `unknown` if no one who has the file has stated it."""
    bytes: Count | None = None
    """Its size; omitted if unknown."""
    rows: Count | None = None
    """How many rows it has; omitted if unknown."""
    columns: Seq[Text] = ()
    """The columns that it has at least."""
    labels: dict[str, dict[str, Count]] = Field(default_factory=dict)
    """For a column of labels, the count of each value."""


class Card(ConfigModel):
    """A benchmark: its source, licence and files, and the pipeline that goes with it."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")]
    """The name by which commands know it: the card's file name without its ending."""
    title: Text
    """Its name as its authors write it."""
    about: Text
    """What it requires of a judge, in one sentence."""
    paper: Text
    """The paper to cite."""
    source: Annotated[str, Field(pattern=r"^https://\S+$")]
    """The page of its authors."""
    licence: Text
    """The licence of its data, or `unknown`."""
    terms: Text | None = None
    """What else must be known before it is used or passed on."""
    config: Text | None = None
    """The pipeline of `configs/` that judges it; none where there is nothing left to judge."""
    settings: Seq[Text] = ()
    """Changes to that pipeline, as `--set` takes them."""
    sample: Text | None = None
    """A small file of `datasets/` with the same columns, made for this project: for trying out, not for results."""
    files: Annotated[Seq[CardFile], Field(min_length=1)]
    """Its files, the one that is judged by default first."""

    def file(self, name: str) -> CardFile:
        """The file of that name. Raises UsageError if the card has none."""
        match = next((file for file in self.files if file.name == name), None)
        if match is None:
            hint = nearest_spelling(name, [file.name for file in self.files])
            raise UsageError(f"{self.name} has no file {name!r}", hint=hint)
        return match


@cache
def cards() -> dict[str, Card]:
    """Every card by its name. SpecError for one that cannot be read."""
    read = map(read_card, sorted(folder("datasets").glob(f"*{ENDING}")))
    return {card.name: card for card in read}


def card(name: str) -> Card:
    """The card of that name. Raises UsageError if there is none."""
    match = cards().get(name)
    if match is None:
        raise UsageError(f"unknown benchmark {name!r}", hint=nearest_spelling(name, cards()))
    return match


def read_card(path: Path) -> Card:
    """The card in a file. SpecError with every problem of its keys."""
    document = read_document(path)
    try:
        return Card.model_validate(document.data)
    except ValidationError as error:
        raise SpecError([*explain_error(error, Card, document).values()]) from None
