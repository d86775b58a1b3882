"""Compute the report of a run, and write its files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec import structs

from verdict_cli.errors import INTERNAL
from verdict_cli.language.evaluations import evaluator_of
from verdict_cli.plural import plural
from verdict_cli.report.call_stats import defaulted_answers, kept_promises, token_masses
from verdict_cli.report.document import NOT_CREATED, failure_text, placeholder
from verdict_cli.report.renderers.html import render_html
from verdict_cli.report.renderers.json import render_json
from verdict_cli.report.renderers.junit import render_junit
from verdict_cli.report.renderers.markdown import render_markdown
from verdict_cli.report.report import EvaluationStudy, Report, build_report, full_json
from verdict_cli.report.report_context import EvaluationResults, ReportContext, evaluate_run
from verdict_cli.report.run_document import run_document
from verdict_cli.report.unchanged import is_readable, report_inputs
from verdict_cli.run.digests import SPEC_CHANGED, write_digests
from verdict_cli.run.load_run import RunResult
from verdict_cli.run.row_copies import copies_as_clusters
from verdict_cli.run.run_directory import RunDirectory
from verdict_cli.run_facts import RunFacts, tell
from verdict_cli.stats.gates import decide_gates, undecided_gates, with_gate_intervals
from verdict_cli.stats.measure import flip_rates
from verdict_cli.storage.tables.reader import export_table

if TYPE_CHECKING:
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


def new_report(
    run: RunResult,
    formats: Sequence[str],
    inconclusive: Inconclusive,
    sequential: bool,
    unmeasured: str,
    warn: Callable[[str], None],
) -> Report:
    """Compute the metrics, decide the gates, and write every file. ``unmeasured`` is why an evaluation is left out."""
    made_with = (*formats, inconclusive, sequential)
    directory, _, plan = run
    facts, studied, report = _computed(run, inconclusive, sequential, unmeasured, warn)
    exports = list(dict.fromkeys(f"results.{name.removesuffix('-inert')}" for name in formats))
    for name in exports:
        export_table(directory.results, directory.path / name, inert="csv-inert" in formats)
        directory.put(name)
    report = structs.replace(report, files=(*FILES, *exports))
    context = ReportContext(plan, directory.results, directory.calls, studied, facts.seed)
    document = run_document(report, context)
    texts = [
        _write(directory, "report.md", lambda: render_markdown(document), warn),
        _write(directory, "report.html", lambda: render_html(document), warn),
        _write(directory, "junit.xml", lambda: render_junit(document), warn),
    ]
    is_complete = not any(mark in text for mark in (NOT_CREATED, INTERNAL) for text in texts)
    if is_complete and is_readable(report):
        inputs = report_inputs(run._replace(facts=report.facts), made_with)
        report = structs.replace(report, inputs=inputs)
    document = structs.replace(document, data=partial(full_json, report))
    _write(directory, "report.json", lambda: render_json(document), warn)
    write_digests(directory, facts, report.files)
    return report


def _computed(
    run: RunResult,
    inconclusive: Inconclusive,
    sequential: bool,
    unmeasured: str,
    warn: Callable[[str], None],
) -> tuple[RunFacts, EvaluationResults, Report]:
    """The metrics and the gates, with the run's facts as `run.json` is to have them."""
    directory, facts, plan = run
    results = directory.results
    if SPEC_CHANGED in facts.warnings:
        warn(f"warning: {SPEC_CHANGED}")
    studied = evaluate_run(plan.evaluations, results, seed=facts.seed, level=plan.interval_level)
    measures = studied.measures
    evaluations = plan.evaluations
    if any(gate.confidence is not None or gate.baseline is not None for gate in plan.gates):
        evaluations, copies = copies_as_clusters(plan, results, facts.id_column)
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
        results,
        inconclusive=inconclusive,
        sequential=sequential,
    )
    measures = with_gate_intervals(measures, decided, gates, plan.interval_level)
    gates += undecided_gates([gate for gate in plan.gates if gate not in decided], unmeasured)
    twice = [node.id for node in plan.nodes if "consistent" in node.output.fields]
    shown = facts
    if unmeasured:
        shown = structs.replace(facts, warnings=(*facts.warnings, f"not measured: {unmeasured}"))
    report = build_report(
        directory.display_name,
        shown,
        measures,
        gates,
        published=plan.published,
        flips=flip_rates(twice, results, seed=facts.seed, level=plan.interval_level),
        promises={plan.nodes[early.pool].id: early.promise for early in plan.early},
        masses=token_masses(plan, results, directory.calls),
        level=plan.interval_level,
        kept=kept_promises(plan, results, seed=facts.seed, level=plan.interval_level)
        if plan.early
        else {},
        studies=_studies(run),
        defaulted=defaulted_answers(plan, directory.calls),
    )
    return facts, structs.replace(studied, measures=measures), report


def _studies(run: RunResult) -> dict[str, EvaluationStudy]:
    """The evaluations of each kind that a feature measures."""
    studies: dict[str, EvaluationStudy] = {}
    for name, evaluation in run.plan.studies.items():
        if (evaluator := evaluator_of(evaluation)) is not None:
            studies |= evaluator.measure({name: evaluation}, run.directory.results, run.facts.seed)
    return studies


def _write(
    directory: RunDirectory, name: str, render: Callable[[], str], warn: Callable[[str], None]
) -> str:
    """Write one file of the report. Where it cannot be rendered, the file and a warning say why. Returns its content."""
    try:
        content = render()
    except Exception as error:
        message = failure_text(name, error)
        warn(message)
        content = placeholder(name, message)
    directory.write(name, content)
    return content
