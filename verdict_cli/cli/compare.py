"""`verdict compare RUN RUN`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from verdict_cli.cli.console import print_json
from verdict_cli.cli.options import AsJson
from verdict_cli.cli.show_report import to_terminal
from verdict_cli.errors import UsageError
from verdict_cli.run.load_run import load_run
from verdict_cli.run.run_directory import output_errors

if TYPE_CHECKING:
    from verdict_cli.report.comparison import ComparisonContext
    from verdict_cli.stats.compare import RunComparison


def compare(
    first: Annotated[Path, typer.Argument(metavar="A", help="The directory of a run.")],
    second: Annotated[Path, typer.Argument(metavar="B", help="The directory of the run to compare with A.")],
    by: Annotated[
        list[str] | None,
        typer.Option(
            "--by", metavar="EXPR", help="Also compare within each value of this expression, e.g. source.type."
        ),
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Also write the comparison as one HTML file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare two runs row by row: differences with intervals and tests, and the rows that flipped.

    Rows are paired by id, or by content if the dataset has no ids. Differences are B minus A.

    Example: verdict compare runs/main runs/candidate --by source.type --html difference.html
    """
    from verdict_cli.report.comparison import comparison_document
    from verdict_cli.report.renderers.terminal import render_terminal

    sides, comparison = load_comparison(first, second, by or ())
    outcome = comparison_document(sides, comparison)
    if html is not None:
        write_page(html, sides, comparison)
    if as_json:
        print_json(outcome.data())
    else:
        to_terminal(render_terminal(outcome))


def load_comparison(
    first: Path, second: Path, by: Sequence[str] = ()
) -> tuple[tuple[ComparisonContext, ComparisonContext], RunComparison]:
    """Load two runs and compare them. UsageError if they share no evaluation."""
    from verdict_cli.report.comparison import ComparisonContext
    from verdict_cli.stats.call_stats import latency
    from verdict_cli.stats.compare import compare_runs

    runs = [load_run(path) for path in (first, second)]
    known = [plan.evaluations for _, _, plan in runs]
    shared = [name for name in known[1] if name in known[0]]
    if not shared:
        raise UsageError(
            f"{first} and {second} share no evaluation",
            hint=f"their evaluations are {', '.join(known[0]) or 'none'} and {', '.join(known[1]) or 'none'}",
        )
    comparison = compare_runs(
        {name: (known[0][name], known[1][name]) for name in shared},
        (runs[0][0].results, runs[1][0].results),
        by=by,
        seed=runs[1][1].seed,
    )
    sides = [ComparisonContext(str(run.path), facts, latency(run.calls)) for run, facts, _ in runs]
    return (sides[0], sides[1]), comparison


def write_page(path: Path, sides: tuple[ComparisonContext, ComparisonContext], comparison: RunComparison) -> None:
    """Write the comparison as a single HTML file."""
    from verdict_cli.report.comparison import comparison_document
    from verdict_cli.report.renderers.html import render_html

    with output_errors(path):
        path.write_text(render_html(comparison_document(sides, comparison)), encoding="utf-8")
