"""A distribution as a fitted map makes it: temperature (Guo et al., 2017), Platt (1999), isotonic (Zadrozny and Elkan, 2002)."""

from __future__ import annotations

import bisect
import math
from collections.abc import Mapping, Sequence
from typing import Any

from verdict_cli.calibrations.kinds import ProbabilityMap

LEAST = 1e-9
"""The least probability, and the least distance from certainty, whose log-odds are taken."""


def mapped(found: Mapping[Any, float], by: ProbabilityMap) -> dict[Any, float]:
    """The calibrated probability of each value; they add up to one."""
    if by.method == "temperature":
        assert by.temperature is not None
        top = max(found.values())
        raised = {value: (p / top) ** (1 / by.temperature) for value, p in found.items()}
        total = math.fsum(raised.values())
        return {value: p / total for value, p in raised.items()}
    p = found[by.positive]
    if by.method == "platt":
        assert by.slope is not None and by.intercept is not None
        odds = by.slope * logit(p) + by.intercept
        q = 1 / (1 + math.exp(-odds)) if odds > -700 else 0.0
    else:
        assert by.knots is not None
        q = stairs(by.knots, p)
    return {value: q if value == by.positive else 1 - q for value in found}


def logit(p: float) -> float:
    """The log-odds, finite at both ends."""
    p = min(max(p, LEAST), 1 - LEAST)
    return math.log(p / (1 - p))


def stairs(knots: Sequence[Sequence[float]], p: float) -> float:
    """The height at `p` of the line through the knots, level beyond its ends."""
    at = bisect.bisect_right(knots, p, key=lambda knot: knot[0])
    if at == 0 or at == len(knots):
        return float(knots[min(at, len(knots) - 1)][1])
    (left, low), (right, high) = knots[at - 1], knots[at]
    return low + (high - low) * (p - left) / (right - left)
