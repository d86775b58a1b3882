"""`verdict report RUN`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from verdict_cli.cli.options import AsJson

if TYPE_CHECKING:
    from verdict_cli.plan.node import Plan


def report(
    run: Annotated[Path, typer.Argument(help="The directory of a run.")],
    labels: Annotated[
        bool,
        typer.Option(
            "--labels", help="Also hold every evaluation that has a target against the labels given in `verdict view`."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Measure a run's results again and rewrite its report, without asking any model.

    Example: verdict report runs/demo --labels
    """
    from verdict_cli.cli.show_report import exit_code, finish_with_report, show_report
    from verdict_cli.run.load_run import load_run

    result = load_run(run)
    if labels:
        result = result._replace(plan=with_labels(result.plan, run))
    finished = finish_with_report(result)
    show_report(finished, as_json=as_json)
    raise typer.Exit(exit_code(finished))


def with_labels(plan: Plan, run: Path) -> Plan:
    """The plan with an evaluation `NAME_human` beside each that has a target: the same, against what people said."""
    from dataclasses import replace

    from verdict_cli.errors import UsageError
    from verdict_cli.storage.tables.human_labels import FILE

    if not (run / FILE).is_file():
        raise UsageError(f"nobody has labelled rows of {run}", hint=f"label some: verdict view {run}")
    against = {
        f"{name}_human": one.model_copy(update={"target": "human.label", "gold": None, "published": None})
        for name, one in plan.evaluations.items()
        if one.target is not None
    }
    return replace(plan, evaluations={**plan.evaluations, **against})
