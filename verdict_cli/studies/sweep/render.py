"""A sweep laid out: one JSON document, a text for a terminal, Markdown, a page with the frontier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table as Grid
from rich.text import Text

from verdict_cli.report import formatting
from verdict_cli.report.markdown import safe
from verdict_cli.report.page.assemble import assemble_page
from verdict_cli.report.page.chart_values import ChartPlace, ChartPoint, Dots, Scatter, Series
from verdict_cli.report.page.components import Group as Beside
from verdict_cli.report.page.components import Links, Note, PagePart, Section
from verdict_cli.report.page.page_table import PageTable
from verdict_cli.studies.sweep.results import Point, SweepResult, price

UNITS = {"cost": "US dollars", "calls": "model calls", "latency": "seconds a row (median)"}
SWEEP_HEADERS = (
    "",
    "variant",
    "figure",
    "95% interval",
    "difference",
    "95% interval",
    "p (Holm)",
    "calls",
    "cost",
    "row p50",
)
PAIRED = "Differences are paired, against the first variant."
LEGEND = f"* on the frontier: no other variant is as good for less. {PAIRED}"
BOLD = f"Bold rows are on the frontier: no other variant is as good for less. {PAIRED}"


def swept_json(swept: SweepResult, facts: Mapping[str, Any]) -> dict[str, Any]:
    """The document of `verdict sweep --json`, and `sweep.json`."""
    return {
        **facts,
        "metric": swept.metric,
        "lower_is_better": swept.lower_is_better,
        "frontier_against": swept.axis,
        "variants": [_point(point) for point in swept.points],
        "frontier": [point.ran.name for point in _frontier(swept)],
    }


def _point(point: Point) -> dict[str, Any]:
    figure, run = point.figure, point.ran.facts
    change = None if point.change is None else point.change.change
    return {
        "name": point.ran.name,
        "run": str(point.ran.folder),
        "rows": run.rows,
        "failed": run.failed,
        "figure": {"value": figure.value, "low": figure.low, "high": figure.high, "n": figure.n},
        "difference": None
        if change is None
        else {"value": change.value, "low": change.low, "high": change.high, "n": change.n},
        "p": None if point.test is None else point.test.p,
        "p_holm": None if point.test is None else point.test.p_holm,
        "reason": point.reason or figure.reason,
        "calls": point.alone.calls,
        "cost_usd": point.alone.cost_usd,
        "paid_usd": run.cost_usd,
        "cached": run.cached,
        "row_s_median": point.alone.row_s,
        "frontier": point.frontier,
        "floors": list(run.floors),
    }


def _frontier(swept: SweepResult) -> list[Point]:
    return sorted(
        (point for point in swept.points if point.frontier), key=lambda point: price(point, swept.axis) or 0.0
    )


def _cells(point: Point) -> tuple[str, ...]:
    figure, change = point.figure, None if point.change is None else point.change.change
    return (
        "*" if point.frontier else "",
        formatting.visible_text(point.ran.name, 60),
        formatting.format_number(figure.value),
        formatting.interval(figure.low, figure.high) or formatting.visible_text(figure.reason, 60),
        "" if change is None else formatting.format_number(change.value),
        formatting.visible_text(point.reason, 60) if change is None else formatting.interval(change.low, change.high),
        "" if point.test is None or change is None else f"{point.test.p_holm:.3g}",
        f"{point.alone.calls:,}",
        formatting.money(point.alone.cost_usd),
        "–" if point.alone.row_s is None else f"{point.alone.row_s:.3g} s",
    )


def _notes(swept: SweepResult) -> list[str]:
    floors = dict.fromkeys(floor for point in swept.points for floor in point.ran.facts.floors)
    notes = [f"{formatting.visible_text(floor)} is a floor to beat, not a judge" for floor in floors]
    cached = sum(point.ran.facts.cached for point in swept.points)
    if cached:
        paid = [point.ran.facts.cost_usd for point in swept.points]
        spent = None if None in paid else sum(cost for cost in paid if cost is not None)
        notes.append(
            f"{cached:,} replies came from the cache: {formatting.money(spent)} were paid here. "
            "Calls and cost above are those of each variant by itself."
        )
    failed = [
        f"{formatting.visible_text(point.ran.name, 60)} {point.ran.facts.failed:,}"
        for point in swept.points
        if point.ran.facts.failed
    ]
    if failed:
        notes.append(f"rows that failed: {', '.join(failed)}")
    return notes


def _title(swept: SweepResult) -> str:
    better = " (lower is better)" if swept.lower_is_better else ""
    return f"{swept.metric}{better}, frontier against {swept.axis}"


def swept_terminal(swept: SweepResult) -> Group:
    """What `rich` prints: the variants, then their differences, so that both fit 80 columns."""
    rows = [_cells(point) for point in swept.points]
    parts: list[RenderableType] = [Text(_title(swept), style="bold"), _grid(rows, (0, 1, 2, 3, 7, 8, 9))]
    if len(rows) > 1:
        parts += [Text(), _grid(rows[1:], (1, 4, 5, 6))]
    return Group(*parts, Text(LEGEND), *map(Text, _notes(swept)))


def _grid(rows: Sequence[Sequence[str]], columns: Sequence[int]) -> Grid:
    grid = Grid(box=None, padding=(0, 1), header_style="dim")
    for column in columns:
        right = column in (2, 4, 6, 7, 8, 9)
        name = column == 1
        grid.add_column(
            SWEEP_HEADERS[column],
            justify="right" if right else "left",
            overflow="fold",
            no_wrap=not name,
            min_width=16 if name else None,
        )
    for row in rows:
        grid.add_row(*(Text(row[column]) for column in columns))
    return grid


def swept_markdown(title: str, swept: SweepResult) -> str:
    """`sweep.md`."""
    lines = [f"# {safe(title)}", "", _title(swept), "", _row(SWEEP_HEADERS), _row(["---"] * len(SWEEP_HEADERS))]
    lines += [_row(_cells(point)) for point in swept.points]
    return "\n".join([*lines, "", safe(LEGEND), *(f"\n{safe(note)}" for note in _notes(swept))]) + "\n"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(safe(cell) for cell in cells)} |"


def swept_html(title: str, swept: SweepResult) -> str:
    """`sweep.html`: the table, the frontier and the differences in one file."""
    notes: list[PagePart | Beside] = [Note(note, warning="floor" in note) for note in _notes(swept)]
    rows = [_cells(point)[1:] for point in swept.points]
    strong = [place for place, point in enumerate(swept.points) if point.frontier]
    table = PageTable(SWEEP_HEADERS[1:], rows, (1, 2, 3, 4, 5, 6, 7, 8), caption=BOLD, strong=strong)
    charts: list[PagePart] = [_scatter(swept), *_changes(swept)]
    files = [f"{point.ran.folder.parent.name}/{point.ran.folder.name}/report.html" for point in swept.points]
    sections = [
        Section("", [*notes, table], listed=False),
        Section("Frontier", [Beside(charts)]),
        Section("Runs", [Links(files)]),
    ]
    return assemble_page(title, sections, kicker="Verdict sweep", lead=_title(swept))


def _scatter(swept: SweepResult) -> Scatter:
    on = _frontier(swept)
    others = [point for point in swept.points if not point.frontier]
    series = [
        Series("frontier", _places(on, swept.axis), joined=True, named=True),
        Series("other variants", _places(others, swept.axis), named=True),
    ]
    figure = swept.metric.rpartition(".")[2]
    return Scatter(
        f"{figure} against {swept.axis}",
        [one for one in series if one.places],
        UNITS[swept.axis],
        swept.metric,
        caption="Bars are 95% intervals. The line joins the variants that no other beats.",
    )


def _places(points: Sequence[Point], axis: str) -> list[ChartPlace]:
    found = []
    for point in points:
        x, figure = price(point, axis), point.figure
        if x is not None and figure.value is not None:
            found.append(ChartPlace(x, figure.value, figure.low, figure.high, label=point.ran.name))
    return found


def _changes(swept: SweepResult) -> list[Dots]:
    spots = [
        ChartPoint(point.ran.name, one.value, one.low, one.high, strong=point.frontier)
        for point in swept.points
        if point.change is not None and (one := point.change.change).value is not None
    ]
    title = f"Difference from {swept.points[0].ran.name}"
    return [Dots(title, spots, swept.metric, reference=0, caption="Paired, row by row.")] if spots else []
