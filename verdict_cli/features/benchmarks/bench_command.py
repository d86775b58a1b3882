"""`verdict bench NAME`: judge a benchmark."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from verdict_cli.cli import completion
from verdict_cli.cli.console import print_json
from verdict_cli.cli.model_options import RowOptions
from verdict_cli.cli.options import AsJson, Yes
from verdict_cli.cli.run import RunCommand, judged_dataset
from verdict_cli.cli.show_report import exit_code, show_report
from verdict_cli.errors import UsageError
from verdict_cli.features.benchmarks.card import Card, find_benchmark
from verdict_cli.features.benchmarks.card import card as card_of
from verdict_cli.language.package_files import named_config

if TYPE_CHECKING:
    from verdict_cli.report.report import Report


def bench(
    name: Annotated[
        str,
        typer.Argument(
            help="The benchmark.",
            autocompletion=completion.benchmarks,
        ),
    ],
    data: Annotated[
        Path | None,
        typer.Option("--data", help="The benchmark's own file. [default: the fetched file]"),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="The run's directory."),
    ] = None,
    *,
    options: RowOptions,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown.")] = False,
    as_json: AsJson = False,
    yes: Yes = False,
) -> None:
    """Judge a benchmark with its pipeline, and show the metrics next to the published results.

    Example: verdict bench xstest --model baseline/lexical
    """
    if markdown and as_json:
        raise UsageError("--markdown and --json cannot be combined", hint="give one of them")
    card = card_of(name)
    if card.config is None:
        raise UsageError(
            f"{name} has no pipeline to judge it with",
            hint="its recorded judges: `python benchmarks/recorded_judges.py` of the repository",
        )
    located = find_benchmark(card, data)
    report = judged_dataset(
        named_config(card.config),
        str(located.path),
        replace(options, settings=[*card.settings, *(options.settings or ())]),
        RunCommand(yes=yes),
        out=out,
    )
    _show_report(report, card, sample=located.sample, markdown=markdown, as_json=as_json)
    raise typer.Exit(exit_code(report))


def _show_report(
    report: Report, card: Card, *, sample: bool, markdown: bool, as_json: bool
) -> None:
    from verdict_cli.report.renderers.markdown import render_markdown
    from verdict_cli.report.report import full_json, summary_json
    from verdict_cli.report.run_document import run_document

    if as_json:
        print_json(
            {
                **summary_json(report),
                "benchmark": card.name,
                "dataset": report.facts.dataset,
                "sample": sample,
                "wall_s": report.facts.wall_s,
                "published": full_json(report)["published"],
            }
        )
        return
    if sample:
        sys.stdout.write(
            f"! this is not the data of {card.title}, but this project's small sample ({card.sample}). Its metrics say\n"
            f"  nothing about {card.title}. For the data, `verdict datasets fetch {card.name}`, or give --data PATH.\n\n"
        )
    if markdown:
        sys.stdout.write(render_markdown(run_document(report)))
    else:
        show_report(report, as_json=False)
