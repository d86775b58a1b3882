"""Drift of frozen rows over repeated runs: a confidence sequence, valid however often and however long one looks.

The scores of each look are compared with the reference, the mean of the row's first scores. The mean difference of the looks
from one on, over all rows, has the empirical-Bernstein sequence of Howard, Ramdas, McAuliffe and Sekhon (2021, theorem 4) with
the polynomial stitched boundary (equation 10; eta = 2, s = 1.4): rows and looks may have different means, only the range of the
scores is assumed. A window can begin at every look, so that a change is not averaged away by the quiet time before it; the
error is spread over the windows by 1 / (j (j + 1)). The reference has noise of its own, since a judge asked twice may differ:
its Bernstein bound, with the variance between neighbouring looks, is added. Half of the error is the reference's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import zeta

from verdict_cli.stats.columns.column import Floats

_ETA, _POWER = 2.0, 1.4
_FACTOR = (_ETA**0.25 + _ETA**-0.25) / math.sqrt(2)
_RANGE_FACTOR = (math.sqrt(_ETA) + 1) / 2


@dataclass(frozen=True, slots=True)
class DriftInterval:
    """The change since the reference, of the window of looks that says most: from `since` to the last look.

    `low` and `high` hold for all looks and windows together. `smallest` is half the width: no smaller drift could be seen.
    """

    look: int
    since: int
    change: float
    low: float
    high: float

    @property
    def drifted(self) -> bool:
        """Whether the interval leaves 0 out."""
        return self.low > 0 or self.high < 0

    @property
    def smallest(self) -> float:
        """The smallest change that this interval could distinguish from none."""
        return (self.high - self.low) / 2


def stitched_boundary(variance: Floats, alpha: Floats) -> Floats:
    """The sum of deviations that is exceeded at any time with probability `alpha`, of numbers within a range of 1."""
    time = np.maximum(variance, 1.0)
    level = _POWER * np.log(np.log(_ETA * time)) + np.log(zeta(_POWER) / (alpha * math.log(_ETA) ** _POWER))
    found: Floats = np.sqrt(_FACTOR**2 * time * level + (_RANGE_FACTOR * level) ** 2) + _RANGE_FACTOR * level
    return found


def drift_intervals(scores: Floats, reference: int = 1, alpha: float = 0.05) -> list[DriftInterval]:
    """The interval at each look after the first `reference` ones; `scores` are (looks, rows) from 0 to 1, NaN where missing."""
    looks = len(scores)
    if looks <= reference:
        return []
    known = np.isfinite(scores)
    sums, counts = np.cumsum(np.where(known, scores, 0.0), axis=0), np.cumsum(known, axis=0)
    base = np.where(counts[reference - 1] > 0, sums[reference - 1] / np.maximum(counts[reference - 1], 1), np.nan)
    before = sums[reference - 1 : -1] / np.maximum(counts[reference - 1 : -1], 1)
    usable = known[reference:] & np.isfinite(base)
    change = np.where(usable, scores[reference:] - base, 0.0).sum(axis=1)
    spread = np.where(usable, (scores[reference:] - before) ** 2, 0.0).sum(axis=1)
    n = usable.sum(axis=1).astype(np.float64)
    noise = _reference_radius(scores, counts[reference - 1], reference, alpha / 2)
    windows = np.arange(1, looks - reference + 1)
    alphas = alpha / 4 / (windows * (windows + 1.0))
    found = []
    for last in range(looks - reference):
        # Sums from each start to the last look.
        total = np.cumsum(n[: last + 1][::-1])[::-1]
        shift = np.cumsum(change[: last + 1][::-1])[::-1] / np.maximum(total, 1)
        variance = np.cumsum(spread[: last + 1][::-1])[::-1]
        radius = stitched_boundary(variance, alphas[: last + 1]) / np.maximum(total, 1) + noise[last]
        radius[total == 0] = 1.0
        best = int(np.argmax(np.abs(shift) - radius))
        low, high = float(shift[best] - radius[best]), float(shift[best] + radius[best])
        found.append(
            DriftInterval(last + reference, best + reference, float(shift[best]), max(low, -1.0), min(high, 1.0))
        )
    return found


def _reference_radius(scores: Floats, judged: Floats, reference: int, alpha: float) -> Floats:
    """The bound of the reference's own noise, as each later look knows it."""
    squares = (np.diff(scores, axis=0) ** 2) / 2
    pairs = np.cumsum(np.isfinite(squares).sum(axis=1))
    log = math.log(2 / alpha)
    variance = (np.cumsum(np.nansum(squares, axis=1)) + log) / np.maximum(pairs, 1)
    replies = max(float(judged.sum()), 1.0)
    found: Floats = np.sqrt(2 * variance * log / replies) + log / (3 * replies)
    return found[reference - 1 :]
