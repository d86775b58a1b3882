"""The comparison of runs as a document: each pipeline against the first, the reference, and the rows that changed.

In JSON the first of two runs is `a` and the second `b`, and of more each pipeline has a letter. Tables and sentences have the runs'
names; repeated runs of one pipeline are told.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import unified_diff
from string import ascii_lowercase
from typing import Any

from msgspec import Struct

from verdict_cli.errors import UsageError
from verdict_cli.language.evaluations import Evaluation
from verdict_cli.language.metric_registry import find_metric
from verdict_cli.plural import plural
from verdict_cli.report import formatting, run_notes
from verdict_cli.report.call_stats import Latency, latency
from verdict_cli.report.charts import ChartPoint, Dots
from verdict_cli.report.compress import packed
from verdict_cli.report.conclusions import (
    comparison_conclusion,
    contradictions,
    short_names,
    significance_text,
)
from verdict_cli.report.document import (
    PAGE_FORMATS,
    TEXT_FORMATS,
    CodeBlock,
    Group,
    Note,
    Only,
    Part,
    ReportDocument,
    RowBrowser,
    Section,
    Table,
    TableColumn,
)
from verdict_cli.report.run_notes import changed_versions, version_notices
from verdict_cli.run.load_run import RunResult, pipeline_key
from verdict_cli.run_facts import RunFacts
from verdict_cli.stats.compare import (
    ComparedEvaluation,
    RunComparison,
    Significance,
    Slice,
    compare_runs,
)
from verdict_cli.stats.paired import AgainstReference, Difference, OpenRows
from verdict_cli.stats.row_scores import Flip

LONGEST_NAME = 28
"""Characters of a run's name in a table of several runs; the middle of a longer one is left out where all stay different."""
MOST_FLIPS_PRINTED = 10
MOST_SLICES_PRINTED = 12
MOST_FLIPS_ON_PAGE = 10_000
SAME_PIPELINE = "both are runs of one pipeline: their differences are those of a repeated run"
CACHED = (
    "{run}: {cached:,} of {calls:,} replies came from the cache. Runs that share replies hide how much runs differ; "
    "use another --seed, or --no-cache"
)


class ComparisonContext(Struct, frozen=True):
    """One of the runs: its directory as given, its facts, and how long its calls took."""

    run: str
    facts: RunFacts
    latency: Latency | None


class PipelineContext(Struct, frozen=True):
    """One of the pipelines that are compared: its letter, and its runs."""

    letter: str
    runs: Sequence[ComparisonContext]


def pipeline_names(pipelines: Sequence[PipelineContext]) -> list[str]:
    """What a reader calls each pipeline: its first run's directory, and how many runs it has."""
    names = short_names([pipeline.runs[0].run for pipeline in pipelines])
    repeats = [
        f" ({plural(len(pipeline.runs), 'run')})" if len(pipeline.runs) > 1 else ""
        for pipeline in pipelines
    ]
    return [name + more for name, more in zip(names, repeats, strict=True)]


def table_names(pipelines: Sequence[PipelineContext]) -> list[str]:
    """What the tables of several pipelines call each: its first run's directory, shortened where they stay different."""
    names = short_names([pipeline.runs[0].run for pipeline in pipelines])
    ends = LONGEST_NAME // 2
    cut = [
        name if len(name) <= LONGEST_NAME else f"{name[: ends - 1]}…{name[-ends:]}"
        for name in names
    ]
    return cut if len(set(cut)) == len(cut) else names


def comparison_json(
    pipelines: Sequence[PipelineContext], comparison: RunComparison
) -> dict[str, Any]:
    """The document of `verdict compare --json`; differences are `b` minus `a`, or from the reference."""
    letters = [pipeline.letter for pipeline in pipelines]
    two = _are_two_runs(pipelines)
    runs: dict[str, Any] = {
        pipeline.letter: [run_json(run) for run in pipeline.runs] for pipeline in pipelines
    }
    runs = (
        {letter: run for letter, (run,) in runs.items()}
        if two
        else {
            "reference": letters[0],
            "pipeline_names": dict(zip(letters, table_names(pipelines), strict=True)),
            "pipelines": runs,
        }
    )
    return {
        **runs,
        "paired_by": comparison.paired.by,
        "paired_columns": list(comparison.paired.columns),
        "level": comparison.level,
        "evaluations": {
            name: _evaluation_json(evaluation, letters, comparison.level, two=two)
            for name, evaluation in comparison.evaluations.items()
        },
    }


