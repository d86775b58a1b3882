"""`verdict compare RUN RUN ...`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from verdict_cli.cli.options import AsJson, IntervalLevel
from verdict_cli.cli.show_report import print_document
from verdict_cli.errors import UsageError
from verdict_cli.run.load_run import load_run
from verdict_cli.storage.paths import output_errors

if TYPE_CHECKING:
    from verdict_cli.report.document import ReportDocument


def compare(
    runs: Annotated[
        list[Path], typer.Argument(metavar="A B ...", help="The directories of two runs or more.")
    ],
    reference: Annotated[
        Path | None,
        typer.Option(
            "--reference",
            metavar="RUN",
            help="The run that others are compared with. [default: the first]",
        ),
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            "--by",
            metavar="EXPR",
            help="Also compare within each value of this expression, e.g. source.type.",
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Also write the comparison as one HTML file."),
    ] = None,
    level: IntervalLevel = None,
    as_json: AsJson = False,
) -> None:
    """Compare runs row by row: differences with intervals and tests, and the rows that flipped.

    Rows are paired by id, else by a unique column of ids, else by the content that did not change. Differences are from the
    reference, A: B minus A.
    Three or more runs have intervals that hold together. Those of the same pipeline (with other seeds, or repeated) are
    compared by their mean, and show how much two runs of one pipeline differ.

    Example: verdict compare runs/demo/baseline runs/demo/judge --by source.type --html difference.html
    """
    from verdict_cli.report.comparison import compare_finished
    from verdict_cli.stats.columns.collect import require_columns

    loaded = [load_run(path, unchanged=True) for path in _reference_first(runs, reference)]
    for text in by or ():
        for run in loaded:
            require_columns(text, run.directory.results)
    outcome, _ = compare_finished(loaded, by or (), level)
    if html is not None:
        write_page(html, outcome)
    print_document(outcome, as_json=as_json)


def _reference_first(runs: list[Path], reference: Path | None) -> list[Path]:
    if len(runs) < 2:
        raise UsageError("give two runs or more to compare", hint="verdict compare runs/a runs/b")
    folders = [path.resolve() for path in runs]
    for index, folder in enumerate(folders):
        if folder in folders[:index]:
            raise UsageError(
                f"{runs[index]} is given as a run more than once", hint="remove one of them"
            )
    if reference is None:
        return runs
    if reference.resolve() not in folders:
        raise UsageError(
            f"--reference {reference} is not one of the runs",
            hint=f"give one of {', '.join(map(str, runs))}",
        )
    position = folders.index(reference.resolve())
    return [runs[position], *runs[:position], *runs[position + 1 :]]


def write_page(path: Path, comparison: ReportDocument) -> None:
    """Write the comparison as a single HTML file."""
    from verdict_cli.report.renderers.html import render_html

    with output_errors(path):
        path.write_text(render_html(comparison), encoding="utf-8")
