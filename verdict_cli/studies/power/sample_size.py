"""How many rows a wanted interval, or a wanted chance to find a difference, needs.

- A share: the least n whose Wilson interval (Wilson, 1927), which reports show, is as narrow at that share. Oracles: scipy,
  statsmodels.
- A mean: the least n with t * s / sqrt(n) at most the half-width.
- Any figure, from a pilot: its interval narrows as the square root of the rows.
- A difference of two shares of the same rows: Connett, Smith and McHugh (1987), the normal approximation of McNemar's test.
- Repeats: the mean over n rows of r askings each has the variance (between + within / r) / n.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from verdict_cli.stats.columns.column import Floats
from verdict_cli.stats.intervals.interval_methods import normal, student

MOST_ROWS_NEEDED = 10**9
"""More rows than anybody has."""
WORST = 0.5
"""The share whose interval is widest."""


def wilson_half_width(p: float, n: int, level: float) -> float:
    """Half the width of Wilson's interval at the share p of n rows."""
    z = normal(level)
    return z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)


def rows_for_share(p: float, half_width: float, level: float) -> int:
    """The least rows whose interval at the share p is at most this wide to each side."""
    return _least(lambda n: wilson_half_width(p, n, level) <= half_width)


def rows_for_mean(spread: float, half_width: float, level: float) -> int:
    """The least rows whose t interval of a mean with this standard deviation is at most this wide to each side."""
    return max(2, _least(lambda n: n > 1 and student(level, n - 1) * spread / math.sqrt(n) <= half_width))


def rows_scaled(rows: int, found: float, half_width: float) -> int:
    """The rows for the half-width, of a figure whose interval over `rows` rows was `found` to each side."""
    return max(2, math.ceil(rows * (found / half_width) ** 2 - 1e-9))


def discordant(first: float, second: float) -> float:
    """The share of rows that only one of two judges gets right, if their errors have nothing to do with each other."""
    return first * (1 - second) + second * (1 - first)


def rows_for_difference(effect: float, apart: float, level: float, power: float) -> int:
    """The rows on which McNemar's test finds the difference `effect` of two shares with this power, where the share
    `apart` of the rows (at least the effect) is right in only one of the two."""
    from scipy.special import ndtri

    reach = normal(level) * math.sqrt(apart) + float(ndtri(power)) * math.sqrt(max(apart - effect * effect, 0.0))
    return math.ceil((reach / effect) ** 2 - 1e-9)


def rows_for_change(spread: float, effect: float, level: float, power: float) -> int:
    """The rows on which a mean paired difference `effect`, whose rows spread so much, is found with this power."""
    from scipy.special import ndtri

    return max(2, math.ceil(((normal(level) + float(ndtri(power))) * spread / effect) ** 2 - 1e-9))


@dataclass(frozen=True, slots=True)
class Parts:
    """The variance of a row's score: among rows, and among askings of one row."""

    between: float
    within: float
    askings: int


def sample_parts(scores: Floats) -> Parts | None:
    """The parts, from scores of rows (first axis) by askings; rows that lack one are left out. None: fewer than two
    rows or askings are left. The moment estimator of a one-way layout; a negative part is 0."""
    kept = scores[np.isfinite(scores).all(axis=1)]
    if len(kept) < 2 or kept.shape[1] < 2:
        return None
    within = float(kept.var(axis=1, ddof=1).mean())
    between = float(kept.mean(axis=1).var(ddof=1)) - within / kept.shape[1]
    return Parts(max(between, 0.0), within, kept.shape[1])


def rows_with_repeats(found: Parts, repeats: int, half_width: float, level: float) -> int:
    """The rows for the half-width, where each is asked so often and the mean of its scores counts."""
    spread = math.sqrt(found.between + found.within / repeats)
    return rows_for_mean(spread, half_width, level) if spread > 0 else 2


def _least(enough: Callable[[int], bool]) -> int:
    """The least number that is enough, where all larger ones are."""
    high = 1
    while not enough(high):
        high *= 2
        if high > MOST_ROWS_NEEDED:
            return MOST_ROWS_NEEDED
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
