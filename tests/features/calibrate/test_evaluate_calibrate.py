"""Fits against scikit-learn, simulation and what is known by construction."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from verdict_cli.features.calibrate.fit_job import (
    dawid_skene,
    folds,
    isotonic,
    least_squares,
    logistic,
    platt,
    probability_log_odds,
    score_weights,
    temperature,
    threshold_bound,
    upper,
)
from verdict_cli.features.calibrate.fit_job import weight_log_odds as vote_weights
from verdict_cli.language.calibrations import ProbabilityMap, apply_map, stairs

RNG = np.random.default_rng(5)


def judged(rows: int, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities whose log-odds are `scale` times too large, and the truth."""
    odds = RNG.normal(0, 1.5, rows)
    truth = (RNG.random(rows) < 1 / (1 + np.exp(-odds))).astype(int)
    p = 1 / (1 + np.exp(-scale * odds))
    return np.stack([1 - p, p], axis=1), truth


def test_a_temperature_undoes_what_is_too_sure():
    p, truth = judged(20_000, 2.5)
    assert temperature(p, truth, 1)["temperature"] == pytest.approx(2.5, rel=0.05)


def test_platts_line_is_scikit_learns_logistic_regression():
    p, truth = judged(4_000, 2.0)
    ours = platt(p, truth, 1)
    theirs = LogisticRegression(C=np.inf, tol=1e-8).fit(
        probability_log_odds(p[:, 1])[:, None], truth
    )
    assert ours["slope"] == pytest.approx(theirs.coef_[0, 0], abs=2e-3)
    assert ours["intercept"] == pytest.approx(theirs.intercept_[0], abs=2e-3)


def test_platts_line_is_finite_where_no_row_is_on_the_wrong_side():
    p = np.array([[0.9, 0.1], [0.8, 0.2], [0.2, 0.8], [0.1, 0.9]])
    assert 0 < platt(p, np.array([0, 0, 1, 1]), 1)["slope"] < 10


def test_the_staircase_is_scikit_learns():
    p, truth = judged(500, 2.0)
    knots = isotonic(p, truth, 1)["knots"]
    theirs = IsotonicRegression(out_of_bounds="clip").fit(p[:, 1], truth)
    points = np.linspace(0, 1, 101)
    assert [stairs(knots, x) for x in points] == pytest.approx(
        theirs.predict(points).tolist(), abs=1e-9
    )


@given(
    st.lists(st.floats(0, 1), min_size=2, max_size=5).filter(lambda p: sum(p) > 0),
    st.floats(0.05, 20),
)
def test_a_temperature_keeps_the_order_and_adds_up_to_one(p, degree):
    shares = {place: value / sum(p) for place, value in enumerate(p)}
    mapped = apply_map(
        shares, ProbabilityMap.model_construct(method="temperature", temperature=degree)
    )
    assert sum(mapped.values()) == pytest.approx(1)
    order = sorted(shares, key=shares.__getitem__)
    assert all(mapped[a] <= mapped[b] + 1e-12 for a, b in pairwise(order))


@given(st.floats(0, 1), st.floats(-5, 5), st.floats(-5, 5))
def test_platt_maps_every_probability_to_one(p, slope, intercept):
    by = ProbabilityMap.model_construct(
        method="platt", slope=slope, intercept=intercept, positive=True
    )
    mapped = apply_map({True: p, False: 1 - p}, by)
    assert mapped[True] + mapped[False] == pytest.approx(1)
    assert 0 <= mapped[True] <= 1


def test_score_weights_find_the_numbers_behind_a_target():
    p = RNG.dirichlet(np.ones(3), 2_000)
    weights_found = score_weights(p, p @ np.array([0.0, 5.0, 6.0]), np.array([1.0, 2.0, 3.0]))
    assert weights_found == pytest.approx([0.0, 5.0, 6.0], abs=0.05)


