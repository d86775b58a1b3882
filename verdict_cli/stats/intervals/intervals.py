"""Intervals of figures: how far a figure could be from its value by the chance of the draw.

| figure | interval |
| --- | --- |
| shares of rows: accuracy, precision, recall and F1 of a label, the mean of booleans | Wilson's (`shares.py`) |
| agreement of labels, and differences of it or of shares between two runs | Wilson's by the jackknife; adjusted Wald (`agreement.py`) |
| other figures that change smoothly with every row | jackknife on their own scale (`jackknife.py`) |
| the variance | jackknife, with Hall's correction for skewness (`tilted.py`) |
| the median | the order statistics that Woodruff (1952) names |
| the calibration error | the inverted test (`folded.py`) |
| the difference of two medians or calibration errors | the seeded bootstrap, 2,000 resamples, corrected for its bias (Efron and Tibshirani, 1993, section 10.3) |
| more than 5,000 distinct observations or clusters | the bootstrap's standard error, 200 resamples (the same, section 6.4) |
| rank correlations there | 20 to 100 disjoint random blocks (Politis, Romano and Wolf, 1999, section 2.2) |

With clusters, clusters are left out and drawn as a whole (Davison and Hinkley, 1997, section 3.8). Rows are
resampled through the counts of their distinct values, which is the same and fast at any n.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from verdict_cli.stats.columns.column import Floats
from verdict_cli.stats.columns.sample import Sample
from verdict_cli.stats.figures import MetricValue
from verdict_cli.stats.intervals.agreement import agreement_interval, paired_interval
from verdict_cli.stats.intervals.ece_interval import folded_interval
from verdict_cli.stats.intervals.jackknife import (
    LEAST_FREEDOM,
    Error,
    around,
    errors,
    tilted_interval,
    without_exception,
)
from verdict_cli.stats.intervals.proportions import share_interval, student
from verdict_cli.stats.metrics.statistic import Statistic, TransformedStatistic

CONFIDENCE_LEVEL = 0.95
RESAMPLES = 2000
FEW_RESAMPLES = 200
MOST_RESAMPLED_UNITS = 5000
BLOCK_ROWS = 2500

NO_VARIATION = "no resample differs from the value: the sample is too uniform to say how sure it is"
FEW_DECIDE = "a few {unit}s decide this figure: its interval may be too narrow"
TOO_FEW = "fewer than {needs} {unit}s: too few for an interval of this figure"
ONE_UNIT = "one {unit} has no interval"
TOO_OFTEN_UNDEFINED = "most resamples leave the figure undefined, so there is no interval"


@dataclass(frozen=True, slots=True)
class Draw:
    """How intervals are drawn: the generator, the confidence level, the most numbers made of one resample."""

    rng: np.random.Generator
    level: float = CONFIDENCE_LEVEL
    width: int = 1


def metrics_with_intervals(statistics: Mapping[str, Statistic], sample: Sample, draw: Draw) -> dict[str, MetricValue]:
    """Each statistic's value on the sample with its interval."""
    values = {name: value_of(statistic, sample) for name, statistic in statistics.items()}
    done: dict[str, MetricValue] = {}
    others: dict[str, Statistic] = {}
    for name, statistic in statistics.items():
        value = values[name]
        if value is None:
            done[name] = MetricValue(None, None, None, sample.n, statistic.why if sample.n else "no rows")
        elif sample.units < 2 and (statistic.share is None or sample.cluster is not None):
            done[name] = MetricValue(value, None, None, sample.n, ONE_UNIT.format(unit=_unit(sample)))
        elif sample.units < statistic.needs:
            why = TOO_FEW.format(needs=statistic.needs, unit=_unit(sample))
            done[name] = MetricValue(value, None, None, sample.n, why)
        elif statistic.through is not None:
            done[name] = _through(value, statistic.through, sample, draw)
        elif statistic.share is not None:
            done[name] = MetricValue(value, *share_interval(statistic.share, sample, draw.level), sample.n)
        elif statistic.ordered is not None:
            done[name] = _median(value, statistic.ordered, sample, draw.level)
        elif statistic.gaps is not None:
            ends = folded_interval(statistic.gaps, sample, draw.rng, draw.level)
            done[name] = _within(value, *ends, statistic, sample)
        else:
            others[name] = statistic
    for name, (middle, error) in _errors(others, values, sample, draw).items():
        done[name] = _figure(values[name] or 0.0, middle, error, others[name], sample, draw.level)
    return {name: done[name] for name in statistics}


def _errors(
    statistics: Mapping[str, Statistic], values: Mapping[str, float | None], sample: Sample, draw: Draw
) -> dict[str, tuple[float, Error | None]]:
    """The middle of each figure's interval, and its standard error; None where no resample differs."""
    many = max(len(sample.counts), sample.units if sample.cluster is not None else 0) > MOST_RESAMPLED_UNITS
    smooth: dict[str, Statistic] = {}
    drawn: dict[str, Statistic] = {}
    found: dict[str, tuple[float, Error | None]] = {}
    for name, statistic in statistics.items():
        if statistic.blockwise:
            found[name] = values[name] or 0.0, _block_error(statistic, sample, draw.rng)
        elif many or not statistic.smooth:
            drawn[name] = statistic
        else:
            smooth[name] = statistic
    if smooth:
        jackknifed = errors(smooth, sample, draw.rng, draw.width)
        found |= {name: (values[name] or 0.0, error) for name, error in jackknifed.items()}
    for name, resampled in _resampled(drawn, sample, draw, FEW_RESAMPLES if many else RESAMPLES).items():
        found[name] = _bootstrapped(values[name] or 0.0, resampled, drawn[name])
    return found


