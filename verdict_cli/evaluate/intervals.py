"""Intervals of figures: how far a figure could be from its value by the chance of the draw.

| figure | interval |
| --- | --- |
| shares of rows: accuracy, precision, recall and F1 of a label, the mean of booleans | Wilson's (`shares.py`) |
| figures that change smoothly with every row | jackknife on their own scale (`jackknife.py`) |
| the median | the order statistics that Woodruff (1952) names |
| the calibration error, and the difference of two medians | the seeded bootstrap, 2,000 resamples, corrected for its bias (Efron and Tibshirani, 1993, section 10.3) |
| more than 5,000 distinct observations or clusters | the bootstrap's standard error, 200 resamples (the same, section 6.4) |
| rank correlations there | 20 to 100 disjoint random blocks (Politis, Romano and Wolf, 1999, section 2.2) |

With clusters, clusters are left out and drawn as a whole (Davison and Hinkley, 1997, section 3.8). Rows are
resampled through the counts of their distinct values, which is the same and fast at any n.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from verdict_cli.evaluate.column import Floats
from verdict_cli.evaluate.figures import Figure
from verdict_cli.evaluate.jackknife import Error, around, errors, without_exception
from verdict_cli.evaluate.metrics.scale import IDENTITY
from verdict_cli.evaluate.metrics.statistic import Statistic
from verdict_cli.evaluate.sample import Sample
from verdict_cli.evaluate.shares import share_interval

LEVEL = 0.95
RESAMPLES = 2000
FEW_RESAMPLES = 200
MOST_UNITS = 5000
BLOCK_ROWS = 2500

NO_VARIATION = "no resample differs from the value: the sample is too uniform to say how sure it is"
ONE_UNIT = "one {unit} has no interval"
TOO_OFTEN_UNDEFINED = "most resamples leave the figure undefined, so there is no interval"


@dataclass(frozen=True, slots=True)
class Draw:
    """How intervals are drawn: the generator, the confidence level, the most numbers made of one resample."""

    rng: np.random.Generator
    level: float = LEVEL
    width: int = 1


def figures(statistics: Mapping[str, Statistic], sample: Sample, draw: Draw) -> dict[str, Figure]:
    """Each statistic's value on the sample with its interval."""
    values = {name: value_of(statistic, sample) for name, statistic in statistics.items()}
    done: dict[str, Figure] = {}
    smooth: dict[str, Statistic] = {}
    drawn: dict[str, Statistic] = {}
    many = max(len(sample.counts), sample.units if sample.cluster is not None else 0) > MOST_UNITS
    for name, statistic in statistics.items():
        value = values[name]
        if value is None:
            done[name] = Figure(None, None, None, sample.n, statistic.why if sample.n else "no rows")
        elif sample.units < 2 and (statistic.share is None or sample.cluster is not None):
            unit = "row" if sample.cluster is None else "cluster"
            done[name] = Figure(value, None, None, sample.n, ONE_UNIT.format(unit=unit))
        elif statistic.share is not None:
            done[name] = Figure(value, *share_interval(statistic.share, sample, draw.level), sample.n)
        elif statistic.ordered is not None:
            done[name] = _median(value, statistic.ordered, sample, draw.level)
        elif statistic.blockwise:
            blocks = _block_error(statistic, sample, draw.rng)
            done[name] = _figure(value, blocks, statistic, sample, draw)
        elif many or not statistic.smooth:
            drawn[name] = statistic
        else:
            smooth[name] = statistic
    found = errors(smooth, sample, draw.rng, draw.width) if smooth else {}
    for name, error in found.items():
        done[name] = _figure(values[name] or 0.0, error, smooth[name], sample, draw)
    for name, resampled in _resampled(drawn, sample, draw, FEW_RESAMPLES if many else RESAMPLES).items():
        done[name] = _bootstrapped(values[name] or 0.0, resampled, drawn[name], sample, draw)
    return {name: done[name] for name in statistics}


def value_of(statistic: Statistic, sample: Sample) -> float | None:
    """The statistic on the sample, None where it is undefined."""
    if not sample.n:
        return None
    value = float(statistic.at(sample.counts[None, :])[0])
    return value if np.isfinite(value) else None