def _are_two_runs(pipelines: Sequence[PipelineContext]) -> bool:
    return [len(pipeline.runs) for pipeline in pipelines] == [1, 1]


def run_json(side: ComparisonContext) -> dict[str, Any]:
    """The facts of one of the runs."""
    facts, took = side.facts, side.latency
    return {
        "run": side.run,
        **{
            key: getattr(facts, key)
            for key in ("name", "status", "rows", "failed", "calls", "cost_usd", "wall_s")
        },
        "models": dict(facts.models),
        "served": {model: dict(served) for model, served in facts.served.items()},
        "floors": list(facts.floors),
        "latency_s": None
        if took is None
        else {"mean": took.mean_s, "median": took.median_s, "p95": took.p95_s},
    }


def _evaluation_json(
    evaluation: ComparedEvaluation, letters: Sequence[str], level: float, *, two: bool
) -> dict[str, Any]:
    document: dict[str, Any] = {"kind": evaluation.kind, "reason": evaluation.reason}
    if two:
        alone = evaluation.alone or (0, 0)
        document |= {
            "only_a": alone[0],
            "only_b": alone[1],
            "notes": contradictions(evaluation.whole, letters, level),
        }
        document["flipped"] = [
            {
                "id": flip.id,
                "a": flip.first,
                "b": flip.second,
                "target": flip.target,
                "gain": flip.gain,
            }
            for flip in evaluation.flips
        ]
    else:
        document |= {"not_in_all": list(evaluation.alone)}
    by = {
        expression: {
            value: _slice_json(part, letters, level, two=two) for value, part in slices.items()
        }
        for expression, slices in evaluation.slices.items()
    }
    return {**document, **_slice_json(evaluation.whole, letters, level, two=two), "by": by}


def _slice_json(part: Slice, letters: Sequence[str], level: float, *, two: bool) -> dict[str, Any]:
    if not two:
        figures = {
            metric: _values_json(compared, letters, level)
            for metric, compared in part.metrics.items()
        }
        return {"n": part.n, "figures": figures}
    figures = {metric: difference_json(compared) for metric, compared in part.differences.items()}
    return {
        "n": part.n,
        "figures": figures,
        "test": None if part.test is None else _test_json(part.test),
    }


def _values_json(against: AgainstReference, letters: Sequence[str], level: float) -> dict[str, Any]:
    spread = against.spread
    return {
        "values": dict(zip(letters, against.values, strict=False)),
        "runs": {
            letter: list(values) for letter, values in zip(letters, against.runs, strict=False)
        },
        "differences": {
            letter: difference_json(difference, "reference", "pipeline")
            for letter, difference in zip(letters[1:], against.differences, strict=True)
        },
        "between_runs": None
        if spread is None
        else {
            "variance": spread.seen,
            "variance_of_rows": spread.within,
            "variance_between": spread.between,
            "df": spread.freedom,
            "noise_floor": spread.noise_floor(level),
        },
    }


def difference_json(difference: Difference, first: str = "a", second: str = "b") -> dict[str, Any]:
    """A metric of both sides, called `first` and `second`, and its difference."""
    change = difference.change
    return {
        first: difference.first,
        second: difference.second,
        "difference": change.value,
        **{key: getattr(change, key) for key in ("low", "high", "n")},
        "p": difference.p,
        "p_adjusted": difference.p_adjusted,
        **{key: getattr(change, key) for key in ("se", "method", "df", "level", "reason")},
        "warnings": list(change.warnings),
        "open_rows": None if difference.open_rows is None else _open_json(difference.open_rows),
    }


def _open_json(rows: OpenRows) -> dict[str, Any]:
    """The share of rows that only one run scores, and the ends of the difference in the worst and the best case."""
    low = None if rows.worst is None else rows.worst.low
    return {"share": rows.share, "low": low, "high": None if rows.best is None else rows.best.high}


def _test_json(test: Significance) -> dict[str, Any]:
    keys = ("name", "of", "n", "better", "worse", "p", "p_holm")
    return {key: getattr(test, key) for key in keys} | {
        "effect": {"name": test.effect_name, "value": test.effect}
    }