def paired(old: Statistic, new: Statistic, sample: Sample, draw: Draw) -> MetricValue:
    """The second statistic minus the first on the same rows, with its interval."""
    both = Statistic(
        lambda weights: new.at(weights) - old.at(weights), new.why, smooth=new.smooth, blockwise=new.blockwise
    )
    value = value_of(both, sample)
    if value is None or sample.units < 2:
        return metrics_with_intervals({"change": both}, sample, draw)["change"]
    middle, error = _errors({"change": both}, {"change": value}, sample, draw)["change"]
    adjusted = paired_interval(value, error, (old, new), sample, draw.level)
    return adjusted or _figure(value, middle, error, both, sample, draw.level)


def value_of(statistic: Statistic, sample: Sample) -> float | None:
    """The statistic on the sample, None where it is undefined."""
    if not sample.n:
        return None
    value = float(statistic.at(sample.counts[None, :])[0])
    return value if np.isfinite(value) else None


def _figure(
    value: float, middle: float, error: Error | None, statistic: Statistic, sample: Sample, level: float
) -> MetricValue:
    """The figure with the interval that its standard error makes around a middle, the value or near it."""
    if error is None:
        ends = without_exception(value, statistic, sample, level)
        if ends is None:
            return MetricValue(value, value, value, sample.n, NO_VARIATION)
        return MetricValue(value, max(ends[0], statistic.least), ends[1], sample.n)
    if not np.isfinite(error.error):
        return MetricValue(value, None, None, sample.n, TOO_OFTEN_UNDEFINED)
    ends = agreement_interval(value, error, statistic, sample, level)
    if ends is not None:
        return _within(value, *ends, statistic, sample)
    if statistic.tilted:
        ends = tilted_interval(value, error, level)
    if statistic.rounding is not None:
        error = replace(error, error=math.sqrt(error.error**2 + statistic.rounding(sample.counts)))
    made = _within(value, *(ends or around(middle, error, statistic.scale, level)), statistic, sample)
    few = error.worth < LEAST_FREEDOM
    return replace(made, reason=FEW_DECIDE.format(unit=_unit(sample))) if few else made


def _through(value: float, through: TransformedStatistic, sample: Sample, draw: Draw) -> MetricValue:
    """The figure with the interval of the one that it is a function of."""
    inner = metrics_with_intervals({"inner": through.inner}, sample, draw)["inner"]
    if inner.low is None or inner.high is None:
        return replace(inner, value=value)
    ends = sorted(through.bent(end) for end in (inner.low, inner.high))
    return replace(inner, value=value, low=min(ends[0], value), high=max(ends[1], value))


def _unit(sample: Sample) -> str:
    return "row" if sample.cluster is None else "cluster"


def _within(value: float, low: float, high: float, statistic: Statistic, sample: Sample) -> MetricValue:
    low, high = max(min(low, value), statistic.least), min(max(high, value), statistic.most)
    return MetricValue(value, low, high, sample.n)


def _median(value: float, ordered: Floats, sample: Sample, level: float) -> MetricValue:
    """Woodruff: the quantiles at the ends of the interval of the share of rows below the median."""
    keys, places = np.unique(ordered, return_inverse=True)
    if len(keys) == 1:
        return MetricValue(value, value, value, sample.n, NO_VARIATION)
    sums = np.bincount(places, sample.counts)
    error, freedom = 0.5 / np.sqrt(sample.n), np.inf
    if sample.cluster is not None:
        below = ((ordered < value) * 0.5 + (ordered <= value) * 0.5)[sample.atom]
        of = np.bincount(sample.cluster, below - below.mean(), minlength=sample.units)
        error = float(np.sqrt(sample.units / (sample.units - 1) * (of**2).sum())) / sample.n
        freedom = sample.units - 1
    reach = student(level, freedom) * error
    place = max(int(np.ceil((0.5 - reach) * sample.n - 1e-9)), 1)
    cumulated = np.cumsum(sums)
    low = keys[np.searchsorted(cumulated, place)]
    high = keys[np.searchsorted(cumulated, sample.n + 1 - place)]
    return MetricValue(value, min(float(low), value), max(float(high), value), sample.n)


def _resampled(statistics: Mapping[str, Statistic], sample: Sample, draw: Draw, times: int) -> dict[str, Floats]:
    """The value of each statistic in each resample."""
    if not statistics:
        return {}
    drawn: dict[str, list[Floats]] = {name: [] for name in statistics}
    for weights in sample.resamples(draw.rng, times, draw.width):
        for name, statistic in statistics.items():
            drawn[name].append(statistic.at(weights))
    return {name: np.concatenate(values) for name, values in drawn.items()}


def _bootstrapped(value: float, drawn: Floats, statistic: Statistic) -> tuple[float, Error | None]:
    """The middle of the interval, corrected for the bias of a figure that is not smooth, and the standard error."""
    known = drawn[np.isfinite(drawn)]
    if len(known) * 2 < len(drawn):
        return value, Error(np.nan, np.inf)
    if np.ptp(known) <= 1e-12 * max(1.0, abs(value)):
        return value, None
    bias = 0.0 if statistic.smooth else float(known.mean()) - value
    return value - bias, Error(float(known.std(ddof=1)), np.inf)


def _block_error(statistic: Statistic, sample: Sample, rng: np.random.Generator) -> Error:
    """The standard error from disjoint blocks, and its degrees of freedom."""
    count = min(max(sample.n // BLOCK_ROWS, 20), 100, sample.units)
    values = np.concatenate([statistic.at(weights) for weights in sample.blocks(rng, count)])
    values = values[np.isfinite(values)]
    if len(values) < 2:
        return Error(np.nan, np.inf)
    return Error(float(values.std(ddof=1) / np.sqrt(len(values))), len(values) - 1)
