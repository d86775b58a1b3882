"""Write the report of a run: metrics, gates and every report file, the same for each way to run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

import orjson
from msgspec import structs

from verdict_cli.errors import DataError
from verdict_cli.language.evaluations import Evaluation, evaluator_of
from verdict_cli.plan.node import Plan
from verdict_cli.plural import plural
from verdict_cli.run.digests import write_digests
from verdict_cli.run.load_run import RunResult
from verdict_cli.run.row_copies import copies_as_clusters
from verdict_cli.run.run_directory import RunDirectory
from verdict_cli.run_facts import tell

if TYPE_CHECKING:
    from verdict_cli.report.document import ReportDocument
    from verdict_cli.report.report import EvaluationStudy, Report
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
_PRELOADED = (
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
    "verdict_cli.report.report_context",
    "verdict_cli.stats.gates",
)
"""Modules that a report imports where it first needs them. They are loaded while the first calls are in flight."""
FORMATS = ("parquet", "csv", "csv-inert", "jsonl")


def preload_report(plan: Plan) -> None:
    """Import and compile what the report needs, which takes up to a second."""
    for name in _PRELOADED:
        import_module(name)
    from verdict_cli.report.renderers.html import template

    template()


def write_report(
    run: RunResult,
    formats: Sequence[str] = (),
    *,
    inconclusive: Inconclusive = "fail",
    sequential: bool = False,
    warn: Callable[[str], None],
) -> Report:
    """Compute the metrics, decide the gates, and write every report file into the run's directory.

    ``formats`` are further formats of the results, of `FORMATS`. ``warn`` gets a message for each file that could not
    be rendered; the others are complete. ``sequential`` gives gates bounds that hold at every look.
    Raises DataError for an evaluation that cannot be measured, once the report of the others is written: a run that is
    paid for has its report.
    """
    write = partial(
        _write_report, formats=formats, inconclusive=inconclusive, sequential=sequential, warn=warn
    )
    try:
        return write(run)
    except DataError as error:
        usable = _measurable(run)
        if len(usable) == len(run.plan.evaluations):
            raise
        write(
            run._replace(plan=replace(run.plan, evaluations=usable)),
            unmeasured=error.problem.message,
        )
        raise


def _measurable(run: RunResult) -> dict[str, Evaluation]:
    """The evaluations that can be measured."""
    from verdict_cli.stats.columns.collect import collect

    usable = {}
    for name, evaluation in run.plan.evaluations.items():
        with suppress(DataError):
            collect({name: evaluation}, run.directory.results)
            usable[name] = evaluation
    return usable


def _write_report(
    run: RunResult,
    *,
    formats: Sequence[str],
    inconclusive: Inconclusive,
    sequential: bool,
    warn: Callable[[str], None],
    unmeasured: str = "",
) -> Report:
    from verdict_cli.report.call_stats import defaulted_answers, kept_promises, token_masses
    from verdict_cli.report.renderers.html import render_html
    from verdict_cli.report.renderers.junit import render_junit
    from verdict_cli.report.renderers.markdown import render_markdown
    from verdict_cli.report.report import build_report
    from verdict_cli.report.report_context import ReportContext, evaluate_run
    from verdict_cli.report.run_document import run_document
    from verdict_cli.stats.gates import decide_gates, undecided_gates, with_gate_intervals
    from verdict_cli.stats.measure import flip_rates
    from verdict_cli.storage.tables.reader import export_table

    directory, facts, plan = run
    twice = [node.id for node in plan.nodes if "consistent" in node.output.fields]
    studied = evaluate_run(
        plan.evaluations, directory.results, seed=facts.seed, level=plan.interval_level
    )
    measures = studied.measures
    # Labels change after the run, so that what is wrong with them is in the report, not in run.json.
    for problem in dict.fromkeys(
        text for measured in measures.values() for text in measured.label_problems
    ):
        warn(f"warning: {problem}")
    evaluations = plan.evaluations
    if any(gate.confidence is not None or gate.baseline is not None for gate in plan.gates):
        evaluations, copies = copies_as_clusters(plan, directory.results, facts.id_column)
        if copies:
            are = plural(copies, "row is|rows are")
            facts = tell(
                facts, f"{are} a copy of another row: gates count each set of copies once", warn
            )
    decided = [gate for gate in plan.gates if gate.parts[0] in (*evaluations, "run")]
    gates = decide_gates(
        decided,
        evaluations,
        measures,
        facts,
        directory.results,
        inconclusive=inconclusive,
        sequential=sequential,
    )
    measures = with_gate_intervals(measures, decided, gates, plan.interval_level)
    studied = structs.replace(studied, measures=measures)
    gates += undecided_gates([gate for gate in plan.gates if gate not in decided], unmeasured)
    inert = "csv-inert" in formats
    extra = list(
        dict.fromkeys(
            f"results.{name.removesuffix('-inert')}" for name in formats if name != "parquet"
        )
    )
    files = (*FILES, *extra)
    flips = flip_rates(twice, directory.results, seed=facts.seed, level=plan.interval_level)
    defaulted = defaulted_answers(plan, directory.calls)
    for node, count in defaulted.items():
        warn(
            f"{node}: {plural(count, 'reply states|replies state')} neither a verdict nor a score, counted as FAIL and 0 (`defaulted`); "
            "`extract: {type: verdict, default: none}` fails their rows"
        )
    shown = (
        facts
        if not unmeasured
        else structs.replace(facts, warnings=(*facts.warnings, f"not measured: {unmeasured}"))
    )
    report = build_report(
        directory.display_name,
        shown,
        measures,
        gates,
        published=plan.published,
        files=files,
        flips=flips,
        promises={plan.nodes[early.pool].id: early.promise for early in plan.early},
        masses=token_masses(plan, directory.results, directory.calls),
        level=plan.interval_level,
        kept=kept_promises(plan, directory.results, seed=facts.seed, level=plan.interval_level)
        if plan.early
        else {},
        studies=_studies(run),
        defaulted=defaulted,
    )
    for name in extra:
        export_table(directory.results, directory.path / name, inert=inert)
        directory.put(name)
    short = run_document(report)
    _write(directory, "report.json", lambda: render_json(short), warn)
    _write(directory, "report.md", lambda: render_markdown(short), warn)
    context = ReportContext(plan, directory.results, directory.calls, studied, facts.seed)
    _write(directory, "report.html", lambda: render_html(run_document(report, context)), warn)
    _write(directory, "junit.xml", lambda: render_junit(short), warn)
    write_digests(directory, facts, files)
    return report


def _studies(run: RunResult) -> dict[str, EvaluationStudy]:
    """The evaluations of each kind that a feature measures."""
    studies: dict[str, EvaluationStudy] = {}
    for name, evaluation in run.plan.studies.items():
        if (own := evaluator_of(evaluation)) is not None:
            studies |= own[1].measure({name: evaluation}, run.directory.results, run.facts.seed)
    return studies


def _write(
    directory: RunDirectory, name: str, render: Callable[[], str], warn: Callable[[str], None]
) -> None:
    """Write one file of the report. Where it cannot be rendered, the file and a warning say why."""
    try:
        content = render()
    except Exception as error:
        from verdict_cli.report import document

        message = document.failure_text(name, error)
        warn(message)
        content = document.placeholder(name, message)
    directory.write(name, content)


def render_json(document: ReportDocument) -> str:
    """The indented text of a `.json` file: the data of a document, not its layout."""
    return f"{orjson.dumps(document.as_json(), option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS).decode()}\n"
