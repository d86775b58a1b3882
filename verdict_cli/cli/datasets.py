"""`verdict datasets`: benchmarks by name, from their data cards."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from verdict_cli.cli.console import document, print_message, print_report
from verdict_cli.cli.options import AsJson
from verdict_cli.errors import FetchError, UsageError

if TYPE_CHECKING:
    from verdict_cli.benchmarks.card import Card, CardFile

app = typer.Typer(
    help="Benchmarks by name: their cards, files and samples.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)

BenchmarkName = Annotated[str, typer.Argument(help="The benchmark, e.g. xstest; `verdict datasets list` names them.")]


@app.callback()
def datasets_commands() -> None:
    """Benchmarks by name: their cards, files and samples."""


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List the benchmarks: what each asks, its licence, the pipeline that goes with it, and what is here of it.

    Example: verdict datasets list --json
    """
    from rich.table import Table
    from rich.text import Text

    from verdict_cli.benchmarks.card import cards
    from verdict_cli.benchmarks.data_dir import fetched_file
    from verdict_cli.benchmarks.recorded import SETS
    from verdict_cli.cli.write_report import to_terminal

    if as_json:
        document([_as_json(card) for card in cards().values()])
        return
    table = Table(box=None, padding=(0, 1))
    for header in ("name", "benchmark", "licence", "config", "here"):
        table.add_column(header, overflow="fold")
    for card in cards().values():
        here = "fetched" if fetched_file(card) else "sample" if card.sample else "–"
        config = card.config or ("recorded only" if card.name in SETS else "–")
        table.add_row(*map(Text, (card.name, card.title, card.licence, config, here)))
    to_terminal(table)


@app.command("info")
def dataset_info(name: BenchmarkName, as_json: AsJson = False) -> None:
    """Show a benchmark's card: source, licence, files with their checksums and columns.

    Example: verdict datasets info xstest
    """
    from verdict_cli.benchmarks.card import card as card_of

    card = card_of(name)
    if as_json:
        document(_as_json(card))
        return
    lines = [f"{card.title}: {card.about}"]
    lines += [f"  {key:9} {value}" for key, value in _facts(card)]
    for file in card.files:
        lines += ["", f"{file.name} ({file.holds})"]
        lines += [f"  {key:9} {value}" for key, value in _file_facts(card, file)]
    print_report("\n".join(lines) + "\n")


@app.command("import")
def import_(
    name: Annotated[
        str, typer.Argument(help="The benchmark, e.g. xstest, or one of its recorded judges, e.g. wice/gpt-4-0613.")
    ],
    path: Annotated[Path, typer.Argument(help="The benchmark's file; of a recorded judge, the folder of recordings.")],
    out: Annotated[Path | None, typer.Option("--out", help="The JSONL to write. [default: NAME.jsonl]")] = None,
) -> None:
    """Convert a benchmark's own file to JSONL; recorded replies in it go to a file for --replay beside it.

    Example: verdict datasets import xstest xstest_prompts.csv --out xstest.jsonl
    """
    from verdict_cli.benchmarks.importers import IMPORTERS, import_benchmark
    from verdict_cli.benchmarks.recorded import SETS
    from verdict_cli.benchmarks.reproduce import write
    from verdict_cli.language.document.error_messages import nearest_spelling

    if name.partition("/")[0] not in {*IMPORTERS, *SETS}:
        raise UsageError(f"unknown benchmark {name!r}", hint=nearest_spelling(name, {*IMPORTERS, *SETS}))
    if not path.exists():
        raise UsageError(f"there is no file {path}", hint="give the path of the benchmark's own file")
    made = import_benchmark(name, path)
    target = out or Path(f"{name.replace('/', '-')}.jsonl")
    print_message(f"{write(target, made.rows()):,} rows: {target}")
    if made.replies is not None:
        replay = target.with_name(f"{target.name.removesuffix('.jsonl')}.replay.jsonl")
        print_message(f"{write(replay, made.replies()):,} recorded replies: {replay}")


@app.command("fetch")
def fetch(
    name: Annotated[
        str, typer.Argument(help="The benchmark, or hf:OWNER/NAME[:SPLIT] for a dataset of the Hugging Face hub.")
    ],
    file: Annotated[
        str | None, typer.Option("--file", help="Which of its files. [default: the first that can be fetched]")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="The folder to write to. [default: where bench finds it]")
    ] = None,
    sha256: Annotated[
        str | None, typer.Option("--sha256", help="The checksum that it must have, where the card knows none.")
    ] = None,
    max_size: Annotated[int, typer.Option("--max-size", min=1, metavar="MIB", help="The most that is fetched.")] = 1024,
) -> None:
    """Download a benchmark's file from its source, resumed where it broke off, and checked against its card.

    Prints the path of the file. Private and gated datasets of the hub need HF_TOKEN; HF_ENDPOINT names another hub.

    Example: verdict datasets fetch xstest
    """
    from verdict_cli.benchmarks.card import card as card_of
    from verdict_cli.benchmarks.fetch import Fetched, fetch_file, fetch_split, fetchable

    if name.startswith("hf:"):
        if file is not None or sha256 is not None:
            raise UsageError(
                "a dataset of the hub takes neither --file nor --sha256",
                hint="name the split: hf:OWNER/NAME:SPLIT; the hub states the checksums",
            )
        fetched: Fetched = fetch_split(name[3:], out, max_size << 20)
    else:
        card = card_of(name)
        fetched = fetch_file(card, fetchable(card, file), out, (sha256 or "").lower(), max_size << 20)
    for note in fetched.notes:
        print_message(note)
    sys.stdout.write(f"{fetched.path}\n")


