"""Rows that are needed, against scipy, statsmodels and simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from verdict_cli.features.power import sample_size
from verdict_cli.language.evaluations import Evaluation
from verdict_cli.messages import Row


@given(st.floats(0.01, 0.99), st.integers(5, 5000))
def test_half_of_the_exact_interval_is_that_of_scipy(p, n):
    hits = round(p * n)
    interval = stats.binomtest(hits, n).proportion_ci(0.95, "exact")
    half = sample_size.half_width_of_share(hits / n, n, 0.95)
    assert half == pytest.approx((interval.high - interval.low) / 2, abs=1e-9)


@given(st.floats(0.0, 1.0), st.floats(0.005, 0.4))
def test_the_rows_are_the_least(p, half_width):
    rows = sample_size.rows_for_share(p, half_width, 0.95)
    assert sample_size.half_width_of_share(p, rows, 0.95) <= half_width
    assert rows == 1 or sample_size.half_width_of_share(p, rows - 1, 0.95) > half_width


@pytest.mark.parametrize(("p", "half_width"), [(0.5, 0.02), (0.9, 0.02), (0.8, 0.05)])
def test_a_share_needs_about_what_statsmodels_says(p, half_width):
    proportion = pytest.importorskip("statsmodels.stats.proportion")
    rough = proportion.samplesize_confint_proportion(p, half_width)  # of the normal interval
    # The exact interval needs about 1 / half-width rows more (Fleiss, Levin and Paik, 2003).
    rows = sample_size.rows_for_share(p, half_width, 0.95)
    assert rows - 1 / half_width == pytest.approx(rough, rel=0.02)


@given(st.floats(0.01, 5), st.floats(0.01, 1))
def test_a_mean_has_the_least_rows_whose_t_interval_fits(spread, half_width):
    def half(n: int) -> float:
        ends = stats.t.interval(0.95, n - 1, scale=spread / math.sqrt(n))
        return float(ends[1])

    rows = sample_size.rows_for_mean(spread, half_width, 0.95)
    assert half(rows) <= half_width * (1 + 1e-9)
    assert rows == 2 or half(rows - 1) > half_width * (1 - 1e-9)


@pytest.mark.parametrize(("effect", "apart"), [(0.03, 0.1), (0.05, 0.2), (0.1, 0.3)])
def test_mcnemars_test_has_the_power_that_was_planned(effect, apart):
    rows = sample_size.rows_for_difference(effect, apart, 0.95, 0.8)
    rng = np.random.default_rng(5)
    ups, downs = (apart + effect) / 2, (apart - effect) / 2
    drawn = rng.multinomial(rows, [ups, downs, 1 - apart], size=4000)
    p = 2 * stats.binom.cdf(np.minimum(drawn[:, 0], drawn[:, 1]), drawn[:, 0] + drawn[:, 1], 0.5)
    assert 0.78 <= (p <= 0.05).mean() <= 0.82


@pytest.mark.parametrize(
    ("rows", "effect", "apart"), [(50, 0.2, 0.3), (30, 0.3, 0.3), (120, 0.1, 0.4)]
)
def test_the_power_of_a_difference_is_the_sum_over_all_outcomes(rows, effect, apart):
    power = 0.0
    for differ in range(rows + 1):
        better = np.arange(differ + 1)
        p = 2 * np.minimum(
            stats.binom.cdf(better, differ, 0.5), stats.binom.sf(better - 1, differ, 0.5)
        )
        won = stats.binom.pmf(better, differ, 0.5 + effect / apart / 2)[p <= 0.05].sum()
        power += stats.binom.pmf(differ, rows, apart) * won
    assert sample_size.power_of_difference(rows, effect, apart, 0.95) == pytest.approx(
        power, abs=1e-9
    )


@pytest.mark.parametrize(("effect", "apart"), [(0.01, 0.24), (0.012, 0.4)])
def test_many_rows_are_nearly_those_of_the_exact_power(effect, apart, monkeypatch):
    exact = sample_size.rows_for_difference(effect, apart, 0.95, 0.8)
    monkeypatch.setattr(sample_size, "MOST_ROWS_SUMMED", 1)
    assert sample_size.rows_for_difference(effect, apart, 0.95, 0.8) == pytest.approx(
        exact, rel=0.01
    )


def test_a_mean_change_after_many_pilot_rows_needs_what_statsmodels_says():
    power = pytest.importorskip("statsmodels.stats.power")
    wanted = power.TTestPower().solve_power(effect_size=0.1 / 0.7, alpha=0.05, power=0.9)
    pilots = sample_size.PilotChange(100_000, 0.7, 0.0, None, 0.0)
    assert pilots.rows_for(0.1, 0.95, 0.9) == pytest.approx(math.ceil(wanted), abs=1)


@pytest.mark.parametrize("rows", [50, 100, 200])
def test_equal_pilots_plan_the_rows_that_find_a_true_difference(rows):
    """The pilots' spread alone lacks the rows on which runs differ once they are not equal: the power was 38 to 48%."""
    rng, powers, apart, effect = np.random.default_rng(rows), [], 0.05, 0.05
    for _ in range(20):
        kind = rng.choice(3, rows, p=[1 - apart, apart / 2, apart / 2])
        pilots = sample_size.PilotChange(rows, 0.0, 1.0, int((kind > 0).sum()), 0.0)
        needed = pilots.rows_for(effect, 0.95, 0.8)
        powers.append(sample_size.power_of_difference(needed, effect, apart + effect, 0.95))
    assert 0.76 <= np.mean(powers) <= 0.86


