"""Intervals of plain shares: of rows, and of rows in clusters.

- Independent rows: Wilson's score interval (Wilson, 1927). Oracle: scipy.
- Rows in clusters: Wilson's interval of as many rows as the clusters are worth (Dean and Pagano, 2015): the ratio of
  the binomial variance to the cluster-robust one, at most the rows there are. Clusters that all agree are worth one
  row each.
"""

from __future__ import annotations

import numpy as np

from verdict_cli.evaluate.column import Floats
from verdict_cli.evaluate.metrics.statistic import Share
from verdict_cli.evaluate.quantiles import normal
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
    low, high = score(successes / trials, trials, normal(level))
    return low if successes else 0.0, high if successes < trials else 1.0


def _clustered(share: Share, sample: Sample, level: float) -> Ends:
    hits, trials = _by_cluster(share.hits, sample), _by_cluster(share.trials, sample)
    hits, trials = hits[trials > 0], trials[trials > 0]
    clusters, rows = len(trials), float(trials.sum())
    if clusters < 2:
        return 0.0, 1.0
    value = float(hits.sum()) / rows
    away = hits - value * trials
    robust = clusters / (clusters - 1) * float((away**2).sum()) / rows**2
    worth = min(value * (1 - value) / robust, rows) if robust > 0 else float(clusters)
    return score(value, worth, normal(level))


def score(share: float, rows: float, quantile: float) -> Ends:
    """The ends of Wilson's interval of a share of so many rows, which need not be whole."""
    reach = quantile**2 / rows
    middle = (share + reach / 2) / (1 + reach)
    half = float(np.sqrt(reach * share * (1 - share) + reach**2 / 4)) / (1 + reach)
    return middle - half, middle + half


def _by_cluster(column: Floats, sample: Sample) -> Floats:
    assert sample.cluster is not None
    return np.bincount(sample.cluster, column[sample.atom], minlength=sample.units).astype(np.float64)
