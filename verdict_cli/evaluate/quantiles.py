"""Two-sided quantiles, without `scipy.stats`, which takes a second to import. Oracle: scipy.stats."""

from __future__ import annotations

from statistics import NormalDist


def normal(level: float) -> float:
    """How many standard errors an interval at this level reaches to each side."""
    return NormalDist().inv_cdf((1 + level) / 2)


def student(level: float, freedom: float) -> float:
    """The same where the standard error is estimated with so many degrees of freedom, which need not be whole."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + level) / 2))
