"""Repeated runs of one pipeline: a level of their own.

- The variance of a run's metric between runs is their sample variance, pooled over the pipelines. What the rows' own noise
  explains of it is the jackknife's variance of the runs' differences over rows. The rest is a variance between runs, 0 at
  least (the analysis of variance of crossed random effects; Searle, Casella and McCulloch, 1992). It is added to the
  variance over rows, divided by a pipeline's runs, with the degrees of freedom of Satterthwaite (1946).
- The noise floor is the repeatability limit (ISO 5725-6): two runs of one pipeline differ by less in 95 of 100 pairs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from verdict_cli.stats.columns.column import Floats
from verdict_cli.stats.intervals.interval_methods import MetricValue, student
from verdict_cli.stats.metrics.statistic import Proportion, Statistic
from verdict_cli.stats.simultaneous import JointEstimates

NO_STANDARD_ERROR = "the metric has no standard error here, so repeated runs cannot be compared by it"
TWO_RUNS = "two repeated runs do not show how much runs differ: the interval may be too narrow"
BETWEEN = " and variance between runs"


@dataclass(frozen=True, slots=True)
class RunSpread:
    """The variance of a metric between repeated runs: as seen (`seen`, with `freedom`), and what the rows' own noise
    explains of it (`within`, with `rows_freedom`)."""

    seen: float
    freedom: float
    within: float
    rows_freedom: float

    @property
    def between(self) -> float:
        """The variance that comes with a run as a whole."""
        return max(0.0, self.seen - self.within)

    def noise_floor(self, level: float) -> float:
        """How far two runs of one pipeline are apart at most, at this level."""
        variance, freedom = self.total(self.within, self.rows_freedom, 1.0)
        return student(level, freedom) * math.sqrt(2 * variance)

    def total(self, variance: float, freedom: float, times: float) -> tuple[float, float]:
        """The variance with so many times that between runs, and the degrees of freedom."""
        if not self.between:
            return variance, freedom
        whole = variance + times * self.between
        # The variance as seen is what few runs estimate, also of the part that is left after subtracting the rows' own.
        return whole, max(1.0, whole**2 / (variance**2 / freedom + (times * self.seen) ** 2 / self.freedom))

    def widened(self, change: MetricValue, times: float, bound: float) -> tuple[MetricValue, float | None]:
        """A difference with this variance added to that of its interval, and its p-value by Student's distribution; None
        where no variance between runs shows, since exchanging the runs within rows is exact then."""
        if change.value is None or change.se is None or change.low is None or change.high is None:
            return change, None
        rows = change.df or math.inf
        if not self.between:
            return change.warned(*self.warnings), None
        variance, freedom = self.total(change.se**2, min(rows, 1e9), times)
        from scipy.special import stdtr

        p = float(2 * stdtr(freedom, -abs(change.value) / math.sqrt(variance)))
        quantile = student(change.level, freedom)
        old = student(change.level, min(rows, 1e9))
        low, high = (
            math.hypot(reach * quantile / old, quantile * math.sqrt(times * self.between))
            for reach in (change.value - change.low, change.high - change.value)
        )
        widened = replace(
            change,
            low=max(change.value - low, -bound),
            high=min(change.value + high, bound),
            se=math.sqrt(variance),
            df=freedom,
            method=change.method + BETWEEN,
            reason="",
            warnings=(),
        )
        return widened.warned(*change.warnings, *self.warnings), p

    @property
    def warnings(self) -> tuple[str, ...]:
        """Why the variance between runs is not known."""
        return (TWO_RUNS,) if self.freedom < 2 else ()


def run_spread(runs: JointEstimates, sizes: Sequence[int]) -> RunSpread | None:
    """The variance between repeated runs, pooled over pipelines of so many runs; None where none has two."""
    seen = within = 0.0
    freedom = sum(sizes) - len(sizes)
    start = 0
    for size in sizes:
        part = slice(start, start + size)
        start += size
        values, covariance = runs.values[part], runs.covariance[part, part]
        seen += float(((values - values.mean()) ** 2).sum())
        within += float(np.trace(covariance) - covariance.sum() / size)
    return RunSpread(seen / freedom, freedom, within / freedom, runs.freedom) if freedom else None


def mean_statistic(statistics: Sequence[Statistic]) -> Statistic:
    """The mean of a metric over several runs; of shares of the same rows a share again."""
    first = statistics[0]
    if len(statistics) == 1:
        return first
    shares = [each.share for each in statistics if each.share is not None]
    share = None
    if len(shares) == len(statistics) and all(
        each.transform is None and np.array_equal(each.trials, shares[0].trials) for each in shares
    ):
        hits: Floats = np.mean([each.hits for each in shares], axis=0)
        share = Proportion(hits, shares[0].trials)
    return Statistic(
        lambda weights: np.mean([each.at(weights) for each in statistics], axis=0),
        first.undefined,
        first.bounds,
        "jackknife" if first.smooth else first.interval,
        share=share,
        blockwise=first.blockwise,
        classes=tuple(classes for each in statistics for classes in each.classes),
        varies=tuple(values for each in statistics for values in each.varies),
        least_rows=first.least_rows,
        tails=tuple(values for each in statistics for values in each.tails),
    )
