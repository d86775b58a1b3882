"""Choosing a bound on a confidence for a wanted agreement, with a guarantee."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from verdict_cli.evaluate.column import Floats


@dataclass(frozen=True, slots=True)
class Bound:
    """Answers at or above ``threshold`` are kept: how many of the rows, how many of these agree, and the lower end of
    the one-sided Clopper–Pearson interval of their agreement. None as threshold: no bound keeps the promise."""

    threshold: float | None
    rows: int
    answered: int
    agreeing: int
    least: float


def bound(confidence: Floats, agrees: Floats, wanted: float, level: float) -> Bound:
    """The lowest bound above which the agreement is ``wanted``, with probability ``level`` over the labelled rows.

    Fixed-sequence testing (Bauer, 1991) as in Jung et al. (2024, "Trust or Escalate", section 2.1): bounds are tested
    from the highest down, each by the Clopper–Pearson upper end of the share of disagreement, until one fails. The
    first is one with rows enough to pass with half of the disagreement that is allowed; which that is, and all the
    others, depend on the confidences alone.
    """
    order = np.argsort(-confidence, kind="stable")
    sure, right = confidence[order], np.cumsum(agrees[order])
    ends = np.flatnonzero(np.append(sure[1:] != sure[:-1], True))
    allowed = 1 - wanted
    first = _first(len(sure), allowed, level)
    best = Bound(None, len(sure), 0, 0, 0.0)
    for end in ends[ends + 1 >= first]:
        answered, agreeing = int(end) + 1, int(right[end])
        risk = upper(answered - agreeing, answered, level)
        if risk > allowed:
            break
        best = Bound(float(sure[end]), len(sure), answered, agreeing, 1 - risk)
    return best


def _first(rows: int, allowed: float, level: float) -> int:
    """How many rows the first bound that is tested has at least."""
    most = math.ceil(math.log(1 - level) / math.log(1 - allowed))
    count = most
    while count <= rows:
        if upper(math.floor(count * allowed / 2), count, level) <= allowed:
            return count
        count += max(1, count // 50)
    return most


def upper(wrong: int, rows: int, level: float) -> float:
    """The upper end of the one-sided Clopper–Pearson interval of a share."""
    from scipy.special import betaincinv

    return 1.0 if wrong >= rows else float(betaincinv(wrong + 1, rows - wrong, level))
