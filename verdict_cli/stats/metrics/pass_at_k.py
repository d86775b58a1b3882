"""pass@k: the share of problems that at least one of k samples solves (Chen et al., 2021). Oracle: all subsets, by hand.

Of n samples of a problem, c of them right, the unbiased estimate is 1 - C(n - c, k) / C(n, k). Problems with fewer than k
samples are left out. The problems are the sample: the interval is that of the mean of their estimates.
"""

from __future__ import annotations

import math

import numpy as np

from verdict_cli.stats.columns.column import Floats
from verdict_cli.stats.metrics.statistic import Statistic, ratio, statistic_of

TOO_FEW = "no problem has {k} samples that are true or false, or 0 or 1"


def estimate(samples: Floats, k: int) -> float:
    """The estimate of one problem from its samples, 1 for right and 0 for wrong; NaN with fewer than k, or other values."""
    n, wrong = len(samples), int((samples == 0).sum())
    if n < k or wrong + int((samples == 1).sum()) < n:
        return math.nan
    return 1 - math.comb(wrong, k) / math.comb(n, k)


def of_panel(votes: Floats, k: int) -> Statistic:
    """The mean over rows whose votes (atoms, judges) are the samples, NaN where a vote is missing."""
    each = np.array([estimate(row[np.isfinite(row)], k) for row in votes])
    known = np.isfinite(each).astype(float)
    values = np.nan_to_num(each)

    def at(weights: Floats) -> Floats:
        return ratio(weights @ (values * known), weights @ known)

    return statistic_of("pass_at_k", at, TOO_FEW.format(k=k), varies=(values,))