def comparison_document(
    pipelines: Sequence[PipelineContext],
    comparison: RunComparison,
    changes: Sequence[PipelineChange] = (),
    *,
    same_pipeline: bool = False,
) -> ReportDocument:
    """The document; differences are from the first pipeline. `changes` are those of two runs' pipelines, `same_pipeline` says
    that there is but one."""
    two, runs = _are_two_runs(pipelines), [run for pipeline in pipelines for run in pipeline.runs]
    names = pipeline_names(pipelines)
    if two:
        title = f"{runs[0].facts.name} → {runs[1].facts.name}"
        lead = f"{names[1]} against {names[0]}, the reference"
        opening = [*_two_runs(runs, names), *([Note(SAME_PIPELINE)] if same_pipeline else [])]
    else:
        title = f"{runs[0].facts.name}: {plural(len(runs), 'run')}"
        first, *others = table_names(pipelines)
        lead = (
            f"{', '.join(others)} against {first}, the reference"
            if others
            else "runs of one pipeline"
        )
        opening = [*_several_runs(pipelines)]
    sections = [Section("", opening, listed=False, essential=not two)]
    sections += [
        Section(
            name,
            [*_evaluation(evaluation, pipelines, comparison)],
            formatting.kind_text(evaluation.kind),
        )
        for name, evaluation in comparison.evaluations.items()
    ]
    more: dict[str, Any] = {"changes": [asdict(change) for change in changes]} if two else {}
    return ReportDocument(
        title,
        [*sections, *changes_section(changes)],
        kicker="Verdict comparison",
        lead=lead,
        elsewhere="with --json",
        data=lambda: {**comparison_json(pipelines, comparison), **more},
        conclusion=comparison_conclusion(comparison, names),
    )


def _two_runs(runs: Sequence[ComparisonContext], names: Sequence[str]) -> Iterator[Part]:
    facts = [{"run": run.run, **dict(run_notes.run_facts(run.facts))} for run in runs]
    for known, run in zip(facts, runs, strict=True):
        if (took := run.latency) is not None:
            known["latency"] = f"{took.median_s:.3g} s median, {took.p95_s:.3g} s p95"
    lines = dict.fromkeys((*facts[0], *facts[1]))
    yield Table(
        ("", *names),
        [(line, *(facts_of_run.get(line, "–") for facts_of_run in facts)) for line in lines],
    )
    yield from _baselines(runs)
    for name, run in zip(names, runs, strict=True):
        for notice in (*run_notes.replay_notice(run.facts), *version_notices(run.facts)):
            yield Note(f"{name}: {notice}", warning=True)
    for notice in changed_versions(runs[0].facts, runs[1].facts):
        yield Note(notice, warning=True)


def _baselines(runs: Sequence[ComparisonContext]) -> Iterator[Part]:
    for model in dict.fromkeys(model for run in runs for model in run.facts.floors):
        yield Note(run_notes.baseline_notice(model), warning=True)


def _several_runs(pipelines: Sequence[PipelineContext]) -> Iterator[Part]:
    runs = [run for pipeline in pipelines for run in pipeline.runs]
    names = table_names(pipelines)
    rows = [
        (
            f"{name} (reference)" if pipeline is pipelines[0] else name,
            run.run,
            str(run.facts.seed),
            f"{run.facts.rows:,}",
            f"{run.facts.failed:,}",
            f"{run.facts.calls:,}",
            formatting.money(run.facts.cost_usd),
        )
        for name, pipeline in zip(names, pipelines, strict=True)
        for run in pipeline.runs
    ]
    yield Table(
        ("pipeline", "run", "seed", "rows", "failed", "calls", "cost"), rows, (2, 3, 4, 5, 6)
    )
    for name, pipeline in zip(names, pipelines, strict=True):
        if len(pipeline.runs) > 1:
            yield Note(
                f"{name}: {plural(len(pipeline.runs), 'run')} of one pipeline, compared by their mean"
            )
            for run in pipeline.runs:
                if cached := run.facts.cached - run.facts.shared:
                    text = CACHED.format(run=run.run, cached=cached, calls=run.facts.calls)
                    yield Note(text, warning=True)
    yield from _baselines(runs)
    for run in runs:
        for notice in run_notes.replay_notice(run.facts):
            yield Note(f"{run.run}: {notice}", warning=True)


