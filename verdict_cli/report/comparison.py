"""The comparison of runs as a document: each pipeline against the first, the reference, and the rows that changed.

In JSON each pipeline has a letter. Tables and sentences have the runs' names; repeated runs of one pipeline are told.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from difflib import unified_diff
from functools import partial
from itertools import chain
from string import ascii_lowercase
from typing import Any

from msgspec import Struct

from verdict_cli.errors import UsageError
from verdict_cli.language.evaluations import Evaluation
from verdict_cli.language.metric_registry import find_metric
from verdict_cli.messages import JsonObject, NamedValues
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


class ComparedRun(Struct, frozen=True):
    """One of the runs: its directory as given, its facts, and how long its calls took."""

    run: str
    facts: RunFacts
    latency: Latency | None


ComparedPipelines = Sequence[Sequence[ComparedRun]]
"""The runs of each pipeline that is compared."""


def pipeline_names(pipelines: ComparedPipelines) -> list[str]:
    """What a reader calls each pipeline: its first run's directory, shortened where all stay different."""
    return _run_names([runs[0] for runs in pipelines])


def _run_names(runs: Sequence[ComparedRun]) -> list[str]:
    names = short_names([run.run for run in runs])
    ends = LONGEST_NAME // 2
    cut = [
        name if len(name) <= LONGEST_NAME else f"{name[: ends - 1]}…{name[-ends:]}"
        for name in names
    ]
    return cut if len(set(cut)) == len(cut) else names


def comparison_json(
    pipelines: ComparedPipelines,
    comparison: RunComparison,
    changes: Sequence[PipelineChange] = (),
) -> JsonObject:
    """The document of `verdict compare --json`; each pipeline has a letter, and the first is the reference."""
    letters = ascii_lowercase[: len(pipelines)]
    names = pipeline_names(pipelines)
    return {
        "reference": letters[0],
        "pipelines": {
            letter: {"name": name, "runs": [*map(_run_json, runs)]}
            for letter, name, runs in zip(letters, names, pipelines, strict=True)
        },
        "paired_by": comparison.paired.by,
        "paired_columns": list(comparison.paired.columns),
        "level": comparison.level,
        "evaluations": {
            name: _evaluation_json(evaluation, letters, comparison.level)
            for name, evaluation in comparison.evaluations.items()
        },
        "changes": [
            {"path": change.path, "values": dict(zip(letters, change.values, strict=True))}
            for change in changes
        ],
    }


def _run_json(run: ComparedRun) -> JsonObject:
    facts, took = run.facts, run.latency
    keys = ("name", "status", "seed", "rows", "failed", "calls", "cost_usd", "wall_s")
    return {
        "run": run.run,
        **{key: getattr(facts, key) for key in keys},
        "models": dict(facts.models),
        "served": {model: dict(served) for model, served in facts.served.items()},
        "floors": list(facts.floors),
        "latency_s": None
        if took is None
        else {"mean": took.mean_s, "median": took.median_s, "p95": took.p95_s},
    }


def _evaluation_json(
    evaluation: ComparedEvaluation, letters: Sequence[str], level: float
) -> JsonObject:
    flipped = [
        {"id": flip.id, "a": flip.first, "b": flip.second, "target": flip.target, "gain": flip.gain}
        for flip in evaluation.flips
    ]
    return {
        "kind": evaluation.kind,
        "reason": evaluation.reason,
        "not_in_all": list(evaluation.alone),
        "notes": contradictions(evaluation.whole, letters, level),
        **_slice_json(evaluation.whole, letters, level),
        "by": {
            expression: {value: _slice_json(part, letters, level) for value, part in slices.items()}
            for expression, slices in evaluation.slices.items()
        },
        "flipped": flipped,
    }


def _slice_json(part: Slice, letters: Sequence[str], level: float) -> JsonObject:
    return {
        "n": part.n,
        "figures": {
            metric: _metric_json(against, letters, level)
            for metric, against in part.metrics.items()
        },
        "test": None if part.test is None else _test_json(part.test),
    }


