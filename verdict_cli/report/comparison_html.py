"""Two runs beside each other as one HTML file: the paired differences, and the rows that flipped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from verdict_cli.evaluate.compare import Compared, Comparison, Slice
from verdict_cli.report import words
from verdict_cli.report.comparison import Beside, cell, latency_facts, significance
from verdict_cli.report.page import Browser, Column, Dots, Group, Note, Part, Section, Spot, Table, page
from verdict_cli.report.page.packing import packed

MOST_FLIPS = 10_000
UNBOUNDED = frozenset({"mean", "median", "variance", "mae", "rmse", "log_loss"})
"""Figures that share no axis with those from 0 to 1."""


def comparison_html(sides: tuple[Beside, Beside], comparison: Comparison) -> str:
    """The file; differences are `b` minus `a`."""
    sections = [Section("", [*_runs(sides)], listed=False)]
    for name, one in comparison.evaluations.items():
        sections.append(Section(name, [*_evaluation(one, comparison.by)]))
    title = f"{sides[0].facts.name} → {sides[1].facts.name}"
    return page(
        title, sections, kicker="Verdict comparison", lead=f"a is {sides[0].run}, b is {sides[1].run}"
    )


def _runs(sides: tuple[Beside, Beside]) -> Iterator[Part]:
    for floor in dict.fromkeys((*sides[0].facts.floors, *sides[1].facts.floors)):
        yield Note(f"{floor} is a floor to beat, not a judge", warning=True)
    for name, side in zip("ab", sides, strict=True):
        for notice in words.replayed(side.facts):
            yield Note(f"{name}: {notice}", warning=True)
    facts = [dict(words.facts(side.facts)) | latency_facts(side.latency) for side in sides]
    names = dict.fromkeys((*facts[0], *facts[1]))
    yield Table(("", "a", "b"), [(name, *(each.get(name, "–") for each in facts)) for name in names])


def _evaluation(one: Compared, by: str) -> Iterator[Part | Group]:
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


def _figures(one: Slice) -> Table:
    rows = [
        (
            metric,
            words.number(each.first),
            words.number(each.second),
            words.number(each.change.value),
            words.interval(each.change.low, each.change.high),
            each.change.reason,
        )
        for metric, each in one.figures.items()
    ]
    return Table(("figure", "a", "b", "b − a", "95% interval", ""), rows, (1, 2, 3, 4))


def _changes(one: Slice) -> Iterator[Dots]:
    """The differences of all figures; those of other units in a chart of their own."""
    for bounded, title in ((True, "Differences"), (False, "Differences in the figures' own units")):
        spots = [
            Spot(metric, each.change.value, each.change.low, each.change.high)
            for metric, each in one.figures.items()
            if each.change.value is not None and (metric not in UNBOUNDED) == bounded
        ]
        if spots:
            yield Dots(title, spots, "b − a", reference=0, caption="Right of the dashed line b has more.")


def _by_slice(expression: str, slices: Mapping[str, Slice]) -> Dots:
    metric = next((metric for one in slices.values() for metric in one.figures), "")
    spots = [
        Spot(value, each.change.value, each.change.low, each.change.high, f"n={one.n:,}")
        for value, one in slices.items()
        if (each := one.figures.get(metric)) is not None
    ]
    return Dots(
        f"{metric} by {expression}", spots, "b − a", reference=0, caption="Paired differences by slice."
    )


def _slices(expression: str, slices: Mapping[str, Slice]) -> Table:
    rows = [
        (
            value,
            f"{one.n:,}",
            metric,
            words.number(each.change.value),
            words.interval(each.change.low, each.change.high),
            "–" if one.test is None else f"{one.test.p_holm:.3g}",
        )
        for value, one in slices.items()
        for metric, each in one.figures.items()
    ]
    headers = (expression, "n", "figure", "b − a", "95% interval", "p (Holm)")
    return Table(headers, rows, (1, 3, 4, 5), folded=f"All differences by {expression}")


def _flips(one: Compared) -> Browser:
    shown = one.flips[:MOST_FLIPS]
    better: Sequence[str] = ("b better", "a better")
    rows = [
        [
            better[flip.gain < 0],
            flip.id,
            cell(flip.first),
            cell(flip.second),
            cell(flip.target),
            flip.gain,
            None,
        ]
        for flip in shown
    ]
    columns = (
        Column("better", "Which"),
        Column("id", "Row"),
        Column("a", "a"),
        Column("b", "b"),
        Column("target", "Target"),
        Column("gain", "Gain", "number"),
    )
    note = f"{len(one.flips):,} rows are scored differently"
    note += f"; the first {len(shown):,} are here." if len(shown) < len(one.flips) else "."
    return Browser(columns, [packed(rows)], (), 1, len(shown), note)
