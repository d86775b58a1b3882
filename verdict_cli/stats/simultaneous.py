"""Several runs over the same rows: intervals that hold together.

The variants' estimates vary together, since they score the same rows. Their covariance is the jackknife's over random
groups of rows (or clusters), the same groups for every variant. From it come the level at which intervals, each by the
metric's own method, hold for all variants at once (max-T: Dunnett, 1955; Westfall and Young, 1993).

Repeated runs of one pipeline are a level of their own:

- The variance of a run's metric between runs is their sample variance, pooled over the pipelines. What the rows' own noise
  explains of it is the jackknife's variance of the runs' differences over rows. The rest is a variance between runs, 0 at
  least (the analysis of variance of crossed random effects; Searle, Casella and McCulloch, 1992). It is added to the
  variance over rows, divided by a pipeline's runs, with the degrees of freedom of Satterthwaite (1946). Few runs may show
  none where there is one, so that the degrees of freedom are limited then too.
- The noise floor is the repeatability limit (ISO 5725-6): two runs of one pipeline differ by less in 95 of 100 pairs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from verdict_cli.distributions import student_cdf
from verdict_cli.stats.columns.column import Ends, Floats, Ints
from verdict_cli.stats.columns.row_data import EvaluationData
from verdict_cli.stats.intervals.interval_methods import MetricValue, deleted_values, student
from verdict_cli.stats.metrics.metric_families import (
    BY_CLUSTER,
    metric_input,
    scored_by_all,
    statistics_of_runs,
)
from verdict_cli.stats.metrics.statistic import Proportion, Statistic
from verdict_cli.stats.prediction_powered import (
    CORRECTED,
    corrected_runs,
    labelled_freedom,
)

_CUT = 1 / 2 - 1 / (2 * math.pi)
"""The variance of a normal estimate of 0 that is cut off at 0, over that of the same estimate without the cut."""
_DRAWN = 20_000
"""Draws of all estimates: the 95% point of their maximum is then known to half a percent."""


class JointEstimates(Struct, frozen=True):
    """The estimates of several variants, their covariance, and the degrees of freedom of that."""

    values: Floats
    covariance: Floats
    freedom: float

    def draws(self, rng: np.random.Generator) -> Floats:
        """Student-t noise of the covariance, (draws, variants)."""
        normal = rng.multivariate_normal(
            np.zeros(len(self.values)),
            self.covariance,
            _DRAWN,
            check_valid="ignore",  # equal runs have no variance of their own
            method="eigh",
        )
        noise: Floats = normal / np.sqrt(rng.chisquare(self.freedom, (_DRAWN, 1)) / self.freedom)
        return noise

    def level(self, level: float, contrasts: Floats, rng: np.random.Generator) -> float:
        """The level of single intervals of these contrasts (rows) at which all hold together."""
        variances = np.diag(contrasts @ self.covariance @ contrasts.T)
        errors = np.sqrt(np.maximum(variances, 0))
        varies = errors > 1e-12
        if varies.sum() < 2:
            return level
        largest = np.abs(self.draws(rng) @ contrasts[varies].T / errors[varies]).max(axis=1)
        quantile = float(np.quantile(largest, level))
        return max(level, 2 * student_cdf(self.freedom, quantile) - 1)


def joint_estimates(
    metric: str, data: Sequence[EvaluationData], rows: Sequence[Ints], rng: np.random.Generator
) -> JointEstimates | None:
    """The metric of each run at those of these rows that all runs score, which are the same rows in every run; None where one
    is undefined."""
    if metric == CORRECTED:
        return _joint_corrected(data, rows)
    family = metric_input(metric, data[0])
    common = scored_by_all(family, data, rows)
    if family in BY_CLUSTER or not common.any():
        return None
    shared = [positions[common] for positions in rows]
    sample, of_runs = statistics_of_runs(family, (metric,), data, shared)
    if sample.units < 3:
        return None
    statistics = [run[metric] for run in of_runs]
    values = np.array([statistic.value(sample.counts) for statistic in statistics])
    without, times = deleted_values(statistics, sample, rng)
    if not np.isfinite(np.column_stack([values, without])).all():
        return None
    n = float(times.sum())
    changes = without - (without @ times / n)[:, None]
    return JointEstimates(values, (n - 1) / n * (changes * times) @ changes.T, n - 1)


def _joint_corrected(data: Sequence[EvaluationData], rows: Sequence[Ints]) -> JointEstimates | None:
    """The estimates corrected by human labels (`ppi`) of each run at these rows; None where one is undefined."""
    runs = corrected_runs([run.gold for run in data], rows)
    if isinstance(runs, MetricValue):
        return None
    influence: Floats = np.stack([run.influence for run in runs])
    cluster = runs[-1].pairs.cluster
    if cluster is not None:
        clusters, cluster_of = np.unique(cluster, return_inverse=True)
        sums = np.stack([np.bincount(cluster_of, added) for added in influence])
        influence = sums.astype(np.float64) * np.sqrt(len(clusters) / max(len(clusters) - 1, 1))
    freedom = min(labelled_freedom(run.pairs) for run in runs)
    values = np.array([run.value for run in runs])
    return JointEstimates(values, influence @ influence.T, freedom)


NO_STANDARD_ERROR = (
    "the metric has no standard error here, so repeated runs cannot be compared by it"
)
TWO_RUNS = "two repeated runs do not show how much runs differ: the interval may be too narrow"
BETWEEN = " and variance between runs"


class RunSpread(Struct, frozen=True):
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

    def total(self, variance: float, freedom: float, times: float) -> Ends:
        """The variance with so many times that between runs, and the degrees of freedom."""
        whole = variance + times * self.between
        # The variance as seen is what few runs estimate, also of the part that is left after subtracting the rows' own.
        # Where none is left, the estimate was cut off at 0: it varies less, but it is not known to be 0.
        estimated = self.seen**2 if self.between else _CUT * self.within**2
        if not whole:
            return whole, freedom
        return whole, max(
            1.0, whole**2 / (variance**2 / freedom + times**2 * estimated / self.freedom)
        )

    def widened(
        self, change: MetricValue, times: float, bound: float
    ) -> tuple[MetricValue, float | None]:
        """A difference with this variance added to that of its interval, and its p-value by Student's distribution; None
        where it has no standard error or does not vary."""
        if not change.se or change.value is None or change.low is None or change.high is None:
            return change.warned(*self.warnings), None
        rows = change.df or math.inf
        variance, freedom = self.total(change.se**2, min(rows, 1e9), times)
        p = 2 * student_cdf(freedom, -abs(change.value) / math.sqrt(variance))
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
            method=change.method + (BETWEEN if self.between else ""),
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
    between = within = 0.0
    freedom = sum(sizes) - len(sizes)
    start = 0
    for size in sizes:
        part = slice(start, start + size)
        start += size
        values, covariance = runs.values[part], runs.covariance[part, part]
        between += float(((values - values.mean()) ** 2).sum())
        within += float(np.trace(covariance) - covariance.sum() / size)
    return (
        RunSpread(between / freedom, freedom, within / freedom, runs.freedom) if freedom else None
    )


def mean_statistic(statistics: Sequence[Statistic]) -> Statistic:
    """The mean of a metric over several runs; of shares of the same rows a share again."""
    first = statistics[0]
    if len(statistics) == 1:
        return first
    shares = [run.share for run in statistics if run.share is not None]
    share = None
    if len(shares) == len(statistics) and all(map(shares[0].has_same_rows, shares)):
        share = Proportion(np.mean([own.hits for own in shares], axis=0), shares[0].trials)
    return Statistic(
        lambda weights: np.mean([run.at(weights) for run in statistics], axis=0),
        first.undefined,
        first.bounds,
        share=share,
        classes=sum((run.classes for run in statistics), ()),
        varies=sum((run.varies for run in statistics), ()),
        tails=sum((run.tails for run in statistics), ()),
        width=first.width,
    )
