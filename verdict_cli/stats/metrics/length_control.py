"""How often option A would win at equal lengths (Dubois et al., 2024): a logistic regression of the choice on the length.

The regressor is the hyperbolic tangent of the difference of the lengths over its standard deviation, as in AlpacaEval 2;
the win rate is what the regression gives where the difference is 0. Oracle: statsmodels.
"""

from __future__ import annotations

import numpy as np

from verdict_cli.stats.columns.column import Floats
from verdict_cli.stats.metrics.statistic import Statistic, statistic_of

NEWTON_STEPS = 30
"""Newton's steps; ten are enough where the choices are not separated."""
STEEPEST = 30.0
"""Larger coefficients are those of separated choices, which have no largest likelihood."""
SEPARATED = "one option always wins, or the length decides every choice: the regression has no solution"


def length_effect(longer: Floats, every: Floats) -> Floats:
    """The regressor of these differences of lengths, in standard deviations of all of them."""
    spread = float(every.std()) if len(every) else 0.0
    found: Floats = np.tanh(longer / spread) if spread else np.zeros(len(longer))
    return found


def length_controlled_win_rate(wins: Floats, size: Floats) -> Statistic:
    """The win rate of A at each atom: 1 where it wins, and the regressor of its length."""

    def at(weights: Floats) -> Floats:
        level, slope = np.zeros(len(weights)), np.zeros(len(weights))
        for _ in range(NEWTON_STEPS):
            with np.errstate(over="ignore"):
                likely = 1 / (1 + np.exp(-(level[:, None] + slope[:, None] * size)))
            rest, curve = weights * (wins - likely), weights * likely * (1 - likely)
            one, two = rest.sum(axis=1), rest @ size
            a, b, c = curve.sum(axis=1), curve @ size, curve @ size**2
            c = np.where(c > 0, c, 1.0)  # all lengths are equal: the slope stays 0
            determinant = a * c - b * b
            safe = np.where(determinant > 0, determinant, np.inf)
            level = np.clip(level + (c * one - b * two) / safe, -2 * STEEPEST, 2 * STEEPEST)
            slope = np.clip(slope + (a * two - b * one) / safe, -2 * STEEPEST, 2 * STEEPEST)
        found = 1 / (1 + np.exp(-level))
        flat = np.abs(rest.sum(axis=1)) > 1e-6 * np.maximum(weights.sum(axis=1), 1.0)
        return np.where((np.abs(level) > STEEPEST) | (np.abs(slope) > STEEPEST) | flat, np.nan, found)

    return statistic_of("length_controlled_win_rate", at, SEPARATED, classes=(wins,))
