"""The methods of intervals: Wilson's of shares, the jackknife, Hall's for skewed metrics, and those of agreement.

- Agreement (kappa, AC1, alpha, Matthews' correlation): one minus the metric is taken
  as the share of rows that disagree, times the mean weight of a disagreement. That share has Wilson's interval of as
  many rows as its jackknife variance is worth (Dean and Pagano, 2015), with Student's quantile. For accuracy this is
  Wilson's own interval but for the quantile.
- The difference of two runs: the adjusted Wald interval of Agresti and Min (2005), half a row more on which only
  the first run agrees, half a row on which only the second does, and two rows in all. Where no row differs, at least
  what the rule of three leaves open (Hanley and Lippman-Hand, 1983).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np

from verdict_cli.stats.columns.column import Floats
from verdict_cli.stats.columns.sample import Sample
from verdict_cli.stats.intervals.effective_size import (
    cluster_freedom,
    cluster_sizes,
    effective_clusters,
    most_frequent_share,
    raised_design_effect,
)
from verdict_cli.stats.metrics.statistic import NEAR, NormalizingScale, Proportion, Statistic

SAME = "the runs score every row alike: the interval is what so few rows leave open"
MORE_ROWS, MORE_DISCORDANT = 2.0, 1.0
"""What Agresti and Min (2005) add: two rows in all, of which one is right in only one of the two runs."""
LEAST_FREEDOM = 4
"""The degrees of freedom that a jackknife variance has at least, so that one extreme row does not make the interval infinite."""
FLAT = 1e-12
"""The root of a sum of squared changes below this is rounding: no row matters."""
STRAIGHT = 1e-6
"""A skewness below this is 0: the correction divides by it."""
IntervalEnds = tuple[float, float]


@dataclass(frozen=True, slots=True)
class MetricValue:
    """A metric of `n` rows with the ends of its interval at `level`.

    `value` is None where the metric is undefined, and `reason` says why; `low` and `high` are None where there is no
    interval, or both the value where all resamples give the same one (`reason` says so). `warnings` say why the
    interval may be too narrow; `reason` repeats them for readers. The value of `confusion` is `{"labels": […],
    "counts": [[…]]}`, rows by target and columns by prediction. `se` is the standard error, `method` that of the
    interval, `df` the degrees of freedom of its quantile (None: normal). In clusters, `clusters` counts them,
    `effective_n` is how many independent rows the sample is worth and `design_effect` is `n` over that.
    """

    value: Any
    low: float | None
    high: float | None
    n: int
    reason: str = ""
    clusters: int | None = None
    effective_n: float | None = None
    se: float | None = None
    method: str = ""
    df: float | None = None
    level: float = 0.95
    design_effect: float | None = None
    warnings: tuple[str, ...] = ()

    def warned(self, *warnings: str) -> MetricValue:
        """The value with more warnings; those that it has already, and empty ones, are left out."""
        new = tuple(dict.fromkeys(text for text in warnings if text and text not in self.warnings))
        known = (self.reason,) if self.reason and self.reason not in self.warnings else ()
        return (
            replace(
                self,
                reason="; ".join((*known, *new)) if not self.warnings else "; ".join((self.reason, *new)),
                warnings=(*self.warnings, *new),
            )
            if new
            else self
        )


def normal(level: float) -> float:
    """The normal quantile of a two-sided interval: its half-width in standard errors."""
    return NormalDist().inv_cdf((1 + level) / 2)


def student(level: float, freedom: float) -> float:
    """Student's quantile of a two-sided interval; the degrees of freedom need not be whole."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + level) / 2))


def wilson(successes: int, trials: int, level: float) -> IntervalEnds:
    """The ends of Wilson's score interval of a proportion."""
    low, high = score(successes / trials, trials, normal(level))
    return low if successes else 0.0, high if successes < trials else 1.0


def score(share: float, rows: float, quantile: float) -> IntervalEnds:
    """The ends of Wilson's interval of a share; the number of rows need not be whole."""
    reach = quantile**2 / rows
    middle = (share + reach / 2) / (1 + reach)
    half = float(np.sqrt(reach * share * (1 - share) + reach**2 / 4)) / (1 + reach)
    return middle - half, middle + half


