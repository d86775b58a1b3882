"""The comparison of two runs as a document: the paired differences, and the rows that changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from verdict_cli.report import formatting
from verdict_cli.report.answering_models import changed_versions, version_notices
from verdict_cli.report.charts import ChartPoint, Dots
from verdict_cli.report.compress import packed
from verdict_cli.report.conclusions import comparison_conclusion, contradictions, short_names, significance_text
from verdict_cli.report.document import (
    PAGE_FORMATS,
    TEXT_FORMATS,
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
from verdict_cli.report.pipeline_changes import PipelineChange, changes_section
from verdict_cli.run_facts import RunFacts
from verdict_cli.stats.call_stats import Latency
from verdict_cli.stats.compare import ComparedMetric, RunComparison, Significance, Slice
from verdict_cli.stats.paired import Difference, OpenRows
from verdict_cli.stats.paired_outcomes import Flip

MOST_FLIPS_PRINTED = 10
MOST_SLICES_PRINTED = 12
MOST_FLIPS_ON_PAGE = 10_000
UNBOUNDED = frozenset({"mean", "median", "variance", "mae", "rmse", "log_loss"})
"""Metrics that share no axis with those from 0 to 1."""
SAME_PIPELINE = "both are runs of one pipeline: their differences are those of a repeated run"
Sides = tuple["ComparisonContext", "ComparisonContext"]


@dataclass(frozen=True, slots=True)
class ComparisonContext:
    """One of the two runs: its directory as given, its facts, and how long its calls took."""

    run: str
    facts: RunFacts
    latency: Latency | None


def comparison_json(sides: Sides, comparison: RunComparison) -> dict[str, Any]:
    """The document of `verdict compare --json`; differences are `b` minus `a`."""
    return {
        "a": run_json(sides[0]),
        "b": run_json(sides[1]),
        "paired_by": comparison.paired.by,
        "paired_columns": list(comparison.paired.columns),
        "level": comparison.level,
        "evaluations": {name: _evaluation_json(one, comparison.level) for name, one in comparison.evaluations.items()},
    }


def run_json(side: ComparisonContext) -> dict[str, Any]:
    """The facts of one of the runs."""
    facts, took = side.facts, side.latency
    return {
        "run": side.run,
        "name": facts.name,
        "status": facts.status,
        "rows": facts.rows,
        "failed": facts.failed,
        "calls": facts.calls,
        "cost_usd": facts.cost_usd,
        "wall_s": facts.wall_s,
        "models": dict(facts.models),
        "served": {model: dict(served) for model, served in facts.served.items()},
        "floors": list(facts.floors),
        "latency_s": None if took is None else {"mean": took.mean_s, "median": took.median_s, "p95": took.p95_s},
    }


def _evaluation_json(one: ComparedMetric, level: float) -> dict[str, Any]:
    return {
        "kind": one.kind,
        "reason": one.reason,
        "only_a": one.alone[0],
        "only_b": one.alone[1],
        **_slice_json(one.whole),
        "notes": contradictions(one.whole, level),
        "by": {
            expression: {value: _slice_json(each) for value, each in slices.items()}
            for expression, slices in one.slices.items()
        },
        "flipped": [_flip_json(flip) for flip in one.flips],
    }


def _slice_json(one: Slice) -> dict[str, Any]:
    return {
        "n": one.n,
        "figures": {metric: difference_json(each) for metric, each in one.differences.items()},
        "test": None if one.test is None else _test_json(one.test),
    }


def difference_json(each: Difference, first: str = "a", second: str = "b") -> dict[str, Any]:
    """A metric of both sides, called `first` and `second`, and its difference."""
    change = each.change
    return {
        first: each.first,
        second: each.second,
        "difference": change.value,
        "low": change.low,
        "high": change.high,
        "n": change.n,
        "p": each.p,
        "p_holm": each.p_holm,
        "se": change.se,
        "method": change.method,
        "df": change.df,
        "level": change.level,
        "reason": change.reason,
        "warnings": list(change.warnings),
        "open_rows": None if each.open_rows is None else _open_json(each.open_rows),
    }


def _open_json(rows: OpenRows) -> dict[str, Any]:
    """The share of rows that only one run scores, and the ends of the difference in the worst and the best case."""
    low = None if rows.worst is None else rows.worst.low
    return {"share": rows.share, "low": low, "high": None if rows.best is None else rows.best.high}


def _test_json(test: Significance) -> dict[str, Any]:
    return {
        "name": test.name,
        "of": test.of,
        "n": test.n,
        "better": test.better,
        "worse": test.worse,
        "p": test.p,
        "p_holm": test.p_holm,
        "effect": {"name": test.effect_name, "value": test.effect},
    }


def _flip_json(flip: Flip) -> dict[str, Any]:
    return {"id": flip.id, "a": flip.first, "b": flip.second, "target": flip.target, "gain": flip.gain}


def comparison_document(
    sides: Sides, comparison: RunComparison, changes: Sequence[PipelineChange] = (), *, same_pipeline: bool = False
) -> ReportDocument:
    """The document; differences are `b` minus `a`, `changes` those of the pipelines; `same_pipeline`: there is but one."""
    names = short_names([side.run for side in sides])
    sections = [Section("", [*_runs(sides, names), *([Note(SAME_PIPELINE)] if same_pipeline else [])], listed=False)]
    sections += [
        Section(
            name,
            [*_evaluation(metric, comparison.paired.text, comparison.level, names)],
            formatting.kind_text(metric.kind),
        )
        for name, metric in comparison.evaluations.items()
    ]
    return ReportDocument(
        f"{sides[0].facts.name} → {sides[1].facts.name}",
        [*sections, *changes_section(changes)],
        kicker="Verdict comparison",
        lead=f"{names[1]} against {names[0]}, the reference",
        elsewhere="with --json",
        data=lambda: {**comparison_json(sides, comparison), "changes": [asdict(each) for each in changes]},
        conclusion=comparison_conclusion(comparison, names),
    )


def _runs(sides: Sides, names: Sequence[str]) -> Iterator[Part]:
    facts = [
        {"run": side.run, **dict(formatting.run_facts(side.facts)), **_latency_facts(side.latency)} for side in sides
    ]
    rows = dict.fromkeys((*facts[0], *facts[1]))
    yield Table(("", *names), [(row, *(each.get(row, "–") for each in facts)) for row in rows])
    for model in dict.fromkeys((*sides[0].facts.floors, *sides[1].facts.floors)):
        yield Note(formatting.baseline_notice(model), warning=True)
    for name, side in zip(names, sides, strict=True):
        for notice in (*formatting.replay_notice(side.facts), *version_notices(side.facts)):
            yield Note(f"{name}: {notice}", warning=True)
    for notice in changed_versions(sides[0].facts, sides[1].facts):
        yield Note(notice, warning=True)


def _latency_facts(latency: Latency | None) -> dict[str, str]:
    return {} if latency is None else {"latency": f"{latency.median_s:.3g} s median, {latency.p95_s:.3g} s p95"}


def _evaluation(metric: ComparedMetric, by: str, level: float, names: Sequence[str]) -> Iterator[Part]:
    if metric.reason:
        yield Note(f"not compared: {metric.reason}", warning=True)
        return
    whole = metric.whole
    paired = f"{whole.n:,} rows paired by {by}"
    if any(metric.alone):
        paired += f"; {metric.alone[0]:,} only in {names[0]}, {metric.alone[1]:,} only in {names[1]}"
    yield Note(paired)
    if whole.test is not None:
        yield Note(significance_text(whole.test, names[1]))
    yield _metrics_table(whole, level, names)
    for line in contradictions(whole, level):
        yield Note(line)
    by_slice = [_slice_chart(expression, slices, names) for expression, slices in metric.slices.items() if slices]
    charts = [*_difference_charts(whole, names), *by_slice]
    if charts:
        yield Only(PAGE_FORMATS, [Group(charts)])
    for expression, slices in metric.slices.items():
        yield Only(PAGE_FORMATS, [_slices_table(expression, slices, level, names, folded=True)])
        yield Only(
            TEXT_FORMATS, [Note(f"by {expression}"), _slices_table(expression, slices, level, names, folded=False)]
        )
    if metric.flips:
        yield from _flips(metric.flips, names)


def _metrics_table(whole: Slice, level: float, names: Sequence[str]) -> Table:
    rows = [
        (
            name,
            *map(formatting.format_number, (difference.first, difference.second)),
            *_change_cells(difference),
            *p_cells(difference),
        )
        for name, difference in whole.differences.items()
    ]
    return Table(
        ("metric", *names, _minus(names), formatting.interval_header(level), "p", "p (adj.)"), rows, (1, 2, 3, 5, 6)
    )


def _minus(names: Sequence[str]) -> str:
    return f"{names[1]} − {names[0]}"


def p_cells(difference: Difference) -> tuple[str, str]:
    """The p-value of this metric's difference, by itself and among all metrics."""
    p, adjusted = ("–" if each is None else f"{each:.3g}" for each in (difference.p, difference.p_holm))
    return p, adjusted


