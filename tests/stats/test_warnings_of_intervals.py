"""Intervals where few errors are seen, and warnings: of the design, never of the errors that a sample happened to show."""

import numpy as np
import pytest
from estimates import estimates, of_labels, of_pairs, of_probabilities, of_values
from msgspec import to_builtins

from verdict_cli.stats.columns.sample import Sample
from verdict_cli.stats.intervals.interval_methods import raised_design_effect
from verdict_cli.stats.intervals.intervals import Draw, metrics_with_intervals
from verdict_cli.stats.metrics import confusion, numbers, probability, ranks
from verdict_cli.stats.metrics.numbers import ordinal_alpha
from verdict_cli.stats.metrics.panel import intraclass_correlations
from verdict_cli.stats.metrics.ranks import rankings


def test_f_beta_allows_for_misses_that_no_row_shows():
    """30 positives all found, two false alarms: recall may be 0.886, and F3 at that recall is 0.89; the end was 0.975."""
    target = np.array([1] * 30 + [0] * 30)
    predictions = np.array([1] * 32 + [0] * 28)
    estimate = of_labels("f_beta", target, predictions, 1, 3.0)
    assert estimate.value == pytest.approx(10 * (30 / 32) / (9 * (30 / 32) + 1))
    assert 0.87 < estimate.low < 0.9
    assert estimate.value < estimate.high < 1


@pytest.mark.parametrize("beta", [0.5, 3.0])
def test_a_gate_on_f_beta_at_its_limit_passes_in_few_samples(beta):
    rng, above = np.random.default_rng(1), 0
    for _ in range(200):
        target = (rng.random(60) < 0.5).astype(np.int64)
        predictions = np.where(rng.random(60) < 0.96, target, 1 - target)
        above += of_labels("f_beta", target, predictions, 1, beta).low > 0.96
    assert above <= 8


@pytest.mark.parametrize(("constant", "value"), [(0, 0.5), (1, 0.5), (None, 0.0)])
def test_balanced_accuracy_that_no_row_changes_has_an_interval(constant, value):
    """A judge that always says one label, or never the right one: leaving out a row changes nothing."""
    target = np.array([0] * 40 + [1] * 20)
    estimate = of_labels(
        "balanced_accuracy", target, 1 - target if constant is None else target * 0 + constant
    )
    assert estimate.value == value
    assert estimate.high - value > 0.02
    assert (value - estimate.low > 0.02) == (value > 0)
    assert not estimate.warnings


def test_probabilities_of_0_and_1_warn_of_the_log_loss():
    """No wrong 1.0 was seen, and one costs 36 nats: the interval held the truth in 40% of samples."""
    rng = np.random.default_rng(2)
    positive = (rng.random(60) < 0.5).astype(float)
    p = np.clip(np.where(positive > 0, 0.7, 0.3) + rng.normal(0, 0.1, 60), 0.01, 0.99)
    assert not of_probabilities("log_loss", p, positive).warnings
    p[:2] = positive[:2]
    warned = of_probabilities("log_loss", p, positive)
    assert "2 probabilities are next to 0 or 1" in warned.reason
    assert not of_probabilities("brier", p, positive).warnings


def test_a_share_of_few_rows_has_the_exact_interval_and_no_warning():
    """Of three rows that a judge gets right 90 times in 100, Wilson's interval ended below the truth in 6.5% of samples."""
    target = np.array([1, 1, 1, 1] + [0] * 30)
    estimate = of_labels("recall", target, target, 1)
    assert (estimate.low, estimate.high) == (pytest.approx(0.025**0.25), 1)
    missed = of_labels("recall", target, 1 - target, 1)
    assert (missed.low, missed.high) == (0, pytest.approx(1 - 0.025**0.25))
    assert not estimate.warnings + missed.warnings


def test_icc_is_warned_of_ratings_that_agree_on_one_value_as_other_agreement_is():
    """The means of two judges' ratings differ more often than those of either judge: 8% of samples lay above the truth."""
    rng = np.random.default_rng(5)
    first_ratings = np.where(rng.random(100) < 0.05, 4.0, 5.0)
    two = np.where(rng.random(100) < 0.05, 4.0, 5.0)

    def agreement(*judges):
        icc = intraclass_correlations(np.stack(judges, axis=1))["icc"]
        return {"icc": icc, "ordinal_alpha": ordinal_alpha(judges)}

    values = estimates(agreement, (first_ratings, two))
    assert values["icc"].warnings == values["ordinal_alpha"].warnings != ()


