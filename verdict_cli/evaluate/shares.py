"""Intervals of plain shares: of rows, of rows in clusters, and of what two runs do with the same rows.

- Independent rows: Wilson's score interval (Wilson, 1927), from scipy.
- Rows in clusters: Wilson's interval of as many rows as the clusters are worth (Dean and Pagano, 2015): the ratio of
  the binomial variance to the cluster-robust one, at most the rows there are. Clusters that all agree are worth one
  row each.
- The difference of two shares of the same rows: Bonett and Price (2012), the adjusted Wald interval.
"""

from __future__ import annotations

import numpy as np

from verdict_cli.evaluate.column import Floats
from verdict_cli.evaluate.figures import Figure
from verdict_cli.evaluate.metrics.statistic import Share, Statistic
from verdict_cli.evaluate.sample import Sample

Ends = tuple[float, float]


def share_interval(share: Share, sample: Sample, level: float) -> Ends:
    """The ends of a share's interval, on the figure's own scale."""
    if sample.cluster is None:
        hits, trials = sample.counts @ share.hits, sample.counts @ share.trials
        low, high = wilson(round(float(hits)), round(float(trials)), level)
    else:
        low, high = _clustered(share, sample, level)
    return share.back(low), share.back(high)


def wilson(successes: int, trials: int, level: float) -> Ends:
    """The ends of Wilson's score interval of a proportion."""
    from scipy.stats import binomtest

    interval = binomtest(successes, trials).proportion_ci(level, "wilson")
    return float(interval.low), float(interval.high)


def _clustered(share: Share, sample: Sample, level: float) -> Ends:
    from scipy.special import ndtri

    hits, trials = _by_cluster(share.hits, sample), _by_cluster(share.trials, sample)
    hits, trials = hits[trials > 0], trials[trials > 0]
    clusters, rows = len(trials), float(trials.sum())
    if clusters < 2:
        return 0.0, 1.0
    value = float(hits.sum()) / rows
    away = hits - value * trials
    robust = clusters / (clusters - 1) * float((away**2).sum()) / rows**2
    worth = min(value * (1 - value) / robust, rows) if robust > 0 else float(clusters)
    reach = float(ndtri((1 + level) / 2)) ** 2 / worth
    middle = (value + reach / 2) / (1 + reach)
    half = float(np.sqrt(reach * value * (1 - value) + reach**2 / 4)) / (1 + reach)
    return middle - half, middle + half


def _by_cluster(column: Floats, sample: Sample) -> Floats:
    assert sample.cluster is not None
    return np.bincount(sample.cluster, column[sample.atom], minlength=sample.units).astype(np.float64)


def paired_share(change: Figure, old: Statistic, new: Statistic, sample: Sample, level: float) -> Figure:
    """The change with Bonett and Price's interval where both sides are shares of the same independent rows.

    Where no row differs, the change is 0 without doubt and stays as it is.
    """
    if change.value is None or sample.cluster is not None or old.share is None or new.share is None:
        return change
    trials = new.share.trials
    if new.share.bent or not np.array_equal(old.share.trials, trials):
        return change
    from scipy.special import ndtri

    gained = float(sample.counts @ (new.share.hits * (trials - old.share.hits)))
    lost = float(sample.counts @ (old.share.hits * (trials - new.share.hits)))
    rows = float(sample.counts @ trials)
    if not gained + lost:
        return change
    up, down = (gained + 1) / (rows + 2), (lost + 1) / (rows + 2)
    reach = float(ndtri((1 + level) / 2)) * float(np.sqrt((up + down - (up - down) ** 2) / (rows + 2)))
    low, high = max(up - down - reach, -1.0), min(up - down + reach, 1.0)
    return Figure(change.value, min(low, change.value), max(high, change.value), change.n)
