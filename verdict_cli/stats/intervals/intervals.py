"""Intervals of metrics: how far a value could be from the truth by the chance of the draw.

| metric | interval |
| --- | --- |
| shares of rows: accuracy, precision, recall and F1 of a label, the mean of booleans | exact (Clopper-Pearson) |
| agreement of labels, and what is averaged over them | Wilson's by the jackknife |
| differences of a share or of agreement of labels between two runs | adjusted Wald |
| probabilities, and lengths | jackknife, symmetric on the scale of their record |
| all else that changes smoothly with every row | jackknife, with Hall's correction for skewness |
| the median | the order statistics that Woodruff (1952) names |
| the calibration error | the inverted test (`calibration_interval.py`) |
| the difference of two medians or calibration errors | the half-widths of both intervals, put together with the correlation that the jackknife shows |
| more than 5,000 distinct observations or clusters | the jackknife over 64 random groups of them |

Clusters are left out as a whole. Rows are left out through the counts of their distinct values, which is the same and fast
at any n.

The difference of a share or an agreement between two runs has the adjusted Wald interval of Agresti and Min (2005): half a row
more on which only the first run agrees, half a row on which only the second does, and two rows in all. Where no row differs,
at least what the rule of three leaves open (Hanley and Lippman-Hand, 1983).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from msgspec import Struct, structs
from msgspec.structs import replace

from verdict_cli.plural import plural
from verdict_cli.stats.columns.column import Ends, Floats, Ints
from verdict_cli.stats.columns.sample import Sample
from verdict_cli.stats.intervals.calibration_interval import calibration_error_interval
from verdict_cli.stats.intervals.confidence_sequence import anytime_interval
from verdict_cli.stats.intervals.interval_methods import (
    NO_VARIATION,
    MetricValue,
    MetricValues,
    StandardError,
    agreement_interval,
    cluster_freedom,
    effective_clusters,
    jackknife_errors,
    jackknife_variance,
    median_metric,
    normal,
    perfect_agreement_interval,
    raised_rank_variance,
    reliability_warnings,
    share_metric,
    skewness_corrected_interval,
    student,
    student_interval,
    undefined_value,
)
from verdict_cli.stats.metrics.numbers import number_values
from verdict_cli.stats.metrics.statistic import (
    TOO_LARGE,
    Statistic,
    TransformedStatistic,
)

CONFIDENCE_LEVEL = 0.95
MOST_LEFT_OUT = 5000
"""Beyond this the jackknife of 400 groups takes seconds; that of 64 does not."""
FEW_DELETIONS = 64
"""So many random groups of very many rows or clusters give a standard error with 63 degrees of freedom."""

ONE_UNIT = "one {unit} has no interval"
WILSON = "Wilson of disagreement"
TOO_OFTEN_UNDEFINED = "the metric is undefined in most resamples, so there is no interval"


class Draw(Struct, frozen=True):
    """How intervals are computed: the generator, the confidence level, and whether the difference of two shares is corrected
    for continuity, as gates need."""

    rng: np.random.Generator
    level: float = CONFIDENCE_LEVEL
    continuity: bool = False


def metrics_with_intervals(
    statistics: Mapping[str, Statistic], sample: Sample, draw: Draw
) -> MetricValues:
    """Each statistic's value on the sample with its interval."""
    metrics: MetricValues = {}
    values: dict[str, float] = {}
    for name, statistic in statistics.items():
        value = value_of(statistic, sample)
        if value is None:
            metrics[name] = undefined_value(_why_undefined(statistic, sample), sample.n)
        elif sample.units < 2 and (statistic.share is None or sample.cluster is not None):
            unit = "row" if sample.cluster is None else "cluster"
            metrics[name] = MetricValue(value, None, None, sample.n, ONE_UNIT.format(unit=unit))
        elif (metric := _with_own_method(value, statistic, sample, draw)) is not None:
            metrics[name] = metric
        else:
            values[name] = value
    with_error = {name: statistics[name] for name in values}
    for name, error in _errors(with_error, sample, draw).items():
        metric = _metric_value(values[name], error, statistics[name], sample, draw.level)
        metrics[name] = _with_residuals(metric, statistics[name], sample, draw)
    return {
        name: _described(metrics[name], statistic, sample, draw.level)
        for name, statistic in statistics.items()
    }


def _why_undefined(statistic: Statistic, sample: Sample) -> str:
    if not sample.n:
        return "no rows"
    is_too_large = np.isinf(statistic.value(sample.counts))
    return TOO_LARGE if is_too_large else statistic.undefined