@dataclass(frozen=True, slots=True)
class StandardError:
    """A metric's standard error with its degrees of freedom.

    `skewness` is the metric's own, by the adjusted coefficient (Joanes and Gill, 1998); `information` is the effective
    number of rows that the variance is estimated from, infinite where it is not known; `design_effect` that of clusters.
    """

    error: float
    freedom: float
    skewness: float = 0.0
    information: float = math.inf
    design_effect: float | None = None


def jackknife_errors(
    statistics: Mapping[str, Statistic], sample: Sample, rng: np.random.Generator, width: int
) -> dict[str, StandardError | None]:
    """The standard error of each statistic, None where no row changes it; NaN where it needs every row to be defined."""
    values: dict[str, list[Floats]] = {name: [] for name in statistics}
    counts: list[Floats] = []
    for weights, units in sample.deletions(rng, width):
        counts.append(units)
        for name, statistic in statistics.items():
            values[name].append(statistic.at(weights))
    if not counts:
        return {}
    of_all = np.concatenate(counts)
    found = {name: _jackknife_error(np.concatenate(each), of_all) for name, each in values.items()}
    if sample.cluster is None:
        return found
    alone = jackknife_errors(statistics, replace(sample, cluster=None), rng, width)
    return {name: _in_clusters(error, alone[name], statistics[name], sample) for name, error in found.items()}


def _in_clusters(
    error: StandardError | None, alone: StandardError | None, statistic: Statistic, sample: Sample
) -> StandardError | None:
    """The error of a metric in clusters, with its raised design effect and the clusters' degrees of freedom."""
    if error is None or alone is None or not np.isfinite(error.error) or not np.isfinite(alone.error):
        return error
    if statistic.differs is not None:
        share = _disagreeing(statistic, sample)
    else:
        share = max((most_frequent_share(each, sample) for each in statistic.varies or statistic.classes), default=0.5)
    seen = (error.error / alone.error) ** 2
    raised = raised_design_effect(seen, cluster_sizes(sample), max(share, 0.5))
    freedom = min(error.freedom, cluster_freedom(sample))
    return replace(error, error=alone.error * math.sqrt(raised), freedom=freedom, design_effect=raised)


def _jackknife_error(values: Floats, counts: Floats) -> StandardError | None:
    known = np.isfinite(values)
    values, counts = values[known], counts[known]
    n = float(counts.sum())
    if n < 2:
        return StandardError(np.nan, LEAST_FREEDOM)
    deviation = values - float(values @ counts) / n
    largest = float(np.abs(deviation).max())
    if not math.isfinite(largest):
        return StandardError(np.nan, LEAST_FREEDOM)
    if not largest:
        return None
    deviation = deviation / largest  # fourth powers of the differences themselves overflow beyond 1e77
    squares = float(counts @ deviation**2)
    if math.sqrt(squares) * largest <= FLAT * max(1.0, float(np.abs(values).max())):
        return None
    kurtosis = n * float(counts @ deviation**4) / squares**2
    information = 2 * n / (kurtosis - 1) if kurtosis > 1 else n - 1
    skewness = -float(counts @ deviation**3) / squares**1.5 * (n * n / ((n - 1) * (n - 2)) if n > 2 else 1.0)
    return StandardError(
        largest * math.sqrt((n - 1) / n * squares), min(n - 1, max(information, LEAST_FREEDOM)), skewness, information
    )


def student_interval(value: float, error: StandardError, scale: NormalizingScale, level: float) -> IntervalEnds:
    """The ends of Student's interval, symmetric on the scale."""
    reach = student(level, error.freedom) * error.error * scale.slope(value)
    middle = scale.to(value)
    return scale.back(middle - reach), scale.back(middle + reach)


def perfect_agreement_interval(value: float, statistic: Statistic, sample: Sample, level: float) -> IntervalEnds | None:
    """The ends where all rows agree: what Wilson's z² rows that disagree would make of the value; None elsewhere."""
    if statistic.with_disagreement is None or value < statistic.bounds[1] - NEAR:
        return None
    rows = normal(level) ** 2 * sample.n / sample.units
    low = statistic.with_disagreement(sample.counts, rows)
    return (low, value) if np.isfinite(low) else None


def skewness_corrected_interval(value: float, error: StandardError, level: float) -> IntervalEnds:
    """The ends of Student's interval with Hall's (1992) cubic correction for skewness."""
    quantile = student(level, error.freedom)
    low, high = (_uncorrected(ratio, error.skewness) for ratio in (quantile, -quantile))
    return value - error.error * low, value - error.error * high


