"""Write a run's report files and print the report: the end of `verdict run`, and the whole of `verdict report`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from io import StringIO
from typing import TYPE_CHECKING

from verdict_cli.cli import step_summary
from verdict_cli.cli.console import document, print_error
from verdict_cli.messages import RunFacts
from verdict_cli.plan.node import Plan
from verdict_cli.run.run_directory import RunDirectory

if TYPE_CHECKING:
    from rich.console import RenderableType

    from verdict_cli.report.report import Report
    from verdict_cli.stats.gates import Inconclusive

FILES = (
    "results.parquet",
    "calls.parquet",
    "report.html",
    "report.md",
    "report.json",
    "junit.xml",
    "run.json",
    "spec.yaml",
)
_LATER = (
    "pyarrow.parquet",
    "pyarrow.compute",
    "numpy.ma",
    "numpy.random",
    "rich.console",
    "rich.table",
    "verdict_cli.report.renderers.html",
    "verdict_cli.report.renderers.junit",
    "verdict_cli.report.renderers.markdown",
    "verdict_cli.report.renderers.terminal",
    "verdict_cli.report.run_document",
    "verdict_cli.stats.evaluation_results",
    "verdict_cli.stats.gates",
)
"""Modules that a report imports where it first needs them, loaded while the last calls are under way."""
FORMATS = ("parquet", "csv", "csv-inert", "jsonl")


def prepare(plan: Plan) -> None:
    """Imports and compiles what `reported` and `show` need, which takes as long as a second."""
    for name in _LATER:
        import_module(name)
    if plan.evaluations:
        import_module("scipy.special")
    from verdict_cli.report.renderers.html import template

    template()


def write_report(
    plan: Plan,
    directory: RunDirectory,
    facts: RunFacts,
    formats: Sequence[str] = (),
    *,
    inconclusive: Inconclusive = "fail",
    in_summary: bool = True,
) -> Report:
    """Measures the results, decides the gates, and writes every report file into the run's directory.

    `in_summary`: the report also joins the summary of a GitHub Actions step, where one runs.
    """
    from verdict_cli.report.renderers.html import render_html
    from verdict_cli.report.renderers.json import render_json
    from verdict_cli.report.renderers.junit import render_junit
    from verdict_cli.report.renderers.markdown import render_markdown
    from verdict_cli.report.report import build_report
    from verdict_cli.report.report_context import ReportContext
    from verdict_cli.report.run_document import run_document
    from verdict_cli.stats.evaluation_results import evaluate_run
    from verdict_cli.stats.gates import decide_gates
    from verdict_cli.stats.measure import flip_rates
    from verdict_cli.storage.tables.reader import export_table

    twice = [node.id for node in plan.nodes if "consistent" in node.output.fields]
    studied = evaluate_run(plan.evaluations, directory.results, seed=facts.seed)
    measures = studied.measures
    gates = decide_gates(
        plan.gates, plan.evaluations, measures, facts, directory.results, seed=facts.seed, inconclusive=inconclusive
    )
    inert = "csv-inert" in formats
    extra = list(dict.fromkeys(f"results.{name.removesuffix('-inert')}" for name in formats if name != "parquet"))
    files = (*FILES, *extra)
    flips = flip_rates(twice, directory.results, seed=facts.seed)
    report = build_report(
        directory.shown,
        facts,
        measures,
        gates,
        published=plan.published,
        files=files,
        flips=flips,
        promises={plan.nodes[early.pool].id: early.confidence for early in plan.early},
    )
    for name in extra:
        export_table(directory.results, directory.path / name, inert=inert)
        directory.deliver(name)
    short = run_document(report)
    _write(directory, "report.json", lambda: render_json(short))
    comment = _write(directory, "report.md", lambda: render_markdown(short))
    if in_summary:
        step_summary.append_step_summary(comment)
    context = ReportContext(plan, directory.results, directory.calls, studied, facts.seed)
    _write(directory, "report.html", lambda: render_html(run_document(report, context)))
    _write(directory, "junit.xml", lambda: render_junit(short))
    return report


def _write(directory: RunDirectory, name: str, make: Callable[[], str]) -> str:
    """Writes one file of the report; one that cannot be made says so, and the others are complete."""
    try:
        made = make()
    except Exception as error:
        from verdict_cli.report import isolation

        said = isolation.failure_text(name, error)
        print_error(said)
        made = isolation.placeholder(name, said)
    directory.write(name, made)
    return made


def show_report(report: Report, *, as_json: bool) -> None:
    """The report on standard output: for people, or one JSON document."""
    if as_json:
        from verdict_cli.report.report import summary_json

        document(summary_json(report))
        return
    from verdict_cli.report.renderers.terminal import render_terminal
    from verdict_cli.report.run_document import run_document

    to_terminal(render_terminal(run_document(report)))


def to_terminal(renderable: RenderableType) -> None:
    """Prints it on standard output: as wide as a terminal is, without trailing spaces elsewhere."""
    from rich.console import Console

    if sys.stdout.isatty():
        Console(highlight=False).print(renderable)
        return
    written = StringIO()
    Console(file=written, highlight=False, width=_width()).print(renderable)
    sys.stdout.writelines(f"{line.rstrip()}\n" for line in written.getvalue().splitlines())


def _width() -> int:
    """Columns where standard output is no terminal."""
    return int(os.environ["COLUMNS"]) if os.environ.get("COLUMNS", "").isdigit() else 80


def exit_code(report: Report) -> int:
    """1 when a gate failed, 3 when a row did, else 0."""
    if not report.passed:
        return 1
    return 3 if report.facts.failed else 0