def test_a_value_that_nobody_used_keeps_its_number():
    p = np.array([[1.0, 0.0, 0.0]] * 50)
    assert score_weights(p, np.full(50, 9.0), np.array([1.0, 2.0, 3.0]))[2] == pytest.approx(3.0)


def test_least_squares_finds_who_is_near_and_adds_up_to_one():
    truth = RNG.normal(3, 1, 1_000)
    scores = np.stack([truth + RNG.normal(0, 0.1, 1_000), RNG.normal(3, 1, 1_000)], axis=1)
    weights_found = least_squares(scores, truth)
    assert weights_found.sum() == pytest.approx(1)
    assert weights_found[0] > 0.95


def drawn_votes(right: list[float], rows: int) -> tuple[np.ndarray, np.ndarray]:
    truth = RNG.integers(0, 2, rows)
    hit = RNG.random((rows, len(right))) < np.array(right)
    return np.where(hit, truth[:, None], 1 - truth[:, None]), truth


def test_dawid_and_skene_find_who_is_right_without_a_label():
    right = [0.95, 0.8, 0.65, 0.6, 0.75]
    votes, truth = drawn_votes(right, 5_000)
    votes[RNG.random(votes.shape) < 0.1] = -1
    votes[7] = -1
    posterior, shares = dawid_skene(votes, 2)
    assert shares == pytest.approx(right, abs=0.03)
    assert (posterior.argmax(axis=1) == truth).mean() > 0.92


def test_a_unit_that_guesses_has_no_say():
    assert vote_weights(np.array([50.0, 90.0, 10.0]), np.array([100.0] * 3), 2) == pytest.approx(
        [0.0, np.log(91 / 11), 0.0], abs=1e-9
    )


def test_judges_that_err_together_share_their_weight():
    votes, truth = drawn_votes([0.8, 0.75], 4_000)
    copied = np.stack([votes[:, 0], votes[:, 0], votes[:, 0], votes[:, 1]], axis=1)
    weights = logistic(copied, truth)
    alone = logistic(votes, truth)
    assert weights[:3].sum() == pytest.approx(alone[0], rel=0.05)
    assert weights[3] == pytest.approx(alone[1], rel=0.05)


@pytest.mark.parametrize(("wrong", "rows"), [(0, 20), (3, 50), (10, 40)])
def test_the_upper_end_is_clopper_and_pearsons(wrong, rows):
    assert binom.cdf(wrong, rows, upper(wrong, rows, 0.95)) == pytest.approx(0.05)


def test_a_bound_keeps_its_promise_on_new_rows():
    promises_kept, bounds, splits = 0, 0, 300
    for _ in range(splits):
        sure = RNG.random(1_500)
        right = (RNG.random(1_500) < 0.6 + 0.4 * sure).astype(float)
        bound = threshold_bound(sure, right, 0.9, 0.9)
        if bound.threshold is None:
            continue
        bounds += 1
        promises_kept += 0.6 + 0.4 * (bound.threshold + 1) / 2 >= 0.9
    assert bounds >= 0.8 * splits
    assert (promises_kept + splits - bounds) / splits >= 0.87


def test_no_bound_is_given_where_none_keeps_the_promise():
    assert threshold_bound(RNG.random(200), np.zeros(200), 0.9, 0.95).threshold is None
    assert threshold_bound(np.ones(10), np.ones(10), 0.95, 0.95).threshold is None


def test_rows_with_equal_confidence_are_accepted_or_left_out_together():
    sure = np.repeat([1.0, 0.5], 500)
    right = np.concatenate([np.ones(500), RNG.random(500) < 0.5])
    bound = threshold_bound(sure, right, 0.9, 0.95)
    assert (bound.threshold, bound.answered) == (1.0, 500)


def test_copies_of_one_row_are_held_out_together():
    rows = np.repeat(np.arange(50), 3)
    fold = folds(rows, 5, np.random.default_rng(0))
    assert all(len(set(fold[rows == row])) == 1 for row in range(50))
    assert set(fold) == set(range(5))
