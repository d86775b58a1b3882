"""`verdict compare RUN RUN`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from verdict_cli.cli.options import AsJson
from verdict_cli.cli.streams import document
from verdict_cli.errors import UsageError


def compare(
    first: Annotated[Path, typer.Argument(metavar="A", help="The directory of a run.")],
    second: Annotated[Path, typer.Argument(metavar="B", help="The directory of the run to hold against it.")],
    by: Annotated[
        list[str] | None,
        typer.Option("--by", metavar="EXPR", help="Also compare the rows of each value, e.g. source.type."),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Also write the comparison as one HTML file."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare two runs row by row: differences with intervals and tests, and the rows that flipped.

    Rows are paired by their ids, and by their content where the dataset has none. Differences are B minus A.

    Example: verdict compare runs/main runs/candidate --by source.type --html difference.html
    """
    from verdict_cli.cli.finish import to_terminal
    from verdict_cli.engines.saved import saved
    from verdict_cli.evaluate import compare as compare_runs
    from verdict_cli.evaluate import latency
    from verdict_cli.report import Beside, comparison_html, comparison_json, comparison_terminal

    runs = [saved(path) for path in (first, second)]
    known = [plan.evaluations for _, _, plan in runs]
    shared = [name for name in known[1] if name in known[0]]
    if not shared:
        raise UsageError(
            f"{first} and {second} share no evaluation",
            hint=f"`evaluate` has {', '.join(known[0]) or 'nothing'} there, {', '.join(known[1]) or 'nothing'} here",
        )
    comparison = compare_runs(
        {name: (known[0][name], known[1][name]) for name in shared},
        (runs[0][0].results, runs[1][0].results),
        by=by or (),
        seed=runs[1][1].seed,
    )
    sides = [Beside(str(run.path), facts, latency(run.calls)) for run, facts, _ in runs]
    beside = (sides[0], sides[1])
    if html is not None:
        from verdict_cli.engines.directory import refusing

        with refusing(html):
            html.write_text(comparison_html(beside, comparison), encoding="utf-8")
    if as_json:
        document(comparison_json(beside, comparison))
    else:
        to_terminal(comparison_terminal(beside, comparison))