def _change_cells(difference: Difference) -> tuple[str, str]:
    """The difference, and its interval with the reason why one of both is missing."""
    change = difference.change
    interval = " ".join(filter(None, (formatting.interval(change.low, change.high), change.reason)))
    return formatting.format_number(change.value), interval


def _difference_charts(whole: Slice, names: Sequence[str]) -> Iterator[Dots]:
    """The differences of all metrics; those in units of their own in a second chart."""
    for bounded, title in ((True, "Differences"), (False, "Differences in the metrics' own units")):
        points = [
            ChartPoint(name, difference.change.value, difference.change.low, difference.change.high)
            for name, difference in whole.differences.items()
            if difference.change.value is not None and (name not in UNBOUNDED) == bounded
        ]
        if points:
            yield Dots(
                title, points, _minus(names), reference=0, caption=f"Right of the dashed line, {names[1]} is higher."
            )


def _slice_chart(expression: str, slices: Mapping[str, Slice], names: Sequence[str]) -> Dots:
    metric = next((name for each in slices.values() for name in each.differences), "")
    points = [
        ChartPoint(value, found.change.value, found.change.low, found.change.high, f"n={each.n:,}")
        for value, each in slices.items()
        if (found := each.differences.get(metric)) is not None
    ]
    return Dots(f"{metric} by {expression}", points, _minus(names), reference=0, caption="Paired differences by slice.")


