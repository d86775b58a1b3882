"""The shapes behind an evaluation's figures, for charts: what was said against what is true, in bins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from verdict_cli.stats.columns.column import MISSING, Floats, Ints, disambiguate_labels
from verdict_cli.stats.columns.row_data import EvaluationData
from verdict_cli.stats.intervals.intervals import CONFIDENCE_LEVEL
from verdict_cli.stats.intervals.proportions import student, wilson

HISTOGRAM_BINS = 10
"""Bins of a reliability diagram, as of the calibration error."""
BARS = 20
"""Most bars of a histogram."""
MOST_LABELS_IN_CHART = 6
"""Most labels that a histogram tells apart."""
MOST_TARGETS = 12


@dataclass(frozen=True, slots=True)
class Bin:
    """Some rows: their `n`, their mean place `x` on the first axis, and the mean `y` of the second with its interval."""

    n: int
    x: float
    y: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Histogram:
    """`edges` has one number more than each of `counts` (label -> rows in each bin). The last bin is closed."""

    edges: tuple[float, ...]
    counts: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Distributions:
    """What charts of one evaluation show; empty where it does not apply.

    `reliability` is the share of positive targets by bin of the probability, `by_target` the mean prediction by target.
    """

    reliability: tuple[Bin, ...] = ()
    probabilities: Histogram | None = None
    predictions: Histogram | None = None
    by_target: tuple[Bin, ...] = ()


def distributions_of(data: EvaluationData) -> Distributions:
    """The shapes of one evaluation's rows."""
    positive = data.is_positive if data.probability.types and data.targets.types else None
    kept = np.flatnonzero((data.target != MISSING) & np.isfinite(data.probability.numbers))
    reliability: tuple[Bin, ...] = ()
    probabilities = None
    if positive is not None and len(kept):
        p = data.probability.numbers[kept]
        reliability = shares(p, positive[kept], np.linspace(0, 1, HISTOGRAM_BINS + 1))
        probabilities = histogram(p, data.target[kept], data.labels, 0.0, 1.0)
    numbers, targets = data.predictions.numbers, data.targets.numbers
    number = np.isfinite(numbers)
    if data.kind not in ("ordinal", "numeric") or not number.any():
        return Distributions(reliability, probabilities)
    both = number & np.isfinite(targets)
    return Distributions(
        reliability, probabilities, histogram(numbers[number], None, ()), means(targets[both], numbers[both])
    )


def shares(x: Floats, hits: Floats, edges: Floats) -> tuple[Bin, ...]:
    """The share of `hits` (0 or 1) with Wilson's interval, in bins of `x` that are closed on the right."""
    place = np.clip(np.searchsorted(edges[1:-1], x, side="left"), 0, len(edges) - 2)
    found = []
    for at in np.unique(place):
        here = place == at
        n, hit = int(here.sum()), round(float(hits[here].sum()))
        low, high = wilson(hit, n, CONFIDENCE_LEVEL)
        found.append(Bin(n, float(x[here].mean()), hit / n, low, high))
    return tuple(found)


def means(x: Floats, y: Floats) -> tuple[Bin, ...]:
    """The mean of `y` with Student's interval, by the value of `x`; of many values, by equally filled bins."""
    if not len(x):
        return ()
    values, place = np.unique(x, return_inverse=True)
    if len(values) > MOST_TARGETS:
        edges = np.unique(np.quantile(x, np.linspace(0, 1, HISTOGRAM_BINS + 1)))
        place = np.searchsorted(edges[1:-1], x, side="right")
    found = []
    for at in np.unique(place):
        here = y[place == at]
        reach = (
            0.0
            if len(here) < 2
            else student(CONFIDENCE_LEVEL, len(here) - 1) * float(here.std(ddof=1)) / len(here) ** 0.5
        )
        middle = float(here.mean())
        found.append(Bin(len(here), float(x[place == at].mean()), middle, middle - reach, middle + reach))
    return tuple(found)


def quantiles(x: Floats, bins: int = 5) -> Floats:
    """The edges of equally filled bins; fewer where values repeat."""
    return np.unique(np.quantile(x, np.linspace(0, 1, bins + 1)))


def histogram(
    x: Floats, codes: Ints | None, labels: Sequence[Any], low: float | None = None, high: float | None = None
) -> Histogram:
    """How often each value occurs, for each label that `codes` name (the most frequent ones); all together without."""
    least = float(x.min()) if low is None else low
    most = float(x.max()) if high is None else high
    whole = bool(np.all(x == np.round(x))) and most - least < BARS and low is None
    if whole:
        edges = np.arange(least - 0.5, most + 1.0)
    else:
        edges = np.linspace(least, most if most > least else least + 1, BARS + 1)
    if codes is None:
        return Histogram(tuple(edges.tolist()), {"": _counts(x, edges)})
    present, sizes = np.unique(codes[codes != MISSING], return_counts=True)
    shown = np.sort(present[np.argsort(-sizes, kind="stable")][:MOST_LABELS_IN_CHART])
    names = disambiguate_labels([labels[code] for code in shown])
    return Histogram(
        tuple(edges.tolist()), {name: _counts(x[codes == code], edges) for name, code in zip(names, shown, strict=True)}
    )


def _counts(x: Floats, edges: Floats) -> tuple[int, ...]:
    return tuple(np.histogram(x, edges)[0].tolist())
