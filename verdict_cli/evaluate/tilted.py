"""The interval of a figure whose chance variation is skewed on every scale, such as the variance of values.

Hall's transformation (Hall, 1992): the skewness of the figure, estimated from its values without each row or cluster,
is taken out of Student's ratio by a cubic that has an inverse. The interval is wide on the side where the rare large
value would be.
"""

from __future__ import annotations

import math

from verdict_cli.evaluate.jackknife import Error
from verdict_cli.evaluate.quantiles import student

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
