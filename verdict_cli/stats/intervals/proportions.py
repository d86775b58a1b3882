"""Intervals of shares of rows and of means of them.

- A share of independent rows: Wilson's. In clusters: Wilson's of as many rows as the leverage-corrected variance is
  worth (CR3, the jackknife of whole clusters: Bell and McCaffrey, 2002), with Student's quantile on the effective
  number of clusters (Kish, 1965; Carter, Schnepel and Steigerwald, 2017), so that unequal clusters count as fewer.
- A mean of shares, one a label: MOVER (Donner and Zou, 2002): the distances from each share to the ends of its own
  interval are combined as standard errors would be. A rare label keeps its wide interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from verdict_cli.stats.columns.column import Floats
from verdict_cli.stats.columns.sample import Sample
from verdict_cli.stats.intervals.interval_methods import (
    FEW_EFFECTIVE,
    FEWEST_CLUSTERS,
    LEAST_CLUSTER_FREEDOM,
    IntervalEnds,
    MetricValue,
    clopper_pearson,
    cluster_freedom,
    kish,
    normal,
    raised_design_effect,
    score,
    stretched,
    student,
    wilson,
)
from verdict_cli.stats.metrics.statistic import NEAR, HarmonicMean, Proportion


@dataclass(frozen=True, slots=True)
class ClusteredShare:
    """A share in clusters: how many clusters count, how many equal ones they are worth, and how many independent rows."""

    value: float
    clusters: int
    effective_clusters: float
    effective_rows: float
    skewness: float = 0.0

    def interval(self, level: float, *, exact: bool = False) -> IntervalEnds:
        """The ends of the share's interval; `exact` is that of so many independent rows."""
        if self.clusters < 2:
            return 0.0, 1.0
        quantile = student(level, max(self.effective_clusters - 1, LEAST_CLUSTER_FREEDOM))
        if exact:
            from scipy.special import ndtr

            wide = 2 * float(ndtr(quantile)) - 1
            ends = clopper_pearson(self.value * self.effective_rows, self.effective_rows, wide)
        elif not 0 < self.value < 1:
            return score(self.value, self.effective_rows, normal(level))
        else:
            ends = score(self.value, self.effective_rows, quantile)
        return stretched(self.value, ends, self.skewness, self.effective_clusters, quantile)


def share_metric(value: float, share: Proportion, sample: Sample, level: float, *, exact: bool = False) -> MetricValue:
    """The metric of a share with its interval; of clusters also how many there are, and what they are worth."""
    low, high = share_interval(share, sample, level, exact=exact)
    if sample.cluster is None:
        error = _error(*share.share(sample.counts), share)
        return MetricValue(value, low, high, sample.n, se=error, method="Clopper-Pearson" if exact else "Wilson")
    found = clustered_share(share, sample)
    few = FEW_EFFECTIVE.format(effective=found.effective_clusters) if found.effective_clusters < FEWEST_CLUSTERS else ""
    return MetricValue(
        value,
        low,
        high,
        sample.n,
        clusters=found.clusters,
        effective_n=found.effective_rows,
        se=_error(found.value, found.effective_rows, share),
        method="Wilson of effective rows (CR3)",
        df=max(found.effective_clusters - 1, LEAST_CLUSTER_FREEDOM),
        design_effect=float(sample.counts @ share.trials) / found.effective_rows,
    ).warned(few)


def _error(value: float, rows: float, share: Proportion) -> float:
    """The standard error of the metric of a share."""
    return float(share.slope(min(max(value, 1e-6), 1 - 1e-6)) * np.sqrt(value * (1 - value) / rows))


def share_interval(share: Proportion, sample: Sample, level: float, *, exact: bool = False) -> IntervalEnds:
    """The ends of a share's interval, as values of the metric."""
    if sample.cluster is None:
        value, trials = share.share(sample.counts)
        low, high = (clopper_pearson if exact else wilson)(value * trials, trials, level)
    else:
        low, high = clustered_share(share, sample).interval(level, exact=exact)
    return share.metric_of(low), share.metric_of(high)


def clustered_share(share: Proportion, sample: Sample) -> ClusteredShare:
    """The share with what its clusters are worth."""
    hits, trials = _by_cluster(share.hits, sample), _by_cluster(share.trials, sample)
    hits, trials = hits[trials > 0], trials[trials > 0]
    clusters, rows = len(trials), float(trials.sum())
    value, effective = float(hits.sum()) / rows, min(kish(trials), rows)
    if clusters < 2:
        return ClusteredShare(value, clusters, effective, effective)
    without = (hits - value * trials) / (rows - trials)
    squares = float((without**2).sum())
    variance = (clusters - 1) / clusters * squares
    skewness = -float(((without - without.mean()) ** 3).sum()) / squares**1.5 if squares else 0.0
    if not 0 < value < 1:
        return ClusteredShare(value, clusters, effective, effective)
    worth = rows / raised_design_effect(variance * rows / (value * (1 - value)), trials, value)
    return ClusteredShare(value, clusters, effective, worth, skewness)


MeanPart = Proportion | HarmonicMean
"""One of the numbers of which a metric is the mean: a share of rows, or F-beta of two."""