def _with_own_method(
    value: float, statistic: Statistic, sample: Sample, draw: Draw
) -> MetricValue | None:
    """The value with the interval of a share, a median, a calibration error, or a function of another metric."""
    if statistic.interval == "proportion" and statistic.share is not None:
        return share_metric(value, statistic.share, sample, draw.level)
    if statistic.transformed is not None:
        return _transformed(value, statistic.transformed, sample, draw)
    if statistic.ordered is not None:
        return median_metric(value, statistic.ordered, sample, draw.level)
    if statistic.bins is not None:
        ends = calibration_error_interval(statistic.bins, sample, draw.rng, draw.level)
        return _within_bounds(value, ends, statistic, sample, "inverted test")
    return None


def mean_with_interval(
    values: Floats,
    cluster: Ints | None,
    draw: Draw,
    bounds: Ends | None = None,
    *,
    boolean: bool = False,
) -> MetricValue:
    """The mean of values on a scale with these ends, with its interval; of booleans, the share that is 1."""
    sample = Sample.of((values,), cluster)
    mean = number_values(values[sample.first], boolean, bounds)["mean"]
    return metrics_with_intervals({"mean": mean}, sample, draw)["mean"]


def _described(
    metric: MetricValue, statistic: Statistic, sample: Sample, level: float
) -> MetricValue:
    """The metric with its level, clusters and warnings."""
    metric = replace(metric, level=level)
    if sample.cluster is not None:
        effect = metric.design_effect
        worth = sample.n / effect if effect else None
        metric = replace(metric, clusters=sample.units, effective_n=worth)
    elif metric.value is not None:
        metric = replace(metric, effective_n=float(metric.n))
    if metric.low is None or metric.high is None:
        return metric
    if metric.se is None and metric.high > metric.low:
        metric = replace(metric, se=(metric.high - metric.low) / 2 / normal(level))
    return metric.warned(*reliability_warnings(statistic, sample))


def _errors(
    statistics: Mapping[str, Statistic], sample: Sample, draw: Draw
) -> dict[str, StandardError | None]:
    """The standard errors; None where no row changes the value."""
    units = 0 if sample.cluster is None else sample.units
    many = max(len(sample.counts), units) > MOST_LEFT_OUT
    grouped = {name: own for name, own in statistics.items() if many and not own.tails}
    every = {name: own for name, own in statistics.items() if name not in grouped}
    errors: dict[str, StandardError | None] = {}
    for name, error in jackknife_errors(grouped, sample, draw.rng, FEW_DELETIONS).items():
        # Few groups do not show a skewness.
        errors[name] = error and structs.replace(error, skewness=0.0)
    return errors | jackknife_errors(every, sample, draw.rng)


def paired_metric_value(old: Statistic, new: Statistic, sample: Sample, draw: Draw) -> MetricValue:
    """The second statistic minus the first on the same rows, with its interval."""
    both = Statistic(
        lambda weights: new.at(weights) - old.at(weights),
        old.undefined if value_of(old, sample) is None else new.undefined,
        interval="skewness",
        share=new.share,
        width=max(old.width, new.width),
        classes=(*old.classes, *new.classes),
        varies=_differences(old, new),
    )
    value = value_of(both, sample)
    if value is None or sample.units < 2:
        return metrics_with_intervals({"change": both}, sample, draw)["change"]
    smooth = old.smooth or new.smooth
    statistics = {"change": both} if smooth else {"change": both, "old": old, "new": new}
    errors = _errors(statistics, sample, draw)
    error = errors["change"]
    adjusted = paired_interval(value, error, (old, new), sample, draw)
    if adjusted is not None:
        # It allows for few differing rows, and needs no warning of them.
        return _described(adjusted, structs.replace(both, varies=()), sample, draw.level)
    if error is None and np.isfinite(new.bounds).all():
        reach = unseen_share(sample, draw.level) * (new.bounds[1] - new.bounds[0])
        low, high = value - reach, value + reach
        change = MetricValue(value, low, high, sample.n, SAME, method="rule of three")
    elif smooth:
        change = _metric_value(value, error, both, sample, draw.level)
    else:
        change = _combined(
            value, errors, metrics_with_intervals({"old": old, "new": new}, sample, draw), sample.n
        )
    return _described(change, both, sample, draw.level)


def _combined(
    value: float, errors: Mapping[str, StandardError | None], metrics: MetricValues, rows: int
) -> MetricValue:
    """The difference of two metrics with the half-widths of their intervals put together, as standard errors are. The less
    leaving out rows moves the difference, the more the two vary together."""
    none = MetricValue(value, None, None, rows, NO_VARIATION, warnings=(NO_VARIATION,))
    old, new = metrics["old"], metrics["new"]
    if old.low is None or old.high is None or new.low is None or new.high is None:
        return none
    both, first, second = (error.error if error else 0.0 for error in errors.values())
    covariance = (first**2 + second**2 - both**2) / 2
    correlation = covariance / (first * second) if first and second else 0.0
    shared = min(max(0.0, correlation), 1.0)
    wide_old, wide = (old.high - old.low) / 2, (new.high - new.low) / 2
    reach = math.sqrt(max(wide**2 + wide_old**2 - 2 * shared * wide * wide_old, 0.0))
    if wide and not reach:  # no row moves the difference
        return none
    return MetricValue(value, value - reach, value + reach, rows, method="both intervals")


