"""Intervals of standings that hold for all together, and which differ significantly.

Two systems differ where the interval of their paired difference, at 95% for all pairs together (max-T), leaves 0 out.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtrit

from verdict_cli.features.rank.contest import StandingValue
from verdict_cli.features.rank.strengths import Strengths, largest_errors
from verdict_cli.stats.columns.column import Floats
from verdict_cli.stats.intervals.interval_methods import NO_VARIATION

LEVEL = 0.95
FEW_FOR_MAX_T = 50
"""With fewer items the correlations of differences are poorly known, and all pairs hold together by Bonferroni."""
_ZERO = 1e-12
LIKE_NORMAL = 1e9
"""Degrees of freedom at which Student's t is the normal distribution."""


def standing_values(
    strengths: Strengths, count: int, bounds: tuple[float, float] = (-math.inf, math.inf)
) -> list[StandingValue]:
    """The value of each with its interval; the reason where there is none."""
    if strengths.reason:
        return [StandingValue(None, reason=strengths.reason)] * count
    covariance, freedom = _covariance(strengths, count)
    errors = np.sqrt(np.maximum(np.diag(covariance), 0))
    known = np.isfinite(errors) & (errors > _ZERO)
    single = _single_level(covariance, known)[0]
    values = []
    for system in range(count):
        value = float(strengths.values[system])
        if not np.isfinite(value):
            values.append(StandingValue(None, reason="no rows"))
        elif not known[system]:
            single_item = "interval undefined: the system is in one item"
            reason = single_item if freedom[system] < 1 else NO_VARIATION
            values.append(StandingValue(value, reason=strengths.unsure.get(system, reason)))
        else:
            reach = _quantile(single, freedom[system]) * float(errors[system])
            ends = max(value - reach, bounds[0]), min(value + reach, bounds[1])
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
    covariance: Floats = (groups - 1) / max(groups, 1) * changes.T @ changes
    unknown = freedom < 1
    unknown[list(strengths.unsure)] = True
    covariance[unknown] = covariance[:, unknown] = np.nan
    return covariance, freedom


def _single_level(covariance: Floats, known: NDArray[np.bool_]) -> tuple[float, float]:
    """The levels of single intervals, of the systems and of all their differences, at which all hold together."""
    if not known.any():
        return LEVEL, LEVEL
    alone, pairs = largest_errors(covariance[np.ix_(known, known)], LEVEL)
    return max(LEVEL, 2 * float(ndtr(alone)) - 1), max(LEVEL, 2 * float(ndtr(pairs)) - 1)


def _quantile(level: float, freedom: float) -> float:
    return float(stdtrit(max(freedom, 1.0), (1 + level) / 2))


def significantly_better(strengths: Strengths, count: int) -> NDArray[np.bool_]:
    """Which system (row) is better than which (column), wrong about any of equal systems in at most 5% of leaderboards."""
    better = np.zeros((count, count), dtype=bool)
    if strengths.reason:
        return better
    values = strengths.values[:count]
    covariance, freedom = _covariance(strengths, count)
    finite = np.isfinite(values) & np.isfinite(np.diag(covariance))
    known = finite & (np.diag(covariance) > _ZERO**2)
    pairs = _single_level(covariance, known)[1]
    if strengths.covariance is None and len(strengths.seen) < FEW_FOR_MAX_T and count > 1:
        pairs = max(pairs, 1 - (1 - LEVEL) / math.comb(count, 2))
    shared = strengths.seen.astype(np.int64).T @ strengths.seen
    for one in range(count):
        for other in range(count):
            distance = values[one] - values[other]
            if not (finite[one] and finite[other] and distance > 0):
                continue
            variance = covariance[one, one] + covariance[other, other] - 2 * covariance[one, other]
            if variance > _ZERO**2:
                least = min(freedom[one], freedom[other])
                better[one, other] = distance > _quantile(pairs, least) * math.sqrt(variance)
            else:  # the same difference at every item: a sign test, by Bonferroni over the pairs
                better[one, other] = (
                    2.0 ** (1 - shared[one, other]) * count * (count - 1) / 2 < 1 - LEVEL
                )
    return better
