"""`verdict bench NAME`."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from verdict_cli.cli.console import print_json, print_message
from verdict_cli.cli.model_options import RowOptions
from verdict_cli.cli.options import AsJson, Yes
from verdict_cli.cli.run import judged_dataset
from verdict_cli.cli.show_report import exit_code, show_report, to_terminal
from verdict_cli.errors import UsageError
from verdict_cli.features.benchmarks.card import Card
from verdict_cli.features.benchmarks.card import card as card_of
from verdict_cli.features.benchmarks.recorded import selected_sets
from verdict_cli.language.package_files import named_config

if TYPE_CHECKING:
    from verdict_cli.features.benchmarks.reproduce import Reproduction
    from verdict_cli.report.report import Report


def bench(
    name: Annotated[
        str, typer.Argument(help="The benchmark. With --replay RECORDINGS also one of its recorded judges, or `all`.")
    ],
    data: Annotated[
        Path | None, typer.Option("--data", help="The benchmark's own file. [default: the fetched file]")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="The run's directory. With RECORDINGS, the directory of the cases.")
    ] = None,
    *,
    options: RowOptions,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown.")] = False,
    as_json: AsJson = False,
    yes: Yes = False,
) -> None:
    """Judge a benchmark with its pipeline, and show the metrics next to the published results.

    With --replay RECORDINGS, the folder of the recorded sets (one folder each), reproduce the published results from the
    recorded replies.

    Example: verdict bench xstest --model baseline/lexical
    """
    if markdown and as_json:
        raise UsageError("--markdown and --json cannot be combined", hint="give one of them")
    replay = options.replay
    if replay is not None and not replay.exists():
        raise UsageError(
            f"there is no recording {replay}", hint="give a run, its calls, or the folder of recorded sets"
        )
    if replay is not None and replay.is_dir() and not (replay / "calls.parquet").exists():
        if options.model or options.limit or data or options.settings or options.budget is not None:
            raise UsageError(
                "the models, data and pipelines of recorded judges are fixed",
                hint="remove --model, --limit, --data, --set and --budget",
            )
        results = _reproduce(name, replay, out, quiet=options.quiet)
        _show_results(results, markdown=markdown, as_json=as_json)
        raise typer.Exit(0 if all(result.same or result.note for result in results) else 1)
    from verdict_cli.features.benchmarks.card import find_benchmark

    if name == "all":
        raise UsageError("`all` needs recordings", hint="verdict bench all --replay RECORDINGS")
    card = card_of(name)
    if card.config is None:
        raise UsageError(
            f"{name} has no pipeline to judge it with",
            hint=f"its recorded judges: verdict bench {name} --replay RECORDINGS",
        )
    located = find_benchmark(card, data)
    report = judged_dataset(
        named_config(card.config),
        str(located.path),
        replace(options, settings=[*card.settings, *(options.settings or ())]),
        out=out,
        yes=yes,
    )
    _show_report(report, card, sample=located.sample, markdown=markdown, as_json=as_json)
    raise typer.Exit(exit_code(report))


def _show_report(report: Report, card: Card, *, sample: bool, markdown: bool, as_json: bool) -> None:
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


def _reproduce(name: str, recordings: Path, out: Path | None, *, quiet: bool) -> list[Reproduction]:
    from verdict_cli.features.benchmarks.reproduce import reproduce

    cases = selected_sets(name, recordings)
    results = []
    with tempfile.TemporaryDirectory(prefix="verdict-") as scratch:
        for index, case in enumerate(cases):
            if not quiet and sys.stderr.isatty():
                sys.stderr.write(f"\r{index:,} of {len(cases):,} cases\x1b[K")
            results += reproduce(case, (out or Path(scratch)) / case.name)
    if not quiet and sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
    if out is not None and not quiet:
        print_message(f"pipeline, data, recording and results of each case: {out}")
    return results


def _show_results(results: Sequence[Reproduction], *, markdown: bool, as_json: bool) -> None:
    from rich.table import Table
    from rich.text import Text

    from verdict_cli.features.benchmarks.reproduce import reproductions_page
    from verdict_cli.report.formatting import interval

    same = sum(result.same and not result.note for result in results)
    if as_json:
        print_json({"figures": [{**asdict(result), "same": result.same} for result in results], "same": same})
        return
    if markdown:
        sys.stdout.write(reproductions_page(results))
        return
    table = Table(box=None, padding=(0, 1))
    for header in ("case", "metric", "ours", "95% interval", "published", "difference"):
        table.add_column(header, justify="right" if header in ("ours", "published") else "left", overflow="fold")
    for result in results:
        ends = interval(result.low, result.high)
        published, ours = result.format(result.published), result.format(result.value)
        table.add_row(*map(Text, (result.case, result.name, ours, ends, published, result.difference)))
    to_terminal(table)
    sys.stdout.write(f"{same:,} of {len(results):,} results equal the published ones in every digit\n")