def _metric_json(against: AgainstReference, letters: Sequence[str], level: float) -> JsonObject:
    spread = against.spread
    return {
        "values": dict(zip(letters, _values(against), strict=False)),
        "runs": {
            letter: list(values) for letter, values in zip(letters, against.runs, strict=False)
        },
        "differences": {
            letter: _difference_json(difference)
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


def _values(against: AgainstReference) -> list[float | None]:
    """The metric of each pipeline. Two runs are not estimated together: their values are those of the difference."""
    if against.values or not against.differences:
        return list(against.values)
    first = against.differences[0].first
    return [first, *(difference.second for difference in against.differences)]


def _difference_json(difference: Difference) -> JsonObject:
    change, rows = difference.change, difference.open_rows
    return {
        "difference": change.value,
        **{key: getattr(change, key) for key in ("low", "high", "n")},
        "p": difference.p,
        "p_adjusted": difference.p_adjusted,
        **{key: getattr(change, key) for key in ("se", "method", "df", "level", "reason")},
        "warnings": list(change.warnings),
        "open_rows": None if rows is None else _open_json(rows),
    }


def _open_json(rows: OpenRows) -> JsonObject:
    """The share of rows that only one run scores, and the ends of the difference in the worst and the best case."""
    low = None if rows.worst is None else rows.worst.low
    return {"share": rows.share, "low": low, "high": None if rows.best is None else rows.best.high}


def _test_json(test: Significance) -> JsonObject:
    keys = ("name", "of", "n", "better", "worse", "p", "p_holm")
    return {key: getattr(test, key) for key in keys} | {
        "effect": {"name": test.effect_name, "value": test.effect}
    }


def comparison_document(
    pipelines: ComparedPipelines,
    comparison: RunComparison,
    changes: Sequence[PipelineChange] = (),
    *,
    same_pipeline: bool = False,
) -> ReportDocument:
    """The document; differences are from the first pipeline. `same_pipeline` says that two runs are of one."""
    runs, names = [*chain(*pipelines)], pipeline_names(pipelines)
    run_names = _run_names(runs)
    opening = [*_opening(pipelines, names, run_names)]
    if same_pipeline:
        opening.append(Note(SAME_PIPELINE))
    sections = [Section("", opening, essential=True)]
    for name, evaluation in comparison.evaluations.items():
        parts = [*_evaluation(evaluation, names, run_names, comparison)]
        sections.append(Section(name, parts, formatting.kind_text(evaluation.kind)))
    others = ", ".join(names[1:])
    return ReportDocument(
        f"{runs[0].facts.name}: {plural(len(runs), 'run')} compared",
        [*sections, *changes_section(changes, names)],
        kicker="Verdict comparison",
        lead=f"{others} against {names[0]}, the reference" if others else "runs of one pipeline",
        elsewhere="with --json",
        data=partial(comparison_json, pipelines, comparison, changes),
        conclusion=comparison_conclusion(comparison, names),
    )


def _opening(
    pipelines: ComparedPipelines, names: Sequence[str], run_names: Sequence[str]
) -> Iterator[Part]:
    """The facts of each run, a column each, and what a reader must know of them."""
    runs = [*chain(*pipelines)]
    facts = [_facts(run) for run in runs]
    if len(runs) > len(pipelines):
        of = [name for name, each in zip(names, pipelines, strict=True) for _ in each]
        facts = [{"pipeline": name, **run} for name, run in zip(of, facts, strict=True)]
    lines = dict.fromkeys(line for run in facts for line in run)
    rows = [(line, *(run.get(line, "–") for run in facts)) for line in lines]
    yield Table(("", *run_names), rows)
    facts_of = dict(zip(run_names, (run.facts for run in runs), strict=True))
    notices = [
        run_notes.baseline_notice(model)
        for model in dict.fromkeys(model for run in runs for model in run.facts.floors)
    ]
    for name, run in facts_of.items():
        of_run = (*run_notes.replay_notice(run), *version_notices(run))
        notices += [f"{name}: {notice}" for notice in of_run]
    for notice in (*notices, *changed_versions(facts_of)):
        yield Note(notice, warning=True)
    yield from _repeated(pipelines, names)


def _facts(run: ComparedRun) -> dict[str, str]:
    facts = {"run": run.run, "seed": str(run.facts.seed), **dict(run_notes.run_facts(run.facts))}
    if (took := run.latency) is not None:
        facts["latency"] = f"{took.median_s:.3g} s median, {took.p95_s:.3g} s p95"
    return facts


def _repeated(pipelines: ComparedPipelines, names: Sequence[str]) -> Iterator[Note]:
    """The pipelines with several runs, and those of their runs that share replies."""
    for name, runs in zip(names, pipelines, strict=True):
        if len(runs) == 1:
            continue
        yield Note(f"{name}: {plural(len(runs), 'run')} of one pipeline, compared by their mean")
        for run in runs:
            if cached := run.facts.cached - run.facts.shared:
                text = CACHED.format(run=run.run, cached=cached, calls=run.facts.calls)
                yield Note(text, warning=True)


def _evaluation(
    evaluation: ComparedEvaluation,
    names: Sequence[str],
    run_names: Sequence[str],
    comparison: RunComparison,
) -> Iterator[Part]:
    if evaluation.reason:
        yield Note(f"not compared: {evaluation.reason}", warning=True)
        return
    whole, level = evaluation.whole, comparison.level
    paired = f"{plural(whole.n, 'row')} paired by {comparison.paired.text}"
    left = [
        f"{count:,} of {name}"
        for name, count in zip(run_names, evaluation.alone, strict=True)
        if count
    ]
    yield Note(f"{paired}; not in all runs: {', '.join(left)}" if left else paired)
    if whole.test is not None:
        yield Note(significance_text(whole.test, names[1]))
    yield _metrics_table(whole, names, level)
    if names[2:]:
        yield Note(f"the intervals of a metric hold together, at {100 * level:g}%")
    yield from _reasons(whole)
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


def _metrics_table(whole: Slice, names: Sequence[str], level: float) -> Table:
    """The metric of each pipeline in a column of its own, and a line for each difference from the first."""
    pipeline = ("pipeline",) if names[2:] else ()
    rows = []
    for metric, against in whole.metrics.items():
        values = [formatting.format_number(value) for value in _values(against)]
        start = (metric, *values, *["–"] * (len(names) - len(values)))
        for name, difference in zip(names[1:], against.differences, strict=True):
            rows.append((*start, *((name,) if pipeline else ()), *_change_cells(difference)))
            start = ("",) * len(start)
        if not against.differences:
            rows.append(start)
    headers = ("metric", *names)
    right = [*range(1, len(headers))]
    if names[1:]:
        change = len(headers) + len(pipeline)
        interval = formatting.interval_header(level)
        headers = (*headers, *pipeline, _axis(names), interval, "p (adj.)")
        right += [change, change + 2]
    return Table(headers, rows, right)


def _reasons(whole: Slice) -> Iterator[Note]:
    """Why differences or their intervals are missing or uncertain, each reason once with its metrics."""
    metrics: dict[str, list[str]] = {}
    for metric, against in whole.metrics.items():
        for reason in dict.fromkeys(one.change.reason for one in against.differences):
            metrics.setdefault(reason, []).append(metric)
    for reason, names in metrics.items():
        if reason:
            yield Note(f"{', '.join(names)}: {reason}")


def _change_cells(difference: Difference) -> tuple[str, str, str]:
    """The difference, its interval, and its adjusted p-value."""
    change = difference.change
    interval = formatting.interval(change) or "–"
    return (
        formatting.signed(change.value),
        interval,
        formatting.p_value(difference.p_adjusted),
    )


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
            ChartPoint.of(_point_name(metric, name, names), difference.change)
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
    definition = find_metric(metric)
    return definition is not None and definition.has_own_unit


def _point_name(text: str, name: str, names: Sequence[str]) -> str:
    return f"{text}, {name}" if names[2:] else text


def _axis(names: Sequence[str]) -> str:
    """What a difference is, of two `b − a`."""
    return f"− {names[0]}" if names[2:] else " − ".join(reversed(names))


def _slice_chart(expression: str, slices: Mapping[str, Slice], names: Sequence[str]) -> Dots:
    main = next((name for part in slices.values() for name in part.metrics), "")
    points = [
        ChartPoint.of(_point_name(value, name, names), difference.change, f"n={part.n:,}")
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
                change, interval, adjusted = _change_cells(difference)
                pipeline = [name] if names[2:] else []
                rows.append((value, f"{part.n:,}", metric, *pipeline, change, interval, adjusted))
    first_columns = ["pipeline"] if names[2:] else []
    headers = (
        expression,
        "n",
        "metric",
        *first_columns,
        _axis(names),
        formatting.interval_header(level),
        "p (adj.)",
    )
    title = f"All differences by {expression}" if folded else ""
    right = (1, 3 + len(first_columns), 5 + len(first_columns))
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


class PipelineChange(Struct, frozen=True):
    """A key whose values differ, with that of each pipeline; None where it has no such key."""

    path: str
    values: tuple[Any, ...]


def pipeline_changes(documents: Sequence[NamedValues]) -> list[PipelineChange]:
    """The differences between resolved pipelines, in the order of the first; measuring keys are left out."""
    asked = [
        {key: value for key, value in document.items() if key not in _IGNORED}
        for document in documents
    ]
    return list(_changes(asked, ""))[:MOST_CHANGES]


def _changes(values: Sequence[Any], path: str) -> Iterator[PipelineChange]:
    if all(isinstance(value, Mapping) for value in values):
        for key in dict.fromkeys(key for value in values for key in value):
            inner = [value.get(key) for value in values]
            yield from _changes(inner, f"{path}.{key}" if path else str(key))
    elif all(isinstance(value, list) for value in values):
        for index in range(max(map(len, values))):
            inner = [value[index] if index < len(value) else None for value in values]
            yield from _changes(inner, f"{path}[{index}]")
    elif any(value != values[0] or type(value) is not type(values[0]) for value in values):
        yield PipelineChange(path, tuple(values))


def changes_section(changes: Sequence[PipelineChange], names: Sequence[str]) -> Iterator[Section]:
    """A table of the differences, and the lines of texts that differ; no section where the pipelines are alike."""
    if not changes:
        return
    rows = [(change.path, *map(_cell, change.values)) for change in changes]
    is_long = any(len(cell) > _LONGEST // 2 for row in rows for cell in row)
    parts: list[Part] = [Table(("key", *names), rows, records=is_long)]
    for change in changes:
        first, *others = change.values
        parts += [
            _text_difference(f"{change.path}: lines that differ", first, other, (names[0], name))
            for name, other in zip(names[1:], others, strict=True)
            if first != other
            and isinstance(first, str)
            and isinstance(other, str)
            and "\n" in first + other
        ]
    yield Section("What differs between the pipelines", parts)


def _text_difference(title: str, first: str, other: str, names: tuple[str, str]) -> CodeBlock:
    lines = unified_diff(first.splitlines(), other.splitlines(), *names, lineterm="", n=1)
    return CodeBlock(title, "\n".join(lines))


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
    shared = _shared_evaluations(runs)
    keys = [_repeat_key(run) for run in runs]
    groups = _groups(keys)
    if len(groups) > MOST_PIPELINES:
        raise UsageError(
            f"{plural(len(groups), 'pipeline is|pipelines are')} more than {MOST_PIPELINES}",
            hint="compare fewer at a time",
        )
    order = [index for group in groups for index in group]
    comparison = compare_runs(
        {name: [evaluations[index] for index in order] for name, evaluations in shared.items()},
        [runs[index].directory.results for index in order],
        sizes=[len(group) for group in groups],
        by=by,
        seed=runs[-1].facts.seed,
        level=level or runs[0].plan.interval_level,
    )
    compared = _compared_runs(runs, names)
    pipelines = [[compared[index] for index in group] for group in groups]
    changes = pipeline_changes([runs[group[0]].plan.resolved for group in groups])
    same = len(set(keys)) < len(groups)
    return comparison_document(pipelines, comparison, changes, same_pipeline=same), comparison


def _groups(keys: Sequence[tuple[str, ...]]) -> list[list[int]]:
    """The runs of each pipeline. Two runs are always compared with each other, also where they repeat one pipeline."""
    if len(keys) == 2:
        return [[0], [1]]
    groups: dict[tuple[str, ...], list[int]] = {}
    for index, key in enumerate(keys):
        groups.setdefault(key, []).append(index)
    return list(groups.values())


def _repeat_key(run: RunResult) -> tuple[str, ...]:
    """What repeated runs have in common: the pipeline without its seeds, the recording that answers, and the data."""
    return (*pipeline_key(run), run.facts.data_fingerprint)


def _compared_runs(runs: Sequence[RunResult], names: Sequence[str]) -> list[ComparedRun]:
    run_names = names or [str(run.directory.path) for run in runs]
    return [
        ComparedRun(name, run.facts, latency(run.directory.calls))
        for name, run in zip(run_names, runs, strict=True)
    ]


def _shared_evaluations(runs: Sequence[RunResult]) -> dict[str, list[Evaluation]]:
    """Each evaluation that all runs have, as each of them defines it."""
    evaluation_sets = [run.plan.evaluations for run in runs]
    shared = {
        name: [evaluations[name] for evaluations in evaluation_sets]
        for name in evaluation_sets[-1]
        if all(name in evaluations for evaluations in evaluation_sets)
    }
    if not shared:
        names = " and ".join(", ".join(evaluations) or "none" for evaluations in evaluation_sets)
        which = " and ".join(str(run.directory.path) for run in runs)
        raise UsageError(f"{which} share no evaluation", hint=f"their evaluations are {names}")
    return shared
