"""`verdict gate RUN`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from msgspec import structs

from verdict_cli.cli.console import print_error, print_json, print_message
from verdict_cli.cli.options import AsJson, Undecided
from verdict_cli.cli.show_report import exit_code, finish_with_report, show_report
from verdict_cli.errors import UsageError
from verdict_cli.language.gate_rules import IDLE, idle_limits, read_gates, with_baseline
from verdict_cli.plural import plural
from verdict_cli.run.load_run import RunResult, load_run


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
    baseline: Annotated[
        str | None,
        typer.Option(
            "--baseline",
            metavar="RUN|FILE",
            help="Compare with this run or baseline file, in place of each gate's `baseline:`.",
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
    bless: Annotated[
        Path | None,
        typer.Option(
            "--bless",
            metavar="FILE",
            help="Write what the run's evaluations compare to this text file, a baseline to commit, and decide no gate.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Re-evaluate a run's gates and regenerate the report, without calling a model.

    Exits with 1 if a gate fails, and with 2 if there are no gates. A gate with `baseline: FILE` compares with a file that
    --bless wrote.

    Example: verdict gate runs/demo/judge --inconclusive pass
    """
    result = load_run(run, unchanged=True)
    if result.facts.shard:
        raise UsageError(
            f"{run} holds shard {result.facts.shard} of a run, and part of the rows decides no gate",
            hint="name the run that `verdict merge` made of all shards",
        )
    if gates is not None:
        result = _with_gates(result, gates)
    if bless is not None:
        _bless(result, bless)
        return
    if not result.plan.gates:
        raise UsageError(
            f"{gates or run} has no gates",
            hint="give --gates FILE with `gates: [{metric: NAME.METRIC, min: …}]`; `verdict report RUN` needs no gates",
        )
    if baseline is not None:
        against = with_baseline(result.plan.gates, baseline)
        result = result._replace(plan=structs.replace(result.plan, gates=against))
    report = finish_with_report(result, inconclusive=inconclusive.value, sequential=sequential)
    if as_json:
        from verdict_cli.report.conclusions import gates_conclusion
        from verdict_cli.report.report import summary_json

        print_json({"conclusion": gates_conclusion(report.gates), **summary_json(report)})
    else:
        show_report(report, as_json=False)
    raise typer.Exit(exit_code(report))


def _with_gates(result: RunResult, file: Path) -> RunResult:
    """The run with the gates of the file, and what is to be told of them, in place of its own."""
    plan, facts = result.plan, result.facts
    gates = read_gates(file, plan.evaluations, plan.scales)
    messages = dict.fromkeys(message for _, message in idle_limits(gates, plan.scales))
    for message in messages:
        print_error(f"{file}: {message}")
    warnings = (message for message in facts.warnings if IDLE not in message)
    facts = structs.replace(facts, warnings=(*messages, *warnings))
    return result._replace(plan=structs.replace(plan, gates=gates), facts=facts)


def _bless(result: RunResult, file: Path) -> None:
    """Write the baseline. UsageError for a run that is not finished."""
    from verdict_cli.stats.baseline_file import write_baseline

    if result.facts.status != "finished":
        raise UsageError(
            f"the run in {result.directory.path} is not finished",
            hint="the command that started it resumes it",
        )
    if not result.plan.evaluations:
        raise UsageError(
            "the pipeline has no evaluation that a gate could compare", hint="give it `evaluate:`"
        )
    plan = result.plan
    rows = write_baseline(
        file, result.directory.results, result.facts, plan.evaluations, plan.gates
    )
    print_message(f"{file}: {plural(rows, 'row')}; compare with it by `baseline: {file}`")
