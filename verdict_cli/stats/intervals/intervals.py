"""Intervals of metrics: how far a value could be from the truth by the chance of the draw.

| metric | interval |
| --- | --- |
| shares of rows: accuracy, precision, recall and F1 of a label, the mean of booleans | Wilson's |
| balanced accuracy, and precision, recall and F1 averaged over the labels | MOVER of the labels' own |
| agreement of labels, and differences of it or of shares between two runs | Wilson's by the jackknife; adjusted Wald |
| other metrics that change smoothly with every row | jackknife, symmetric on the scale of their record |
| the variance | jackknife, with Hall's correction for skewness |
| the median | the order statistics that Woodruff (1952) names |
| the calibration error | the inverted test (`metrics/probability.py`) |
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
from verdict_cli.stats.intervals.interval_methods import (
    LEAST_FREEDOM,
    SAME,
    MetricValue,
    StandardError,
    agreement_interval,
    jackknife_errors,
    paired_interval,
    perfect_agreement_interval,
    skewness_corrected_interval,
    student,
    student_interval,
    unseen_share,
)
from verdict_cli.stats.intervals.proportions import mean_share_interval, share_metric
from verdict_cli.stats.metrics.probability import inverted_test_interval
from verdict_cli.stats.metrics.statistic import TOO_LARGE, Statistic, TransformedStatistic

CONFIDENCE_LEVEL = 0.95
RESAMPLES = 2000
"""Enough for the ends of a 95% interval."""
FEW_RESAMPLES = 200
"""Enough for a standard error (Efron and Tibshirani, 1993, section 6.4)."""
MOST_RESAMPLED_UNITS = 5000
"""Beyond this the jackknife's random groups and 2,000 resamples take seconds; 200 resamples do not."""
BLOCK_ROWS = 2500

NO_VARIATION = "interval undefined: all resamples give the same value, the sample is too uniform"
FEW_DECIDE = "a few {unit}s decide this value: its interval may be too narrow"
TOO_FEW = "fewer than {least} {unit}s: too few for an interval of this metric"
ONE_UNIT = "one {unit} has no interval"
TOO_OFTEN_UNDEFINED = "the metric is undefined in most resamples, so there is no interval"


@dataclass(frozen=True, slots=True)
class Draw:
    """How intervals are computed: the generator, the confidence level, the most numbers computed for one resample."""

    rng: np.random.Generator
    level: float = CONFIDENCE_LEVEL
    width: int = 1


def metrics_with_intervals(statistics: Mapping[str, Statistic], sample: Sample, draw: Draw) -> dict[str, MetricValue]:
    """Each statistic's value on the sample with its interval."""
    values = {name: value_of(statistic, sample) for name, statistic in statistics.items()}
    found: dict[str, MetricValue] = {}
    with_error: dict[str, Statistic] = {}
    for name, statistic in statistics.items():
        value = values[name]
        if value is None:
            why = _why_undefined(statistic, sample) if sample.n else "no rows"
            found[name] = MetricValue(None, None, None, sample.n, why)
        elif sample.units < 2 and (statistic.share is None or sample.cluster is not None):
            found[name] = MetricValue(value, None, None, sample.n, ONE_UNIT.format(unit=_unit(sample)))
        elif sample.units < statistic.least_units:
            why = TOO_FEW.format(least=statistic.least_units, unit=_unit(sample))
            found[name] = MetricValue(value, None, None, sample.n, why)
        elif statistic.interval == "transformed" and statistic.transformed is not None:
            found[name] = _transformed(value, statistic.transformed, sample, draw)
        elif statistic.interval == "proportion" and statistic.share is not None:
            found[name] = share_metric(value, statistic.share, sample, draw.level)
        elif statistic.interval == "mean_of_proportions" and statistic.shares is not None:
            ends = mean_share_interval(statistic.shares(), sample, draw.level)
            found[name] = _within_bounds(value, *ends, statistic, sample)
        elif statistic.interval == "order_statistics" and statistic.ordered is not None:
            found[name] = _median(value, statistic.ordered, sample, draw.level)
        elif statistic.interval == "inverted_test" and statistic.bins is not None:
            ends = inverted_test_interval(statistic.bins, sample, draw.rng, draw.level)
            found[name] = _within_bounds(value, *ends, statistic, sample)
        else:
            with_error[name] = statistic
    for name, (middle, error) in _errors(with_error, values, sample, draw).items():
        found[name] = _metric_value(values[name] or 0.0, middle, error, with_error[name], sample, draw.level)
    return {name: found[name] for name in statistics}