@app.command("sample")
def sample(
    data: Annotated[str, typer.Argument(help="A dataset: a file, a directory or a glob.")],
    count: Annotated[int, typer.Option("--rows", "-n", min=1, help="How many rows to draw.")] = 100,
    seed: Annotated[int, typer.Option("--seed", help="The same seed draws the same rows.")] = 0,
    out: Annotated[Path | None, typer.Option("--out", help="The JSONL to write. [default: STEM_sample.jsonl]")] = None,
) -> None:
    """Write rows drawn from a dataset, without replacement and in their own order.

    Example: verdict datasets sample answers.jsonl --rows 50 --seed 1
    """
    from verdict_cli.benchmarks.reproduce import write
    from verdict_cli.storage.datasets.dataset import Dataset
    from verdict_cli.storage.datasets.files import find_files
    from verdict_cli.storage.datasets.read import scan, stream_rows

    files = find_files(data)
    target = out or Path(f"{files[0].name.partition('.')[0]}_sample.jsonl")
    if any(target.resolve() == file.resolve() for file in files):
        raise UsageError(f"{target} is the dataset itself", hint="choose another --out")
    dataset = Dataset(files)
    found = scan(dataset, sample=count, seed=seed)
    written = write(target, (row.source for row in stream_rows(dataset, found.selection)))
    print_message(f"{written:,} of {found.total:,} rows: {target}")


@app.command("check")
def check(
    name: BenchmarkName, path: Annotated[Path, typer.Argument(help="The file.")], as_json: AsJson = False
) -> None:
    """Hold a file against its card: checksum, columns, rows and labels. Exits with 2 when something differs.

    Example: verdict datasets check xstest xstest_prompts.csv
    """
    from verdict_cli.benchmarks.card import card as card_of
    from verdict_cli.benchmarks.verify import card_file_of, findings

    if not path.is_file():
        raise UsageError(f"there is no file {path}", hint="give the path of the benchmark's own file")
    file = card_file_of(card_of(name), path)
    found = findings(file, path)
    if as_json:
        document(
            {
                "file": file.name,
                "findings": [{"what": one.what, "verdict": one.verdict, "detail": one.detail} for one in found],
            }
        )
    else:
        signs = {"same": "✓", "differs": "✗", "unknown": "?"}
        lines = [f"{path}: {file.name} of {name}"]
        lines += [f"  {signs[one.verdict]} {one.what}: {one.detail}" for one in found]
        print_report("\n".join(lines) + "\n")
    if any(one.verdict == "differs" for one in found):
        raise typer.Exit(FetchError.exit_code)


def _as_json(card: Card) -> dict[str, object]:
    from verdict_cli.benchmarks.data_dir import fetched_file

    here = fetched_file(card)
    return {**card.model_dump(mode="json"), "fetched": None if here is None else str(here)}


def _facts(card: Card) -> list[tuple[str, str]]:
    from verdict_cli.benchmarks.recorded import SETS

    found = [("paper", card.paper), ("source", card.source), ("licence", card.licence)]
    if card.terms:
        found.append(("terms", card.terms))
    if card.config:
        found.append(("config", card.config))
    found += [("setting", each) for each in card.settings]
    if card.sample:
        found.append(("sample", f"{card.sample}, made for this project: for trying out, not for figures"))
    if card.name in SETS:
        found.append(("recorded", f"verdict bench {card.name} --replay RECORDINGS"))
    return found


def _file_facts(card: Card, file: CardFile) -> list[tuple[str, str]]:
    from verdict_cli.benchmarks.data_dir import local_path

    place = local_path(card, file)
    found = [
        ("from", file.url or (f"hf:{file.hub}" if file.hub else f"no address; {file.derived}")),
        ("sha256", file.sha256),
        ("bytes", "unknown" if file.bytes is None else f"{file.bytes:,}"),
        ("rows", "unknown" if file.rows is None else f"{file.rows:,}"),
    ]
    if file.columns:
        found.append(("columns", ", ".join(file.columns)))
    for column, labels in file.labels.items():
        found.append((column, ", ".join(f"{count:,} {label}" for label, count in labels.items())))
    return [*found, ("here", str(place))] if place.exists() else found