def _evaluation(
    evaluation: ComparedEvaluation, pipelines: Sequence[PipelineContext], comparison: RunComparison
) -> Iterator[Part]:
    if evaluation.reason:
        yield Note(f"not compared: {evaluation.reason}", warning=True)
        return
    whole, level, two = evaluation.whole, comparison.level, _are_two_runs(pipelines)
    names = pipeline_names(pipelines) if two else table_names(pipelines)
    paired = f"{plural(whole.n, 'row')} paired by {comparison.paired.text}"
    if any(evaluation.alone) and two:
        paired += f"; {evaluation.alone[0]:,} only in {names[0]}, {evaluation.alone[1]:,} only in {names[1]}"
    elif any(evaluation.alone):
        runs = [run.run for pipeline in pipelines for run in pipeline.runs]
        left = [
            f"{count:,} of {run}"
            for run, count in zip(runs, evaluation.alone, strict=True)
            if count
        ]
        paired += f"; not in all runs: {', '.join(left)}"
    yield Note(paired)
    if whole.test is not None:
        yield Note(significance_text(whole.test, names[1]))
    yield _metrics_table(whole, names, level, two=two)
    if any(against.spread is not None and against.runs for against in whole.metrics.values()):
        yield from _spread_parts(whole, names, level)
    for line in contradictions(whole, names, level):
        yield Note(line)
    slices = {expression: parts for expression, parts in evaluation.slices.items() if names[1:]}
    by_slice = [
        _slice_chart(expression, parts, names) for expression, parts in slices.items() if parts
    ]
    if charts := [*_difference_charts(whole, names), *by_slice]:
        yield Only(PAGE_FORMATS, [Group(charts)])
    for expression, parts in slices.items():
        folded, short = (
            _slices_table(expression, parts, names, level, folded=is_folded)
            for is_folded in (True, False)
        )
        yield Only(PAGE_FORMATS, [folded])
        yield Only(TEXT_FORMATS, [Note(f"by {expression}"), short])
    if evaluation.flips:
        yield from _flips(evaluation.flips, names)


def _metrics_table(whole: Slice, names: Sequence[str], level: float, *, two: bool) -> Table:
    """Of two runs a line for each metric, else one for each pipeline of each metric."""
    number = formatting.format_number
    tests = ("p", "p (adj.)")
    if two:
        rows = [
            (
                metric,
                number(difference.first),
                number(difference.second),
                *_change_cells(difference),
            )
            for metric, difference in whole.differences.items()
        ]
        return Table(
            ("metric", *names, _axis(names), formatting.interval_header(level), *tests),
            rows,
            (1, 2, 3, 5, 6),
        )
    rows = []
    for metric, against in whole.metrics.items():
        reference = (
            against.values[0]
            if against.values
            else next((difference.first for difference in against.differences), None)
        )
        rows.append((metric, names[0], number(reference), "", "", "", ""))
        for name, difference in zip(names[1:], against.differences, strict=True):
            rows.append(("", name, number(difference.second), *_change_cells(difference)))
    if not names[1:]:
        return Table(("metric", "mean of the runs"), [(row[0], row[2]) for row in rows], (1,))
    together = formatting.interval_header(level, "together" if len(names) > 2 else "")
    return Table(
        ("metric", "pipeline", "value", f"− {names[0]}", together, *tests), rows, (2, 3, 5, 6)
    )


def _change_cells(difference: Difference) -> tuple[str, str, str, str]:
    """The difference, its interval with the reason why one of both is missing, and its p-values."""
    change = difference.change
    interval = " ".join(filter(None, (formatting.interval(change.low, change.high), change.reason)))
    p, adjusted = (
        "–" if value is None else f"{value:.3g}" for value in (difference.p, difference.p_adjusted)
    )
    return formatting.format_number(change.value), interval, p, adjusted


def _spread_parts(whole: Slice, names: Sequence[str], level: float) -> Iterator[Part]:
    """How much runs of one pipeline differ, in words for the first metric and as a table for all."""
    rows: list[tuple[str, ...]] = []
    repeated = [
        index for index, runs in enumerate(next(iter(whole.metrics.values())).runs) if len(runs) > 1
    ]
    for metric, values in whole.metrics.items():
        if values.spread is None or not values.runs:
            continue
        floor = formatting.format_number(values.spread.noise_floor(level))
        if not rows:
            share = f"{100 * level:g} of 100 pairs"
            yield Note(
                f"noise floor: two runs of one pipeline differ by up to {floor} in {metric} ({share})"
            )
        ranges = [
            f"{formatting.format_number(min(values.runs[index]))} to {formatting.format_number(max(values.runs[index]))}"
            for index in repeated
        ]
        sds = (values.spread.seen**0.5, values.spread.within**0.5)
        rows.append((metric, *ranges, *map(formatting.format_number, sds), floor))
    headers = ("metric", *(f"runs of {names[index]}" for index in repeated))
    right = tuple(range(len(headers), len(headers) + 3))
    yield Table((*headers, "sd of runs", "sd by rows alone", "noise floor"), rows, right)


