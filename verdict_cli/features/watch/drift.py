"""Intervals of the drift of frozen rows that stay valid however often one looks.

The mean change of the rows since the reference is compared with a bound like Bernstein's: the
variance of a row's answers, and their largest change, are those between neighbouring looks, so that rows which always answer
alike hide nothing. Look t has the error alpha / (t (t + 1)), shared by windows of 1, 2, 4, ... looks that end there: together at
most alpha, for any number of looks.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
from msgspec import Struct

from verdict_cli.stats.columns.column import Floats

_RARE = 6.0
"""Half of Bernstein's term for changes that are rare, as Poisson's tail needs it beside the normal quantile (measured by
benchmarks/drift.py: no false alarm in a year, also where one answer in a thousand turns)."""


class DriftInterval(Struct, frozen=True):
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


def drift_intervals(scores: Floats, reference: int = 1, alpha: float = 0.05) -> list[DriftInterval]:
    """The interval at each look after the first `reference` ones; `scores` are (looks, rows) from 0 to 1, NaN where missing."""
    known = np.isfinite(scores)
    filled = np.where(known, scores, 0.0)
    counts = known[:reference].sum(axis=0)
    base = filled[:reference].sum(axis=0) / np.maximum(counts, 1)
    steps = np.diff(scores, axis=0)
    intervals = []
    for look in range(reference, len(scores)):
        seen = steps[:look][np.isfinite(steps[:look])]
        variance, largest = (float((seen**2).mean()) / 2, float(np.abs(seen).max())) if len(seen) else (1.0, 1.0)
        later = look - reference + 1
        lengths = [2**power for power in range(later.bit_length()) if 2**power <= later]
        error = alpha / (2 * len(lengths) * later * (later + 1))
        quantile, log = -NormalDist().inv_cdf(error), -math.log(error)
        windows = [_change(known, filled, counts, base, look + 1 - length, look) for length in lengths]
        best = DriftInterval(look, look, 0.0, -1.0, 1.0)
        for start, change, spread, rows in windows:
            share = max(1 / (look + 1 - start), 1 / reference)  # of a row's change, by one answer
            if rows:
                reach = (quantile * math.sqrt(spread * variance) + largest * share * log / _RARE) / rows
                interval = DriftInterval(look, start, change, max(change - reach, -1.0), min(change + reach, 1.0))
                if abs(change) - reach > abs(best.change) - (best.high - best.low) / 2:
                    best = interval
        intervals.append(best)
    return intervals


def _change(
    known: np.ndarray[tuple[int, ...], np.dtype[np.bool_]],
    filled: Floats,
    counts: np.ndarray[tuple[int, ...], np.dtype[np.int64]],
    base: Floats,
    start: int,
    look: int,
) -> tuple[int, float, float, int]:
    """The first look of a window, the rows' mean change there, the variance of their sum in that of one answer, and the
    rows."""
    here = known[start : look + 1].sum(axis=0)
    rows = (here > 0) & (counts > 0)
    if not rows.any():
        return start, 0.0, 0.0, 0
    means = filled[start : look + 1].sum(axis=0)[rows] / here[rows]
    return start, float((means - base[rows]).mean()), float((1 / here[rows] + 1 / counts[rows]).sum()), int(rows.sum())
