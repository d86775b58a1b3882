"""Metrics of numbers: functions of weighted moments. Oracles: scipy, scikit-learn, krippendorff, numpy.

Weighted kappa (Cohen, 1968) weighs by the squared difference of the values, so a scale point that nobody used still
counts in the distance; scikit-learn does the same when `labels` names every point. Krippendorff's alpha is at the
interval level: of two observers it is one minus the mean squared difference over twice the pooled sample variance. Its
ordinal distance of two values is the number of answers between them, with half of those that equal either (Krippendorff,
2011): the difference of their midranks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from verdict_cli.language.metric_registry import POSITIVE, variance_ends
from verdict_cli.messages import JsonObject
from verdict_cli.stats.columns.column import Ends, Floats
from verdict_cli.stats.metrics.statistic import (
    LOG,
    TOO_LARGE,
    Statistic,
    Statistics,
    Sums,
    TransformedStatistic,
    WeightedValues,
    mean_of_values,
    proportion,
    ratio,
    statistic_of,
)

HIDDEN_VARIANCE, HIDDEN_SQUARE, HIDDEN_RESIDUAL, HIDDEN_POWER = 14.0, 8.0, 16.0, 2 / 3
"""The variance, the mean square and the mean squared residual of log-normal values are less than so many times those of
ten rows in 95 of 100 samples, of n rows by (10 / n) to the power: the heaviest tails that intervals allow for, measured
by benchmarks/interval_coverage.py."""
FLOAT_ROUNDING = 1e-12
"""A variance below this share of the second moment is rounding: the values are constant."""


def _spread(second: Floats, first: Floats) -> Floats:
    with np.errstate(over="ignore", invalid="ignore"):
        spread = np.where(np.isfinite(second), second - first**2, np.nan)
    return np.where((spread > FLOAT_ROUNDING * second) | np.isnan(spread), spread, 0.0)


class Means(NamedTuple):
    """Total weight, and weighted means of u, v (x and y around their centres), u², v², uv, (x - y)², |x - y|."""

    n: Floats
    u: Floats
    v: Floats
    uu: Floats
    vv: Floats
    uv: Floats
    square: Floats
    distance: Floats


class Moments:
    """Weighted means of two columns around their centres, for each resample."""

    def __init__(self, x: Floats, y: Floats) -> None:
        self.gap = float(x.mean() - y.mean()) if len(x) else 0.0
        u, v = _centred(x), _centred(y)
        distance = x - y
        with np.errstate(over="ignore"):
            columns = [np.ones(len(x)), u, v, u * u, v * v, u * v, distance**2, np.abs(distance)]
        self._columns = np.stack(columns, axis=1)
        self.finite = bool(np.isfinite(self._columns).all())

    def __call__(self, weights: Floats) -> Means:
        sums = weights @ self._columns
        return Means(sums[:, 0], *(ratio(column, sums[:, 0]) for column in sums[:, 1:].T))


def _residuals(x: Floats, y: Floats) -> Floats:
    """What a straight line through the targets leaves of the predictions."""
    u, v = _centred(x), _centred(y)
    with np.errstate(over="ignore", invalid="ignore"):
        squares = float(v @ v)
        residuals: Floats = u - (u @ v) / squares * v if 0 < squares < np.inf else u
    return residuals


def _mean_square(residuals: Floats, column: Floats) -> Statistic:
    """The mean of the squares of what is left of a column, with an interval that allows for heavy tails."""
    with np.errstate(over="ignore"):
        squares = mean_of_values(residuals**2)

    def hidden(rows: float, counts: Floats) -> float:
        return float(squares(counts[None, :])[0]) * _hidden_times(HIDDEN_RESIDUAL, rows)

    return Statistic(
        squares,
        bounds=POSITIVE,
        interval="skewness",
        scale=LOG,
        varies=(column,),
        tails=(residuals,),
        hidden=hidden,
    )


def _hidden_times(of_ten: float, rows: float) -> float:
    return max(of_ten * float((10 / rows) ** HIDDEN_POWER), 1.0)


def _hidden_square(values: Floats) -> Callable[[float, Floats], float]:
    """The largest mean square that heavy tails may hide from so few rows: of the values as they are, or of those around
    their mean, with one and a half times that mean's own error, whichever is less."""

    def most(rows: float, counts: Floats) -> float:
        n = float(counts.sum())
        mean = float(counts @ values) / n
        spread = (
            float(counts @ (values - mean) ** 2) / (n - 1) * _hidden_times(HIDDEN_VARIANCE, rows)
        )
        square = float(counts @ values**2) / n * _hidden_times(HIDDEN_SQUARE, rows)
        return min(square, (abs(mean) + 1.5 * math.sqrt(spread / rows)) ** 2 + spread)

    return most


