"""Compare finished runs, for `verdict compare`, the demo and the viewer."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_lowercase
from typing import TYPE_CHECKING

from verdict_cli.errors import UsageError
from verdict_cli.plural import plural
from verdict_cli.run.load_run import RunResult, pipeline_key

if TYPE_CHECKING:
    from verdict_cli.language.evaluations import Evaluation
    from verdict_cli.report.comparison import ComparisonContext
    from verdict_cli.report.document import ReportDocument
    from verdict_cli.stats.compare import RunComparison

MOST_PIPELINES = len(ascii_lowercase)


def compare_finished(
    runs: Sequence[RunResult], by: Sequence[str] = (), level: float | None = None, names: Sequence[str] = ()
) -> tuple[ReportDocument, RunComparison]:
    """The comparison of runs with the first, with its document. UsageError if they share no evaluation.

    Of three runs or more, those of one pipeline are compared by their mean. `names` are what the document calls the runs; by
    default their directories.
    """
    from verdict_cli.report.comparison import PipelineContext, comparison_document, pipeline_changes
    from verdict_cli.stats.compare import compare_runs

    shared, contexts, keys = _shared_evaluations(runs), _contexts(runs, names), [_repeat_key(run) for run in runs]
    two = len(runs) == 2
    groups = [[0], [1]] if two else [[at for at, key in enumerate(keys) if key == one] for one in dict.fromkeys(keys)]
    if len(groups) > MOST_PIPELINES:
        raise UsageError(
            f"{plural(len(groups), 'pipeline is|pipelines are')} more than {MOST_PIPELINES}",
            hint="compare fewer at a time",
        )
    order = [at for group in groups for at in group]
    comparison = compare_runs(
        {name: [each[at] for at in order] for name, each in shared.items()},
        [runs[at].directory.results for at in order],
        sizes=[len(group) for group in groups],
        by=by,
        seed=runs[-1].facts.seed,
        level=level or runs[0].plan.interval_level,
    )
    pipelines = [
        PipelineContext(letter, [contexts[at] for at in group])
        for letter, group in zip(ascii_lowercase, groups, strict=False)
    ]
    changes = pipeline_changes(runs[0].plan.resolved, runs[1].plan.resolved) if two else ()
    same = two and keys[0] == keys[1]
    return comparison_document(pipelines, comparison, changes, same_pipeline=same), comparison


def _repeat_key(run: RunResult) -> tuple[str, ...]:
    """What repeated runs have in common: the pipeline without its seeds, the recording that answers, and the data."""
    return (*pipeline_key(run), run.facts.data_fingerprint)


def _contexts(runs: Sequence[RunResult], names: Sequence[str]) -> list[ComparisonContext]:
    from verdict_cli.report.call_stats import latency
    from verdict_cli.report.comparison import ComparisonContext

    shown = names or [str(run.directory.path) for run in runs]
    return [
        ComparisonContext(name, run.facts, latency(run.directory.calls)) for name, run in zip(shown, runs, strict=True)
    ]


def _shared_evaluations(runs: Sequence[RunResult]) -> dict[str, list[Evaluation]]:
    """Each evaluation that all runs have, as each of them defines it."""
    known = [run.plan.evaluations for run in runs]
    shared = {name: [each[name] for each in known] for name in known[-1] if all(name in each for each in known)}
    if not shared:
        names = " and ".join(", ".join(each) or "none" for each in known)
        which = " and ".join(str(run.directory.path) for run in runs)
        raise UsageError(f"{which} share no evaluation", hint=f"their evaluations are {names}")
    return shared