def _figure(value: float, error: Error | None, statistic: Statistic, sample: Sample, draw: Draw) -> Figure:
    """The figure with the interval that its standard error makes."""
    if error is None:
        ends = without_exception(value, statistic, sample, draw.level)
        if ends is None:
            return Figure(value, value, value, sample.n, NO_VARIATION)
        return Figure(value, max(ends[0], statistic.least), ends[1], sample.n)
    if not np.isfinite(error.error):
        return Figure(value, None, None, sample.n, TOO_OFTEN_UNDEFINED)
    low, high = around(value, error, statistic.scale, draw.level)
    return _within(value, low, high, statistic, sample)


def _within(value: float, low: float, high: float, statistic: Statistic, sample: Sample) -> Figure:
    low, high = max(min(low, value), statistic.least), min(max(high, value), statistic.most)
    return Figure(value, low, high, sample.n)


def _median(value: float, ordered: Floats, sample: Sample, level: float) -> Figure:
    """Woodruff: the quantiles at the ends of the interval of the share of rows below the median."""
    from scipy.stats import t

    keys, places = np.unique(ordered, return_inverse=True)
    if len(keys) == 1:
        return Figure(value, value, value, sample.n, NO_VARIATION)
    sums = np.bincount(places, sample.counts)
    error, freedom = 0.5 / np.sqrt(sample.n), np.inf
    if sample.cluster is not None:
        below = ((ordered < value) * 0.5 + (ordered <= value) * 0.5)[sample.atom]
        of = np.bincount(sample.cluster, below - below.mean(), minlength=sample.units)
        error = float(np.sqrt(sample.units / (sample.units - 1) * (of**2).sum())) / sample.n
        freedom = sample.units - 1
    reach = float(t.ppf((1 + level) / 2, freedom)) * error
    place = max(int(np.ceil((0.5 - reach) * sample.n - 1e-9)), 1)
    cumulated = np.cumsum(sums)
    low = keys[np.searchsorted(cumulated, place)]
    high = keys[np.searchsorted(cumulated, sample.n + 1 - place)]
    return Figure(value, min(float(low), value), max(float(high), value), sample.n)


def _resampled(
    statistics: Mapping[str, Statistic], sample: Sample, draw: Draw, times: int
) -> dict[str, Floats]:
    """The value of each statistic in each resample."""
    if not statistics:
        return {}
    drawn: dict[str, list[Floats]] = {name: [] for name in statistics}
    for weights in sample.resamples(draw.rng, times, draw.width):
        for name, statistic in statistics.items():
            drawn[name].append(statistic.at(weights))
    return {name: np.concatenate(values) for name, values in drawn.items()}


def _bootstrapped(value: float, drawn: Floats, statistic: Statistic, sample: Sample, draw: Draw) -> Figure:
    known = drawn[np.isfinite(drawn)]
    if len(known) * 2 < len(drawn):
        return Figure(value, None, None, sample.n, TOO_OFTEN_UNDEFINED)
    if np.ptp(known) <= 1e-12 * max(1.0, abs(value)):
        return _figure(value, None, statistic, sample, draw)
    error = Error(float(known.std(ddof=1)), np.inf)
    if statistic.smooth:
        return _figure(value, error, statistic, sample, draw)
    bias = float(known.mean()) - value
    low, high = around(value - bias, error, IDENTITY, draw.level)
    return _within(value, low, high, statistic, sample)


def _block_error(statistic: Statistic, sample: Sample, rng: np.random.Generator) -> Error:
    """The standard error from disjoint blocks, and its degrees of freedom."""
    count = min(max(sample.n // BLOCK_ROWS, 20), 100, sample.units)
    values = np.concatenate([statistic.at(weights) for weights in sample.blocks(rng, count)])
    values = values[np.isfinite(values)]
    if len(values) < 2:
        return Error(np.nan, np.inf)
    return Error(float(values.std(ddof=1) / np.sqrt(len(values))), len(values) - 1)