def _errors(
    statistics: Mapping[str, Statistic], values: Mapping[str, float | None], sample: Sample, draw: Draw
) -> dict[str, tuple[float, StandardError | None]]:
    """The middle of each interval, and the standard error; None where all resamples give the same value."""
    many = max(len(sample.counts), sample.units if sample.cluster is not None else 0) > MOST_RESAMPLED_UNITS
    smooth: dict[str, Statistic] = {}
    resampled: dict[str, Statistic] = {}
    found: dict[str, tuple[float, StandardError | None]] = {}
    for name, statistic in statistics.items():
        if statistic.blockwise:
            found[name] = values[name] or 0.0, _block_error(statistic, sample, draw.rng)
        elif many or not statistic.smooth:
            resampled[name] = statistic
        else:
            smooth[name] = statistic
    if smooth:
        errors = jackknife_errors(smooth, sample, draw.rng, draw.width)
        found |= {name: (values[name] or 0.0, error) for name, error in errors.items()}
    for name, drawn in _resample(resampled, sample, draw, FEW_RESAMPLES if many else RESAMPLES).items():
        found[name] = _bootstrap_error(values[name] or 0.0, drawn, resampled[name])
    return found


def paired_metric_value(old: Statistic, new: Statistic, sample: Sample, draw: Draw) -> MetricValue:
    """The second statistic minus the first on the same rows, with its interval."""
    method = "jackknife" if new.smooth else new.interval
    both = Statistic(
        lambda weights: new.at(weights) - old.at(weights), new.undefined, interval=method, blockwise=new.blockwise
    )
    value = value_of(both, sample)
    if value is None or sample.units < 2:
        return metrics_with_intervals({"change": both}, sample, draw)["change"]
    middle, error = _errors({"change": both}, {"change": value}, sample, draw)["change"]
    adjusted = paired_interval(value, error, (old, new), sample, draw.level)
    if adjusted is None and error is None and np.isfinite(new.bounds).all():
        reach = unseen_share(sample, draw.level) * (new.bounds[1] - new.bounds[0])
        return MetricValue(value, value - reach, value + reach, sample.n, SAME)
    return adjusted or _metric_value(value, middle, error, both, sample, draw.level)


def _why_undefined(statistic: Statistic, sample: Sample) -> str:
    return TOO_LARGE if np.isinf(statistic.at(sample.counts[None, :])[0]) else statistic.undefined


def value_of(statistic: Statistic, sample: Sample) -> float | None:
    """The statistic on the sample, None where it is undefined."""
    if not sample.n:
        return None
    value = float(statistic.at(sample.counts[None, :])[0])
    return value if np.isfinite(value) else None


def _metric_value(
    value: float, middle: float, error: StandardError | None, statistic: Statistic, sample: Sample, level: float
) -> MetricValue:
    """The value with the interval that its standard error gives around the middle, which is the value or near it."""
    if error is None:
        ends = perfect_agreement_interval(value, statistic, sample, level)
        if ends is None:
            return MetricValue(value, value, value, sample.n, NO_VARIATION)
        return MetricValue(value, max(ends[0], statistic.bounds[0]), ends[1], sample.n)
    if not np.isfinite(error.error):
        return MetricValue(value, None, None, sample.n, TOO_OFTEN_UNDEFINED)
    if statistic.interval == "agreement" and (ends := agreement_interval(value, error, statistic, sample, level)):
        return _within_bounds(value, *ends, statistic, sample)
    if statistic.rounding is not None:
        error = replace(error, error=math.sqrt(error.error**2 + statistic.rounding(sample.counts)))
    if statistic.interval == "skewness":
        ends = skewness_corrected_interval(value, error, level)
    else:
        ends = student_interval(middle, error, statistic.scale, level)
    found = _within_bounds(value, *ends, statistic, sample)
    few = error.information < LEAST_FREEDOM
    return replace(found, reason=FEW_DECIDE.format(unit=_unit(sample))) if few else found


