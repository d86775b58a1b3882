"""Intervals of figures: how far a figure could be from its value by the chance of the draw.

- Plain proportions of independent rows: Wilson's score interval (Wilson, 1927), from scipy.
- Everything else: the bias-corrected and accelerated bootstrap (Efron, 1987; Efron and Tibshirani, 1993, chapter 14)
  with 2,000 resamples. Rows are resampled through the counts of their distinct values, which is the same and fast at
  any n; with clusters, whole clusters are (Davison and Hinkley, 1997, section 3.8).
  Where the correction for bias pushes both ends past the value (calibration error does that), the nearer end is the value.
- More than 5,000 distinct observations or clusters: value ± z times the bootstrap's standard error from 200
  resamples (Efron and Tibshirani, 1993, section 6.4: 200 suffice for a standard error). Rank correlations there: the
  standard error from 20 to 100 disjoint random blocks (Politis, Romano and Wolf, 1999, section 2.2).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from verdict_cli.evaluate.column import Floats
from verdict_cli.evaluate.figures import Figure
from verdict_cli.evaluate.metrics.statistic import Statistic
from verdict_cli.evaluate.sample import Sample

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
    values = {name: _value(statistic, sample) for name, statistic in statistics.items()}
    done: dict[str, Figure] = {}
    drawn: dict[str, Statistic] = {}
    for name, statistic in statistics.items():
        value = values[name]
        if value is None:
            done[name] = Figure(None, None, None, sample.n, statistic.why if sample.n else "no rows")
        elif statistic.proportion is not None and sample.cluster is None:
            done[name] = Figure(value, *wilson(*statistic.proportion(sample.counts), draw.level), sample.n)
        elif sample.units < 2:
            unit = "row" if sample.cluster is None else "cluster"
            done[name] = Figure(value, None, None, sample.n, ONE_UNIT.format(unit=unit))
        else:
            drawn[name] = statistic
    ends = _ends(drawn, {name: float(values[name] or 0.0) for name in drawn}, sample, draw)
    for name, (low, high, reason) in ends.items():
        done[name] = Figure(values[name], low, high, sample.n, reason)
    return {name: done[name] for name in statistics}


def _value(statistic: Statistic, sample: Sample) -> float | None:
    if not sample.n:
        return None
    value = float(statistic.at(sample.counts[None, :])[0])
    return value if np.isfinite(value) else None


def wilson(successes: int, trials: int, level: float = LEVEL) -> tuple[float, float]:
    """The ends of Wilson's score interval of a proportion."""
    from scipy.stats import binomtest

    interval = binomtest(successes, trials).proportion_ci(level, "wilson")
    return float(interval.low), float(interval.high)


Ends = tuple[float | None, float | None, str]


def _ends(
    statistics: Mapping[str, Statistic],
    values: Mapping[str, float],
    sample: Sample,
    draw: Draw,
) -> dict[str, Ends]:
    if not statistics:
        return {}
    many = max(len(sample.counts), sample.units if sample.cluster is not None else 0) > MOST_UNITS
    resampled = {name: one for name, one in statistics.items() if not one.blockwise}
    draws: dict[str, list[Floats]] = {name: [] for name in resampled}
    if resampled:
        for weights in sample.resamples(draw.rng, FEW_RESAMPLES if many else RESAMPLES, draw.width):
            for name, statistic in resampled.items():
                draws[name].append(statistic.at(weights))
    found: dict[str, Ends] = {}
    leaving_out = {} if many else _accelerations(resampled, sample, draw)
    for name, statistic in statistics.items():
        value = values[name]
        if statistic.blockwise:
            ends = _normal(value, *_block_error(statistic, sample, draw.rng), draw.level)
        else:
            drawn = np.concatenate(draws[name])
            drawn = drawn[np.isfinite(drawn)]
            if len(drawn) * 2 < sum(map(len, draws[name])):
                found[name] = (None, None, TOO_OFTEN_UNDEFINED)
                continue
            if np.ptp(drawn) <= 1e-12 * max(1.0, abs(value)):
                found[name] = (value, value, NO_VARIATION)
                continue
            if many:
                ends = _normal(value, float(drawn.std(ddof=1)), np.inf, draw.level)
            else:
                ends = bca(value, drawn, leaving_out[name], draw.level)
        if not np.isfinite(ends).all():
            found[name] = (None, None, TOO_OFTEN_UNDEFINED)
            continue
        low, high = (min(max(end, statistic.least), statistic.most) for end in ends)
        low, high = min(low, value), max(high, value)
        found[name] = (low, high, "")
    return found


def bca(value: float, drawn: Floats, acceleration: float, level: float = LEVEL) -> tuple[float, float]:
    """The ends of the BCa interval from a statistic's resampled values; ties with the value count half."""
    from scipy.special import ndtr, ndtri

    tie = 1e-12 * max(1.0, abs(value))
    below = np.mean(drawn < value - tie) + np.mean(np.abs(drawn - value) <= tie) / 2
    bias = ndtri(np.clip(below, 0.5 / len(drawn), 1 - 0.5 / len(drawn)))
    z = bias + ndtri(np.array([(1 - level) / 2, (1 + level) / 2]))
    places = ndtr(bias + z / np.maximum(1 - acceleration * z, 1e-9))
    low, high = np.quantile(drawn, places)
    return float(low), float(high)


def _accelerations(statistics: Mapping[str, Statistic], sample: Sample, draw: Draw) -> dict[str, float]:
    """Each statistic's acceleration from the jackknife, 0 where it has none."""
    left: dict[str, list[Floats]] = {name: [] for name in statistics}
    times: list[Floats] = []
    for weights, alike in sample.deletions(draw.rng, draw.width):
        times.append(alike)
        for name, statistic in statistics.items():
            left[name].append(statistic.at(weights))
    found = {}
    for name, statistic in statistics.items():
        values, counts = np.concatenate(left[name]), np.concatenate(times)
        finite = np.isfinite(values)
        values, counts = values[finite], counts[finite]
        found[name] = _skew(values, counts) if statistic.smooth and len(values) else 0.0
    return found


def _skew(values: Floats, counts: Floats) -> float:
    away = (values * counts).sum() / counts.sum() - values
    spread = float((counts * away**2).sum())
    return float((counts * away**3).sum() / (6 * spread**1.5)) if spread > 1e-24 else 0.0


def _block_error(statistic: Statistic, sample: Sample, rng: np.random.Generator) -> tuple[float, float]:
    """The standard error from disjoint blocks, and its degrees of freedom."""
    count = min(max(sample.n // BLOCK_ROWS, 20), 100, sample.units)
    values = np.concatenate([statistic.at(weights) for weights in sample.blocks(rng, count)])
    values = values[np.isfinite(values)]
    if len(values) < 2:
        return np.nan, np.inf
    return float(values.std(ddof=1) / np.sqrt(len(values))), len(values) - 1


def _normal(value: float, error: float, freedom: float, level: float) -> tuple[float, float]:
    from scipy.stats import t

    reach = float(t.ppf((1 + level) / 2, freedom)) * error
    return value - reach, value + reach
