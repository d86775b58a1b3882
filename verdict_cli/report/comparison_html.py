"""Two runs beside each other as one HTML file: the paired differences, and the rows that flipped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from verdict_cli.report import formatting
from verdict_cli.report.comparison import ComparisonContext, comparison_cell, latency_facts, significance
from verdict_cli.report.page.assemble import assemble_page
from verdict_cli.report.page.chart_values import ChartPoint, Dots
from verdict_cli.report.page.components import Browser, Group, Note, PagePart, Section, TableColumn
from verdict_cli.report.page.compress import packed
from verdict_cli.report.page.page_table import PageTable
from verdict_cli.stats.compare import ComparedMetric, RunComparison, Slice

MOST_FLIPS_ON_PAGE = 10_000
UNBOUNDED = frozenset({"mean", "median", "variance", "mae", "rmse", "log_loss"})
"""Figures that share no axis with those from 0 to 1."""


def comparison_html(sides: tuple[ComparisonContext, ComparisonContext], comparison: RunComparison) -> str:
    """The file; differences are `b` minus `a`."""
    sections = [Section("", [*_runs(sides)], listed=False)]
    for name, one in comparison.evaluations.items():
        sections.append(Section(name, [*_evaluation(one, comparison.by)]))
    title = f"{sides[0].facts.name} → {sides[1].facts.name}"
    return assemble_page(title, sections, kicker="Verdict comparison", lead=f"a is {sides[0].run}, b is {sides[1].run}")


def _runs(sides: tuple[ComparisonContext, ComparisonContext]) -> Iterator[PagePart]:
    for floor in dict.fromkeys((*sides[0].facts.floors, *sides[1].facts.floors)):
        yield Note(f"{floor} is a floor to beat, not a judge", warning=True)
    for name, side in zip("ab", sides, strict=True):
        for notice in formatting.replayed(side.facts):
            yield Note(f"{name}: {notice}", warning=True)
    facts = [dict(formatting.facts(side.facts)) | latency_facts(side.latency) for side in sides]
    names = dict.fromkeys((*facts[0], *facts[1]))
    yield PageTable(("", "a", "b"), [(name, *(each.get(name, "–") for each in facts)) for name in names])


def _evaluation(one: ComparedMetric, by: str) -> Iterator[PagePart | Group]:
    if one.reason:
        yield Note(f"not compared: {one.reason}", warning=True)
        return
    paired = f"{one.whole.n:,} rows paired by {by}"
    if any(one.alone):
        paired += f"; {one.alone[0]:,} only in a, {one.alone[1]:,} only in b"
    yield Note(paired)
    if one.whole.test is not None:
        yield Note(significance(one.whole.test))
    yield _figures(one.whole)
    charts = [*_changes(one.whole)]
    charts += [_by_slice(text, slices) for text, slices in one.slices.items() if slices]
    if charts:
        yield Group(charts)
    for text, slices in one.slices.items():
        yield _slices(text, slices)
    if one.flips:
        yield _flips(one)


def _figures(one: Slice) -> PageTable:
    rows = [
        (
            metric,
            formatting.format_number(each.first),
            formatting.format_number(each.second),
            formatting.format_number(each.change.value),
            formatting.interval(each.change.low, each.change.high),
            each.change.reason,
        )
        for metric, each in one.differences.items()
    ]
    return PageTable(("figure", "a", "b", "b − a", "95% interval", ""), rows, (1, 2, 3, 4))


def _changes(one: Slice) -> Iterator[Dots]:
    """The differences of all figures; those of other units in a chart of their own."""
    for bounded, title in ((True, "Differences"), (False, "Differences in the figures' own units")):
        spots = [
            ChartPoint(metric, each.change.value, each.change.low, each.change.high)
            for metric, each in one.differences.items()
            if each.change.value is not None and (metric not in UNBOUNDED) == bounded
        ]
        if spots:
            yield Dots(title, spots, "b − a", reference=0, caption="Right of the dashed line b has more.")


def _by_slice(expression: str, slices: Mapping[str, Slice]) -> Dots:
    metric = next((metric for one in slices.values() for metric in one.differences), "")
    spots = [
        ChartPoint(value, each.change.value, each.change.low, each.change.high, f"n={one.n:,}")
        for value, one in slices.items()
        if (each := one.differences.get(metric)) is not None
    ]
    return Dots(f"{metric} by {expression}", spots, "b − a", reference=0, caption="Paired differences by slice.")


def _slices(expression: str, slices: Mapping[str, Slice]) -> PageTable:
    rows = [
        (
            value,
            f"{one.n:,}",
            metric,
            formatting.format_number(each.change.value),
            formatting.interval(each.change.low, each.change.high),
            "–" if one.test is None else f"{one.test.p_holm:.3g}",
        )
        for value, one in slices.items()
        for metric, each in one.differences.items()
    ]
    headers = (expression, "n", "figure", "b − a", "95% interval", "p (Holm)")
    return PageTable(headers, rows, (1, 3, 4, 5), folded=f"All differences by {expression}")


def _flips(one: ComparedMetric) -> Browser:
    shown = one.flips[:MOST_FLIPS_ON_PAGE]
    better: Sequence[str] = ("b better", "a better")
    rows = [
        [
            better[flip.gain < 0],
            flip.id,
            comparison_cell(flip.first),
            comparison_cell(flip.second),
            comparison_cell(flip.target),
            flip.gain,
            None,
        ]
        for flip in shown
    ]
    columns = (
        TableColumn("better", "Which"),
        TableColumn("id", "Row"),
        TableColumn("a", "a"),
        TableColumn("b", "b"),
        TableColumn("target", "Target"),
        TableColumn("gain", "Gain", "number"),
    )
    note = f"{len(one.flips):,} rows are scored differently"
    note += f"; the first {len(shown):,} are here." if len(shown) < len(one.flips) else "."
    return Browser(columns, [packed(rows)], (), 1, len(shown), note)
