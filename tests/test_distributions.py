"""The distributions of the core against scipy's."""

from __future__ import annotations

from typing import SupportsFloat

import numpy as np
import pytest
from scipy import special, stats

from verdict_cli.distributions import (
    beta_cdf,
    beta_quantile,
    binomial_cdf,
    normal_cdf,
    student_cdf,
    student_quantile,
)

FREEDOMS = (1.0, 1.7, 2.0, 4.5, 29.0, 200.3, 1999.9, 2000.0, 30_000.0, 1e9, np.inf)
PARAMETERS = (0.5, 1.0, 2.75, 12.0, 140.5, 3000.0)
SHARES = (0.0005, 0.025, 0.2, 0.5, 0.8, 0.975, 0.9995)


def near(value: float, expected: SupportsFloat) -> bool:
    return value == pytest.approx(float(expected), rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("value", [-30.0, -8.0, -1.96, 0.0, 0.3, 5.0, 40.0])
def test_the_normal_distribution_is_scipys(value):
    assert near(normal_cdf(value), special.ndtr(value))


@pytest.mark.parametrize("freedom", FREEDOMS)
def test_students_distribution_and_its_quantiles_are_scipys(freedom):
    for value in (-12.0, -2.5, -1e-3, 0.0, 0.7, 1.96, 6.0):
        assert near(student_cdf(freedom, value), special.stdtr(freedom, value))
    for share in SHARES:
        expected = stats.t.ppf(share, freedom) if np.isfinite(freedom) else special.ndtri(share)
        assert near(student_quantile(freedom, share), expected)


@pytest.mark.parametrize("a", PARAMETERS)
@pytest.mark.parametrize("b", PARAMETERS)
def test_the_beta_distribution_and_its_quantiles_are_scipys(a, b):
    for share in SHARES:
        value = beta_quantile(a, b, share)
        assert near(value, special.betaincinv(a, b, share))
        assert near(beta_cdf(a, b, value), special.betainc(a, b, value))
    assert (beta_cdf(a, b, 0.0), beta_cdf(a, b, 1.0)) == (0.0, 1.0)


def test_a_quantile_next_to_an_end_is_that_end():
    """Of 0.07 of a row without a success, no number lies between the quantile and 1."""
    assert beta_quantile(1.05, 0.07, 0.9999) == pytest.approx(1, abs=1e-15)
    assert beta_quantile(0.07, 1.05, 1e-30) == pytest.approx(0, abs=1e-15)


def test_the_binomial_distribution_is_the_sum_of_its_probabilities():
    for trials in (1, 2, 7, 40, 300):
        for successes in {0, trials // 3, trials // 2, trials - 1, trials}:
            expected = stats.binom.pmf(np.arange(successes + 1), trials, 0.5).sum()
            assert near(binomial_cdf(successes, trials, 0.5), expected)