def _transformed(value: float, transformed: TransformedStatistic, sample: Sample, draw: Draw) -> MetricValue:
    """The value with the interval of the statistic that it is a function of."""
    inner = metrics_with_intervals({"inner": transformed.inner}, sample, draw)["inner"]
    if inner.low is None or inner.high is None:
        return replace(inner, value=value)
    ends = sorted(transformed.transform(end) for end in (inner.low, inner.high))
    return replace(inner, value=value, low=min(ends[0], value), high=max(ends[1], value))


def _unit(sample: Sample) -> str:
    return "row" if sample.cluster is None else "cluster"


def _within_bounds(value: float, low: float, high: float, statistic: Statistic, sample: Sample) -> MetricValue:
    low, high = max(min(low, value), statistic.bounds[0]), min(max(high, value), statistic.bounds[1])
    return MetricValue(value, low, high, sample.n)


def _median(value: float, ordered: Floats, sample: Sample, level: float) -> MetricValue:
    """Woodruff: the quantiles at the ends of the interval of the share of rows below the median."""
    keys, inverse = np.unique(ordered, return_inverse=True)
    if len(keys) == 1:
        return MetricValue(value, value, value, sample.n, NO_VARIATION)
    sums = np.bincount(inverse, sample.counts)
    error, freedom = 0.5 / np.sqrt(sample.n), np.inf
    if sample.cluster is not None:
        below = ((ordered < value) * 0.5 + (ordered <= value) * 0.5)[sample.atom]
        of = np.bincount(sample.cluster, below - below.mean(), minlength=sample.units)
        error = float(np.sqrt(sample.units / (sample.units - 1) * (of**2).sum())) / sample.n
        freedom = sample.units - 1
    reach = student(level, freedom) * error
    rank = max(int(np.ceil((0.5 - reach) * sample.n - 1e-9)), 1)
    cumulated = np.cumsum(sums)
    low = keys[np.searchsorted(cumulated, rank)]
    high = keys[np.searchsorted(cumulated, sample.n + 1 - rank)]
    return MetricValue(value, min(float(low), value), max(float(high), value), sample.n)


def _resample(statistics: Mapping[str, Statistic], sample: Sample, draw: Draw, times: int) -> dict[str, Floats]:
    """The value of each statistic in each resample."""
    if not statistics:
        return {}
    drawn: dict[str, list[Floats]] = {name: [] for name in statistics}
    for weights in sample.resamples(draw.rng, times, draw.width):
        for name, statistic in statistics.items():
            drawn[name].append(statistic.at(weights))
    return {name: np.concatenate(values) for name, values in drawn.items()}


def _bootstrap_error(value: float, drawn: Floats, statistic: Statistic) -> tuple[float, StandardError | None]:
    """The middle of the interval, corrected for the bias of a metric that is not smooth, and the standard error."""
    known = drawn[np.isfinite(drawn)]
    if len(known) * 2 < len(drawn):
        return value, StandardError(np.nan, np.inf)
    if np.ptp(known) <= 1e-12 * max(1.0, abs(value)):
        return value, None
    bias = 0.0 if statistic.smooth else float(known.mean()) - value
    return value - bias, StandardError(float(known.std(ddof=1)), np.inf)


def _block_error(statistic: Statistic, sample: Sample, rng: np.random.Generator) -> StandardError:
    """The standard error from disjoint blocks, and its degrees of freedom."""
    count = min(max(sample.n // BLOCK_ROWS, 20), 100, sample.units)
    values = np.concatenate([statistic.at(weights) for weights in sample.blocks(rng, count)])
    values = values[np.isfinite(values)]
    if len(values) < 2:
        return StandardError(np.nan, np.inf)
    return StandardError(float(values.std(ddof=1) / np.sqrt(len(values))), len(values) - 1)
