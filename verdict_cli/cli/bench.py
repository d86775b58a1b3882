"""`verdict bench NAME`."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from verdict_cli.cli.console import document, print_message
from verdict_cli.cli.model_options import RowOptions
from verdict_cli.cli.options import AllowHost, AsJson, Budget, Concurrency, Fresh, Limit, ModelOption, Quiet, SetOption
from verdict_cli.errors import UsageError

if TYPE_CHECKING:
    from verdict_cli.benchmarks.card import Card
    from verdict_cli.benchmarks.reproduce import Reproduced
    from verdict_cli.report.report import Report


def bench(
    name: Annotated[
        str, typer.Argument(help="The benchmark; with --replay RECORDINGS also a recorded judge of it, or all.")
    ],
    model: ModelOption = None,
    limit: Limit = None,
    data: Annotated[
        Path | None, typer.Option("--data", help="The benchmark's own file. [default: what was fetched]")
    ] = None,
    replay: Annotated[
        Path | None,
        typer.Option(
            "--replay", help="A recording of the run's calls, or the folder of the recorded sets, one folder each."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="The run's directory; with RECORDINGS, one for each case.")
    ] = None,
    settings: SetOption = None,
    concurrency: Concurrency = 64,
    budget: Budget = None,
    allow_host: AllowHost = None,
    fresh: Fresh = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown.")] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Judge a benchmark with the pipeline that goes with it, and show the figures among the published ones.

    With the folder of the recorded sets as --replay, the published figures are made anew from the recorded replies.

    Example: verdict bench xstest --model baseline/lexical
    """
    if markdown and as_json:
        raise UsageError("--markdown and --json print different things", hint="give one of them")
    if replay is not None and not replay.exists():
        raise UsageError(
            f"there is no recording {replay}", hint="give a run, its calls, or the folder of recorded sets"
        )
    if replay is not None and replay.is_dir() and not (replay / "calls.parquet").exists():
        if model or limit or data or settings or budget is not None:
            raise UsageError(
                "recorded judges have their own models, data and pipelines",
                hint="leave --model, --limit, --data, --set and --budget out",
            )
        figures = _reproduced(name, replay, out, quiet=quiet)
        _show_figures(figures, markdown=markdown, as_json=as_json)
        raise typer.Exit(0 if all(one.same or one.note for one in figures) else 1)
    from verdict_cli.benchmarks.card import card as card_of
    from verdict_cli.benchmarks.data_dir import find_benchmark
    from verdict_cli.cli.run import judged_dataset
    from verdict_cli.cli.write_report import exit_code
    from verdict_cli.language.package_files import named_config

    if name == "all":
        raise UsageError("all needs recordings", hint="verdict bench all --replay RECORDINGS")
    card = card_of(name)
    if card.config is None:
        raise UsageError(
            f"{name} has no pipeline that could judge it",
            hint=f"its recorded judges: verdict bench {name} --replay RECORDINGS",
        )
    chosen = find_benchmark(card, data)
    report = judged_dataset(
        named_config(card.config),
        str(chosen.path),
        RowOptions(
            model=model,
            settings=[*card.settings, *(settings or ())],
            limit=limit,
            concurrency=concurrency,
            replay=replay,
            budget=budget,
            fresh=fresh,
            quiet=quiet,
        ),
        out=out,
    )
    _show_report(report, card, sample=chosen.sample, markdown=markdown, as_json=as_json)
    raise typer.Exit(exit_code(report))


def _show_report(report: Report, card: Card, *, sample: bool, markdown: bool, as_json: bool) -> None:
    from verdict_cli.cli.write_report import show_report
    from verdict_cli.report.renderers.markdown import render_markdown
    from verdict_cli.report.report import full_json, summary_json
    from verdict_cli.report.run_document import run_document

    if as_json:
        document(
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
            f"! these are not the data of {card.title}, but this project's small sample ({card.sample}): its figures say\n"
            f"  nothing about {card.title}. For those, `verdict datasets fetch {card.name}`, or give --data PATH.\n\n"
        )
    if markdown:
        sys.stdout.write(render_markdown(run_document(report)))
    else:
        show_report(report, as_json=False)


def _reproduced(name: str, recordings: Path, out: Path | None, *, quiet: bool) -> list[Reproduced]:
    from verdict_cli.benchmarks.recorded import selected_sets
    from verdict_cli.benchmarks.reproduce import reproduced

    cases = selected_sets(name, recordings)
    figures = []
    with tempfile.TemporaryDirectory(prefix="verdict-") as rest:
        for place, case in enumerate(cases):
            if not quiet and sys.stderr.isatty():
                sys.stderr.write(f"\r{place:,} of {len(cases):,} cases\x1b[K")
            figures += reproduced(case, (out or Path(rest)) / case.name)
    if not quiet and sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
    if out is not None and not quiet:
        print_message(f"pipeline, data, recording and results of each case: {out}")
    return figures


def _show_figures(figures: Sequence[Reproduced], *, markdown: bool, as_json: bool) -> None:
    from dataclasses import asdict

    from rich.table import Table
    from rich.text import Text

    from verdict_cli.benchmarks.reproductions_page import reproductions_page
    from verdict_cli.cli.write_report import to_terminal
    from verdict_cli.report.formatting import interval

    same = sum(one.same and not one.note for one in figures)
    if as_json:
        document({"figures": [{**asdict(one), "same": one.same} for one in figures], "same": same})
        return
    if markdown:
        sys.stdout.write(reproductions_page(figures))
        return
    table = Table(box=None, padding=(0, 1))
    for header in ("case", "figure", "ours", "95% interval", "given", "difference"):
        table.add_column(header, justify="right" if header in ("ours", "given") else "left", overflow="fold")
    for one in figures:
        ends = interval(one.low, one.high)
        given = one.written(one.given)
        table.add_row(*map(Text, (one.case, one.what, one.written(one.value), ends, given, one.difference)))
    to_terminal(table)
    sys.stdout.write(f"{same:,} of {len(figures):,} figures are the same in every digit given\n")
