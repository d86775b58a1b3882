"""The confidence sequence of a mean of values whose range is known."""

from __future__ import annotations

import math

_HALVINGS = 60


def anytime_interval(total: float, n: float, alpha: float) -> tuple[float, float]:
    """The ends for the mean of `n` values from 0 to 1 with this sum: all of them, at every n, hold with probability
    1 - alpha.

    Betting that the mean is another one is a likelihood ratio, of which the Beta mixture is a supermartingale for every
    distribution on [0, 1] with that mean, since the ratio is convex in each value; it ever exceeds 1 / alpha with probability
    alpha at most (Ville, 1939; Robbins, 1970).
    """
    if not n:
        return 0.0, 1.0
    mixture = (
        math.lgamma(total + 0.5)
        + math.lgamma(n - total + 0.5)
        - math.lgamma(n + 1)
        - math.log(math.pi)
    )

    def is_rejected(mean: float) -> bool:
        rest = n - total
        if (total > 0 and mean <= 0) or (rest > 0 and mean >= 1):
            return True
        log = (total * math.log(mean) if total else 0.0) + (
            rest * math.log1p(-mean) if rest else 0.0
        )
        return mixture - log > math.log(1 / alpha)

    ends = []
    for outer in (0.0, 1.0):
        inside, outside = total / n, outer
        if is_rejected(outside):
            for _ in range(_HALVINGS):
                middle = (inside + outside) / 2
                inside, outside = (inside, middle) if is_rejected(middle) else (middle, outside)
        ends.append(outside)
    return ends[0], ends[1]
