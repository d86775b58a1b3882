"""Intervals of shares: exact where rows are independent, and where they come in clusters."""

import numpy as np
import pytest
from estimates import of_labels, of_values
from scipy.stats import binomtest

from verdict_cli.stats.columns.sample import Sample
from verdict_cli.stats.intervals.interval_methods import clopper_pearson
from verdict_cli.stats.intervals.intervals import Draw, paired_metric_value
from verdict_cli.stats.metrics import confusion


def of_hits(name, right, cluster=None):
    """A metric of the first of two labels, which all rows have."""
    target = np.zeros(len(right), int)
    return of_labels(name, target, np.where(right, 0, 1), 0, cluster=cluster)


def accuracy(right, cluster=None):
    return of_hits("accuracy", right, cluster)


@pytest.mark.parametrize("level", [0.8, 0.95, 0.999])
@pytest.mark.parametrize(
    ("hits", "trials"), [(0, 1), (1, 1), (0, 20), (20, 20), (7, 20), (999_999, 1_000_000)]
)
def test_the_exact_interval_is_scipys(hits, trials, level):
    theirs = binomtest(hits, trials).proportion_ci(level, "exact")
    assert clopper_pearson(hits, trials, level) == pytest.approx(
        (theirs.low, theirs.high), abs=1e-12
    )


def test_f1_of_a_label_has_the_exact_interval_of_the_rows_with_that_label():
    estimate = of_hits("f1", np.array([True] * 30 + [False] * 10))
    low, high = clopper_pearson(30, 40, 0.95)
    assert estimate.value == pytest.approx(60 / 70)
    assert (estimate.low, estimate.high) == pytest.approx(
        (2 * low / (1 + low), 2 * high / (1 + high))
    )


def test_a_cluster_for_every_row_is_no_cluster():
    right = np.random.default_rng(0).random(200) < 0.8
    alone, together = accuracy(right), accuracy(right, np.arange(200))
    assert together.low == pytest.approx(alone.low, abs=0.002)


def test_clusters_whose_rows_repeat_each_other_are_worth_about_one_row_each():
    right = np.random.default_rng(1).random(60) < 0.7
    alone = accuracy(right)
    together = accuracy(np.repeat(right, 8), np.repeat(np.arange(60), 8))
    assert together.value == alone.value
    assert together.high - together.low == pytest.approx(alone.high - alone.low, rel=0.08)


def test_clusters_without_an_exception_are_worth_one_row_each():
    estimate = accuracy(np.ones(100, bool), np.repeat(np.arange(20), 5))
    assert estimate.high == 1
    assert estimate.low == pytest.approx(clopper_pearson(20, 20, 0.95)[0], abs=0.02)  # Student's


def test_one_cluster_has_no_interval():
    estimate = accuracy(np.array([True, False]), np.zeros(2, int))
    assert (estimate.low, estimate.high) == (None, None)
    assert "one cluster" in estimate.reason


def clustered_rows(sizes, rng, truth=0.8, correlation=0.4):
    """Right answers in clusters of these sizes whose own shares are drawn from a beta distribution."""
    spread = 1 / correlation - 1
    shares = rng.beta(truth * spread, (1 - truth) * spread, len(sizes))
    cluster = np.repeat(np.arange(len(sizes)), sizes)
    return rng.random(len(cluster)) < shares[cluster], cluster


@pytest.mark.parametrize(
    "sizes", [[100] + [5] * 20, np.geomspace(1, 200, 30).astype(int)], ids=["giant", "pareto"]
)
def test_shares_in_clusters_of_unequal_size_hold_the_truth_as_often_as_they_say(sizes):
    """Without the leverage correction and Student's quantile, 73% (giant) and 86% (Pareto) of the intervals did."""
    rng = np.random.default_rng(5)
    inside = 0
    for _ in range(300):
        estimate = accuracy(*clustered_rows(sizes, rng))
        inside += estimate.low <= 0.8 <= estimate.high
    assert inside / 300 >= 0.92


