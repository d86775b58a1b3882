"""Figures before and after a fit, on rows that the fit has not seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from verdict_cli.stats.columns.column import Floats, Ints
from verdict_cli.stats.columns.sample import Sample
from verdict_cli.stats.intervals.interval_methods import MetricValue
from verdict_cli.stats.intervals.intervals import CONFIDENCE_LEVEL, Draw, metrics_with_intervals, paired_metric_value
from verdict_cli.stats.metrics.statistic import Statistic

HeldOutColumns = tuple[Floats, ...]
Statistics = Callable[..., Mapping[str, Statistic]]


@dataclass(frozen=True, slots=True)
class HeldOut:
    """One figure on held-out rows: without what was fitted, with it, and the difference with its interval."""

    before: MetricValue
    after: MetricValue
    change: MetricValue


def folds(rows: Ints, count: int, rng: np.random.Generator) -> Ints:
    """The fold of each row, 0 to ``count - 1``; rows of one number stay together."""
    numbers, places = np.unique(rows, return_inverse=True)
    return (rng.permutation(len(numbers)) % count)[places]


def held_out(
    wanted: tuple[str, ...],
    statistics: Statistics,
    before: HeldOutColumns,
    after: HeldOutColumns,
    rows: Ints,
    rng: np.random.Generator,
) -> dict[str, HeldOut]:
    """The wanted figures of both pairs of columns, paired row by row; rows of one number count as a cluster."""
    alone = len(np.unique(rows)) == len(rows)
    cluster = None if alone else np.unique(rows, return_inverse=True)[1].astype(np.int64)
    sample = Sample.of((*before, *after), cluster)
    old = statistics(*(column[sample.first] for column in before))
    new = statistics(*(column[sample.first] for column in after))
    found = {}
    for name in wanted:
        first, second = (
            metrics_with_intervals({name: side[name]}, sample, Draw(rng, CONFIDENCE_LEVEL))[name] for side in (old, new)
        )
        found[name] = HeldOut(
            first, second, paired_metric_value(old[name], new[name], sample, Draw(rng, CONFIDENCE_LEVEL))
        )
    return found
