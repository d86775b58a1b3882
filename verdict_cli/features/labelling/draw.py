"""Draws of rows to label. Each row has a known probability of being drawn (its inclusion), so that metrics can be corrected.

- `random`: every row with the same probability.
- `stratified`: as many rows of each value, as far as it has them; each with the same probability within its value.
- `uncertain` and `disagree`: probabilities in proportion to a size, `FLOOR` plus how uncertain the judge was, or how far the units
  disagree; the floor keeps every row possible, so that the correction by inverse probabilities has no blind spot.

Unequal probabilities are drawn systematically from a random order (Madow, 1949), which keeps the number of rows exact.
"""

from __future__ import annotations

import numpy as np

from verdict_cli.stats.columns.column import Floats, Ints

FLOOR = 0.1
"""The size of a row of which the judge is sure, where that of the least sure is `FLOOR` + 1: their ratio bounds the weights at 11."""


def inclusion_probabilities(sizes: Floats, n: int) -> Floats:
    """The probability of each row in a draw of `n` rows in proportion to the sizes, none above 1; they sum to `n`.

    Shape (rows,); all sizes are above 0, and `n` is at most their number.
    """
    certain = np.zeros(len(sizes), bool)
    while True:
        rest = n - int(certain.sum())
        others = np.where(certain, 0.0, sizes)
        found = np.where(certain, 1.0, rest * others / others.sum() if rest else 0.0)
        above = (found >= 1) & ~certain
        if not above.any():
            return found
        certain |= above


def stratified_probabilities(strata: Ints, n: int) -> Floats:
    """The probability of each row where each stratum gives the same number of rows, as far as it has them. They sum to `n`."""
    codes, sizes = np.unique(strata, return_counts=True)
    taken = np.zeros(len(codes))
    left, open_ = float(n), np.ones(len(codes), bool)
    while left > 1e-9 and open_.any():
        share = left / open_.sum()
        more = np.where(open_, np.minimum(share, sizes - taken), 0.0)
        taken += more
        left -= more.sum()
        open_ = taken < sizes - 1e-9
    found: Floats = (taken / sizes)[np.searchsorted(codes, strata)]
    return found


def systematic_draw(inclusion: Floats, rng: np.random.Generator) -> Ints:
    """The rows that are drawn, in a random order. Every row has its probability, and their sum is the number of rows."""
    order = rng.permutation(len(inclusion))
    ends = np.cumsum(inclusion[order])
    steps = rng.uniform() + np.arange(round(float(ends[-1])))
    drawn: Ints = order[np.minimum(np.searchsorted(ends, steps, side="right"), len(order) - 1)].astype(np.int64)
    return rng.permutation(drawn)


def scaled_sizes(measure: Floats) -> Floats:
    """Sizes from a measure of doubt: `FLOOR` for the least, `FLOOR` + 1 for the greatest; a row without a measure counts as most
    doubtful."""
    known = np.isfinite(measure)
    if not known.any() or np.ptp(measure[known]) == 0:
        return np.ones(len(measure))
    low, high = float(measure[known].min()), float(measure[known].max())
    return FLOOR + np.where(known, (measure - low) / (high - low), 1.0)
