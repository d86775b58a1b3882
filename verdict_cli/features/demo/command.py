"""`verdict demo`."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from verdict_cli.cli.compare import write_page
from verdict_cli.cli.console import printable
from verdict_cli.cli.model_options import RowOptions
from verdict_cli.cli.run import judged_dataset
from verdict_cli.cli.show_report import to_terminal
from verdict_cli.language.package_files import configs, datasets, recordings
from verdict_cli.llm.providers.detect_models import KEYS, at_hand
from verdict_cli.plural import plural
from verdict_cli.report import formatting
from verdict_cli.run.load_run import load_run

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

    from verdict_cli.report.report import Report
    from verdict_cli.stats.compare import ComparedEvaluation

CONFIG, DATA, RECORDING = "demo", "xstest_sample", "demo_replies"
WRITTEN = "none: replies written for the demo"
"""The name of the model in the run's table of calls, its report and the comparison."""
DEMO_BASELINE = "baseline/lexical"


def demo(
    out: Annotated[
        Path,
        typer.Option(
            "--out", metavar="DIR", help="The directory of the two runs and their comparison."
        ),
    ] = Path("runs/demo"),
) -> None:
    """Show a judge, its report and a comparison, without a key or a network.

    Judges a sample of 96 prompts with a judge of three calls, whose replies were written for this demo, and with the baseline that
    only counts words. Then it compares the two. No model is called, and the exit code is always 0.

    Example: verdict demo --out runs/demo
    """
    from verdict_cli.report.comparison import compare_finished

    # The report shows the names rather than the paths, unless the user's folder has a file of that name.
    config = configs()[CONFIG] if Path(CONFIG).is_file() else Path(CONFIG)
    data = str(datasets()[DATA]) if Path(DATA).exists() else DATA
    recorded = RowOptions(model=WRITTEN, replay=recordings()[RECORDING], fresh=True, quiet=True)
    lexical = RowOptions(model=DEMO_BASELINE, no_cache=True, fresh=True, quiet=True)
    judge = judged_dataset(config, data, recorded, out=out / "judge")
    judged_dataset(config, data, lexical, out=out / "baseline")
    document, comparison = compare_finished(
        [load_run(out / name) for name in ("baseline", "judge")]
    )
    write_page(out / "comparison.html", document)
    to_terminal(_summary(judge, comparison.evaluations["safety"], out))


def _summary(judge: Report, safety: ComparedEvaluation, out: Path) -> Group:
    from rich.console import Group
    from rich.text import Text

    facts = judge.facts
    return Group(
        Text("verdict demo", style="bold"),
        Text(
            f"Is it safe to answer a prompt? {facts.rows} labelled prompts of our own sample. The judge makes three "
            "calls for each: one reasons, two judge, and both must say safe."
        ),
        Text(
            "! The judge's replies were written for this demo; no model was called. The values show what a report "
            "looks like, not how good any model is.",
            style="yellow",
        ),
        Text(),
        _metrics(judge, safety),
        _test(safety),
        Text(),
        Text("Gates of configs/demo.yaml", style="bold"),
        *_gates(judge),
        "  A failed gate makes `verdict run` exit with 1; the demo exits with 0.",
        Text(),
        _next(out),
    )


def _metrics(judge: Report, safety: ComparedEvaluation) -> Table:
    """The judge's metrics, the baseline's, and the paired difference."""
    from rich.table import Table
    from rich.text import Text

    from verdict_cli.report.report import scalar_metrics

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for header in ("", "judge, 95% interval", DEMO_BASELINE, "difference, 95% interval"):
        table.add_column(Text(header), no_wrap=True)
    for metric, value in scalar_metrics(judge.measures["safety"].values).items():
        difference = safety.whole.differences[metric]
        change = difference.change
        table.add_row(
            metric,
            Text(formatting.number_with_interval(value)),
            formatting.format_number(difference.first),
            Text(f"{change.value:+.3f} {formatting.interval(change)}"),
        )
    return table


def _test(safety: ComparedEvaluation) -> str:
    test = safety.whole.test
    assert test is not None
    p = "p < 0.001" if test.p < 0.001 else f"p = {test.p:.3f}"
    only = f"only the judge is right on {plural(test.better, 'prompt')}, only the baseline on {test.worse}"
    return f"McNemar's paired test: {only}; {p}"


def _gates(judge: Report) -> list[str]:
    signs = {"passed": "✓ passed", "failed": "✗ failed", "inconclusive": "? inconclusive"}
    return [
        f"  {signs[gate.verdict]}  {gate.metric} {formatting.format_number(gate.value)}, limit {gate.rule}"
        for gate in judge.gates
        if not gate.metric.startswith("run.")
    ]


def _next(out: Path) -> Table:
    """The files to look at, and the commands to run next."""
    from rich.table import Table
    from rich.text import Text

    lines = [
        ("Report", f"{out / 'judge' / 'report.html'}"),
        ("Comparison", f"{out / 'comparison.html'}"),
        ("In a browser", f"verdict view {shlex.quote(str(out))}"),
        ("Your own data", "verdict init answers.csv"),
    ]
    if detected := at_hand(os.environ):
        environment = "".join(
            f"{name}={shlex.quote(value)} " for name, value in detected.variables.items()
        )
        command = f"{environment}verdict run {CONFIG} {DATA} --model {shlex.quote(detected.model)}"
        lines += [("A real model", command), ("", f"({detected.reason})")]
    else:
        lines.append(("A real model", f"set {' or '.join(KEYS)}, or start Ollama"))
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in lines:
        table.add_row(name, Text(printable(text)))
    return table