def _differences(old: Statistic, new: Statistic) -> tuple[Floats, ...]:
    """What a row adds to the difference, of shares and agreement; else what the two metrics vary with."""
    if old.share is not None and new.share is not None:
        return (new.share.hits - old.share.hits,)
    if old.differs is not None and new.differs is not None:
        return (new.differs - old.differs,)
    return (*old.varies, *new.varies)


def value_of(statistic: Statistic, sample: Sample) -> float | None:
    """The statistic on the sample, None where it is undefined."""
    if not sample.n:
        return None
    value = statistic.value(sample.counts)
    return value if np.isfinite(value) else None


def _metric_value(
    value: float, error: StandardError | None, statistic: Statistic, sample: Sample, level: float
) -> MetricValue:
    """The value with the interval that its standard error gives."""
    if error is None:
        return _unvaried(value, statistic, sample, level)
    if not np.isfinite(error.error):
        return MetricValue(value, None, None, sample.n, TOO_OFTEN_UNDEFINED)
    if statistic.separates is not None:
        variance, freedom = raised_rank_variance(error.error**2, value, statistic.separates, sample)
        freedom = min(freedom, cluster_freedom(sample))
        error = structs.replace(error, error=math.sqrt(variance), freedom=freedom)
    freedom = error.freedom
    ends = agreement_interval(value, error, statistic, sample, level)
    if ends is not None:
        method, freedom = WILSON, cluster_freedom(sample)
    elif statistic.interval == "skewness":
        method = "jackknife with Hall's correction"
        ends = skewness_corrected_interval(value, error, statistic, sample, level)
    else:
        method = "jackknife"
        quantile = student(level, error.freedom)
        ends = student_interval(value, error, statistic.scale, quantile)
    return replace(
        _within_bounds(value, ends, statistic, sample, method),
        se=error.error,
        df=freedom if math.isfinite(freedom) else None,
        design_effect=error.design_effect,
    )


def _unvaried(value: float, statistic: Statistic, sample: Sample, level: float) -> MetricValue:
    """A value that no row changes."""
    ends = perfect_agreement_interval(value, statistic, sample, level)
    ends = ends or agreement_interval(value, StandardError(0.0, math.inf), statistic, sample, level)
    if ends is not None:
        return _within_bounds(value, ends, statistic, sample, WILSON)
    ends = anytime_ends(statistic, sample, level)
    if ends is not None:
        return _within_bounds(value, ends, statistic, sample, "confidence sequence")
    return MetricValue(value, None, None, sample.n, NO_VARIATION, warnings=(NO_VARIATION,))


def anytime_ends(statistic: Statistic, sample: Sample, level: float) -> Ends | None:
    """The ends that hold at every look together, of a share or a mean of values of a known range; None of other metrics."""
    if statistic.share is not None:
        share, trials = statistic.share.share(sample.counts)
        low, high = anytime_interval(share * trials, trials, 1 - level)
        return statistic.share.metric_of(low), statistic.share.metric_of(high)
    least, width = statistic.bounds[0], statistic.bounds[1] - statistic.bounds[0]
    if statistic.mean_of is None or not 0 < width < math.inf:
        return None
    mean, rows = float(sample.counts @ statistic.mean_of) / sample.n, effective_clusters(sample)
    low, high = anytime_interval((mean - least) / width * rows, rows, 1 - level)
    return least + width * low, least + width * high


def _transformed(
    value: float, transformed: TransformedStatistic, sample: Sample, draw: Draw
) -> MetricValue:
    """The value with the interval of the statistic that it is a function of."""
    inner = metrics_with_intervals({"inner": transformed.inner}, sample, draw)["inner"]
    if inner.low is None or inner.high is None:
        return replace(inner, value=value, se=None)
    ends = [transformed.transform(end) for end in (inner.low, inner.high)]
    if transformed.peak is not None and inner.low < transformed.peak < inner.high:
        ends.append(transformed.transform(transformed.peak))
    error = (max(ends) - min(ends)) / 2 / normal(draw.level)
    return replace(
        inner, value=value, low=min(*ends, value), high=max(*ends, value), se=error or None
    )


