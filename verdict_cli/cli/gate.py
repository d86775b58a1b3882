"""`verdict gate RUN`."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from verdict_cli.cli.options import AsJson
from verdict_cli.errors import UsageError


class Undecided(StrEnum):
    """What `--inconclusive` takes: whether a gate that cannot be decided lets the run through."""

    PASS = "pass"
    FAIL = "fail"


def gate(
    run: Annotated[Path, typer.Argument(help="The directory of a run.")],
    gates: Annotated[
        Path | None, typer.Option("--gates", metavar="FILE", help="A YAML file whose `gates:` stand for the run's own.")
    ] = None,
    inconclusive: Annotated[
        Undecided, typer.Option("--inconclusive", help="What a gate does that too few rows cannot decide.")
    ] = Undecided.FAIL,
    as_json: AsJson = False,
) -> None:
    """Decide a run's gates again and rewrite its report, without asking any model.

    Exit code 1 when a gate fails, 2 when there are no gates.

    Example: verdict gate runs/candidate --gates gates.yaml --inconclusive pass
    """
    from verdict_cli.cli.write_report import exit_code, show_report, write_report
    from verdict_cli.language.gate_rules import read_gates
    from verdict_cli.run.load_run import load_run

    directory, facts, plan = load_run(run)
    if gates is not None:
        plan = replace(plan, gates=read_gates(gates, plan.evaluations))
    if not plan.gates:
        raise UsageError(
            f"{gates} has no gates" if gates is not None else f"this run has no gates: {run}",
            hint="give --gates FILE with `gates: [{metric: NAME.METRIC, min: …}]`; `verdict report RUN` needs none",
        )
    made = write_report(plan, directory, facts, inconclusive=inconclusive.value)
    show_report(made, as_json=as_json)
    raise typer.Exit(exit_code(made))
