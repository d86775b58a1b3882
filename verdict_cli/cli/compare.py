"""`verdict compare RUN RUN ...`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from string import ascii_lowercase
from typing import TYPE_CHECKING, Annotated

import typer

from verdict_cli.cli.console import print_json
from verdict_cli.cli.options import AsJson, IntervalLevel
from verdict_cli.cli.show_report import to_terminal
from verdict_cli.errors import UsageError
from verdict_cli.run.load_run import RunResult, load_run, pipeline_key
from verdict_cli.run.run_directory import output_errors

if TYPE_CHECKING:
    from verdict_cli.language.evaluations import Evaluation
    from verdict_cli.report.comparison import ComparisonContext
    from verdict_cli.report.document import ReportDocument
    from verdict_cli.stats.compare import RunComparison

MOST_PIPELINES = len(ascii_lowercase)


def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="A B ...", help="The directories of two runs or more.")],
    reference: Annotated[
        Path | None,
        typer.Option("--reference", metavar="RUN", help="The run that others are compared with. [default: the first]"),
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            "--by", metavar="EXPR", help="Also compare within each value of this expression, e.g. source.type."
        ),
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Also write the comparison as one HTML file.")
    ] = None,
    level: IntervalLevel = None,
    as_json: AsJson = False,
) -> None:
    """Compare runs row by row: differences with intervals and tests, and the rows that flipped.

    Rows are paired by id, or by content if the dataset has no ids. Differences are from the reference, A: B minus A.
    Three or more runs have intervals that hold together. Those of the same pipeline (with other seeds, or repeated) are
    compared by their mean, and show how much two runs of one pipeline differ.

    Example: verdict compare runs/demo/baseline runs/demo/judge --by source.type --html difference.html
    """
    from verdict_cli.report.renderers.terminal import render_terminal

    outcome = comparison_of(_reference_first(runs, reference), by or (), level)
    if html is not None:
        write_page(html, outcome)
    if as_json:
        print_json(outcome.data())
    else:
        to_terminal(render_terminal(outcome))


def _reference_first(runs: list[Path], reference: Path | None) -> list[Path]:
    if len(runs) < 2:
        raise UsageError("give two runs or more to compare", hint="verdict compare runs/a runs/b")
    places = [path.resolve() for path in runs]
    for index, place in enumerate(places):
        if place in places[:index]:
            raise UsageError(f"{runs[index]} is given as a run more than once", hint="remove one of them")
    if reference is None:
        return runs
    if reference.resolve() not in places:
        raise UsageError(
            f"--reference {reference} is not one of the runs", hint=f"give one of {', '.join(map(str, runs))}"
        )
    at = places.index(reference.resolve())
    return [runs[at], *runs[:at], *runs[at + 1 :]]


def comparison_of(paths: Sequence[Path], by: Sequence[str] = (), level: float | None = None) -> ReportDocument:
    """Load runs and compare them with the first. UsageError if they share no evaluation."""
    runs = [load_run(path) for path in paths]
    if len(runs) == 2:
        return compare_two(runs, by, level)[0]

    from verdict_cli.report.several_comparison import PipelineContext, several_document
    from verdict_cli.stats.compare_several import compare_several

    shared, contexts, keys = _shared_evaluations(runs), _contexts(runs), [pipeline_key(run) for run in runs]
    groups = [[at for at, key in enumerate(keys) if key == one] for one in dict.fromkeys(keys)]
    if len(groups) > MOST_PIPELINES:
        raise UsageError(f"{len(groups)} pipelines are more than {MOST_PIPELINES}", hint="compare fewer at a time")
    order = [at for group in groups for at in group]
    several = compare_several(
        {name: [each[at] for at in order] for name, each in shared.items()},
        [[runs[at].directory.results for at in group] for group in groups],
        by=by,
        seed=runs[0].facts.seed,
        level=level or runs[0].plan.interval_level,
    )
    pipelines = [
        PipelineContext(letter, [contexts[at] for at in group])
        for letter, group in zip(ascii_lowercase, groups, strict=False)
    ]
    return several_document(pipelines, several)


def compare_two(
    runs: Sequence[RunResult], by: Sequence[str] = (), level: float | None = None
) -> tuple[ReportDocument, RunComparison]:
    """The comparison of the second run with the first, with its document. UsageError if they share no evaluation."""
    from verdict_cli.report.comparison import comparison_document
    from verdict_cli.report.pipeline_changes import pipeline_changes
    from verdict_cli.stats.compare import compare_runs

    first, second = runs
    comparison = compare_runs(
        {name: (each[0], each[1]) for name, each in _shared_evaluations(runs).items()},
        (first.directory.results, second.directory.results),
        by=by,
        seed=second.facts.seed,
        level=level or first.plan.interval_level,
    )
    sides = _contexts(runs)
    changes = pipeline_changes(first.plan.resolved, second.plan.resolved)
    same = pipeline_key(first) == pipeline_key(second)
    return comparison_document((sides[0], sides[1]), comparison, changes, same_pipeline=same), comparison


def _contexts(runs: Sequence[RunResult]) -> list[ComparisonContext]:
    from verdict_cli.report.comparison import ComparisonContext
    from verdict_cli.stats.call_stats import latency

    return [ComparisonContext(str(run.path), facts, latency(run.calls)) for run, facts, _ in runs]


def _shared_evaluations(runs: Sequence[RunResult]) -> dict[str, list[Evaluation]]:
    """Each evaluation that all runs have, as each of them defines it."""
    known = [run.plan.evaluations for run in runs]
    shared = {name: [each[name] for each in known] for name in known[-1] if all(name in each for each in known)}
    if not shared:
        names = " and ".join(", ".join(each) or "none" for each in known)
        which = " and ".join(str(run.directory.path) for run in runs)
        raise UsageError(f"{which} share no evaluation", hint=f"their evaluations are {names}")
    return shared


def write_page(path: Path, comparison: ReportDocument) -> None:
    """Write the comparison as a single HTML file."""
    from verdict_cli.report.renderers.html import render_html

    with output_errors(path):
        path.write_text(render_html(comparison), encoding="utf-8")