def _uncorrected(ratio: float, skewness: float) -> float:
    """Student's ratio whose cubic is `ratio`; `skewness` is that of the metric, over the root of the units."""
    if abs(skewness) < STRAIGHT:
        return ratio
    return 3 / skewness * (math.cbrt(1 + skewness * (ratio - skewness / 6)) - 1)


def agreement_interval(
    value: float, error: StandardError, statistic: Statistic, sample: Sample, level: float
) -> IntervalEnds | None:
    """The ends of an agreement's interval; None where no row disagrees, or the metric is not an agreement."""
    share = _disagreeing(statistic, sample)
    if not 0 < share < 1 or value >= 1:
        return None
    disagreement = share / (1 - value)
    variance = _variance(error, sample) * disagreement**2
    if not variance:
        return None
    low, high = score(share, share * (1 - share) / variance, student(level, cluster_freedom(sample)))
    return 1 - high / disagreement, 1 - low / disagreement


def paired_interval(
    change: float, error: StandardError | None, statistics: tuple[Statistic, Statistic], sample: Sample, level: float
) -> MetricValue | None:
    """The change of a share or an agreement between two runs over the same rows; None for other metrics."""
    counts = [_row_counts(statistic, sample) for statistic in statistics]
    known = [count for count in counts if count]
    if not known or None in counts or (error is not None and not np.isfinite(error.error)):
        return None
    row = float(np.mean(known))
    variance = (_paired_variance(error, sample) if error else 0.0) + MORE_DISCORDANT * row**2
    shrunk = sample.n / (sample.n + MORE_ROWS)
    reach = _paired_quantile(sample, level) * math.sqrt(variance) * shrunk
    widest = statistics[1].bounds[1] - statistics[0].bounds[0]
    if error is None:
        reach = max(reach, unseen_share(sample, level) * row * sample.n)
    low, high = max(change * shrunk - reach, -widest), min(change * shrunk + reach, widest)
    return MetricValue(
        change,
        min(low, change),
        max(high, change),
        sample.n,
        "" if error else SAME,
        se=math.sqrt(variance),
        method="adjusted Wald",
        df=None if sample.cluster is None else cluster_freedom(sample),
        design_effect=error.design_effect if error else None,
    )


def unseen_share(sample: Sample, level: float) -> float:
    """The largest share of rows that may differ although none of the sample does: the rule of three."""
    return float(1 - ((1 - level) / 2) ** (1 / effective_clusters(sample)))


def _paired_quantile(sample: Sample, level: float) -> float:
    """The normal quantile of independent rows; of clusters Student's on how many of equal size they are worth."""
    return normal(level) if sample.cluster is None else student(level, cluster_freedom(sample))


def _variance(error: StandardError, sample: Sample) -> float:
    """The jackknife's variance without its factor n / (n - 1)."""
    return error.error**2 * (sample.units - 1) / sample.units


def _paired_variance(error: StandardError, sample: Sample) -> float:
    """The variance for a difference: in clusters the jackknife's whole one, which is CR3."""
    return _variance(error, sample) if sample.cluster is None else error.error**2


def _disagreeing(statistic: Statistic, sample: Sample) -> float:
    return 0.0 if statistic.differs is None else float(sample.counts @ statistic.differs) / sample.n


def _row_counts(statistic: Statistic, sample: Sample) -> float | None:
    """The change by one more row that disagrees; 0 where it is not defined, None for other metrics."""
    if statistic.share is not None:
        return _share_row(statistic.share, sample)
    if statistic.differs is None:
        return None
    disagreeing = float(sample.counts @ statistic.differs)
    if disagreeing:
        return (1 - float(statistic.at(sample.counts[None, :])[0])) / disagreeing
    value = statistic.with_disagreement(sample.counts, 1.0) if statistic.with_disagreement is not None else math.nan
    return 1 - value if math.isfinite(value) else 0.0


def _share_row(share: Proportion, sample: Sample) -> float:
    trials = float(sample.counts @ share.trials)
    value = float(sample.counts @ share.hits) / trials
    return (share.metric_of(value + 1e-6) - share.metric_of(value - 1e-6)) / 2e-6 / trials
