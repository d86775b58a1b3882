"""`verdict report RUN`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from verdict_cli.cli.options import AsJson


def report(
    run: Annotated[Path, typer.Argument(help="The directory of a run.")],
    as_json: AsJson = False,
) -> None:
    """Measure a run's results again and rewrite its report, without asking any model.

    Example: verdict report runs/demo
    """
    from verdict_cli.cli.finish import exit_code, reported, saved_plan, show

    directory, facts, plan = saved_plan(run)
    made = reported(plan, directory, facts)
    show(made, as_json=as_json)
    raise typer.Exit(exit_code(made))
