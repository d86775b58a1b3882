"""Statistics: metrics as functions of how often each distinct observation occurs, with what their intervals need."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from verdict_cli.language.metric_registry import REAL_LINE, RECORDS, IntervalMethod, IntervalScale
from verdict_cli.stats.columns.column import Ends, Floats, Ints

NEAR = 1e-12
"""Values closer than this to an end of their range are taken to be this close: the transformations stay finite."""

TOO_LARGE = "the numbers are too large to compute it"


class NormalizingScale(Struct, frozen=True):
    """A transformation `to` a scale, its inverse `back`, and its derivative at a value (`slope`)."""

    to: Callable[[float], float]
    back: Callable[[float], float]
    slope: Callable[[float], float]


def _inside(value: float) -> float:
    return min(max(value, NEAR), 1 - NEAR)


IDENTITY = NormalizingScale(lambda value: value, lambda value: value, lambda value: 1.0)
FISHER = NormalizingScale(
    lambda value: float(np.arctanh(np.clip(value, NEAR - 1, 1 - NEAR))),
    math.tanh,
    lambda value: 1 / max(1 - value * value, NEAR),
)
LOGIT = NormalizingScale(
    lambda value: math.log(_inside(value) / (1 - _inside(value))),
    lambda value: 0.5 * (1 + math.tanh(value / 2)),
    lambda value: 1 / (_inside(value) * (1 - _inside(value))),
)
LOG = NormalizingScale(
    lambda value: math.log(max(value, NEAR)),
    lambda value: math.exp(min(value, 700.0)),
    lambda value: 1 / max(value, NEAR),
)


NORMALIZING_SCALES: dict[IntervalScale, NormalizingScale] = {
    "identity": IDENTITY,
    "fisher": FISHER,
    "logit": LOGIT,
    "log": LOG,
}

WeightedValues = Callable[[Floats], Floats]
"""Weights (resamples, atoms) -> the value in each resample, NaN where it is undefined."""

Transform = Callable[[Any], Any]
"""A monotone function of a number, or of each of an array."""


def _itself(share: Any) -> Any:
    return share


class Proportion(Struct, frozen=True):
    """A share of rows: of the `trials` at each atom (1 where the row counts, else 0), the `hits`.

    `transform` makes the metric of the share.
    """

    hits: Floats
    trials: Floats
    transform: Transform = _itself

    def has_same_rows(self, other: Proportion) -> bool:
        """Whether both are shares of the same rows, and not functions of them."""
        is_plain = self.transform is other.transform is _itself
        return is_plain and np.array_equal(self.trials, other.trials)

    def metric_of(self, share: float) -> float:
        """The metric's value at a share."""
        return float(self.transform(share))

    def slope(self, share: float) -> float:
        """By how much the metric changes with a share."""
        return (self.metric_of(share + 1e-6) - self.metric_of(share - 1e-6)) / 2e-6

    def share(self, counts: Floats) -> Ends:
        """The share under these counts of the atoms, 0 without trials, and the trials."""
        trials = float(counts @ self.trials)
        return (float(counts @ self.hits) / trials if trials else 0.0), trials


CALIBRATION_BINS = 10
"""As in Guo et al. (2017, section 2) and most reliability diagrams, so that values can be compared."""


class CalibrationBins(Struct, frozen=True):
    """Rows in bins: at each atom its bin, from 0, the probability minus 1 or 0, and which of these."""

    bin: Ints
    deviation: Floats
    positive: Floats


class TransformedStatistic(Struct, frozen=True):
    """Another statistic, whose value and interval ends `transform` maps to the metric's; it is monotone, or monotone on
    either side of its largest value, which is at `peak`."""

    inner: Statistic
    transform: Callable[[float], float]
    peak: float | None = None


