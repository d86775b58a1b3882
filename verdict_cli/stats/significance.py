"""Tests of two runs over the same rows: is what one gains more than chance?

- Right or wrong, independent rows: McNemar's exact test, the binomial test of the rows that only one run gets right
  (McNemar, 1947; oracle: scipy). Effect: Cohen's g, the share of these rows that the second run gets right minus a half.
- Numbers, and rows in clusters: the sign-flip permutation test of the differences (Fisher, 1935; scipy), whole clusters
  flipped together, 9,999 seeded flips, or all of them where there are fewer; beyond 5,000 rows or clusters its normal
  limit. Effect of numbers: Cohen's d of the differences, their mean over their standard deviation.
- Several tests together: Holm's procedure (Holm, 1979).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from verdict_cli.stats.columns.column import Floats, Ints

FLIPS = 9999
MOST_FLIPPED = 5000


@dataclass(frozen=True, slots=True)
class Significance:
    """A test of `n` pairs. `better` and `worse` count the rows on which the second run gains and loses.

    `p` is two-sided, `p_holm` the same among the tests made together; `effect` is the second run's gain as
    `effect_name` measures it, None where no row differs.
    """

    name: str
    n: int
    better: int
    worse: int
    p: float
    p_holm: float
    effect_name: str
    effect: float | None


def significance_of(
    first: Floats, second: Floats, cluster: Ints | None, rng: np.random.Generator
) -> Significance | None:
    """The test of two runs' scores of the same rows, more is better; None where there is no row."""
    if not len(first):
        return None
    gain = second - first
    better, worse = int((gain > 0).sum()), int((gain < 0).sum())
    binary = bool(np.isin(first, (0, 1)).all() and np.isin(second, (0, 1)).all())
    if binary and cluster is None:
        name, p = "mcnemar", _mcnemar(better, worse)
    else:
        name, p = "permutation" if cluster is None else "cluster permutation", _flips(gain, cluster, rng)
    effect_name, effect = ("cohen_g", _g(better, worse)) if binary else ("cohen_d", _d(gain))
    return Significance(name, len(first), better, worse, p, p, effect_name, effect)


def holm(tests: Sequence[Significance | None]) -> list[Significance | None]:
    """The tests with `p_holm` as of one family; what is None is no test."""
    order = sorted((place for place, one in enumerate(tests) if one), key=lambda place: _p(tests[place]))
    adjusted, highest = list(tests), 0.0
    for rank, place in enumerate(order):
        one = tests[place]
        assert one is not None
        highest = min(1.0, max(highest, one.p * (len(order) - rank)))
        adjusted[place] = replace(one, p_holm=highest)
    return adjusted


def _p(test: Significance | None) -> float:
    return 1.0 if test is None else test.p


def _mcnemar(better: int, worse: int) -> float:
    from scipy.special import bdtr

    return min(1.0, 2 * float(bdtr(min(better, worse), better + worse, 0.5)))


def _flips(gain: Floats, cluster: Ints | None, rng: np.random.Generator) -> float:
    from scipy.special import ndtr
    from scipy.stats import permutation_test

    gains = gain if cluster is None else np.bincount(np.unique(cluster, return_inverse=True)[1], gain)
    gains = gains[gains != 0]
    if not len(gains):
        return 1.0
    if len(gains) > MOST_FLIPPED:
        return float(2 * ndtr(-abs(gains.sum()) / np.sqrt((gains**2).sum())))
    found = permutation_test(
        (gains,),
        lambda values, axis: np.sum(values, axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=FLIPS,
        batch=200,
        random_state=rng,
    )
    return float(found.pvalue)


def _g(better: int, worse: int) -> float | None:
    return better / (better + worse) - 0.5 if better + worse else None


def _d(gain: Floats) -> float | None:
    spread = float(gain.std(ddof=1)) if len(gain) > 1 else 0.0
    return float(gain.mean()) / spread if spread > 0 else None