def test_a_difference_in_clusters_of_unequal_size_has_its_stated_coverage():
    """With a normal quantile, 88% of the intervals did."""
    rng = np.random.default_rng(6)
    sizes = [200, 100] + [5] * 10
    inside = 0
    for _ in range(300):
        first, cluster = clustered_rows(sizes, rng)
        second, _ = clustered_rows(sizes, rng)
        target = np.zeros(len(first), int)
        columns = np.where(first, 0, 1), np.where(second, 0, 1)
        sample = Sample.of(columns, cluster)
        old, new = (
            confusion.label_statistics(
                target[sample.first], predictions[sample.first], 2, None, False
            )["accuracy"]
            for predictions in columns
        )
        estimate = paired_metric_value(old, new, sample, Draw(rng))
        inside += estimate.low <= 0 <= estimate.high
    assert inside / 300 >= 0.92


def test_a_share_in_clusters_says_how_many_and_what_they_are_worth():
    """Only rows were counted, also where one of 30 clusters held half of them."""
    estimate = accuracy(*clustered_rows([4] * 30, np.random.default_rng(7)))
    assert estimate.clusters == 30
    assert 30 < estimate.effective_n < 120
    assert estimate.reason == ""
    giant = accuracy(np.arange(120) % 4 > 0, np.maximum(np.arange(120) - 100, 0))
    assert giant.clusters == 20
    assert "worth 1.4 of equal size" in giant.reason


def test_two_rows_of_a_label_warn_of_balanced_accuracy():
    targets = np.array([1] * 2 + [0] * 98)
    predictions = np.array([1] * 4 + [0] * 96)
    estimate = of_labels("balanced_accuracy", targets, predictions)
    assert estimate.warnings == ("the rarest label has 2 rows: the interval may be too narrow",)
    assert estimate.low < 0.9


@pytest.mark.parametrize(("share", "n"), [(0.05, 100), (0.1, 100), (0.2, 50)])
def test_balanced_accuracy_with_a_rare_label_holds_the_truth_as_often_as_it_says(share, n):
    """Of 2, 5 and 10% positives in 100 rows, 41, 62 and 83% of the intervals held the truth."""
    rng = np.random.default_rng(8)
    inside = 0
    for _ in range(300):
        targets = (rng.random(n) < share).astype(int)
        right = rng.random(n) < np.where(targets == 1, 0.8, 0.95)
        predictions = np.where(right, targets, 1 - targets)
        estimate = of_labels("balanced_accuracy", targets, predictions)
        inside += targets.any() and estimate.low <= 0.875 <= estimate.high
    assert inside / 300 >= 0.92


def test_labels_that_clusters_miss_together_widen_the_mean_of_their_recalls():
    rng = np.random.default_rng(9)
    bad = rng.random(40) < 0.3
    cluster = np.repeat(np.arange(40), 6)
    targets = np.arange(240) % 2
    predictions = np.where(bad[cluster], 1 - targets, targets)
    estimate = of_labels("recall", targets, predictions, cluster=cluster)
    alone = accuracy(predictions == targets, cluster)
    assert estimate.high - estimate.low == pytest.approx(alone.high - alone.low, rel=0.1)


@pytest.mark.parametrize(("hits", "n"), [(29, 30), (20, 20)])
def test_the_mean_of_zeros_and_ones_is_a_share(hits, n):
    x = np.array([1.0] * hits + [0.0] * (n - hits))
    estimate = of_values("mean", x)
    assert (estimate.low, estimate.high) == pytest.approx(clopper_pearson(hits, n, 0.95))


def test_an_estimate_says_its_error_method_and_what_its_clusters_are_worth():
    """A metric had a value, ends and n only."""
    rng = np.random.default_rng(9)
    cluster = np.repeat(np.arange(30), 5)
    target = rng.integers(0, 2, 150)
    prediction = np.where(np.repeat(rng.random(30) < 0.7, 5), target, 1 - target)
    for of in (None, cluster):
        for name in ("accuracy", "cohen_kappa"):
            metric = of_labels(name, target, prediction, cluster=of)
            assert metric.se and metric.method and metric.level == 0.95 and metric.warnings == ()
            assert (
                (metric.clusters, metric.effective_n) == (None, 150)
                if of is None
                else metric.clusters == 30
            )
            if of is not None:
                assert metric.effective_n == pytest.approx(150 / metric.design_effect)
                assert metric.design_effect > 2 and metric.df == 29