def _differences_of(part: Slice, names: Sequence[str]) -> Iterator[tuple[str, str, Difference]]:
    """Each metric with the name and the difference of each pipeline."""
    for metric, against in part.metrics.items():
        for name, difference in zip(names[1:], against.differences, strict=True):
            yield metric, name, difference


def _difference_charts(whole: Slice, names: Sequence[str]) -> Iterator[Dots]:
    """The differences of all metrics; those in units of their own in a second chart."""
    higher = f"the pipeline is higher than {names[0]}" if names[2:] else f"{names[-1]} is higher"
    for unbounded, title in (
        (False, "Differences"),
        (True, "Differences in the metrics' own units"),
    ):
        points = [
            ChartPoint(
                _point_name(metric, name, names),
                difference.change.value,
                difference.change.low,
                difference.change.high,
            )
            for metric, name, difference in _differences_of(whole, names)
            if difference.change.value is not None and has_own_unit(metric) == unbounded
        ]
        if points:
            yield Dots(
                title,
                points,
                _axis(names),
                reference=0,
                caption=f"Right of the dashed line, {higher}.",
            )


def has_own_unit(metric: str) -> bool:
    """Whether the metric shares no axis with those from -1 to 1."""
    known = find_metric(metric)
    return known is not None and known.has_own_unit


def _point_name(text: str, name: str, names: Sequence[str]) -> str:
    return f"{text}, {name}" if names[2:] else text


def _axis(names: Sequence[str]) -> str:
    """What a difference is, of two `b − a`."""
    return f"− {names[0]}" if names[2:] else " − ".join(reversed(names))


def _slice_chart(expression: str, slices: Mapping[str, Slice], names: Sequence[str]) -> Dots:
    main = next((name for part in slices.values() for name in part.metrics), "")
    points = [
        ChartPoint(
            _point_name(value, name, names),
            difference.change.value,
            difference.change.low,
            difference.change.high,
            f"n={part.n:,}",
        )
        for value, part in slices.items()
        for metric, name, difference in _differences_of(part, names)
        if metric == main
    ]
    return Dots(
        f"{main} by {expression}",
        points,
        _axis(names),
        reference=0,
        caption="Paired differences by slice.",
    )


def _slices_table(
    expression: str,
    slices: Mapping[str, Slice],
    names: Sequence[str],
    level: float,
    *,
    folded: bool,
) -> Table:
    """All metrics of each slice under a folded title, else the first metric of each."""
    rows = []
    for value, part in slices.items():
        for metric, name, difference in _differences_of(part, names):
            if folded or metric == next(iter(part.metrics)):
                change, interval, _, adjusted = _change_cells(difference)
                pipeline = [name] if names[2:] else []
                rows.append((value, f"{part.n:,}", metric, *pipeline, change, interval, adjusted))
    named = ["pipeline"] if names[2:] else []
    headers = (
        expression,
        "n",
        "metric",
        *named,
        _axis(names),
        formatting.interval_header(level),
        "p (adj.)",
    )
    title = f"All differences by {expression}" if folded else ""
    right = (1, 3 + len(named), 5 + len(named))
    return Table(headers, rows, right, folded=title, most_rows=MOST_SLICES_PRINTED)


def _flips(flips: tuple[Flip, ...], names: Sequence[str]) -> Iterator[Part]:
    cells = [
        (
            str(flip.id),
            *map(_outcome_text, (flip.first, flip.second, flip.target)),
            f"{names[flip.gain > 0]} better",
        )
        for flip in flips[:MOST_FLIPS_ON_PAGE]
    ]
    changed = plural(len(flips), "row is|rows are") + " scored differently"
    table = Table(
        ("row", *names, "target", ""), cells, most_rows=MOST_FLIPS_PRINTED, total_rows=len(flips)
    )
    yield Only(TEXT_FORMATS, [Note(changed), table])
    columns = (
        TableColumn("better", "Which"),
        TableColumn("id", "Row"),
        TableColumn("a", names[0]),
        TableColumn("b", names[1]),
        TableColumn("target", "Target"),
        TableColumn("gain", "Gain", "number"),
    )
    rows = [[row[4], *row[:4], flip.gain, None] for row, flip in zip(cells, flips, strict=False)]
    note = (
        f"{changed}; the first {len(rows):,} are here." if len(rows) < len(flips) else f"{changed}."
    )
    yield Only(PAGE_FORMATS, [RowBrowser(columns, [packed(rows)], (), 1, len(rows), note)])


