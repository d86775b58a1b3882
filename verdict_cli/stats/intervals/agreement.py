"""Intervals of figures that are 1 where no row disagrees, and of what two runs do with the same rows.

- Agreement (kappa, AC1, alpha, Matthews' correlation, balanced accuracy, macro averages): one minus the figure is taken
  as the share of rows that disagree, times what a disagreement counts on average. That share has Wilson's interval of
  as many rows as its jackknife variance is worth (Dean and Pagano, 2015), with Student's quantile. For accuracy this
  is Wilson's own interval but for the quantile.
- The difference of two runs: the adjusted Wald interval of Agresti and Min (2005), half a row more on which only
  the first run agrees, half a row on which only the second does, and two rows in all.
"""

from __future__ import annotations

import math

import numpy as np

from verdict_cli.stats.columns.sample import Sample
from verdict_cli.stats.figures import MetricValue
from verdict_cli.stats.intervals.jackknife import Error
from verdict_cli.stats.intervals.proportions import IntervalEnds, normal, score, student
from verdict_cli.stats.metrics.statistic import Proportion, Statistic

SAME = "the runs score every row alike: the interval is what so few rows leave open"
MORE_ROWS, MORE_APART = 2.0, 1.0


def agreement_interval(
    value: float, error: Error, statistic: Statistic, sample: Sample, level: float
) -> IntervalEnds | None:
    """The ends around a figure of labels; None where no row disagrees, or the figure is no agreement."""
    share = _apart(statistic, sample)
    if not 0 < share < 1 or value >= 1:
        return None
    disagreement = share / (1 - value)
    variance = _variance(error, sample, whole=statistic.whole) * disagreement**2
    if not variance:
        return None
    low, high = score(share, share * (1 - share) / variance, student(level, sample.units - 1))
    return 1 - high / disagreement, 1 - low / disagreement


def paired_interval(
    change: float, error: Error | None, statistics: tuple[Statistic, Statistic], sample: Sample, level: float
) -> MetricValue | None:
    """The change of a figure between two runs over the same rows; None where it is no share and no agreement."""
    counts = [_row_counts(statistic, sample) for statistic in statistics]
    known = [one for one in counts if one]
    if not known or None in counts or (error is not None and not np.isfinite(error.error)):
        return None
    row = float(np.mean(known))
    variance = (_variance(error, sample) if error else 0.0) + MORE_APART * row**2
    shrunk = sample.n / (sample.n + MORE_ROWS)
    reach = normal(level) * math.sqrt(variance) * shrunk
    widest = statistics[1].most - statistics[0].least
    low, high = max(change * shrunk - reach, -widest), min(change * shrunk + reach, widest)
    return MetricValue(change, min(low, change), max(high, change), sample.n, "" if error else SAME)


def _variance(error: Error, sample: Sample, *, whole: bool = False) -> float:
    """The jackknife's variance, without what it adds for the unit that is left out unless that is a cluster whose
    rows may be all that a label has."""
    if whole and sample.cluster is not None:
        return error.error**2
    return error.error**2 * (sample.units - 1) / sample.units


def _apart(statistic: Statistic, sample: Sample) -> float:
    return 0.0 if statistic.apart is None else float(sample.counts @ statistic.apart) / sample.n


def _row_counts(statistic: Statistic, sample: Sample) -> float | None:
    """How far one row more that disagrees moves the figure; 0 where none does yet, None for other figures."""
    if statistic.share is not None:
        return _share_row(statistic.share, sample)
    if statistic.apart is None:
        return None
    apart = float(sample.counts @ statistic.apart)
    if not apart:
        return _first_row(statistic, sample)
    return (1 - float(statistic.at(sample.counts[None, :])[0])) / apart


def _share_row(share: Proportion, sample: Sample) -> float:
    trials = float(sample.counts @ share.trials)
    value = float(sample.counts @ share.hits) / trials
    return (share.back(value + 1e-6) - share.back(value - 1e-6)) / 2e-6 / trials


def _first_row(statistic: Statistic, sample: Sample) -> float:
    beside = statistic.beside(sample.counts, 1.0) if statistic.beside is not None else math.nan
    return 1 - beside if math.isfinite(beside) else 0.0
