"""Intervals of standings that hold for all together, and which differ significantly.

Two systems differ where the interval of their paired difference, at 95% for all pairs together (max-T), leaves 0 out.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr, stdtrit

from verdict_cli.features.rank.contest import StandingValue
from verdict_cli.features.rank.strengths import UNBOUNDED, Strengths, largest_errors
from verdict_cli.stats.columns.column import Ends, Floats, RowMask
from verdict_cli.stats.intervals.interval_methods import NO_VARIATION

LEVEL = 0.95
FEW_FOR_MAX_T = 50
"""With fewer items the correlations of differences are poorly known, and all pairs hold together by Bonferroni."""
_ZERO = 1e-12
LIKE_NORMAL = 1e9
"""Degrees of freedom at which Student's t is the normal distribution."""


def standing_values(
    strengths: Strengths, count: int, bounds: Ends = UNBOUNDED
) -> list[StandingValue]:
    """The value of each with its interval; the reason where there is none."""
    if strengths.reason:
        return [StandingValue(None, reason=strengths.reason)] * count
    covariance, freedom = _covariance(strengths, count)
    errors = np.sqrt(np.maximum(np.diag(covariance), 0))
    usable = np.isfinite(errors) & (errors > _ZERO)
    single = _single_level(covariance, usable)[0]
    reach = _quantile(single, freedom) * errors
    values = []
    for system in range(count):
        value = float(strengths.values[system])
        if not np.isfinite(value):
            values.append(StandingValue(None, reason="no rows"))
        elif not usable[system]:
            single_item = "interval undefined: the system is in one item"
            reason = single_item if freedom[system] < 1 else NO_VARIATION
            values.append(StandingValue(value, reason=strengths.unsure.get(system, reason)))
        else:
            away = float(reach[system])
            ends = max(value - away, bounds[0]), min(value + away, bounds[1])
            values.append(StandingValue(value, *ends))
    return values


def _covariance(strengths: Strengths, count: int) -> tuple[Floats, Floats]:
    """The covariance of the systems' values, by the jackknife unless the fit gives it, and each one's degrees of freedom."""
    if strengths.covariance is not None:
        return strengths.covariance, np.full(count, LIKE_NORMAL)
    replicates = strengths.replicates[:, :count]
    groups = len(replicates)
    freedom = strengths.seen.sum(axis=0) - 1.0
    changes = replicates - replicates.mean(axis=0) if groups else replicates
    covariance = (groups - 1) / max(groups, 1) * changes.T @ changes
    unknown = freedom < 1
    unknown[list(strengths.unsure)] = True
    covariance[unknown] = covariance[:, unknown] = np.nan
    return covariance, freedom


def _single_level(covariance: Floats, usable: RowMask) -> tuple[float, float]:
    """The levels of single intervals, of the systems and of all their differences, at which all hold together."""
    if not usable.any():
        return LEVEL, LEVEL
    alone, pairs = largest_errors(covariance[np.ix_(usable, usable)], LEVEL)
    return max(LEVEL, 2 * float(ndtr(alone)) - 1), max(LEVEL, 2 * float(ndtr(pairs)) - 1)


def _quantile(level: float, freedom: Floats) -> Floats:
    quantiles = stdtrit(np.maximum(freedom, 1.0), (1 + level) / 2)
    return np.asarray(quantiles, dtype=np.float64)


def significantly_better(strengths: Strengths, count: int) -> RowMask:
    """Which system (row) is better than which (column), wrong about any of equal systems in at most 5% of leaderboards."""
    if strengths.reason:
        return np.zeros((count, count), dtype=bool)
    values = strengths.values[:count]
    covariance, freedom = _covariance(strengths, count)
    errors = np.diag(covariance)
    finite = np.isfinite(values) & np.isfinite(errors)
    pairs = _single_level(covariance, finite & (errors > _ZERO**2))[1]
    number = math.comb(count, 2)
    if strengths.covariance is None and len(strengths.seen) < FEW_FOR_MAX_T and count > 1:
        pairs = max(pairs, 1 - (1 - LEVEL) / number)
    distance = values[:, None] - values
    variance = errors[:, None] + errors - 2 * covariance
    reach = _quantile(pairs, np.minimum(freedom[:, None], freedom)) * np.sqrt(
        np.maximum(variance, 0)
    )
    # The same difference at every item: a sign test, by Bonferroni over the pairs.
    shared = strengths.seen.astype(np.float64).T @ strengths.seen
    apart = np.where(
        variance > _ZERO**2, distance > reach, 2.0 ** (1 - shared) * number < 1 - LEVEL
    )
    better = apart & (distance > 0) & finite & finite[:, None]
    return better
