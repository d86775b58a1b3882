"""Strengths from contests: Bradley-Terry for pairs (Bradley and Terry, 1952), Plackett-Luce for larger groups (Luce, 1959; Plackett, 1975).

A contest is a choice of one among some; a ranking is a choice of the first, then of the second among the rest, and so on. A tie
of two counts as half a choice of each.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from verdict_cli.stats.simultaneous import largest_errors

SPREAD = 2.0
"""The standard deviation, in log-odds, of the normal prior on each strength: it keeps finite who won every contest."""
_LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Choice:
    """``chosen`` was preferred to the others ``among``, which holds it too."""

    chosen: int
    among: tuple[int, ...]
    weight: float = 1.0


@dataclass(frozen=True)
class Ratings:
    """Strengths in log-odds against the average of the field (their mean is 0), and their covariance (Laplace's approximation)."""

    strengths: NDArray[np.float64]
    covariance: NDArray[np.float64]

    def interval(self, candidate: int) -> tuple[float, float]:
        """The interval of a strength, at 95% for all candidates together."""
        half = self._quantiles[0] * math.sqrt(self.covariance[candidate, candidate])
        return float(self.strengths[candidate] - half), float(self.strengths[candidate] + half)

    def differ(self, first: int, second: int) -> bool:
        """Whether the interval of the difference, at 95% for all pairs together, leaves 0 out."""
        cov = self.covariance
        variance = cov[first, first] + cov[second, second] - 2 * cov[first, second]
        distance = abs(self.strengths[first] - self.strengths[second])
        return bool(distance > self._quantiles[1] * math.sqrt(max(0.0, variance)))

    @cached_property
    def _quantiles(self) -> tuple[float, float]:
        """The 95% points of the largest standardised error of a strength, and of a difference (max-T, seeded draws)."""
        return largest_errors(self.covariance, _LEVEL)


def fit_ratings(count: int, choices: Sequence[Choice], spread: float = SPREAD) -> Ratings:
    """The most probable strengths of `count` candidates. An infinite ``spread`` gives maximum likelihood, if it exists."""
    groups = _by_size(choices)
    shrink = 0.0 if math.isinf(spread) else 1 / spread**2
    ridge = shrink or 1e-9  # without a prior only differences are identified, and the Hessian is singular

    def negative_log_posterior(strengths: NDArray[np.float64]) -> float:
        total = shrink * float(strengths @ strengths) / 2
        for among, chosen, weights in groups:
            competing = strengths[among]
            total += float(weights @ (logsumexp(competing, axis=1) - strengths[chosen]))
        return total

    def gradient(strengths: NDArray[np.float64]) -> NDArray[np.float64]:
        found = shrink * strengths
        for among, chosen, weights in groups:
            np.add.at(found, among, softmax(strengths[among], axis=1) * weights[:, None])
            np.add.at(found, chosen, -weights)
        return found

    def hessian(strengths: NDArray[np.float64]) -> NDArray[np.float64]:
        found = np.eye(count) * ridge
        for among, _, weights in groups:
            p = softmax(strengths[among], axis=1)
            own = np.einsum("cs,st->cst", p, np.eye(among.shape[1])) - p[:, :, None] * p[:, None, :]
            np.add.at(found, (among[:, :, None], among[:, None, :]), own * weights[:, None, None])
        return found

    fitted = minimize(
        negative_log_posterior,
        np.zeros(count),
        jac=gradient,
        hess=hessian,
        method="trust-exact",
        options={"gtol": 1e-8},
    )
    centre = np.eye(count) - 1 / count
    covariance = centre @ np.linalg.inv(hessian(fitted.x)) @ centre
    return Ratings(fitted.x - fitted.x.mean(), covariance)


def count_cycles(wins: NDArray[np.bool_]) -> tuple[int, int]:
    """The number of triples with three decided pairs, and of those that are cycles; ``wins[i, j]``: i beat j."""
    beat = wins.astype(np.int64)
    met = beat + beat.T
    return int(np.trace(met @ met @ met)) // 6, int(np.trace(beat @ beat @ beat)) // 3


def _by_size(choices: Sequence[Choice]) -> list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]]:
    """The choices as arrays, grouped by the number of candidates."""
    sizes: dict[int, list[Choice]] = defaultdict(list)
    for choice in choices:
        if choice.weight:
            sizes[len(choice.among)].append(choice)
    return [
        (
            np.array([choice.among for choice in same]),
            np.array([choice.chosen for choice in same]),
            np.array([choice.weight for choice in same]),
        )
        for same in sizes.values()
    ]
