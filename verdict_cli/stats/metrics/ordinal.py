"""Agreement of values whose order counts: alpha at the ordinal level, kappa with linear weights.

The ordinal distance of two values is the number of answers between them, with half of those that equal either
(Krippendorff, 2011): the difference of their midranks. Oracles: krippendorff, scikit-learn.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from verdict_cli.stats.columns.column import Floats
from verdict_cli.stats.metrics.statistic import Statistic, Sums, ratio, statistic_of

ONE_VALUE = "all answers are the same value"


def ordinal_pairs(x: Floats, y: Floats) -> dict[str, Statistic]:
    """The metrics of predictions and targets whose order counts."""
    return {"ordinal_alpha": ordinal_alpha((x, y)), "linear_weighted_kappa": linear_weighted_kappa(x, y)}


def ordinal_alpha(columns: Sequence[Floats]) -> Statistic:
    """Alpha of several judges' values at each atom; NaN where a judge has none, atoms with one value are left out."""
    values = np.stack(columns, axis=1)
    given = np.isfinite(values)
    given &= (given.sum(axis=1) > 1)[:, None]
    known = np.unique(values[given])
    codes = np.where(given, np.searchsorted(known, np.where(given, values, 0.0)), 0)
    votes = given.sum(axis=1).astype(float)
    sums = [Sums(column) for column in codes.T]

    def at(weights: Floats) -> Floats:
        uses = np.zeros((len(weights), max(len(known), 1)))
        for judge, of in enumerate(sums):
            uses[:, of.keys] += of(weights * given[:, judge])
        total = uses.sum(axis=1)
        middle = np.cumsum(uses, axis=1) - uses / 2 - total[:, None] / 2
        expected = total * (uses * middle**2).sum(axis=1) - (uses * middle).sum(axis=1) ** 2
        first, second = np.zeros_like(weights), np.zeros_like(weights)
        for judge, column in enumerate(codes.T):
            ranks = middle[:, column] * given[:, judge]
            first, second = first + ranks, second + ranks**2
        within = (weights * ratio(votes * second - first**2, np.broadcast_to(votes - 1, second.shape))).copy()
        observed = np.where(votes > 1, within, 0.0).sum(axis=1)
        return 1 - ratio((total - 1) * observed, np.where(expected > 1e-9 * total, expected, 0.0))

    return statistic_of("ordinal_alpha", at, ONE_VALUE, varies=tuple(column for column in columns))


def linear_weighted_kappa(x: Floats, y: Floats) -> Statistic:
    """One minus the mean distance of the two sides over that of independent ones."""
    known = np.unique(np.concatenate([x, y]))
    with np.errstate(over="ignore"):
        gaps, distance = np.diff(known), np.abs(x - y)
    sides = [Sums(np.searchsorted(known, side)) for side in (x, y)]

    def at(weights: Floats) -> Floats:
        n = weights.sum(axis=1)
        below = []
        for of in sides:
            counts = np.zeros((len(weights), len(known)))
            counts[:, of.keys] = of(weights)
            below.append(np.cumsum(counts, axis=1)[:, :-1])
        a, b = below
        chance = (gaps * (a * (n[:, None] - b) + b * (n[:, None] - a))).sum(axis=1)
        return 1 - ratio((weights @ distance) * n, chance)

    return statistic_of("linear_weighted_kappa", at, ONE_VALUE, varies=(x, y))