def _outcome_text(value: Any) -> str:
    return formatting.format_number(value) if isinstance(value, float) else formatting.label(value)


MOST_CHANGES = 100
_LONGEST = 120
_IGNORED = frozenset({"evaluate", "gates", "description", "name", "level"})
"""Keys that change what is measured or how the run is called, not what is asked."""


@dataclass(frozen=True, slots=True)
class PipelineChange:
    """A key whose values differ, with both; None where a pipeline has no such key."""

    path: str
    first: Any
    second: Any


def pipeline_changes(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[PipelineChange]:
    """The differences between two resolved pipelines, in the order of the first; measuring keys are left out."""
    kept = [
        {key: value for key, value in document.items() if key not in _IGNORED}
        for document in (first, second)
    ]
    return list(_changes(kept[0], kept[1], ""))[:MOST_CHANGES]


def _changes(first: Any, second: Any, path: str) -> Iterator[PipelineChange]:
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        for key in dict.fromkeys((*first, *second)):
            yield from _changes(
                first.get(key), second.get(key), f"{path}.{key}" if path else str(key)
            )
    elif isinstance(first, list) and isinstance(second, list):
        for index in range(max(len(first), len(second))):
            before, other = (
                values[index] if index < len(values) else None for values in (first, second)
            )
            yield from _changes(before, other, f"{path}[{index}]")
    elif first != second or type(first) is not type(second):
        yield PipelineChange(path, first, second)


def changes_section(changes: Sequence[PipelineChange]) -> Iterator[Section]:
    """A table of the differences, and the lines of texts that differ; no section where the pipelines are alike."""
    if not changes:
        return
    rows = [(change.path, _cell(change.first), _cell(change.second)) for change in changes]
    parts: list[Part] = [
        Table(
            ("key", "a", "b"),
            rows,
            records=any(len(cell) > _LONGEST // 2 for row in rows for cell in row),
        )
    ]
    parts += [
        CodeBlock(
            f"{change.path}: lines that differ",
            "\n".join(
                unified_diff(
                    change.first.splitlines(),
                    change.second.splitlines(),
                    "a",
                    "b",
                    lineterm="",
                    n=1,
                )
            ),
        )
        for change in changes
        if isinstance(change.first, str)
        and isinstance(change.second, str)
        and "\n" in change.first + change.second
    ]
    yield Section("What differs between the pipelines", parts)


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return formatting.visible_text(" ".join(text.split()), _LONGEST)


MOST_PIPELINES = len(ascii_lowercase)


def compare_finished(
    runs: Sequence[RunResult],
    by: Sequence[str] = (),
    level: float | None = None,
    names: Sequence[str] = (),
) -> tuple[ReportDocument, RunComparison]:
    """The comparison of runs with the first, with its document. UsageError if they share no evaluation.

    Of three runs or more, those of one pipeline are compared by their mean. `names` are what the document calls the runs; by
    default their directories.
    """
    shared, contexts, keys = (
        _shared_evaluations(runs),
        _contexts(runs, names),
        [_repeat_key(run) for run in runs],
    )
    two = len(runs) == 2
    groups = (
        [[0], [1]]
        if two
        else [
            [at for at, key in enumerate(keys) if key == group_key]
            for group_key in dict.fromkeys(keys)
        ]
    )
    if len(groups) > MOST_PIPELINES:
        raise UsageError(
            f"{plural(len(groups), 'pipeline is|pipelines are')} more than {MOST_PIPELINES}",
            hint="compare fewer at a time",
        )
    order = [at for group in groups for at in group]
    comparison = compare_runs(
        {name: [evaluations[at] for at in order] for name, evaluations in shared.items()},
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
    shown = names or [str(run.directory.path) for run in runs]
    return [
        ComparisonContext(name, run.facts, latency(run.directory.calls))
        for name, run in zip(shown, runs, strict=True)
    ]


def _shared_evaluations(runs: Sequence[RunResult]) -> dict[str, list[Evaluation]]:
    """Each evaluation that all runs have, as each of them defines it."""
    known = [run.plan.evaluations for run in runs]
    shared = {
        name: [evaluations[name] for evaluations in known]
        for name in known[-1]
        if all(name in evaluations for evaluations in known)
    }
    if not shared:
        names = " and ".join(", ".join(evaluations) or "none" for evaluations in known)
        which = " and ".join(str(run.directory.path) for run in runs)
        raise UsageError(f"{which} share no evaluation", hint=f"their evaluations are {names}")
    return shared
