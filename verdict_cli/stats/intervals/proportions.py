"""Intervals of shares of rows and of means of them.

- A share of independent rows: Wilson's. In clusters: Wilson's of as many rows as the leverage-corrected variance is
  worth (CR3, the jackknife of whole clusters: Bell and McCaffrey, 2002), with Student's quantile on the effective
  number of clusters (Kish, 1965; Carter, Schnepel and Steigerwald, 2017), so that unequal clusters count as fewer.
- A mean of shares, one a label: MOVER (Donner and Zou, 2002): the distances from each share to the ends of its own
  interval are combined as standard errors would be. A rare label keeps its wide interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from verdict_cli.stats.columns.column import Floats
from verdict_cli.stats.columns.sample import Sample
from verdict_cli.stats.intervals.effective_size import (
    FEW_EFFECTIVE,
    FEWEST_CLUSTERS,
    LEAST_CLUSTER_FREEDOM,
    cluster_freedom,
    kish,
    raised_design_effect,
)
from verdict_cli.stats.intervals.interval_methods import (
    IntervalEnds,
    MetricValue,
    clopper_pearson,
    normal,
    score,
    student,
    wilson,
)
from verdict_cli.stats.metrics.statistic import Proportion


@dataclass(frozen=True, slots=True)
class ClusteredShare:
    """A share in clusters: how many clusters count, how many equal ones they are worth, and how many independent rows."""

    value: float
    clusters: int
    effective_clusters: float
    effective_rows: float

    def interval(self, level: float, *, exact: bool = False) -> IntervalEnds:
        """The ends of the share's interval; `exact` is that of so many independent rows."""
        if self.clusters < 2:
            return 0.0, 1.0
        if exact:
            from scipy.special import ndtr

            wide = 2 * float(ndtr(student(level, max(self.effective_clusters - 1, LEAST_CLUSTER_FREEDOM)))) - 1
            return clopper_pearson(self.value * self.effective_rows, self.effective_rows, wide)
        if not 0 < self.value < 1:
            return score(self.value, self.effective_rows, normal(level))
        freedom = max(self.effective_clusters - 1, LEAST_CLUSTER_FREEDOM)
        return score(self.value, self.effective_rows, student(level, freedom))


def share_metric(value: float, share: Proportion, sample: Sample, level: float, *, exact: bool = False) -> MetricValue:
    """The metric of a share with its interval; of clusters also how many there are, and what they are worth."""
    low, high = share_interval(share, sample, level, exact=exact)
    if sample.cluster is None:
        trials = _trials(share, sample)
        error = _error(float(sample.counts @ share.hits) / float(sample.counts @ share.trials), trials, share)
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
    step = min(max(value, 1e-6), 1 - 1e-6)
    slope = (share.metric_of(step + 1e-7) - share.metric_of(step - 1e-7)) / 2e-7
    return float(slope * np.sqrt(value * (1 - value) / rows))


def share_interval(share: Proportion, sample: Sample, level: float, *, exact: bool = False) -> IntervalEnds:
    """The ends of a share's interval, as values of the metric."""
    if sample.cluster is None:
        trials = _trials(share, sample)
        value = float(sample.counts @ share.hits) / float(sample.counts @ share.trials)
        low, high = (clopper_pearson if exact else wilson)(value * trials, trials, level)
    else:
        low, high = clustered_share(share, sample).interval(level, exact=exact)
    return share.metric_of(low), share.metric_of(high)


def _trials(share: Proportion, sample: Sample) -> float:
    """How many rows the share is one of; where some count in part, how many its variance is worth."""
    trials = float(sample.counts @ share.trials)
    if np.isin(share.trials, (0.0, 1.0)).all():
        return trials
    value = float(sample.counts @ share.hits) / trials
    variance = float(sample.counts @ ((share.hits - value * share.trials) / trials) ** 2)
    return value * (1 - value) / variance if variance > 0 and 0 < value < 1 else trials


