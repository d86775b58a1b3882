"""Quantiles: the ones of scipy.stats."""

import numpy as np
import pytest
from scipy.stats import norm, t

from verdict_cli.stats.intervals.interval_methods import normal, student


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95, 1 - 0.05 / 7, 0.9999])
def test_quantiles_are_those_of_scipy_stats(level):
    assert normal(level) == pytest.approx(norm.ppf((1 + level) / 2), rel=1e-12)
    for freedom in (1, 2, 3.7, 19, 400.5, 10**7, np.inf):
        assert student(level, freedom) == pytest.approx(t.ppf((1 + level) / 2, freedom), rel=1e-9)