def mean_share_interval(
    parts: Sequence[MeanPart], sample: Sample, level: float, *, exact: bool = False
) -> IntervalEnds:
    """The ends of the interval of the mean of the parts; a share without trials counts as 0, and may be anything."""
    weights = np.array([1.0 if part.weight is None else float(sample.counts @ part.weight) for part in parts])
    weights = weights / weights.sum()
    values = np.array([_value(part, sample) for part in parts])
    ends = np.array([_ends(part, sample, level, exact=exact) for part in parts])
    below, above = weights * np.maximum(values - ends[:, 0], 0.0), weights * np.maximum(ends[:, 1] - values, 0.0)
    influence, times = np.stack([_influence(part, sample) for part in parts]), _times(sample)
    covariance = (influence * times) @ influence.T
    overlap = np.stack([_by_unit(part.trials, sample) for part in parts])
    together = _correlations(covariance, overlap @ overlap.T > 0)
    reach = [math.sqrt(max(float(side @ together @ side), 0.0)) for side in (below, above)]
    total = float(weights @ values)
    pooled = _pooled(total, float(weights @ covariance @ weights), sample, level)
    return float(min(total - reach[0], pooled[0])), float(max(total + reach[1], pooled[1]))


def _value(part: MeanPart, sample: Sample) -> float:
    if isinstance(part, HarmonicMean):
        return part.of(_value(part.precision, sample), _value(part.recall, sample))
    share, trials = part.share(sample.counts)
    return part.metric_of(share) if trials else 0.0


def _ends(part: MeanPart, sample: Sample, level: float, *, exact: bool) -> IntervalEnds:
    if isinstance(part, HarmonicMean):
        return _harmonic_interval(part, sample, level, exact=exact)
    return share_interval(part, sample, level, exact=exact) if float(sample.counts @ part.trials) else (0.0, 1.0)


def _harmonic_interval(part: HarmonicMean, sample: Sample, level: float, *, exact: bool) -> IntervalEnds:
    """MOVER of the two shares, on one over each: of these F-beta's reciprocal is the weighted mean. Errors of one kind that
    none of the rows shows still have the interval of their own share."""
    shares = (part.precision, part.recall)
    values = [_value(share, sample) for share in shares]
    ends = [_ends(share, sample, level, exact=exact) for share in shares]
    high = part.of(ends[0][1], ends[1][1])
    if not all(values):
        return 0.0, high
    weights = np.array([part.first_weight, 1 - part.first_weight])
    inverse, largest, least = 1 / np.array(values), 1 / np.maximum(np.array(ends)[:, 0], NEAR), 1 / np.array(ends)[:, 1]
    influence = np.stack([_influence(share, sample) for share in shares])
    together = _correlations((influence * _times(sample)) @ influence.T, np.zeros((2, 2), bool))
    reach = [
        math.sqrt(max(float(side @ together @ side), 0.0))
        for side in (weights * (largest - inverse), weights * (inverse - least))
    ]
    middle = float(weights @ inverse)
    return 1 / (middle + reach[0]), min(1 / (middle - reach[1]), high) if middle > reach[1] else high


def _influence(part: MeanPart, sample: Sample) -> Floats:
    """What each atom, or cluster, adds to the part, to the first order."""
    if isinstance(part, HarmonicMean):
        shares = ((part.first_weight, part.precision), (1 - part.first_weight, part.recall))
        own = [_value(share, sample) for _, share in shares]
        if not all(own):
            return np.zeros(len(_times(sample)))
        slopes = [weight * (part.of(*own) / value) ** 2 for (weight, _), value in zip(shares, own, strict=True)]
        return slopes[0] * _influence(part.precision, sample) + slopes[1] * _influence(part.recall, sample)
    value, rows = part.share(sample.counts)
    away: Floats = part.slope(value) * _by_unit(part.hits - value * part.trials, sample) / max(rows, 1.0)
    return away


def _times(sample: Sample) -> Floats:
    """How often each atom, or cluster, occurs."""
    return sample.counts if sample.cluster is None else np.ones(sample.units)


def _pooled(total: float, variance: float, sample: Sample, level: float) -> IntervalEnds:
    """Wilson's ends of as many rows as the mean's variance is worth: the shares' own intervals lie closer to a half than
    the shares, which MOVER does not add up, so that of many labels alike it ends too early."""
    if not 0 < total < 1 or variance <= 0:
        return total, total
    quantile = normal(level) if sample.cluster is None else student(level, cluster_freedom(sample))
    return score(total, total * (1 - total) / variance, quantile)


def _correlations(covariance: Floats, overlap: npt.NDArray[np.bool_]) -> Floats:
    """How the parts' errors go together; where no row shows it, fully if rows or clusters count in both."""
    spread = np.sqrt(np.diag(covariance))
    known = np.outer(spread, spread) > 0
    found: Floats = np.where(known, covariance / np.where(known, np.outer(spread, spread), 1.0), overlap)
    np.fill_diagonal(found, 1.0)
    return found


def _by_unit(column: Floats, sample: Sample) -> Floats:
    return column if sample.cluster is None else _by_cluster(column, sample)


def _by_cluster(column: Floats, sample: Sample) -> Floats:
    assert sample.cluster is not None
    return np.bincount(sample.cluster, column[sample.atom], minlength=sample.units).astype(np.float64)
