"""`verdict report RUN`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import replace

from verdict_cli.cli.options import AsJson, IntervalLevel
from verdict_cli.cli.show_report import exit_code, finish_with_report, show_report
from verdict_cli.errors import UsageError
from verdict_cli.language.evaluations import label_evaluations
from verdict_cli.run.load_run import load_run
from verdict_cli.storage.tables.human_labels import FILE

if TYPE_CHECKING:
    from verdict_cli.plan.node import Plan


def report(
    run: Annotated[Path, typer.Argument(help="The directory of a run.")],
    labels: Annotated[
        bool,
        typer.Option(
            "--labels",
            help="Also compare every evaluation that has a target with the labels given in `verdict view`.",
        ),
    ] = False,
    level: IntervalLevel = None,
    as_json: AsJson = False,
) -> None:
    """Recompute a run's metrics and rewrite its report, without calling a model.

    Where neither the run, its labels nor the options have changed, the report is only shown.

    Example: verdict report runs/demo/judge --level 0.9
    """
    result = load_run(run, unchanged=True)
    if labels:
        result = result._replace(plan=with_labels(result.plan, run))
    if level is not None:
        result = result._replace(plan=replace(result.plan, interval_level=level))
    finished = finish_with_report(result)
    show_report(finished, as_json=as_json)
    raise typer.Exit(exit_code(finished))


def with_labels(plan: Plan, run: Path) -> Plan:
    """Add the copies of each evaluation that use the human labels."""
    if not (run / FILE).is_file():
        raise UsageError(f"{run} has no labelled rows", hint=f"label some: verdict view {run}")
    return replace(plan, evaluations={**plan.evaluations, **label_evaluations(plan.evaluations)})
