"""Intervals of shares of rows.

- A share of independent rows: Wilson's. In clusters: Wilson's of as many rows as the leverage-corrected variance is
  worth (CR3, the jackknife of whole clusters: Bell and McCaffrey, 2002), with Student's quantile on the effective
  number of clusters (Kish, 1965; Carter, Schnepel and Steigerwald, 2017), so that unequal clusters count as fewer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from verdict_cli.stats.columns.column import Floats
from verdict_cli.stats.columns.sample import Sample
from verdict_cli.stats.intervals.interval_methods import (
    LEAST_CLUSTER_FREEDOM,
    IntervalEnds,
    MetricValue,
    kish,
    normal,
    score,
    student,
    wilson,
)
from verdict_cli.stats.metrics.statistic import Proportion

ENOUGH_CLUSTERS = 5
"""With fewer effective clusters the variance is known too badly for any method."""
FEW_EFFECTIVE = "the clusters are worth {effective:.1f} of equal size: the interval is rough"


@dataclass(frozen=True, slots=True)
class ClusteredShare:
    """A share in clusters: how many clusters count, how many equal ones they are worth, and how many independent rows."""

    value: float
    clusters: int
    effective_clusters: float
    effective_rows: float

    def interval(self, level: float) -> IntervalEnds:
        """The ends of the share's interval."""
        if self.clusters < 2:
            return 0.0, 1.0
        if not 0 < self.value < 1:
            return score(self.value, self.effective_rows, normal(level))
        freedom = max(self.effective_clusters - 1, LEAST_CLUSTER_FREEDOM)
        return score(self.value, self.effective_rows, student(level, freedom))


def share_metric(value: float, share: Proportion, sample: Sample, level: float) -> MetricValue:
    """The metric of a share with its interval; of clusters also how many there are, and what they are worth."""
    low, high = share_interval(share, sample, level)
    if sample.cluster is None:
        return MetricValue(value, low, high, sample.n)
    found = clustered_share(share, sample)
    few = FEW_EFFECTIVE.format(effective=found.effective_clusters) if found.effective_clusters < ENOUGH_CLUSTERS else ""
    return MetricValue(value, low, high, sample.n, few, found.clusters, found.effective_rows)


def share_interval(share: Proportion, sample: Sample, level: float) -> IntervalEnds:
    """The ends of a share's interval, as values of the metric."""
    if sample.cluster is None:
        hits, trials = sample.counts @ share.hits, sample.counts @ share.trials
        low, high = wilson(round(float(hits)), round(float(trials)), level)
    else:
        low, high = clustered_share(share, sample).interval(level)
    return share.metric_of(low), share.metric_of(high)


def clustered_share(share: Proportion, sample: Sample) -> ClusteredShare:
    """The share with what its clusters are worth."""
    hits, trials = _by_cluster(share.hits, sample), _by_cluster(share.trials, sample)
    hits, trials = hits[trials > 0], trials[trials > 0]
    clusters, rows = len(trials), float(trials.sum())
    value, effective = float(hits.sum()) / rows, kish(trials)
    if clusters < 2:
        return ClusteredShare(value, clusters, effective, effective)
    without = (hits - value * trials) / (rows - trials)
    variance = (clusters - 1) / clusters * float((without**2).sum())
    worth = min(value * (1 - value) / variance, rows) if variance > 0 else effective
    return ClusteredShare(value, clusters, effective, worth)


def _by_cluster(column: Floats, sample: Sample) -> Floats:
    assert sample.cluster is not None
    return np.bincount(sample.cluster, column[sample.atom], minlength=sample.units).astype(np.float64)
