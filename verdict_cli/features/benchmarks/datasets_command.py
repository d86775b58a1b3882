"""`verdict datasets`: benchmarks, as described by their data cards."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from verdict_cli.cli import completion
from verdict_cli.cli.console import print_json, print_message, print_report
from verdict_cli.cli.help_format import HelpCommand
from verdict_cli.cli.options import AsJson
from verdict_cli.cli.show_report import to_terminal
from verdict_cli.errors import FetchError, UsageError
from verdict_cli.features.benchmarks.card import Card, CardFile, cards, fetched_file, local_path
from verdict_cli.features.benchmarks.card import card as card_of
from verdict_cli.features.benchmarks.download import (
    card_file_of,
    fetch_file,
    fetch_split,
    fetchable,
    findings,
)
from verdict_cli.features.benchmarks.importers import IMPORTERS, import_benchmark
from verdict_cli.features.benchmarks.recorded import SETS
from verdict_cli.language.document.error_messages import nearest_spelling
from verdict_cli.plural import plural
from verdict_cli.storage.datasets.dataset import Dataset
from verdict_cli.storage.datasets.files import find_files
from verdict_cli.storage.datasets.read import scan, stream_rows
from verdict_cli.storage.paths import write_rows

app = typer.Typer(
    help="List, download, import and check benchmarks.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)

BenchmarkName = Annotated[
    str,
    typer.Argument(
        help="The benchmark, e.g. xstest; see `verdict datasets list`.",
        autocompletion=completion.benchmarks,
    ),
]


@app.callback()
def datasets_commands() -> None:
    """List, download, import and check benchmarks."""


@app.command("list", cls=HelpCommand)
def list_(as_json: AsJson = False) -> None:
    """List the benchmarks with their licences and pipelines, and which data is available locally.

    Example: verdict datasets list --json
    """
    from rich.table import Table
    from rich.text import Text

    if as_json:
        print_json([_as_json(card) for card in cards().values()])
        return
    table = Table(box=None, padding=(0, 1))
    for header in ("name", "benchmark", "licence", "config", "local data"):
        table.add_column(header, overflow="fold")
    for card in cards().values():
        local = "sample" if card.sample else "–"
        local = "fetched" if fetched_file(card) else local
        config = card.config or ("recorded only" if card.name in SETS else "–")
        table.add_row(*map(Text, (card.name, card.title, card.licence, config, local)))
    to_terminal(table)


@app.command("info", cls=HelpCommand)
def dataset_info(name: BenchmarkName, as_json: AsJson = False) -> None:
    """Show a benchmark's card: source, licence, files with their checksums and columns.

    Example: verdict datasets info xstest
    """
    card = card_of(name)
    if as_json:
        print_json(_as_json(card))
        return
    lines = [f"{card.title}: {card.about}"]
    lines += [f"  {key:9} {value}" for key, value in _facts(card)]
    for file in card.files:
        lines += ["", f"{file.name} ({file.holds})"]
        lines += [f"  {key:9} {value}" for key, value in _file_facts(card, file)]
    print_report("\n".join(lines) + "\n")


@app.command("import", cls=HelpCommand)
def import_(
    name: Annotated[
        str,
        typer.Argument(
            help="The benchmark, e.g. xstest, or one of its recorded judges, e.g. wice/gpt-4-0613."
        ),
    ],
    path: Annotated[
        Path,
        typer.Argument(
            help="The benchmark's file; for a recorded judge, the folder of recordings."
        ),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", help="The JSONL to write. [default: NAME.jsonl]")
    ] = None,
) -> None:
    """Convert a benchmark's own file to JSONL. Recorded replies in it are written to a second file, for --replay.

    Example: verdict datasets import xstest xstest_prompts.csv --out xstest.jsonl
    """
    if name.partition("/")[0] not in {*IMPORTERS, *SETS}:
        raise UsageError(
            f"unknown benchmark {name!r}", hint=nearest_spelling(name, {*IMPORTERS, *SETS})
        )
    if not path.exists():
        raise UsageError(f"no such file: {path}", hint="give the path of the benchmark's own file")
    converted = import_benchmark(name, path)
    target = out or Path(f"{name.replace('/', '-')}.jsonl")
    print_message(f"{plural(write_rows(target, converted.rows()), 'row')}: {target}")
    if converted.replies is not None:
        replay = target.with_name(f"{target.name.removesuffix('.jsonl')}.replay.jsonl")
        print_message(f"{write_rows(replay, converted.replies()):,} recorded replies: {replay}")


@app.command("fetch", cls=HelpCommand)
def fetch(
    name: Annotated[
        str,
        typer.Argument(
            help="The benchmark, or hf:OWNER/NAME[:SPLIT] for a dataset of the Hugging Face hub.",
            autocompletion=completion.benchmarks,
        ),
    ],
    file: Annotated[
        str | None,
        typer.Option("--file", help="The file to download. [default: the first with an address]"),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="The folder to write to. [default: the data directory of `verdict bench`]"
        ),
    ] = None,
    sha256: Annotated[
        str | None, typer.Option("--sha256", help="The expected checksum, if the card has none.")
    ] = None,
    max_size: Annotated[
        int, typer.Option("--max-size", min=1, metavar="MIB", help="The largest download.")
    ] = 1024,
) -> None:
    """Download a benchmark's file from its source, and check it against its card.

    Prints the path of the file. Private and gated datasets of the Hugging Face hub need HF_TOKEN; HF_ENDPOINT sets another hub.

    Example: verdict datasets fetch xstest
    """
    if name.startswith("hf:"):
        if file is not None or sha256 is not None:
            raise UsageError(
                "--file and --sha256 do not apply to a dataset of the hub",
                hint="give the split as hf:OWNER/NAME:SPLIT; checksums come from the hub",
            )
        fetched = fetch_split(name[3:], out, max_size << 20)
    else:
        card = card_of(name)
        fetched = fetch_file(
            card, fetchable(card, file), out, (sha256 or "").lower(), max_size << 20
        )
    print_message(fetched.note)
    sys.stdout.write(f"{fetched.path}\n")


@app.command("sample", cls=HelpCommand)
def sample(
    data: Annotated[str, typer.Argument(help="A dataset: a file, a directory or a glob.")],
    count: Annotated[
        int, typer.Option("--rows", "-n", min=1, help="The number of rows to draw.")
    ] = 100,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the draw.")] = 0,
    out: Annotated[
        Path | None, typer.Option("--out", help="The JSONL to write. [default: STEM_sample.jsonl]")
    ] = None,
) -> None:
    """Write a random sample of a dataset, drawn without replacement, in file order.

    Example: verdict datasets sample answers.jsonl --rows 50 --seed 1
    """
    files = find_files(data)
    target = out or Path(f"{files[0].name.partition('.')[0]}_sample.jsonl")
    if any(target.resolve() == file.resolve() for file in files):
        raise UsageError(f"{target} is the dataset", hint="choose another --out")
    dataset = Dataset(files)
    facts = scan(dataset, sample=count, seed=seed)
    sample_size = write_rows(target, (row.source for row in stream_rows(dataset, facts.selection)))
    print_message(f"{sample_size:,} of {plural(facts.total, 'row')}: {target}")


@app.command("check", cls=HelpCommand)
def check(
    name: BenchmarkName,
    path: Annotated[Path, typer.Argument(help="The file to check.")],
    as_json: AsJson = False,
) -> None:
    """Check a file against its card: checksum, columns, rows and labels. Exits with 2 if anything differs.

    Example: verdict datasets check xstest xstest_prompts.csv
    """
    if not path.is_file():
        raise UsageError(f"no such file: {path}", hint="give the path of the benchmark's own file")
    file = card_file_of(card_of(name), path)
    results = findings(file, path)
    if as_json:
        print_json({"file": file.name, "findings": [asdict(result) for result in results]})
    else:
        signs = {"same": "✓", "differs": "✗", "unknown": "?"}
        lines = [f"{path}: {file.name} of {name}"]
        lines += [f"  {signs[result.verdict]} {result.what}: {result.detail}" for result in results]
        print_report("\n".join(lines) + "\n")
    if any(result.verdict == "differs" for result in results):
        raise typer.Exit(FetchError.exit_code)


def _as_json(card: Card) -> dict[str, object]:
    path = fetched_file(card)
    return {**card.model_dump(mode="json"), "fetched": None if path is None else str(path)}


def _facts(card: Card) -> list[tuple[str, str]]:
    facts = [("paper", card.paper), ("source", card.source), ("licence", card.licence)]
    if card.terms:
        facts.append(("terms", card.terms))
    if card.config:
        facts.append(("config", card.config))
    facts += [("setting", setting) for setting in card.settings]
    if card.sample:
        facts.append(
            (
                "sample",
                f"{card.sample}, made for this project; for trials, not for published results",
            )
        )
    if card.name in SETS:
        facts.append(("recorded", f"verdict bench {card.name} --replay RECORDINGS"))
    return facts


def _file_facts(card: Card, file: CardFile) -> list[tuple[str, str]]:
    path = local_path(card, file)
    facts = [
        ("from", file.url or (f"hf:{file.hub}" if file.hub else f"no address; {file.derived}")),
        ("sha256", file.sha256),
        ("bytes", "unknown" if file.bytes is None else f"{file.bytes:,}"),
        ("rows", "unknown" if file.rows is None else f"{file.rows:,}"),
    ]
    if file.columns:
        facts.append(("columns", ", ".join(file.columns)))
    for column, labels in file.labels.items():
        facts.append((column, ", ".join(f"{count:,} {label}" for label, count in labels.items())))
    return [*facts, ("path", str(path))] if path.exists() else facts
