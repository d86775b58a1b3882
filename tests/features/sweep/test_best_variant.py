"""Several runs at once: intervals hold together, and the best of equal variants is not better than it is."""

import numpy as np
import pytest
import scipy.stats
from evaluation_data import label_data

from verdict_cli.features.sweep.compare_variants import indistinct, probability_best
from verdict_cli.stats.simultaneous import JointEstimates, joint_estimates

ROWS = 200


def run_of(right, rng):
    """Labels of two classes, of which a judge gets these rows right."""
    target = (np.arange(ROWS) % 2).astype(np.int64)
    return label_data(target, np.where(right, target, 1 - target))


def variants(count, rng):
    """Equally good judges, whose errors are correlated."""
    hard = rng.random(ROWS)
    return [
        run_of(np.where(rng.random(ROWS) < 0.5, hard, rng.random(ROWS)) < 0.8, rng)
        for _ in range(count)
    ]


def estimates(data, rng):
    rows = np.arange(ROWS)
    return joint_estimates("accuracy", data, [rows] * len(data), rng)


def test_intervals_of_all_variants_hold_together_in_95_of_100_sweeps():
    rng = np.random.default_rng(1)
    covered = chosen = 0
    for _ in range(100):
        joint = estimates(variants(8, rng), rng)
        level = joint.level(0.95, np.eye(8), rng)
        quantile = scipy.stats.t.ppf((1 + level) / 2, joint.freedom)
        errors = np.sqrt(np.diag(joint.covariance))
        covered += bool((np.abs(joint.values - 0.8) <= quantile * errors).all())
        best = joint.values.argmax()
        chosen += abs(joint.values[best] - 0.8) <= quantile * errors[best]
    assert covered >= 89
    assert chosen >= 91


def test_equal_variants_are_distinguished_in_at_most_5_of_100_sweeps():
    rng = np.random.default_rng(2)
    apart = sum(
        not indistinct(estimates(variants(6, rng), rng), 0.95, rng).all() for _ in range(100)
    )
    assert apart <= 11


def test_equal_variants_share_the_chance_of_being_best_and_a_better_one_has_it():
    rng = np.random.default_rng(3)
    same = run_of(rng.random(ROWS) < 0.7, rng)
    better = run_of(rng.random(ROWS) < 0.97, rng)
    chances_of_best = probability_best(
        estimates([same, same, better], rng), rng, lower_is_better=False
    )
    assert chances_of_best[2] > 0.99
    assert chances_of_best[:2] == pytest.approx([chances_of_best[0]] * 2)
    assert chances_of_best.sum() == pytest.approx(1)


@pytest.mark.parametrize(("count", "most"), [(5, 0.4), (20, 0.2)])
def test_the_best_of_equal_variants_is_not_likely_to_be_the_best(count, most):
    """With a flat prior its probability was 0.52 of five and 0.34 of twenty: it is the best because it was chosen."""
    rng, chances = np.random.default_rng(5), []
    covariance = 0.0008 * (np.eye(count) + 1)
    for _ in range(40):
        values = rng.multivariate_normal(np.full(count, 0.8), covariance)
        chances_of_best = probability_best(
            JointEstimates(values, covariance, 200.0), rng, lower_is_better=False
        )
        chances.append(chances_of_best[values.argmax()])
    assert np.mean(chances) < most


@pytest.mark.parametrize("count", range(2, 13))
@pytest.mark.parametrize("value", [0.7, 0.1 + 0.2, 0.0, 1.0])
def test_variants_that_agree_share_the_chance_of_being_best(count, value):
    rng = np.random.default_rng(6)
    for covariance in (np.zeros((count, count)), np.full((count, count), 0.002)):
        joint = JointEstimates(np.full(count, value), covariance, 63.0)
        chances_of_best = probability_best(joint, rng, lower_is_better=False)
        assert chances_of_best == pytest.approx([1 / count] * count, abs=0.02)
        assert indistinct(joint, 0.95, rng).all()


def test_variants_that_differ_without_noise_have_a_best():
    joint = JointEstimates(np.array([0.5, 0.5, 0.9]), np.zeros((3, 3)), 63.0)
    assert probability_best(joint, np.random.default_rng(7), lower_is_better=False).tolist() == [
        0,
        0,
        1,
    ]
