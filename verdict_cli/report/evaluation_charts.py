"""The charts of an evaluation: published rows, groups, calibration, scores against labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from verdict_cli.report import formatting
from verdict_cli.report.page.chart_values import Bars, ChartPlace, ChartPoint, Dots, Scatter, Series
from verdict_cli.report.page.components import Note
from verdict_cli.report.page.page_table import PageTable
from verdict_cli.report.report import PublishedComparison
from verdict_cli.stats.columns.column import MISSING, Floats
from verdict_cli.stats.evaluation_results import Bin, Distributions, Histogram, RowScores, histogram
from verdict_cli.stats.intervals.interval_methods import MetricValue
from verdict_cli.stats.measure import Measures

MOST_LABELS_IN_MATRIX = 30
"""A confusion table with more labels is no longer read."""
MOST_CHART_FIELDS = 3


def primary(measures: Measures, comparison: PublishedComparison | None = None) -> tuple[str, MetricValue] | None:
    """The figure that stands for the evaluation: the published one, else the first that there is."""
    known = [(name, one) for name, one in formatting.plain_text(measures.values.items()) if one.value is not None]
    if comparison is not None:
        known = [each for each in known if each[0] == comparison.metric] or known
    return known[0] if known else None


def published_chart(comparison: PublishedComparison) -> Dots:
    """This run among the published rows."""
    spots = [
        ChartPoint(row.judge, row.value, row.low, row.high, formatting.standing(row), row.ours)
        for row in comparison.standings
    ]
    return Dots(
        f"Beside {comparison.source}",
        spots,
        comparison.metric,
        caption=f"{comparison.metric}, {comparison.place}; the published rows come without intervals.",
    )


def group_chart(
    expression: str, values: Mapping[str, Mapping[str, MetricValue]], whole: tuple[str, MetricValue]
) -> Dots:
    """One figure for each value of an expression, with the figure of all rows as a line."""
    metric, figure = whole
    spots = [
        ChartPoint(value, one.value, one.low, one.high, f"n={one.n}")
        for value, figures in values.items()
        if (one := figures.get(metric)) is not None
    ]
    bounded = all((spot.low or 0) >= 0 and (spot.high or 0) <= 1 for spot in spots)
    return Dots(
        f"{metric} by {expression}",
        spots,
        metric,
        (0, 1) if bounded else (None, None),
        figure.value,
        "The dashed line is the figure of all rows.",
    )


def confusion(figure: MetricValue) -> PageTable | None:
    """Rows by target and prediction; shades are shares of the row."""
    labels, counts = figure.value["labels"], figure.value["counts"]
    if len(labels) > MOST_LABELS_IN_MATRIX:
        return None
    names = [formatting.label(label) for label in labels]
    heat = [
        [(count / sum(row) if sum(row) else 0.0) * (1 if at == place else -1) for at, count in enumerate(row)]
        for place, row in enumerate(counts)
    ]
    rows = [(name, *(f"{count:,}" for count in row)) for name, row in zip(names, counts, strict=True)]
    return PageTable(
        ("target ↓  prediction →", *names), rows, tuple(range(1, len(names) + 1)), "Rows by target and prediction", heat=heat
    )  # fmt: skip


def shapes(pictured: Distributions) -> Iterator[Bars | Scatter]:
    """Calibration and the distribution of what was said."""
    if pictured.reliability:
        yield Scatter(
            "Reliability",
            (Series("", _places(pictured.reliability), joined=True),),
            "mean probability",
            "share of positive targets",
            (0, 1),
            (0, 1),
            diagonal=True,
            caption="Ten bins of the probability; on the dashed line it is right about itself.",
        )
    if pictured.probabilities:
        yield bars("Probabilities by target", pictured.probabilities, "probability")
    if pictured.predictions:
        yield bars("Predictions", pictured.predictions, "prediction")
    if pictured.by_target:
        yield Scatter(
            "Prediction against target",
            (Series("", _places(pictured.by_target)),),
            "target",
            "mean prediction",
            diagonal=True,
            caption="Mean predictions with their 95% intervals; on the dashed line they equal the target.",
        )


def scores(scored: RowScores, fields: Mapping[str, Floats]) -> Iterator[Bars]:
    """The numbers that the pipeline gives, by target; `fields` are columns of all rows of the file."""
    data = scored.data
    labelled = data.target != MISSING
    for name, column in list(fields.items())[:MOST_CHART_FIELDS]:
        values = column[scored.at]
        kept = np.flatnonzero(np.isfinite(values) & labelled)
        if len(kept) and np.ptp(values[kept]) > 0:
            yield bars(f"{name} by target", histogram(values[kept], data.target[kept], data.labels), name)


def bars(title: str, shape: Histogram, x: str) -> Bars:
    """A histogram; bins of whole numbers bear the number, others their middle."""
    middles = [(low + high) / 2 for low, high in zip(shape.edges, shape.edges[1:], strict=False)]
    labels = [_label(middle) for middle in middles]
    return Bars(title, labels, shape.counts, x, "rows", joined=True)


def _label(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:.3g}"


def _places(bins: Sequence[Bin]) -> list[ChartPlace]:
    return [ChartPlace(one.x, one.y, one.low, one.high, label=f"{one.n:,} rows") for one in bins]


def metric_chart(rows: Sequence[tuple[str, MetricValue]], **more: Any) -> PageTable:
    """Every figure with its interval."""
    cells = [
        (name, formatting.format_number(one.value), formatting.interval(one.low, one.high), f"{one.n:,}")
        for name, one in rows
    ]
    return PageTable(("figure", "value", "95% interval", "n"), cells, (1, 2, 3), **more)


def reasons(rows: Sequence[tuple[str, MetricValue]]) -> list[Note]:
    """Why figures are missing, or less sure than they look; what several have in common stands once."""
    named: dict[str, list[str]] = {}
    for name, one in rows:
        if one.reason:
            named.setdefault(one.reason, []).append(name)
    return [Note(f"{', '.join(names)}: {reason}") for reason, names in named.items()]