def clustered_share(share: Proportion, sample: Sample) -> ClusteredShare:
    """The share with what its clusters are worth."""
    hits, trials = _by_cluster(share.hits, sample), _by_cluster(share.trials, sample)
    hits, trials = hits[trials > 0], trials[trials > 0]
    clusters, rows = len(trials), float(trials.sum())
    value, effective = float(hits.sum()) / rows, min(kish(trials), rows)
    if clusters < 2:
        return ClusteredShare(value, clusters, effective, effective)
    without = (hits - value * trials) / (rows - trials)
    variance = (clusters - 1) / clusters * float((without**2).sum())
    if not 0 < value < 1:
        return ClusteredShare(value, clusters, effective, effective)
    worth = rows / raised_design_effect(variance * rows / (value * (1 - value)), trials, value)
    return ClusteredShare(value, clusters, effective, worth)


def mean_share_interval(
    shares: Sequence[Proportion], sample: Sample, level: float, *, exact: bool = False
) -> IntervalEnds:
    """The ends of the interval of the mean of the shares; a share without trials counts as 0, and may be anything."""
    weights = np.array([1.0 if share.weight is None else float(sample.counts @ share.weight) for share in shares])
    weights = weights / weights.sum()
    below, above = np.zeros(len(shares)), np.zeros(len(shares))
    total = 0.0
    for index, share in enumerate(shares):
        trials = float(sample.counts @ share.trials)
        value = share.metric_of(float(sample.counts @ share.hits) / trials) if trials else 0.0
        low, high = share_interval(share, sample, level, exact=exact) if trials else (0.0, 1.0)
        below[index], above[index] = (weights[index] * max(end, 0.0) for end in (value - low, high - value))
        total += float(weights[index]) * value
    covariance = _covariance(shares, sample)
    together = _correlations(covariance, shares, sample)
    reach = [float(np.sqrt(max(float(side @ together @ side), 0.0))) for side in (below, above)]
    pooled = _pooled(total, weights * _slopes(shares, sample), covariance, sample, level)
    return float(min(total - reach[0], pooled[0])), float(max(total + reach[1], pooled[1]))


def _slopes(shares: Sequence[Proportion], sample: Sample) -> Floats:
    """How much each metric changes with its share."""
    found = []
    for share in shares:
        trials = float(sample.counts @ share.trials)
        value = float(sample.counts @ share.hits) / trials if trials else 0.0
        found.append((share.metric_of(value + 1e-6) - share.metric_of(value - 1e-6)) / 2e-6)
    return np.array(found)


def _pooled(total: float, slopes: Floats, covariance: Floats, sample: Sample, level: float) -> IntervalEnds:
    """Wilson's ends of as many rows as the mean's variance is worth: the shares' own intervals lie closer to a half than
    the shares, which MOVER does not add up, so that of many labels alike it ends too early."""
    variance = float(slopes @ covariance @ slopes)
    if not 0 < total < 1 or variance <= 0:
        return total, total
    quantile = normal(level) if sample.cluster is None else student(level, cluster_freedom(sample))
    return score(total, total * (1 - total) / variance, quantile)


def _covariance(shares: Sequence[Proportion], sample: Sample) -> Floats:
    """The covariance of the shares' errors; rows, or whole clusters, are independent."""
    trials = np.stack([_by_unit(share.trials, sample) for share in shares])
    hits = np.stack([_by_unit(share.hits, sample) for share in shares])
    times = sample.counts if sample.cluster is None else np.ones(trials.shape[1])
    rows = np.maximum((trials * times).sum(axis=1, keepdims=True), 1.0)
    away = (hits - (hits * times).sum(axis=1, keepdims=True) / rows * trials) / rows
    found: Floats = (away * times) @ away.T
    return found


def _correlations(covariance: Floats, shares: Sequence[Proportion], sample: Sample) -> Floats:
    """How the shares' errors go together; where no row shows it, fully if rows or clusters count in both."""
    trials = np.stack([_by_unit(share.trials, sample) for share in shares])
    spread = np.sqrt(np.diag(covariance))
    known = np.outer(spread, spread) > 0
    overlap = (trials @ trials.T > 0).astype(np.float64)
    found: Floats = np.where(known, covariance / np.where(known, np.outer(spread, spread), 1.0), overlap)
    np.fill_diagonal(found, 1.0)
    return found


def _by_unit(column: Floats, sample: Sample) -> Floats:
    return column if sample.cluster is None else _by_cluster(column, sample)


def _by_cluster(column: Floats, sample: Sample) -> Floats:
    assert sample.cluster is not None
    return np.bincount(sample.cluster, column[sample.atom], minlength=sample.units).astype(np.float64)