def _centred(values: Floats) -> Floats:
    if len(values) and values.min() == values.max():
        return np.zeros(len(values))
    return values - values.mean() if len(values) else values


def number_pairs(x: Floats, y: Floats, span: float = math.inf) -> Statistics:
    """The metrics of predictions `x` against targets `y` at each atom, which are at most the `span` of their scale apart."""
    moments = Moments(x, y)
    errors, same = x - y, "predictions and targets are all the same value"

    def of(
        name: str, formula: Callable[[Means], Floats], undefined: str = "no rows", **keys: Any
    ) -> Statistic:
        reason = undefined if moments.finite else TOO_LARGE
        return statistic_of(
            name, lambda weights: formula(moments(weights)), reason, varies=(x, y), **keys
        )

    def pearson(m: Means) -> Floats:
        spread = np.sqrt(_spread(m.uu, m.u)) * np.sqrt(_spread(m.vv, m.v))
        return np.clip(ratio(m.uv - m.u * m.v, spread), -1, 1)

    def apart(m: Means) -> Floats:
        """The squared distance of the two sides' means."""
        distance: Floats = (m.u - m.v + moments.gap) ** 2
        return distance

    def kappa(m: Means) -> Floats:
        return 1 - ratio(m.square, _spread(m.uu, m.u) + _spread(m.vv, m.v) + apart(m))

    def alpha(m: Means) -> Floats:
        pooled = (_spread(m.uu, m.u) + _spread(m.vv, m.v)) / 2 + apart(m) / 4
        return 1 - ratio(m.square, 2 * pooled * ratio(2 * m.n, 2 * m.n - 1))

    square = of(
        "rmse",
        lambda m: m.square,
        bounds=(0.0, span * span),
        interval="skewness",
        tails=(errors,),
        hidden=_hidden_square(errors),
    )
    root = TransformedStatistic(square, lambda mean: float(max(mean, 0.0) ** 0.5))
    return {
        "pearson": of(
            "pearson",
            pearson,
            "the predictions or the targets are all the same value",
            tails=(_residuals(x, y),),
            unexplained=(
                _mean_square(_residuals(x, y), x),
                _mean_square(_residuals(y, x), y),
            ),
        ),
        "weighted_kappa": of("weighted_kappa", kappa, same),
        "krippendorff_alpha": of("krippendorff_alpha", alpha, same),
        "mae": of("mae", lambda m: m.distance, bounds=(0.0, span), mean_of=np.abs(errors)),
        "rmse": of("rmse", lambda m: np.sqrt(m.square), bounds=(0.0, span), transformed=root),
    }


def number_values(x: Floats, boolean: bool, bounds: Ends | None = None) -> Statistics:
    """The metrics of a value alone at each atom; the mean of booleans, and of numbers that are all 0 or 1, is a proportion.

    `bounds` are its scale's ends.
    """
    boolean = boolean or (
        bounds in (None, (0.0, 1.0)) and bool(len(x)) and bool(np.isin(x, (0.0, 1.0)).all())
    )
    u = _centred(x)
    ordered = Sums(x)

    def variance(weights: Floats) -> Floats:
        n = weights.sum(axis=1)
        spread = _spread(ratio(weights @ (u * u), n), ratio(weights @ u, n))
        return np.where(n > 1, np.where(np.isnan(spread), np.inf, ratio(spread * n, n - 1)), np.nan)

    def median(weights: Floats) -> Floats:
        cumulated = np.cumsum(ordered(weights), axis=1)
        half = cumulated[:, -1:] / 2
        low, high = (cumulated >= half).argmax(axis=1), (cumulated > half).argmax(axis=1)
        middle: Floats = (ordered.keys[low] + ordered.keys[high]) / 2
        return middle

    middle = statistic_of("median", median, ordered=x)
    if boolean:
        share = proportion("mean", x, np.ones(len(x)))
        return {"mean": share, "variance": _variance_of_binary(variance, share), "median": middle}
    spread = statistic_of(
        "variance",
        variance,
        NO_VARIANCE,
        bounds=POSITIVE if bounds is None else variance_ends(*bounds),
        varies=(x,),
        scale_ends=bounds,
        tails=(x,),
        hidden=lambda rows, counts: (
            float(variance(counts[None, :])[0]) * _hidden_times(HIDDEN_VARIANCE, rows)
        ),
    )
    return {"mean": _mean(x, bounds), "variance": spread, "median": middle}


