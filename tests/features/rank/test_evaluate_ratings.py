"""Strengths against scikit-learn and closed forms; circles against counting them."""

import math
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verdict_cli.features.rank.ranks import significantly_better, standing_values
from verdict_cli.features.rank.strengths import Choice, choice_strengths
from verdict_cli.features.rank.tournament import count_cycles

PAIRS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 4)).filter(lambda pair: pair[0] != pair[1]),
    min_size=1,
    max_size=40,
)


@settings(max_examples=20)
@given(wins=PAIRS)
def test_pairs_are_those_of_a_logistic_regression_with_the_same_prior(
    wins,
):
    linear = pytest.importorskip("sklearn.linear_model")
    design = np.zeros((2 * len(wins), 5))
    for index, (winner, loser) in enumerate(wins):
        design[2 * index, winner], design[2 * index, loser] = 1, -1
        design[2 * index + 1] = -design[2 * index]
    target = [1, 0] * len(wins)
    fitted = linear.LogisticRegression(C=4.0, fit_intercept=False, tol=1e-10, max_iter=10_000)
    fitted.fit(design, target, sample_weight=[0.5] * len(target))
    strengths = choice_strengths(
        5, [Choice(winner, (winner, loser)) for winner, loser in wins], spread=2.0
    )
    met = np.isfinite(strengths.values)
    expected = fitted.coef_[0] - fitted.coef_[0].mean()
    assert strengths.values[met] == pytest.approx(expected[met], abs=1e-5)


@pytest.mark.parametrize(("won", "losses"), [(3, 1), (10, 7), (1, 1)])
def test_two_without_a_prior_have_the_log_odds_and_its_variance(won, losses):
    choices = [Choice(0, (0, 1), float(won)), Choice(1, (1, 0), float(losses))]
    strengths = choice_strengths(2, choices, spread=math.inf)
    assert strengths.values[0] - strengths.values[1] == pytest.approx(
        math.log(won / losses), abs=1e-6
    )
    variance = (
        strengths.covariance[0, 0] + strengths.covariance[1, 1] - 2 * strengths.covariance[0, 1]
    )
    assert variance == pytest.approx(1 / won + 1 / losses, rel=1e-6)


def test_rankings_of_three_give_back_the_strengths_behind_them():
    true = np.array([1.0, 0.2, -1.2])
    choices = []
    for order in permutations(range(3)):
        strong = np.exp(true)
        share = (
            strong[order[0]]
            / strong.sum()
            * strong[order[1]]
            / (strong[order[1]] + strong[order[2]])
        )
        choices += [Choice(order[0], order, share * 1e4), Choice(order[1], order[1:], share * 1e4)]
    assert choice_strengths(3, choices, spread=math.inf).values == pytest.approx(
        true - true.mean(), abs=1e-6
    )


@given(wins=PAIRS, turn=st.permutations(range(5)))
def test_names_do_not_matter(wins, turn):
    plain = choice_strengths(5, [Choice(a, (a, b)) for a, b in wins])
    turned = choice_strengths(5, [Choice(turn[a], (turn[b], turn[a])) for a, b in wins])
    assert turned.values[turn] == pytest.approx(plain.values, abs=1e-6, nan_ok=True)
    for value in standing_values(plain, 5):
        assert value.value is None or value.low < value.value < value.high


def test_who_won_everything_stays_finite_and_only_many_contests_tell_apart():
    few, many = (choice_strengths(2, [Choice(0, (0, 1), weight)]) for weight in (1.0, 200.0))
    assert 0 < few.values[0] < many.values[0] < 20
    assert not significantly_better(few, 2).any()
    assert significantly_better(many, 2).tolist() == [[False, True], [False, False]]


def test_who_is_in_no_contest_has_no_strength():
    value = standing_values(choice_strengths(3, [Choice(0, (0, 1))]), 3)[2]
    assert (value.value, value.reason) == (None, "no rows")


@given(st.integers(3, 7), st.randoms(use_true_random=False))
def test_circles_are_counted(count, draw):
    wins = np.zeros((count, count), dtype=bool)
    for first, second in combinations(range(count), 2):
        result = draw.randrange(3)  # type: ignore[attr-defined]
        wins[first, second], wins[second, first] = result == 1, result == 2
    met = wins | wins.T
    triples = [
        triple
        for triple in combinations(range(count), 3)
        if all(met[a, b] for a, b in combinations(triple, 2))
    ]
    circles = [
        (a, b, c)
        for a, b, c in triples
        if (wins[a, b] & wins[b, c] & wins[c, a]) | (wins[b, a] & wins[c, b] & wins[a, c])
    ]
    assert count_cycles(wins) == (len(triples), len(circles))
