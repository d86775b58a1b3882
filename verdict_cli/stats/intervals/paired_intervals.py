"""Intervals of the difference of a share or an agreement between two runs over the same rows.

The adjusted Wald interval of Agresti and Min (2005), half a row more on which only
the first run agrees, half a row on which only the second does, and two rows in all. Where no row differs, at least
what the rule of three leaves open (Hanley and Lippman-Hand, 1983).
"""

from __future__ import annotations

import math

import numpy as np

from verdict_cli.stats.columns.sample import Sample
from verdict_cli.stats.intervals.effective_size import cluster_freedom, effective_clusters
from verdict_cli.stats.intervals.interval_methods import (
    IntervalEnds,
    MetricValue,
    StandardError,
    clopper_pearson,
    jackknife_variance,
    normal,
    student,
)
from verdict_cli.stats.metrics.statistic import Proportion, Statistic

SAME = "the runs score every row alike: the interval is what so few rows leave open"
MORE_ROWS, MORE_DISCORDANT = 2.0, 1.0
"""What Agresti and Min (2005) add: two rows in all, of which one is right in only one of the two runs."""


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


def _paired_variance(error: StandardError, sample: Sample) -> float:
    """The variance for a difference: in clusters the jackknife's whole one, which is CR3."""
    return jackknife_variance(error, sample) if sample.cluster is None else error.error**2


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


def exact_paired_ends(old: Proportion, new: Proportion, sample: Sample, level: float) -> IntervalEnds | None:
    """The ends for gates: MOVER (Donner and Zou, 2002) of the exact intervals of the shares of rows that only one run
    gets right. None in clusters, and where not every row counts."""
    if sample.cluster is not None or old.transform or new.transform or min(old.trials.min(), new.trials.min()) < 1:
        return None
    gain = new.hits - old.hits
    better, worse = (float(sample.counts @ (gain == sign)) for sign in (1, -1))
    up, down = (clopper_pearson(count, sample.n, level) for count in (better, worse))
    change = (better - worse) / sample.n
    below = math.hypot(better / sample.n - up[0], down[1] - worse / sample.n)
    above = math.hypot(up[1] - better / sample.n, worse / sample.n - down[0])
    return change - below, change + above