def test_a_mean_of_skewed_values_assumes_more_correlation_in_unequal_clusters():
    """61 clusters that are worth 20: where the sample lacked the long tail, it lacked the correlation too (92% coverage)."""
    equal, unequal = np.full(40, 6.0), np.append(np.full(39, 3.0), 123.0)
    assert raised_design_effect(1.0, equal, 0.5, skewed=True) < 1.2 * raised_design_effect(
        1.0, equal, 0.5
    )
    assert raised_design_effect(1.0, unequal, 0.5, skewed=True) > 1.2 * raised_design_effect(
        1.0, unequal, 0.5
    )


def test_auroc_near_the_ceiling_allows_for_a_positive_among_the_others():
    """Unwarned samples held the truth in 88%: the warning was of the bad positives that were seen, and removed them."""
    rng, below, warned = np.random.default_rng(3), 0, 0
    truth = 0.9615  # of normal scores 2.5 apart
    for _ in range(150):
        positive = (rng.random(1000) < 0.02).astype(float)
        p = 1 / (1 + np.exp(-(rng.normal(size=1000) + 2.5 * positive - 2)))
        estimate = of_probabilities("auroc", p, positive)
        warned += bool(estimate.warnings)
        below += estimate.low > truth
    assert below <= 4
    assert all("decide" not in text for text in estimate.warnings)


def test_a_warning_of_labels_and_probabilities_does_not_look_at_errors():
    positive = np.array([1.0] * 12 + [0.0] * 188)
    p = np.where(positive > 0, 0.9, 0.1) + np.linspace(0, 0.05, 200)
    good = of_probabilities("auroc", p, positive)
    p[0] = 0.01  # one bad positive
    assert good.warnings == of_probabilities("auroc", p, positive).warnings == ()


def test_a_label_that_is_rarely_predicted_warns_of_agreement_beyond_chance():
    """Only the targets were counted: kappa held the truth in 90%."""
    target = np.array([1] * 40 + [0] * 160)
    predictions = np.zeros(200, np.int64)
    predictions[:4] = 1
    assert of_labels("cohen_kappa", target, predictions).warnings == (
        "only 4 rows have another label than the most frequent one: the interval may be too narrow",
    )
    assert not of_labels("accuracy", target, predictions).warnings


def test_one_stray_label_does_not_warn_of_a_metric_of_3000_rows():
    target = np.array([0, 1] * 1500)
    predictions = np.where(np.arange(3000) % 10 == 0, 1 - target, target)
    target[0] = 2
    assert not of_labels("cohen_kappa", target, predictions, k=3).warnings
    assert not of_labels("mcc", target, predictions, k=3).warnings
    alone = of_labels(
        "balanced_accuracy", target, predictions, k=3
    )  # a mean over labels: there it is a third
    assert alone.warnings == ("the rarest label has 1 row: the interval may be too narrow",)


def test_clusters_whose_size_goes_with_quality_are_rarely_above_the_truth():
    """Long conversations judged worse: a `min` gate at its limit passed in 6 to 8% of samples."""
    rng, above = np.random.default_rng(5), 0
    truth = 0.694  # of 20 million rows
    for _ in range(150):
        sizes = np.clip(np.exp(rng.normal(2, 1.2, 60)), 1, 400).astype(int)
        mean = np.clip(0.9 - 0.06 * np.log(sizes), 0.35, 0.97)
        chance = rng.beta(mean * 7 / 3, (1 - mean) * 7 / 3)
        cluster = np.repeat(np.arange(60), sizes)
        target = (rng.random(len(cluster)) < 0.4).astype(np.int64)
        predictions = np.where(rng.random(len(cluster)) < chance[cluster], target, 1 - target)
        estimate = of_labels("accuracy", target, predictions, cluster=cluster, seed=rng)
        above += estimate.low > truth
    assert above <= 12


@pytest.mark.parametrize("n", [200, 800])
def test_a_calibration_error_in_one_bin_is_rarely_below_its_interval(n):
    """Its gap was taken to be in all bins: the truth was below the interval in 11%."""
    rng, below = np.random.default_rng(6), 0
    for _ in range(100):
        p = rng.choice([0.6, 0.7, 0.8, 0.9, 0.95, 1.0], n)
        positive = (rng.random(n) < np.where(p == 0.9, p - 0.3, p)).astype(float)
        below += of_probabilities("ece", p, positive).low > 0.05 + 1e-9
    assert below <= 9


