"""Strengths from contests: Bradley-Terry for pairs (Bradley and Terry, 1952), Plackett-Luce for larger groups (Luce, 1959; Plackett, 1975).

A contest is a choice of one among some; a ranking is a choice of the first, then of the second among the rest, and so on. A tie
of two counts as half a choice of each.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from verdict_cli.stats.intervals.proportions import normal

SPREAD = 2.0
"""The standard deviation, in log-odds, of the normal prior on each strength: who won everything stays finite."""
_Z = normal(0.95)


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

    def interval(self, one: int) -> tuple[float, float]:
        """The 95% interval of a strength."""
        half = _Z * math.sqrt(self.covariance[one, one])
        return float(self.strengths[one] - half), float(self.strengths[one] + half)

    def apart(self, one: int, other: int) -> bool:
        """Whether the 95% interval of the difference leaves 0 out."""
        cov = self.covariance
        variance = cov[one, one] + cov[other, other] - 2 * cov[one, other]
        return bool(abs(self.strengths[one] - self.strengths[other]) > _Z * math.sqrt(max(0.0, variance)))


def ratings(count: int, choices: Sequence[Choice], spread: float = SPREAD) -> Ratings:
    """The most probable strengths of so many candidates. ``spread`` infinite: maximum likelihood, where that exists."""
    groups = _by_size(choices)
    shrink = 0.0 if math.isinf(spread) else 1 / spread**2
    ridge = shrink or 1e-9

    def cost(strengths: NDArray[np.float64]) -> float:
        total = shrink * float(strengths @ strengths) / 2
        for among, chosen, weights in groups:
            seen = strengths[among]
            total += float(weights @ (logsumexp(seen, axis=1) - strengths[chosen]))
        return total

    def slope(strengths: NDArray[np.float64]) -> NDArray[np.float64]:
        found = shrink * strengths
        for among, chosen, weights in groups:
            np.add.at(found, among, softmax(strengths[among], axis=1) * weights[:, None])
            np.add.at(found, chosen, -weights)
        return found

    def bend(strengths: NDArray[np.float64]) -> NDArray[np.float64]:
        found = np.eye(count) * ridge
        for among, _, weights in groups:
            p = softmax(strengths[among], axis=1)
            own = np.einsum("cs,st->cst", p, np.eye(among.shape[1])) - p[:, :, None] * p[:, None, :]
            np.add.at(found, (among[:, :, None], among[:, None, :]), own * weights[:, None, None])
        return found

    fitted = minimize(cost, np.zeros(count), jac=slope, hess=bend, method="trust-exact", options={"gtol": 1e-8})
    centre = np.eye(count) - 1 / count
    covariance = centre @ np.linalg.inv(bend(fitted.x)) @ centre
    return Ratings(fitted.x - fitted.x.mean(), covariance)


def cycles(wins: NDArray[np.bool_]) -> tuple[int, int]:
    """How many triples are decided in all three pairs, and how many of these go round in a circle; ``wins[i, j]``: i beat j."""
    beat = wins.astype(np.int64)
    met = beat + beat.T
    return int(np.trace(met @ met @ met)) // 6, int(np.trace(beat @ beat @ beat)) // 3


def _by_size(choices: Sequence[Choice]) -> list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]]:
    """The choices as arrays, those among equally many together."""
    sizes: dict[int, list[Choice]] = defaultdict(list)
    for choice in choices:
        if choice.weight:
            sizes[len(choice.among)].append(choice)
    return [
        (
            np.array([one.among for one in same]),
            np.array([one.chosen for one in same]),
            np.array([one.weight for one in same]),
        )
        for same in sizes.values()
    ]
