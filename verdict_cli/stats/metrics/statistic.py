"""A statistic: one metric as a function of how often each distinct observation occurs, and the scale it is normal on."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from verdict_cli.stats.columns.column import Floats, Ints

NEAR = 1e-12
"""Figures closer than this to an end of their range are taken as so close."""


@dataclass(frozen=True, slots=True)
class NormalizingScale:
    """`to` the scale and `back`; `slope` is how fast the scale grows at a figure."""

    to: Callable[[float], float]
    back: Callable[[float], float]
    slope: Callable[[float], float]


def _inside(value: float) -> float:
    return min(max(value, NEAR), 1 - NEAR)


def _logistic(value: float) -> float:
    return 0.5 * (1 + math.tanh(value / 2))


IDENTITY = NormalizingScale(lambda value: value, lambda value: value, lambda value: 1.0)
FISHER = NormalizingScale(
    lambda value: float(np.arctanh(np.clip(value, NEAR - 1, 1 - NEAR))),
    math.tanh,
    lambda value: 1 / max(1 - value * value, NEAR),
)
ANGLE = NormalizingScale(
    lambda value: math.asin(min(max(value, -1.0), 1.0)),
    lambda value: math.sin(min(max(value, -math.pi / 2), math.pi / 2)),
    lambda value: 1 / math.sqrt(max(1 - value * value, NEAR)),
)
LOGIT = NormalizingScale(
    lambda value: math.log(_inside(value) / (1 - _inside(value))),
    _logistic,
    lambda value: 1 / (_inside(value) * (1 - _inside(value))),
)
ARCSINE = NormalizingScale(
    lambda value: math.asin(math.sqrt(_inside(value))),
    lambda value: math.sin(min(max(value, 0.0), math.pi / 2)) ** 2,
    lambda value: 0.5 / math.sqrt(_inside(value) * (1 - _inside(value))),
)
LOG = NormalizingScale(
    lambda value: math.log(max(value, NEAR)),
    lambda value: math.exp(min(value, 700.0)),
    lambda value: 1 / max(value, NEAR),
)


At = Callable[[Floats], Floats]
"""Weights (resamples, atoms) -> the figure of each resample, NaN where it is undefined."""


Bent = Callable[[Any], Any]
"""A monotone function of a number, or of each of an array."""


@dataclass(frozen=True, slots=True)
class Proportion:
    """A plain share: of the `trials` at each atom (1 where the row counts, else 0), the `hits`.

    `bent` is the monotone function that makes the figure of the share, where it is not the share itself.
    """

    hits: Floats
    trials: Floats
    bent: Bent | None = None

    def back(self, share: float) -> float:
        """The figure of a share."""
        return share if self.bent is None else float(self.bent(share))


@dataclass(frozen=True, slots=True)
class CalibrationBins:
    """Rows in bins: at each atom its bin, 0 to one less than `bins`, and how far it is off."""

    bin: Ints
    off: Floats
    bins: int


@dataclass(frozen=True, slots=True)
class Statistic:
    """A figure. `why` says when it is undefined.

    `share` is set where the figure is a plain share of rows, `ordered` (the values at the atoms) where it is their
    median, `gaps` where it is the sum over bins of the mean row's absolute gap, `apart` (1 at the atoms whose two
    labels differ, else 0) where it is 1 if none differs. `scale` is where its interval is symmetric, `tilted` says
    that it is on none. `beside` gives, where all rows agree, the figure's value if besides them this many rows did
    not: counts, rows -> value. `smooth` is False where leaving a row out says nothing of the standard error.
    `blockwise` is True where a resample of many distinct rows is too slow. `needs` is the rows or clusters below which
    it has no interval. `whole` is True where a cluster that is left out may take all rows of a label with it.
    `rounding` is what counts being whole adds to the variance: counts -> variance. `through` is set where the figure
    is a monotone function of another one. `least` and `most` are the ends of its range.
    """

    at: At
    why: str = ""
    share: Proportion | None = None
    ordered: Floats | None = None
    gaps: CalibrationBins | None = None
    apart: Floats | None = None
    scale: NormalizingScale = IDENTITY
    tilted: bool = False
    beside: Callable[[Floats, float], float] | None = None
    smooth: bool = True
    blockwise: bool = False
    needs: int = 0
    whole: bool = False
    rounding: Callable[[Floats], float] | None = None
    through: TransformedStatistic | None = None
    least: float = -math.inf
    most: float = math.inf


@dataclass(frozen=True, slots=True)
class TransformedStatistic:
    """The figure is `bent` of another one, and so are the ends of its interval."""

    inner: Statistic
    bent: Callable[[float], float]


def ratio(over: Floats, under: Floats) -> Floats:
    """`over / under`, NaN where `under` is zero."""
    with np.errstate(divide="ignore", invalid="ignore"):
        result: Floats = np.where(under != 0, over / np.where(under != 0, under, 1), np.nan)
    return result


class Sums:
    """Sums the weights of the atoms that share a key: (resamples, atoms) -> (resamples, distinct keys).

    `places` is each atom's column in the sums; `keys` the distinct keys, ascending.
    """

    def __init__(self, keys: npt.NDArray[np.generic]) -> None:
        self.keys, self.places = np.unique(keys, return_inverse=True)
        self._order: Ints = np.argsort(self.places, kind="stable")
        self._starts = np.searchsorted(self.places[self._order], np.arange(len(self.keys)))
        self._single = len(self.keys) == len(keys)

    def __call__(self, weights: Floats) -> Floats:
        ordered = weights[:, self._order]
        if self._single:
            return ordered
        sums: Floats = np.add.reduceat(ordered, self._starts, axis=1)
        return sums
