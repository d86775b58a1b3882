"""Intervals of proportions of rows, clustered or not, and the quantiles they need."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from verdict_cli.stats.columns.column import Floats
from verdict_cli.stats.columns.sample import Sample
from verdict_cli.stats.metrics.statistic import Proportion


def normal(level: float) -> float:
    """How many standard errors an interval at this level reaches to each side."""
    return NormalDist().inv_cdf((1 + level) / 2)


def student(level: float, freedom: float) -> float:
    """The same where the standard error is estimated with so many degrees of freedom, which need not be whole."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + level) / 2))


IntervalEnds = tuple[float, float]


def share_interval(share: Proportion, sample: Sample, level: float) -> IntervalEnds:
    """The ends of a share's interval, on the figure's own scale."""
    if sample.cluster is None:
        hits, trials = sample.counts @ share.hits, sample.counts @ share.trials
        low, high = wilson(round(float(hits)), round(float(trials)), level)
    else:
        low, high = _clustered(share, sample, level)
    return share.back(low), share.back(high)


def wilson(successes: int, trials: int, level: float) -> IntervalEnds:
    """The ends of Wilson's score interval of a proportion."""
    low, high = score(successes / trials, trials, normal(level))
    return low if successes else 0.0, high if successes < trials else 1.0


def _clustered(share: Proportion, sample: Sample, level: float) -> IntervalEnds:
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


def score(share: float, rows: float, quantile: float) -> IntervalEnds:
    """The ends of Wilson's interval of a share of so many rows, which need not be whole."""
    reach = quantile**2 / rows
    middle = (share + reach / 2) / (1 + reach)
    half = float(np.sqrt(reach * share * (1 - share) + reach**2 / 4)) / (1 + reach)
    return middle - half, middle + half


def _by_cluster(column: Floats, sample: Sample) -> Floats:
    assert sample.cluster is not None
    return np.bincount(sample.cluster, column[sample.atom], minlength=sample.units).astype(np.float64)
