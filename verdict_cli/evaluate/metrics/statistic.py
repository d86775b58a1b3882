"""A statistic: one figure as a function of how often each distinct observation occurs.

Every figure is computed from *atoms*, the distinct observations, and a weight for each: its count in the sample, or
its count in a resample. So a figure, its bootstrap and its jackknife are one formula, run on a matrix of weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from verdict_cli.evaluate.column import Floats, Ints
from verdict_cli.evaluate.metrics.scale import IDENTITY, Scale

At = Callable[[Floats], Floats]
"""Weights (resamples, atoms) -> the figure of each resample, NaN where it is undefined."""


Bent = Callable[[Any], Any]
"""A monotone function of a number, or of each of an array."""


@dataclass(frozen=True, slots=True)
class Share:
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
class Gaps:
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
    share: Share | None = None
    ordered: Floats | None = None
    gaps: Gaps | None = None
    apart: Floats | None = None
    scale: Scale = IDENTITY
    tilted: bool = False
    beside: Callable[[Floats, float], float] | None = None
    smooth: bool = True
    blockwise: bool = False
    needs: int = 0
    whole: bool = False
    rounding: Callable[[Floats], float] | None = None
    through: Through | None = None
    least: float = -math.inf
    most: float = math.inf


@dataclass(frozen=True, slots=True)
class Through:
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
