"""The comparison of three or more runs as a document: each pipeline against the reference, and how much runs differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from verdict_cli.report import formatting
from verdict_cli.report.charts import ChartPoint, Dots
from verdict_cli.report.comparison import (
    MOST_SLICES_PRINTED,
    UNBOUNDED,
    ComparisonContext,
    difference_json,
    p_cells,
    run_json,
)
from verdict_cli.report.conclusions import several_conclusion, short_names
from verdict_cli.report.document import (
    PAGE_FORMATS,
    TEXT_FORMATS,
    Group,
    Note,
    Only,
    Part,
    ReportDocument,
    Section,
    Table,
)
from verdict_cli.stats.compare_several import SeveralComparison, SeveralEvaluation, SeveralSlice, SeveralValues
from verdict_cli.stats.paired import Difference

CACHED = (
    "{run}: {cached:,} of {calls:,} replies came from the cache. Runs that share replies hide how much runs differ; "
    "use another --seed, or --no-cache"
)


@dataclass(frozen=True, slots=True)
class PipelineContext:
    """One of the pipelines that are compared: its letter, and its runs."""

    letter: str
    runs: Sequence[ComparisonContext]


def several_document(pipelines: Sequence[PipelineContext], comparison: SeveralComparison) -> ReportDocument:
    """The document; differences are from the first pipeline, the reference."""
    letters = [each.letter for each in pipelines]
    short = short_names([each.runs[0].run for each in pipelines])
    # The letter stands for the repeated runs of a pipeline, which have no name in common.
    names = [name if len(each.runs) == 1 else each.letter for name, each in zip(short, pipelines, strict=True)]
    sections = [Section("", [*_opening(pipelines)], listed=False, essential=True)]
    sections += [
        Section(name, [*_evaluation(each, pipelines, comparison)], formatting.kind_text(each.kind))
        for name, each in comparison.evaluations.items()
    ]
    count = sum(len(each.runs) for each in pipelines)
    return ReportDocument(
        f"{pipelines[0].runs[0].facts.name}: {count} runs",
        sections,
        kicker="Verdict comparison",
        lead=f"{', '.join(letters[1:])} against a, the reference" if letters[1:] else "runs of one pipeline",
        elsewhere="with --json",
        data=lambda: several_json(pipelines, comparison),
        conclusion=several_conclusion(comparison, names),
    )


def several_json(pipelines: Sequence[PipelineContext], comparison: SeveralComparison) -> dict[str, Any]:
    """The document of `verdict compare --json` of three or more runs; differences are from the reference."""
    letters = [each.letter for each in pipelines]
    return {
        "reference": letters[0],
        "pipelines": {each.letter: [run_json(run) for run in each.runs] for each in pipelines},
        "paired_by": comparison.paired.by,
        "paired_columns": list(comparison.paired.columns),
        "level": comparison.level,
        "evaluations": {
            name: {
                "kind": each.kind,
                "reason": each.reason,
                "not_in_all": list(each.alone),
                **_slice_json(each.whole, letters, comparison.level),
                "by": {
                    expression: {value: _slice_json(part, letters, comparison.level) for value, part in slices.items()}
                    for expression, slices in each.slices.items()
                },
            }
            for name, each in comparison.evaluations.items()
        },
    }


def _slice_json(part: SeveralSlice, letters: Sequence[str], level: float) -> dict[str, Any]:
    return {
        "n": part.n,
        "figures": {metric: _values_json(values, letters, level) for metric, values in part.metrics.items()},
    }


def _values_json(values: SeveralValues, letters: Sequence[str], level: float) -> dict[str, Any]:
    spread = values.spread
    return {
        "values": dict(zip(letters, values.values, strict=False)),
        "runs": {letter: list(each) for letter, each in zip(letters, values.runs, strict=False)},
        "differences": {
            letter: difference_json(each, "reference", "pipeline")
            for letter, each in zip(letters[1:], values.differences, strict=True)
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


def _opening(pipelines: Sequence[PipelineContext]) -> Iterator[Part]:
    rows = []
    for each in pipelines:
        for run in each.runs:
            facts = run.facts
            rows.append(
                (
                    f"{each.letter} (reference)" if each is pipelines[0] else each.letter,
                    run.run,
                    str(facts.seed),
                    f"{facts.rows:,}",
                    f"{facts.failed:,}",
                    f"{facts.calls:,}",
                    formatting.money(facts.cost_usd),
                )
            )
    yield Table(("pipeline", "run", "seed", "rows", "failed", "calls", "cost"), rows, (2, 3, 4, 5, 6))
    for each in pipelines:
        if len(each.runs) > 1:
            yield Note(f"{each.letter}: {len(each.runs)} runs of one pipeline, compared by their mean")
            for run in each.runs:
                if cached := run.facts.cached - run.facts.shared:
                    text = CACHED.format(run=run.run, cached=cached, calls=run.facts.calls)
                    yield Note(text, warning=True)
    runs = [run for each in pipelines for run in each.runs]
    for model in dict.fromkeys(model for run in runs for model in run.facts.floors):
        yield Note(formatting.baseline_notice(model), warning=True)
    for run in runs:
        for notice in formatting.replay_notice(run.facts):
            yield Note(f"{run.run}: {notice}", warning=True)


def _evaluation(
    each: SeveralEvaluation, pipelines: Sequence[PipelineContext], comparison: SeveralComparison
) -> Iterator[Part]:
    if each.reason:
        yield Note(f"not compared: {each.reason}", warning=True)
        return
    letters = [one.letter for one in pipelines]
    runs = [run.run for one in pipelines for run in one.runs]
    paired = f"{each.whole.n:,} rows paired by {comparison.paired.text}"
    left = [f"{count:,} of {run}" for run, count in zip(runs, each.alone, strict=True) if count]
    yield Note(f"{paired}; not in all runs: {', '.join(left)}" if left else paired)
    yield _values_table(each.whole, letters, comparison.level)
    if any(values.spread is not None and values.runs for values in each.whole.metrics.values()):
        yield from _spread_parts(each.whole, letters, comparison.level)
    if charts := [*_charts(each.whole, letters)]:
        yield Only(PAGE_FORMATS, [Group(charts)])
    for expression, slices in each.slices.items() if letters[1:] else ():
        yield Only(PAGE_FORMATS, [_slices_table(expression, slices, letters, comparison.level, folded=True)])
        short = _slices_table(expression, slices, letters, comparison.level, folded=False)
        yield Only(TEXT_FORMATS, [Note(f"by {expression}"), short])


def _values_table(whole: SeveralSlice, letters: Sequence[str], level: float) -> Table:
    rows: list[tuple[str, ...]] = []
    for metric, values in whole.metrics.items():
        reference = values.values[0] if values.values else None
        if reference is None:
            reference = next((each.first for each in values.differences if each.first is not None), None)
        rows.append((metric, letters[0], formatting.format_number(reference), "", "", "", ""))
        for letter, difference in zip(letters[1:], values.differences, strict=True):
            rows.append(("", letter, formatting.format_number(difference.second), *_cells(difference)))
    if not letters[1:]:
        return Table(("metric", "mean of the runs"), [(row[0], row[2]) for row in rows], (1,))
    together = formatting.interval_header(level, "together" if len(letters) > 2 else "")
    return Table(("metric", "pipeline", "value", f"− {letters[0]}", together, "p", "p (adj.)"), rows, (2, 3, 5, 6))


def _cells(difference: Difference) -> tuple[str, ...]:
    change = difference.change
    interval = " ".join(filter(None, (formatting.interval(change.low, change.high), change.reason)))
    return (formatting.format_number(change.value), interval, *p_cells(difference))


def _spread_parts(whole: SeveralSlice, letters: Sequence[str], level: float) -> Iterator[Part]:
    """How much runs of one pipeline differ, in words for the first metric and as a table for all."""
    rows: list[tuple[str, ...]] = []
    repeated = [index for index, runs in enumerate(next(iter(whole.metrics.values())).runs) if len(runs) > 1]
    for metric, values in whole.metrics.items():
        if values.spread is None or not values.runs:
            continue
        floor = formatting.format_number(values.spread.noise_floor(level))
        if not rows:
            share = f"{100 * level:g} of 100 pairs"
            yield Note(f"noise floor: two runs of one pipeline differ by up to {floor} in {metric} ({share})")
        ranges = [
            f"{formatting.format_number(min(values.runs[index]))} to {formatting.format_number(max(values.runs[index]))}"
            for index in repeated
        ]
        sds = (values.spread.seen**0.5, values.spread.within**0.5)
        rows.append((metric, *ranges, *map(formatting.format_number, sds), floor))
    headers = ("metric", *(f"runs of {letters[index]}" for index in repeated))
    right = tuple(range(len(headers), len(headers) + 3))
    yield Table((*headers, "sd of runs", "sd by rows alone", "noise floor"), rows, right)


def _charts(whole: SeveralSlice, letters: Sequence[str]) -> Iterator[Dots]:
    """The differences of all metrics; those in units of their own in a second chart."""
    for bounded, title in ((True, "Differences"), (False, "Differences in the metrics' own units")):
        points = [
            ChartPoint(f"{metric}, {letter}", each.change.value, each.change.low, each.change.high)
            for metric, values in whole.metrics.items()
            for letter, each in zip(letters[1:], values.differences, strict=True)
            if each.change.value is not None and (metric not in UNBOUNDED) == bounded
        ]
        if points:
            caption = f"Right of the dashed line, the pipeline is higher than {letters[0]}."
            yield Dots(title, points, f"− {letters[0]}", reference=0, caption=caption)


def _slices_table(
    expression: str, slices: Mapping[str, SeveralSlice], letters: Sequence[str], level: float, *, folded: bool
) -> Table:
    """All metrics of each slice under a folded title, else the first metric of each."""
    rows = []
    for value, part in slices.items():
        for metric, values in list(part.metrics.items())[: None if folded else 1]:
            for letter, difference in zip(letters[1:], values.differences, strict=True):
                change, interval, _, adjusted = _cells(difference)
                rows.append((value, f"{part.n:,}", metric, letter, change, interval, adjusted))
    headers = (
        expression, "n", "metric", "pipeline", f"− {letters[0]}", formatting.interval_header(level), "p (adj.)",
    )  # fmt: skip
    title = f"All differences by {expression}" if folded else ""
    return Table(headers, rows, (1, 4, 6), folded=title, most_rows=MOST_SLICES_PRINTED)