@pytest.mark.parametrize(("name", "truth"), [("mae", 0.08 * 1.4), ("rmse", (0.08 * 2.4) ** 0.5)])
def test_few_wrong_ratings_are_no_warning_and_their_interval_holds(name, truth):
    """Nearly all samples had a warning that counted their errors, and the others held the truth in 75%."""
    covered = warned = unwarned = 0
    for seed in range(150):
        rng = np.random.default_rng(seed)
        target = rng.integers(1, 6, 60).astype(float)
        away = np.where(rng.random(60) < 0.08, rng.choice([1, 2, 3], 60, p=[0.7, 0.2, 0.1]), 0)
        rating = np.where(target + away <= 5, target + away, target - away)
        estimate = of_pairs(name, rating, target)
        warned += bool(estimate.warnings) and estimate.low is not None
        if estimate.low is not None:
            unwarned += 1
            covered += estimate.low <= truth <= estimate.high
    assert not warned and unwarned > 140 and covered >= 0.95 * unwarned


@pytest.mark.parametrize(("name", "reach"), [("variance", 1.2), ("rmse", 0.3)])
def test_values_that_look_normal_need_no_allowance_for_heavy_tails(name, reach):
    """The variance of 60 normal values had twice the width that holds."""
    widths = []
    for seed in range(60):
        x, z = np.random.default_rng(seed).normal(3, 1, (2, 60))
        estimate = of_values(name, x) if name == "variance" else of_pairs(name, z + 0.5 * x, z)
        widths.append(estimate.high - estimate.low)
    assert np.median(widths) < reach


def test_few_values_that_are_close_together_on_their_scale_have_a_warning():
    """Scores of 0 or 0.9 to 1: in a fifth of samples of 15 no row is 0, and the mean's interval ends at 0.93."""
    rng, missed, unwarned = np.random.default_rng(4), 0, 0
    for _ in range(200):
        estimate = of_values("mean", np.where(rng.random(15) < 0.1, 0, rng.uniform(0.9, 1, 15)))
        unwarned += not estimate.warnings
        missed += not estimate.warnings and not estimate.low <= 0.855 <= estimate.high
    assert unwarned > 40 and missed <= 0.05 * unwarned
    close = of_values("mean", rng.uniform(0.9, 1, 15))
    assert close.warnings == (
        "15 rows close together on a long scale do not show whether others lie far away: the interval may be too narrow",
    )


@pytest.mark.parametrize("metric", ["balanced_accuracy", "precision", "cohen_kappa", "gwet_ac1"])
def test_metrics_of_a_nearly_perfect_judge_hold_the_truth(metric):
    """A kind of error that no row shows was left out: of `balanced_accuracy`, 82% of the intervals held the truth."""
    shares, right = np.array([0.14, 0.86]), np.array([0.95, 0.99])
    cells = np.array([[0.14 * 0.95, 0.14 * 0.05], [0.86 * 0.01, 0.86 * 0.99]])
    codes = np.indices((2, 2)).reshape(2, -1)
    truth = confusion.label_statistics(*codes, 2, None, False)[metric].at(1e9 * cells.ravel()[None])
    rng, covered, counted = np.random.default_rng(6), 0, 0
    for _ in range(200):
        target = (rng.random(150) < shares[1]).astype(np.int64)
        predictions = np.where(rng.random(150) < right[target], target, 1 - target)
        estimate = of_labels(metric, target, predictions, None)
        counted += not estimate.warnings
        covered += not estimate.warnings and estimate.low <= truth[0] <= estimate.high
    assert counted > 150
    assert covered >= 0.92 * counted


def test_rows_of_the_most_frequent_value_in_few_clusters_are_not_taken_for_the_others():
    """A large cluster has most rows of the frequent value; the 30 others are one in each of 30 clusters."""
    cluster = np.concatenate([np.zeros(170, np.int64), np.repeat(np.arange(1, 31), 2)])
    x = np.concatenate([np.full(170, 5.0), np.tile([5.0, 1.0], 30)])
    assert of_values("mean", x, cluster=cluster).warnings == (
        "the clusters are worth 1.8 of equal size: the interval is rough",
    )
    few = np.where((x == 1) & (cluster > 12), 1.0, 5.0)
    in_few = np.where(few == 1, cluster % 3, cluster)
    warnings = of_values("mean", few, cluster=in_few).warnings
    assert any("differ from the most frequent value are in clusters worth" in w for w in warnings)


