"""`verdict gate RUN`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from verdict_cli.cli.console import print_json
from verdict_cli.cli.options import AsJson, Undecided
from verdict_cli.cli.show_report import exit_code, finish_with_report, show_report
from verdict_cli.errors import UsageError
from verdict_cli.language.gate_rules import read_gates
from verdict_cli.plan.check_evaluations import scale_ends
from verdict_cli.run.load_run import load_run


def gate(
    run: Annotated[Path, typer.Argument(help="The directory of a run.")],
    gates: Annotated[
        Path | None,
        typer.Option(
            "--gates",
            metavar="FILE",
            help="Use the `gates:` of this YAML file instead of the run's own.",
        ),
    ] = None,
    inconclusive: Annotated[
        Undecided,
        typer.Option(
            "--inconclusive", help="The result of a gate that too few rows leave undecided."
        ),
    ] = Undecided.FAIL,
    sequential: Annotated[
        bool,
        typer.Option(
            "--sequential",
            help="Use bounds that hold at every look, for a gate that is decided again as rows come in.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Re-evaluate a run's gates and regenerate the report, without calling a model.

    Exits with 1 if a gate fails, and with 2 if there are no gates.

    Example: verdict gate runs/demo/judge --inconclusive pass
    """
    result = load_run(run, unchanged=True)
    if gates is not None:
        plan = result.plan
        scales = scale_ends(plan.nodes, plan.outputs, plan.evaluations)
        result = result._replace(
            plan=replace(plan, gates=read_gates(gates, plan.evaluations, scales))
        )
    if not result.plan.gates:
        raise UsageError(
            f"{gates or run} has no gates",
            hint="give --gates FILE with `gates: [{metric: NAME.METRIC, min: …}]`; `verdict report RUN` needs no gates",
        )
    report = finish_with_report(result, inconclusive=inconclusive.value, sequential=sequential)
    if as_json:
        from verdict_cli.report.conclusions import gates_conclusion
        from verdict_cli.report.report import summary_json

        print_json({"conclusion": gates_conclusion(report.gates), **summary_json(report)})
    else:
        show_report(report, as_json=False)
    raise typer.Exit(exit_code(report))
