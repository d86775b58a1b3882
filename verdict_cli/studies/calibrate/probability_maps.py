"""Fitting a map of probabilities. Oracle: scikit-learn's LogisticRegression and IsotonicRegression."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from verdict_cli.language.calibrations import MIN_PROBABILITY
from verdict_cli.stats.columns.column import Floats, Ints

ProbabilityFit = Callable[[Floats, Ints, int], dict[str, Any]]
"""Probabilities (rows, values), the place of each row's true value and that of the positive one -> a map's keys."""


def temperature(p: Floats, truth: Ints, positive: int) -> dict[str, Any]:
    """The divisor of the log-probabilities of least log loss, between 1/100 and 100 (Guo et al., 2017, section 4.2)."""
    from scipy.optimize import minimize_scalar
    from scipy.special import logsumexp

    logs = np.log(np.maximum(p, MIN_PROBABILITY))

    def loss(exponent: float) -> float:
        scaled = logs / np.exp(exponent)
        own = np.take_along_axis(scaled, truth[:, None], 1)[:, 0]
        return float((logsumexp(scaled, axis=1) - own).sum())

    found = minimize_scalar(loss, bounds=(np.log(0.01), np.log(100)), method="bounded")
    return {"temperature": float(np.exp(found.x))}


def platt(p: Floats, truth: Ints, positive: int) -> dict[str, Any]:
    """The line through the log-odds of least log loss, each target drawn in by what one row more of each value would
    say (Platt, 1999, section 2.2), so that the line is finite where the values can be told apart without error."""
    from scipy.optimize import minimize

    x = probability_log_odds(p[:, positive])
    right = truth == positive
    ups = float(right.sum())
    downs = len(right) - ups
    wanted = np.where(right, (ups + 1) / (ups + 2), 1 / (downs + 2))

    def loss(line: Floats) -> tuple[float, Floats]:
        odds = line[0] * x + line[1]
        off = 1 / (1 + np.exp(-np.clip(odds, -700, 700))) - wanted
        return float((np.logaddexp(0, odds) - wanted * odds).sum()), np.array([off @ x, off.sum()])

    found = minimize(loss, np.array([1.0, 0.0]), jac=True, method="BFGS")
    return {"slope": float(found.x[0]), "intercept": float(found.x[1])}


def isotonic(p: Floats, truth: Ints, positive: int) -> dict[str, Any]:
    """The rising staircase of least squares (Zadrozny and Elkan, 2002), as knots at the ends of its steps."""
    from scipy.optimize import isotonic_regression

    levels, places, counts = np.unique(p[:, positive], return_inverse=True, return_counts=True)
    shares = np.bincount(places, (truth == positive).astype(np.float64)) / counts
    heights = isotonic_regression(shares, weights=counts).x
    ends = np.ones(len(levels), bool)
    ends[1:-1] = (heights[1:-1] != heights[:-2]) | (heights[1:-1] != heights[2:])
    return {"knots": [[float(x), float(y)] for x, y in zip(levels[ends], heights[ends], strict=True)]}


def probability_log_odds(p: Floats) -> Floats:
    """The log-odds, finite at both ends."""
    kept = np.clip(p, MIN_PROBABILITY, 1 - MIN_PROBABILITY)
    return np.log(kept / (1 - kept))


FITS: dict[str, ProbabilityFit] = {"temperature": temperature, "platt": platt, "isotonic": isotonic}
"""The methods by name."""