def _slices_table(
    expression: str, slices: Mapping[str, Slice], level: float, names: Sequence[str], *, folded: bool
) -> Table:
    """All metrics of each slice under a folded title, else the first metric of each."""
    rows = [
        (value, f"{each.n:,}", name, *_change_cells(difference), p_cells(difference)[1])
        for value, each in slices.items()
        for name, difference in list(each.differences.items())[: None if folded else 1]
    ]
    headers = (expression, "n", "metric", _minus(names), formatting.interval_header(level), "p (adj.)")
    title = f"All differences by {expression}" if folded else ""
    return Table(headers, rows, (1, 3, 5), folded=title, most_rows=MOST_SLICES_PRINTED)


def _flips(flips: tuple[Flip, ...], names: Sequence[str]) -> Iterator[Part]:
    cells = [
        (str(flip.id), *map(_outcome_text, (flip.first, flip.second, flip.target)), f"{names[flip.gain > 0]} better")
        for flip in flips[:MOST_FLIPS_ON_PAGE]
    ]
    changed = f"{len(flips):,} rows are scored differently"
    table = Table(("row", *names, "target", ""), cells, most_rows=MOST_FLIPS_PRINTED, total_rows=len(flips))
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
    note = f"{changed}; the first {len(rows):,} are here." if len(rows) < len(flips) else f"{changed}."
    yield Only(PAGE_FORMATS, [RowBrowser(columns, [packed(rows)], (), 1, len(rows), note)])


def _outcome_text(value: Any) -> str:
    return formatting.format_number(value) if isinstance(value, float) else formatting.label(value)