def test_pilots_that_differ_as_much_as_wanted_have_the_effect_in_their_spread():
    equal = sample_size.PilotChange(10_000, 0.0, 1.0, 1500, 0.0)
    apart = sample_size.PilotChange(10_000, 0.0, 1.0, 1500, 0.05)
    assert apart.rows_for(0.05, 0.95, 0.8) == pytest.approx(
        sample_size.rows_for_difference(0.05, 0.15, 0.95, 0.8), rel=0.02
    )
    assert equal.rows_for(0.05, 0.95, 0.8) == pytest.approx(
        sample_size.rows_for_difference(0.05, 0.2, 0.95, 0.8), rel=0.02
    )


def test_four_times_the_rows_halve_any_interval():
    assert sample_size.rows_scaled(250, 0.1, 0.05) == 1000


def test_the_parts_of_a_variance_are_recovered():
    rng = np.random.default_rng(3)
    scores = rng.normal(0, 2, (20_000, 1)) + rng.normal(0, 1, (20_000, 5))
    parts = sample_size.sample_parts(scores)
    assert parts is not None
    assert (parts.between, parts.within) == (pytest.approx(4, rel=0.05), pytest.approx(1, rel=0.05))


def test_rows_that_lack_an_asking_are_no_part_of_it():
    assert sample_size.sample_parts(np.array([[1.0, np.nan], [1.0, 2.0]])) is None
    assert sample_size.sample_parts(np.ones((5, 1))) is None


def test_repeats_help_with_noise_and_not_with_rows_that_differ():
    noisy, clear = sample_size.Parts(0.0, 1.0), sample_size.Parts(1.0, 0.0)
    assert (
        sample_size.rows_with_repeats(noisy, 4, 0.05, 0.95)
        < sample_size.rows_with_repeats(noisy, 1, 0.05, 0.95) / 3
    )
    assert sample_size.rows_with_repeats(clear, 4, 0.05, 0.95) == sample_size.rows_with_repeats(
        clear, 1, 0.05, 0.95
    )


@pytest.mark.parametrize(
    ("metrics", "labels", "tests"),
    [
        (["accuracy"], "ab", 1.0),
        (None, "ab", 1.3),
        (["accuracy", "f1"], "ab", 1.3),
        (None, "abc", 1.6),
    ],
)
def test_metrics_that_are_alike_count_as_few_tests(metrics, labels, tests):
    keys = {"prediction": "output.label", "target": "source.label"} | (
        {"metrics": metrics} if metrics else {}
    )
    evaluation = Evaluation.model_validate(keys)
    rows = [Row(number, number, {"label": label}) for number, label in enumerate(labels * 3)]
    assert sample_size.alike_tests(evaluation, rows) == tests
