"""The confidence sequence of a mean of values whose range is known."""

from __future__ import annotations

import math

from verdict_cli.distributions import last_passing
from verdict_cli.stats.columns.column import Ends


def anytime_interval(total: float, n: float, alpha: float) -> Ends:
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

    mean = total / n
    low = last_passing(is_rejected, mean)
    return low, 1 - last_passing(lambda gap: is_rejected(1 - gap), 1 - mean)