NO_VARIANCE = "one row has no variance"


def _variance_of_binary(variance: WeightedValues, share: Statistic) -> Statistic:
    """The variance of zeros and ones: a function of their share of ones."""
    transformed = TransformedStatistic(share, lambda ones: ones * (1 - ones), peak=0.5)
    return statistic_of("variance", variance, NO_VARIANCE, transformed=transformed)


def _mean(x: Floats, bounds: Ends | None) -> Statistic:
    """The mean: on a scale within its ends; of other values that are never negative on the logarithmic scale."""
    keys: JsonObject = {}
    if bounds is not None:
        keys = {"interval": "skewness", "bounds": bounds, "scale_ends": bounds}
    elif len(x) and x.min() >= 0:
        ends = (0.0, 1.0) if x.max() <= 1 else None  # a score without a declared scale
        keys = {"interval": "skewness", "bounds": POSITIVE, "scale": LOG, "scale_ends": ends}
    return statistic_of("mean", mean_of_values(x), varies=(x,), mean_of=x, **keys)


ONE_VALUE = "all answers are the same value"


def ordinal_pairs(x: Floats, y: Floats) -> Statistics:
    """The metrics of predictions and targets whose order counts."""
    return {
        "ordinal_alpha": ordinal_alpha((x, y)),
        "linear_weighted_kappa": linear_weighted_kappa(x, y),
    }


def ordinal_alpha(columns: Sequence[Floats]) -> Statistic:
    return statistic_of(
        "ordinal_alpha", alpha(columns, ordinal=True), ONE_VALUE, varies=tuple(columns)
    )


def alpha(columns: Sequence[Floats], *, ordinal: bool) -> WeightedValues:
    """Krippendorff's alpha of several judges' values at each atom, by the distance of the values or of their midranks. NaN is
    no value; atoms with one value are left out."""
    values = np.stack(columns, axis=1)
    present = np.isfinite(values)
    present &= (present.sum(axis=1) > 1)[:, None]
    distinct = np.unique(values[present])
    codes = np.where(present, np.searchsorted(distinct, np.where(present, values, 0.0)), 0)
    votes = present.sum(axis=1).astype(float)
    sums = [Sums(column) for column in codes.T]
    places = _centred(distinct) / (np.ptp(distinct) or 1.0) if len(distinct) else np.zeros(1)

    def value_of(weights: Floats) -> Floats:
        uses = np.zeros((len(weights), len(places)))
        for judge, sums_of_judge in enumerate(sums):
            uses[:, sums_of_judge.keys] += sums_of_judge(weights * present[:, judge])
        total = uses.sum(axis=1)
        scores = np.broadcast_to(places, uses.shape)
        if ordinal:
            scores = np.cumsum(uses, axis=1) - uses / 2 - total[:, None] / 2
        expected = total * (uses * scores**2).sum(axis=1) - (uses * scores).sum(axis=1) ** 2
        first, second = np.zeros_like(weights), np.zeros_like(weights)
        for judge, column in enumerate(codes.T):
            own = scores[:, column] * present[:, judge]
            first, second = first + own, second + own**2
        observed = (weights * (votes * second - first**2) / (votes - 1)).sum(axis=1)
        return 1 - ratio((total - 1) * observed, np.where(expected > 1e-9 * total, expected, 0.0))

    return value_of


def linear_weighted_kappa(x: Floats, y: Floats) -> Statistic:
    """One minus the mean distance of the two sides over that of independent ones."""
    distinct = np.unique(np.concatenate([x, y]))
    with np.errstate(over="ignore"):
        gaps, distance = np.diff(distinct), np.abs(x - y)
    sides = [Sums(np.searchsorted(distinct, side)) for side in (x, y)]

    def value_of(weights: Floats) -> Floats:
        n = weights.sum(axis=1)
        below = []
        for sums_of_side in sides:
            counts = np.zeros((len(weights), len(distinct)))
            counts[:, sums_of_side.keys] = sums_of_side(weights)
            below.append(np.cumsum(counts, axis=1)[:, :-1])
        a, b = below
        chance = (gaps * (a * (n[:, None] - b) + b * (n[:, None] - a))).sum(axis=1)
        return 1 - ratio((weights @ distance) * n, chance)

    return statistic_of("linear_weighted_kappa", value_of, ONE_VALUE, varies=(x, y))