def _with_residuals(
    correlation: MetricValue, statistic: Statistic, sample: Sample, draw: Draw
) -> MetricValue:
    """A correlation whose end next to 0 is also that of residuals as large as their own interval allows."""
    value, low, high = correlation.value, correlation.low, correlation.high
    if not statistic.unexplained or low is None or high is None or not 0 < abs(value) < 1:
        return correlation
    residuals = dict(zip("xy", statistic.unexplained, strict=True))
    for residual in metrics_with_intervals(residuals, sample, draw).values():
        if residual.value and residual.high is not None:
            unexplained = (1 - value**2) * residual.high / residual.value
            end = value / math.sqrt(value**2 + unexplained)
            low, high = min(low, end), max(high, end)
    return replace(correlation, low=low, high=high)


def _within_bounds(
    value: float, ends: Ends, statistic: Statistic, sample: Sample, method: str
) -> MetricValue:
    low = max(min(ends[0], value), statistic.bounds[0])
    high = min(max(ends[1], value), statistic.bounds[1])
    return MetricValue(value, low, high, sample.n, method=method)


SAME = "the runs score every row alike: the interval is what so few rows leave open"
MORE_ROWS, MORE_DISCORDANT = 2.0, 1.0
"""What Agresti and Min (2005) add: two rows in all, of which one is right in only one of the two runs."""


def paired_interval(
    change: float,
    error: StandardError | None,
    statistics: tuple[Statistic, Statistic],
    sample: Sample,
    draw: Draw,
) -> MetricValue | None:
    """The change of a share or an agreement between two runs over the same rows; None for other metrics."""
    counts = [_row_counts(statistic, sample) for statistic in statistics]
    sizes = [count for count in counts if count]
    if not sizes or None in counts or (error is not None and not np.isfinite(error.error)):
        return None
    row = float(np.mean(sizes))
    # In clusters the jackknife's whole variance, which is CR3, and Student's quantile.
    alone = sample.cluster is None
    seen = 0.0 if error is None else jackknife_variance(error, sample) if alone else error.error**2
    variance = seen + MORE_DISCORDANT * row**2
    shrunk = sample.n / (sample.n + MORE_ROWS)
    quantile = normal(draw.level) if alone else student(draw.level, cluster_freedom(sample))
    reach = quantile * math.sqrt(variance) * shrunk
    if error is None:
        reach = max(reach, unseen_share(sample, draw.level) * row * sample.n)
    elif draw.continuity and alone and all(each.share is not None for each in statistics):
        reach += 1 / sample.n
    widest = statistics[1].bounds[1] - statistics[0].bounds[0]
    low, high = max(change * shrunk - reach, -widest), min(change * shrunk + reach, widest)
    return MetricValue(
        change,
        min(low, change),
        max(high, change),
        sample.n,
        "" if error else SAME,
        se=math.sqrt(variance),
        method="adjusted Wald",
        df=None if alone else cluster_freedom(sample),
        design_effect=error.design_effect if error else None,
    )


def unseen_share(sample: Sample, level: float) -> float:
    """The largest share of rows that may differ although none of the sample does: the rule of three."""
    return float(1 - ((1 - level) / 2) ** (1 / effective_clusters(sample)))


ONE_WAY = (
    "no row differs the other way, and {rows} do not show whether a few that do would turn the mean"
)


def one_way_doubt(old: Statistic, new: Statistic, sample: Sample, level: float) -> str:
    """Why a test of two means over the same rows may find a difference where there is none: many small gains, and the few
    large losses among them are unseen. "" where the rows show losses, or are so many that unseen ones do not matter."""
    if old.mean_of is None or new.mean_of is None:
        return ""
    gains = new.mean_of - old.mean_of
    if not gains.any() or gains.min() < 0 < gains.max():
        return ""
    low, high = new.scale_ends or new.bounds
    if not math.isfinite(high - low):
        both = np.concatenate([old.mean_of, new.mean_of])
        low, high = float(both.min()), float(both.max())
    gain = abs(float(sample.counts @ gains)) / sample.n
    if gain > unseen_share(sample, level) * (gain + high - low):
        return ""
    return ONE_WAY.format(rows=plural(sample.n, "row"))


def _row_counts(statistic: Statistic, sample: Sample) -> float | None:
    """The change by one more row that disagrees; 0 where it is not defined, None for other metrics."""
    if statistic.share is not None:
        share, trials = statistic.share.share(sample.counts)
        return statistic.share.slope(share) / trials
    if statistic.differs is None:
        return None
    disagreeing = float(sample.counts @ statistic.differs)
    if disagreeing:
        return (1 - statistic.value(sample.counts)) / disagreeing
    value = (
        statistic.with_disagreement(sample.counts, 1.0)
        if statistic.with_disagreement is not None
        else math.nan
    )
    return 1 - value if math.isfinite(value) else 0.0
