"""Jackknife intervals, and intervals of skewed metrics."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from verdict_cli.stats.columns.column import Floats
from verdict_cli.stats.columns.sample import Sample
from verdict_cli.stats.intervals.proportions import normal, student
from verdict_cli.stats.metrics.statistic import NEAR, NormalizingScale, Statistic

LEAST_FREEDOM = 4
FLAT = 1e-24
"""A sum of squared changes below this is rounding: no row matters."""


@dataclass(frozen=True, slots=True)
class Error:
    """A figure's standard error with its degrees of freedom.

    `tilt` is its own skewness, by the adjusted coefficient (Joanes and Gill, 1998), and `worth` how many rows' worth of degrees of freedom the variance has, where known.
    """

    error: float
    freedom: float
    tilt: float = 0.0
    worth: float = math.inf


def errors(
    statistics: Mapping[str, Statistic], sample: Sample, rng: np.random.Generator, width: int
) -> dict[str, Error | None]:
    """The standard error of each figure, None where no row changes it; NaN where leaving a row out undoes it."""
    left: dict[str, list[Floats]] = {name: [] for name in statistics}
    times: list[Floats] = []
    for weights, alike in sample.deletions(rng, width):
        times.append(alike)
        for name, statistic in statistics.items():
            left[name].append(statistic.at(weights))
    if not times:
        return {}
    counts = np.concatenate(times)
    return {name: _error(np.concatenate(values), counts) for name, values in left.items()}


def _error(values: Floats, counts: Floats) -> Error | None:
    known = np.isfinite(values)
    values, counts = values[known], counts[known]
    n = float(counts.sum())
    if n < 2:
        return Error(np.nan, LEAST_FREEDOM)
    away = values - float(values @ counts) / n
    squares = float(counts @ away**2)
    if squares <= FLAT * max(1.0, float(np.abs(values).max()) ** 2):
        return None
    kurtosis = n * float(counts @ away**4) / squares**2
    worth = 2 * n / (kurtosis - 1) if kurtosis > 1 else n - 1
    tilt = -float(counts @ away**3) / squares**1.5 * (n * n / ((n - 1) * (n - 2)) if n > 2 else 1.0)
    return Error(float(np.sqrt((n - 1) / n * squares)), min(n - 1, max(worth, LEAST_FREEDOM)), tilt, worth)


def around(value: float, error: Error, scale: NormalizingScale, level: float) -> tuple[float, float]:
    """The ends of the interval around a value."""
    reach = student(level, error.freedom) * error.error * scale.slope(value)
    middle = scale.to(value)
    return scale.back(middle - reach), scale.back(middle + reach)


def without_exception(value: float, statistic: Statistic, sample: Sample, level: float) -> tuple[float, float] | None:
    """The ends where all rows agree and the figure is at its best; None where it is not, or nothing is known."""
    if statistic.beside is None or value < statistic.most - NEAR:
        return None
    doubt = normal(level) ** 2 * sample.n / sample.units
    low = statistic.beside(sample.counts, doubt)
    return (low, value) if np.isfinite(low) else None


STRAIGHT = 1e-6


def tilted_interval(value: float, error: Error, level: float) -> tuple[float, float]:
    """The ends of the interval around a value."""
    quantile = student(level, error.freedom)
    low, high = (_student(ratio, error.tilt) for ratio in (quantile, -quantile))
    return value - error.error * low, value - error.error * high


def _student(ratio: float, tilt: float) -> float:
    """The value of Student's ratio whose cubic is `ratio`; `tilt` is the skewness over the root of the units."""
    if abs(tilt) < STRAIGHT:
        return ratio
    return 3 / tilt * (math.cbrt(1 + tilt * (ratio - tilt / 6)) - 1)