@pytest.mark.parametrize(("n", "clusters"), [(200, 12), (900, 60)])
def test_a_calibration_error_of_two_nearly_sure_levels_is_rarely_below_its_interval(n, clusters):
    """Few errors, which come together: the lower end was above the truth in a fifth of samples."""
    rng, above = np.random.default_rng(11), 0
    for _ in range(100):
        cluster = np.arange(n) % clusters
        together = rng.random((2, clusters))[:, cluster]
        u = np.where(rng.random(n) < 0.6, together, rng.random((2, n)))
        p = np.where(u[0] < 0.4, 0.9, 0.1)
        positive = (u[1] < np.where(p == 0.9, 0.99, 0.01)).astype(float)
        above += of_probabilities("ece", p, positive, cluster=cluster, seed=rng).low > 0.0901
    assert above <= 8


def test_a_calibration_error_in_a_rare_bin_is_rarely_above_its_interval():
    """The bins that hide nothing were taken to add to the sum what chance adds: 17% of samples ended below the truth."""
    rng, below = np.random.default_rng(12), 0
    for _ in range(150):
        p = rng.choice([0.02, 0.5, 0.98], 400, p=[0.45, 0.1, 0.45])
        right = np.select([p < 0.5, p == 0.5], [0.005, 0.8], 0.995)
        positive = (rng.random(400) < right).astype(float)
        below += of_probabilities("ece", p, positive, seed=rng).high < 0.0435 - 1e-9
    assert below <= 12


def test_f1_of_a_judge_that_rarely_finds_a_label_is_rarely_above_its_interval():
    """Wilson's interval has its long tail on the other side: the upper end was below the truth in 8%."""
    shares, right = np.array([0.3, 0.7]), np.array([0.2, 0.92])
    cells = np.array([[0.06, 0.24], [0.056, 0.644]])
    codes = np.indices((2, 2)).reshape(2, -1)
    truth = confusion.label_statistics(*codes, 2, None, False)["f1"].at(1e9 * cells.ravel()[None])
    rng, below = np.random.default_rng(13), 0
    for _ in range(300):
        target = (rng.random(60) < shares[1]).astype(np.int64)
        predictions = np.where(rng.random(60) < right[target], target, 1 - target)
        below += of_labels("f1", target, predictions).high < truth[0]
    assert below <= 15


def test_means_of_nearly_perfect_rankings_allow_for_worse_ones():
    """The upper part of the interval was as wide as the lower one: the truth lay below it in 10%."""
    orders = [["a", "b", "c"], ["b", "a", "c"], ["c", "b", "a"]]
    gains = rankings([orders[0]] * 3, orders)["ndcg"].at(np.eye(3))
    rng, above = np.random.default_rng(14), 0
    for _ in range(300):
        said = rng.choice(3, 30, p=[0.85, 0.1, 0.05])
        distinct, sample = np.unique(said), Sample.of((said,))
        statistic = rankings([orders[0]] * len(distinct), [orders[code] for code in distinct])
        estimate = metrics_with_intervals({"ndcg": statistic["ndcg"]}, sample, Draw(rng))["ndcg"]
        above += not estimate.warnings and estimate.low > gains @ [0.85, 0.1, 0.05]
    assert above <= 0.05 * 300


def test_a_variance_warns_of_values_close_together_on_a_long_scale_as_a_mean_does():
    x = np.random.default_rng(15).uniform(70, 90, 40)

    def statistics(values):
        return numbers.number_values(values, False, (0.0, 100.0))

    found = estimates(statistics, (x,))
    assert "close together on a long scale" in found["variance"].reason
    assert found["variance"].warnings == found["mean"].warnings


def test_metrics_of_clusters_are_plain_numbers():
    """`report.json` has no form for numpy's."""
    rng = np.random.default_rng(4)
    cluster = np.repeat(np.arange(12), 5)
    labels, predictions = rng.integers(0, 2, (2, 60))
    x, y = rng.normal(size=(2, 60))
    p = rng.random(60).round(1)

    def label_statistics(*sides):
        return confusion.label_statistics(*sides, 2, 1, False)

    metrics = (
        estimates(label_statistics, (labels, predictions), cluster)
        | estimates(numbers.number_pairs, (x, x + y), cluster)
        | estimates(lambda values: numbers.number_values(values, False), (x.round(),), cluster)
        | estimates(ranks.rank_pairs, (x.round(), y.round()), cluster)
        | estimates(probability.probability_statistics, (p, labels.astype(float)), cluster)
    )
    assert len(metrics) > 20
    assert to_builtins(metrics)
