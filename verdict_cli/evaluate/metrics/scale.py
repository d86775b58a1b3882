"""Scales on which a figure's chance variation is nearly symmetric and nearly the same everywhere.

Fisher's z for figures from -1 to 1 (Fisher, 1915), the angle for Kendall's tau, which is itself nearly one (of normal
columns it is 2 / pi times the arcsine of their correlation), the logit and the arcsine for figures from 0 to 1 (Agresti,
2013, section 3.1), the logarithm for those above 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

NEAR = 1e-12
"""Figures closer than this to an end of their range are taken as so close."""


@dataclass(frozen=True, slots=True)
class Scale:
    """`to` the scale and `back`; `slope` is how fast the scale grows at a figure."""

    to: Callable[[float], float]
    back: Callable[[float], float]
    slope: Callable[[float], float]


def _inside(value: float) -> float:
    return min(max(value, NEAR), 1 - NEAR)


def _logistic(value: float) -> float:
    return 0.5 * (1 + math.tanh(value / 2))


IDENTITY = Scale(lambda value: value, lambda value: value, lambda value: 1.0)
FISHER = Scale(
    lambda value: float(np.arctanh(np.clip(value, NEAR - 1, 1 - NEAR))),
    math.tanh,
    lambda value: 1 / max(1 - value * value, NEAR),
)
ANGLE = Scale(
    lambda value: math.asin(min(max(value, -1.0), 1.0)),
    lambda value: math.sin(min(max(value, -math.pi / 2), math.pi / 2)),
    lambda value: 1 / math.sqrt(max(1 - value * value, NEAR)),
)
LOGIT = Scale(
    lambda value: math.log(_inside(value) / (1 - _inside(value))),
    _logistic,
    lambda value: 1 / (_inside(value) * (1 - _inside(value))),
)
ARCSINE = Scale(
    lambda value: math.asin(math.sqrt(_inside(value))),
    lambda value: math.sin(min(max(value, 0.0), math.pi / 2)) ** 2,
    lambda value: 0.5 / math.sqrt(_inside(value) * (1 - _inside(value))),
)
LOG = Scale(
    lambda value: math.log(max(value, NEAR)),
    lambda value: math.exp(min(value, 700.0)),
    lambda value: 1 / max(value, NEAR),
)