class Statistic(Struct, frozen=True):
    """A metric of observations that are known: its value under any weights, and what its interval needs.

    Attributes:
        at: The value under weights.
        undefined: When it is undefined, in words.
        bounds: The ends of its range.
        interval: The method of its interval, for which some need one of the next five.
        share: `proportion`: the share of rows that it is.
        differs: Of agreement: 1 at the atoms whose labels differ, else 0 (or the share of a row's pairs of votes); the metric is
            1 where none does.
        ordered: `order_statistics`: the values at the atoms, whose median it is.
        bins: `inverted_test`: the bins whose absolute mean deviations it adds up.
        transformed: `transformed`: the statistic that it is a function of.
        scale: Where a jackknife interval is symmetric.
        with_disagreement: The value with this many more rows that disagree: counts, rows -> value.
        pairwise: Whether it looks at all pairs of atoms, so that its work grows with their square.
        classes: The classes of the atoms, of which each needs ten rows for an interval without a warning.
        varies: Values at the atoms; if nearly all rows have one of them, enough others are needed.
        labels_count_alike: Whether a rare class weighs as much as a frequent one.
        tails: Values at the atoms whose square decides the metric: few rows do not show how heavy their tails are.
        hidden: The end that tails may have which so few rows do not show: rows, counts -> value.
        unexplained: Of a correlation: the mean squared residual of either side, given the other.
        separates: Of a metric of how two classes are ranked: 1 at the atoms of one class, 0 at those of the other.
        mean_of: Of a mean of one value for each row, all within `bounds`: the values at the atoms.
        scale_ends: Of a mean or variance of values: the ends of their scale, if it has any.
        certain: 1 at the atoms whose loss, if they are wrong, is so large that a sample without one does not show it.
        width: The most numbers that it computes for one resample.
    """

    at: WeightedValues
    undefined: str = ""
    bounds: Ends = REAL_LINE
    interval: IntervalMethod = "jackknife"
    share: Proportion | None = None
    differs: Floats | None = None
    ordered: Floats | None = None
    bins: CalibrationBins | None = None
    transformed: TransformedStatistic | None = None
    scale: NormalizingScale = IDENTITY
    with_disagreement: Callable[[Floats, float], float] | None = None
    pairwise: bool = False
    classes: tuple[Floats, ...] = ()
    varies: tuple[Floats, ...] = ()
    labels_count_alike: bool = True
    tails: tuple[Floats, ...] = ()
    hidden: Callable[[float, Floats], float] | None = None
    unexplained: tuple[Statistic, ...] = ()
    separates: Floats | None = None
    mean_of: Floats | None = None
    scale_ends: Ends | None = None
    certain: Floats | None = None
    width: int = 1

    def value(self, counts: Floats) -> float:
        """The value where each atom occurs so often."""
        return float(self.at(counts[None, :])[0])

    @property
    def smooth(self) -> bool:
        """Whether leaving out a row tells the standard error: not of a median or a sum of absolute values."""
        return self.interval not in ("order_statistics", "inverted_test")


Statistics = dict[str, Statistic]
"""Statistics by the metric's name."""


def undefined_statistic(reason: str) -> Statistic:
    """A metric that is undefined for this reason."""
    return Statistic(lambda weights: np.full(len(weights), np.nan), reason)


def statistic_of(
    name: str, at: WeightedValues, undefined: str = "no rows", **keys: Any
) -> Statistic:
    """The statistic of a built-in metric: its record gives bounds, interval method and scale, unless `keys` do."""
    metric = RECORDS[name]
    declared = {
        "bounds": metric.bounds,
        "interval": metric.interval,
        "scale": NORMALIZING_SCALES[metric.scale],
    }
    return Statistic(at, undefined, **{**declared, **keys})


def proportion(
    name: str,
    hits: Floats,
    trials: Floats,
    undefined: str = "no rows",
    transform: Transform = _itself,
) -> Statistic:
    """A share of rows, or a monotone function of one; `hits` and `trials` are 0 or 1 at each atom."""

    def value_of(weights: Floats) -> Floats:
        value: Floats = transform(ratio(weights @ hits, weights @ trials))
        return value

    share = Proportion(hits, trials, transform)
    return statistic_of(
        name, value_of, undefined, bounds=(0.0, 1.0), interval="proportion", share=share
    )


def mean_of_values(values: Floats) -> WeightedValues:
    """The mean of the values at the atoms."""
    return lambda weights: ratio(weights @ values, weights.sum(axis=1))


def ratio(over: Floats, under: Floats) -> Floats:
    """`over / under`, NaN where `under` is zero."""
    with np.errstate(divide="ignore", invalid="ignore"):
        result: Floats = np.where(under != 0, over / np.where(under != 0, under, 1), np.nan)
    return result


class Sums:
    """Sums the weights of the atoms that share a key: (resamples, atoms) -> (resamples, distinct keys).

    `keys` are the distinct keys, ascending, and `inverse` is the index of each atom's key, as of `numpy.unique`.
    """

    def __init__(self, keys: npt.NDArray[np.generic]) -> None:
        self.keys, self.inverse = np.unique(keys, return_inverse=True)
        self._order: Ints = np.argsort(self.inverse, kind="stable")
        self._starts = np.searchsorted(self.inverse[self._order], np.arange(len(self.keys)))
        self._in_order = bool(np.array_equal(self._order, np.arange(len(keys))))

    def __call__(self, weights: Floats) -> Floats:
        ordered = weights if self._in_order else weights[:, self._order]
        sums: Floats = np.add.reduceat(ordered, self._starts, axis=1)
        return sums
