"""Write the report of a run: metrics, gates and every report file, the same for each way to run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from msgspec.structs import replace

from verdict_cli.errors import DataError
from verdict_cli.language.evaluations import Evaluation
from verdict_cli.plan.node import Plan
from verdict_cli.plural import plural
from verdict_cli.run.load_run import RunResult

if TYPE_CHECKING:
    from verdict_cli.report.report import Report
    from verdict_cli.stats.gates import Inconclusive

_PRELOADED = (
    "pyarrow.parquet",
    "rich.console",
    "rich.table",
    "verdict_cli.report.new_report",
    "verdict_cli.report.renderers.terminal",
)
"""Modules that every report imports where it first needs them. They are loaded while the first calls are in flight."""
_OF_EVALUATIONS = ("pyarrow.compute", "numpy.ma", "numpy.random")
"""Those that a report with evaluations imports too."""
FORMATS = ("parquet", "csv", "csv-inert", "jsonl")


def preload_report(plan: Plan) -> None:
    """Import, compile and look up what the report needs, which takes up to a second."""
    for name in (*_PRELOADED, *(_OF_EVALUATIONS if plan.evaluations else ())):
        import_module(name)
    from verdict_cli.report.renderers.html import template
    from verdict_cli.report.run_document import SECTIONS
    from verdict_cli.report.unchanged import program_files

    template()
    SECTIONS.names()  # finds those of installed packages
    for title in SECTIONS.shipped():
        SECTIONS[title]
    program_files()


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
    from verdict_cli.report.unchanged import unchanged_report

    exports = tuple(name for name in dict.fromkeys(formats) if name != "parquet")
    made_with = (*exports, inconclusive, sequential)
    report = unchanged_report(run, made_with)
    if report is None:
        from verdict_cli.report.new_report import new_report

        report = new_report(run, exports, inconclusive, sequential, unmeasured, warn)
    # Labels change after the run, so that what is wrong with them is in the report, not in run.json.
    problems = (text for measured in report.measures.values() for text in measured.label_problems)
    for problem in dict.fromkeys(problems):
        warn(f"warning: {problem}")
    for node, count in report.defaulted.items():
        warn(
            f"{node}: {plural(count, 'reply states|replies state')} neither a verdict nor a score, counted as FAIL and 0 (`defaulted`); "
            "`extract: {type: verdict, default: none}` fails their rows"
        )
    return report
