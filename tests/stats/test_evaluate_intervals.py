"""Intervals: the exact one from a textbook, the others held against scipy's bootstrap and simulated truths."""

import numpy as np
import pytest
import scipy.stats
from estimates import estimates, of_labels, of_pairs, of_probabilities, of_values

from verdict_cli.stats.intervals.interval_methods import clopper_pearson, near_normal, score
from verdict_cli.stats.intervals.intervals import FEW_DELETIONS, MOST_LEFT_OUT
from verdict_cli.stats.metrics import confusion, numbers, probability


def test_the_exact_interval_is_the_textbook_value():
    # Newcombe (1998), table I: 81 of 263
    assert clopper_pearson(81, 263, 0.95) == pytest.approx((0.2527, 0.3676), abs=5e-5)


def test_the_jackknife_agrees_with_scipys_bootstrap():
    rng = np.random.default_rng(1)
    x = rng.normal(size=80)
    y = x + rng.normal(size=80)
    for name, formula in (
        ("spearman", lambda a, b: scipy.stats.spearmanr(a, b).statistic),
        ("mae", lambda a, b: np.abs(a - b).mean()),
    ):
        wanted = scipy.stats.bootstrap(
            (x, y), formula, paired=True, vectorized=False, method="BCa", n_resamples=2000, rng=2
        ).confidence_interval
        estimate = of_pairs(name, x, y)
        assert (estimate.low, estimate.high) == pytest.approx((wanted.low, wanted.high), abs=0.05)


def test_resampling_cells_is_resampling_rows():
    rng = np.random.default_rng(4)
    target = rng.integers(0, 3, 200)
    prediction = np.where(rng.random(200) < 0.7, target, rng.integers(0, 3, 200))

    def kappa(*columns):
        return {"it": confusion.label_statistics(*columns[:2], 3, None, False)["cohen_kappa"]}

    cells = estimates(kappa, (target, prediction))["it"]
    rows = estimates(kappa, (target, prediction, np.arange(200)))["it"]
    assert cells.low == pytest.approx(rows.low, abs=0.02)


@pytest.mark.parametrize("name", ["pearson", "spearman", "kendall", "rmse", "krippendorff_alpha"])
def test_the_interval_of_many_rows_continues_that_of_fewer(name):
    rng = np.random.default_rng(5)
    x = rng.normal(size=2 * MOST_LEFT_OUT)
    y = x + rng.normal(size=len(x))
    few = of_pairs(name, x[: MOST_LEFT_OUT // 2], y[: MOST_LEFT_OUT // 2])
    many = of_pairs(name, x, y)
    assert (many.high - many.low) * 2 == pytest.approx(few.high - few.low, rel=0.4)
    assert many.low < many.value < many.high


def test_one_row_has_no_interval():
    estimate = of_pairs("mae", np.array([1.0]), np.array([2.0]))
    assert (estimate.value, estimate.low, estimate.high) == (1, None, None)
    assert "one row" in estimate.reason


def test_a_sample_without_variation_has_a_value_without_an_interval_and_says_so():
    estimate = of_pairs("mae", np.ones(5), np.full(5, 3.0))
    assert (estimate.value, estimate.low, estimate.high) == (2, None, None)
    assert "do not vary" in estimate.reason


def test_a_constant_side_leaves_correlation_undefined_with_a_reason():
    for name in ("pearson", "spearman", "kendall"):
        estimate = of_pairs(name, np.full(6, 0.1), np.arange(6.0))
        assert estimate.value is None and "all the same value" in estimate.reason


def test_a_higher_level_is_a_wider_interval():
    x = np.random.default_rng(6).normal(size=100)
    ends = [of_values("mean", x, level=level) for level in (0.8, 0.99)]
    assert ends[1].low < ends[0].low < ends[0].high < ends[1].high


def test_a_cluster_for_every_row_changes_little():
    rng = np.random.default_rng(7)
    x = rng.normal(size=150)
    y = x + rng.normal(size=150)
    alone = of_pairs("pearson", x, y)
    clustered = of_pairs("pearson", x, y, cluster=np.arange(150), seed=1)
    assert clustered.low == pytest.approx(alone.low, abs=0.03)


def test_every_statistic_survives_resamples_that_leave_it_undefined():
    p, y = np.array([0.2, 0.4, 0.6, 0.7]), np.array([0.0, 0.0, 0.0, 1.0])
    auroc = estimates(probability.probability_statistics, (p, y))["auroc"]
    assert (auroc.value, auroc.high) == (1, 1)


@pytest.mark.parametrize("shape", ["pearson", "kappa", "mean"])
def test_intervals_cover_the_truth_about_as_often_as_they_say(shape):
    """200 simulated samples: 95% intervals that cover in fewer than 87% would be broken (binomial, p < 1e-5)."""
    covered = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        if shape == "kappa":
            target = rng.integers(0, 2, 100)
            prediction = np.where(rng.random(100) < 0.8, target, 1 - target)
            estimate, truth = of_labels("cohen_kappa", target, prediction, seed=seed), 0.6
        elif shape == "pearson":
            x = rng.normal(size=100)
            y = 0.6 * x + 0.8 * rng.normal(size=100)
            estimate, truth = of_pairs("pearson", x, y, seed=seed), 0.6
        else:
            estimate, truth = of_values("mean", rng.exponential(size=60), seed=seed), 1.0
        covered += estimate.low <= truth <= estimate.high
    assert covered >= 174


def test_few_groups_of_rows_still_give_a_standard_error():
    rng = np.random.default_rng(8)
    x = rng.normal(size=MOST_LEFT_OUT * 2)
    estimate = of_values("mean", x)
    error = x.std(ddof=1) / np.sqrt(len(x))
    assert (estimate.high - estimate.low) / 2 == pytest.approx(
        1.96 * error, rel=4 / np.sqrt(2 * FEW_DELETIONS)
    )


def test_perfect_agreement_has_wilsons_interval_of_a_share_without_exception():
    target = np.array([0, 1] * 10)
    estimate = of_labels("cohen_kappa", target, target)
    # 1 - 2u of a share u = z^2 / (n + z^2) of disagreement between two even labels
    assert estimate.low == pytest.approx(1 - 2 * 1.959964**2 / (20 + 1.959964**2), abs=1e-6)
    assert estimate.high == estimate.value == 1
    estimate = of_probabilities("auroc", np.linspace(0, 1, 20), np.repeat([0.0, 1.0], 10))
    assert 0.7 < estimate.low < estimate.high == 1


def test_the_medians_interval_ends_at_the_order_statistics_of_the_binomial():
    estimate = of_values("median", np.arange(1.0, 21.0))
    assert (estimate.low, estimate.value, estimate.high) == (6, 10.5, 15)


def test_the_median_of_clusters_that_repeat_each_other_is_less_sure():
    x = np.repeat(np.random.default_rng(9).normal(size=20), 10)
    alone = of_values("median", x)
    together = of_values("median", x, cluster=np.repeat(np.arange(20), 10))
    assert together.high - together.low > 2 * (alone.high - alone.low)


def test_a_row_alone_in_a_cluster_makes_the_jackknife_that_of_rows():
    x = np.random.default_rng(10).exponential(size=40)
    alone = of_values("mean", x)
    assert of_values("mean", x, cluster=np.arange(40)).low == pytest.approx(alone.low)


def test_the_calibration_errors_interval_of_calibrated_probabilities_reaches_none():
    """Calibrated probabilities have error 0, and no sample does: the plain bootstrap puts 0 below every resample."""
    rng = np.random.default_rng(11)
    p = rng.random(100)
    y = (rng.random(100) < p).astype(float)
    estimate = of_probabilities("ece", p, y)
    assert estimate.low == 0 < estimate.value


@pytest.mark.parametrize("clustered", [False, True])
def test_the_calibration_errors_interval_holds_the_truth_about_as_often_as_it_says(clustered):
    """200 samples of 100 rows whose probabilities are wrong by 0.2: 95% intervals hold that in at least 180."""
    covered = 0
    for seed in range(200):
        rng = np.random.default_rng([5, seed])
        p = rng.choice([0.25, 0.45, 0.65], 100)
        y = (rng.random(100) < p + 0.2).astype(float)
        cluster = np.arange(100) // 4 if clustered else None
        estimate = of_probabilities("ece", p, y, cluster=cluster, seed=seed)
        covered += estimate.low <= 0.2 <= estimate.high
    assert covered >= 180


def test_agreement_without_a_chance_correction_has_wilsons_interval():
    """Of two labels that are as frequent as each other, balanced accuracy is accuracy, with one more row for errors not seen."""
    target = np.repeat([0, 1], 20)
    prediction = np.where(np.arange(40) % 20 < 3, 1 - target, target)
    estimate = of_labels("balanced_accuracy", target, prediction)
    error = np.sqrt(0.15 * 0.85 / 40)
    assert (estimate.low, estimate.high) == pytest.approx(score(34 / 40, 40, 1.96), abs=0.4 * error)


def test_the_variance_of_skewed_values_reaches_further_up_than_down():
    x = np.random.default_rng(12).exponential(size=80)
    estimate = of_values("variance", x)
    assert estimate.high - estimate.value > 2 * (estimate.value - estimate.low) > 0
    assert not estimate.warnings
    x[0] = 500
    decided = of_values("variance", x)
    assert decided.low == 0 and decided.high > 10 * decided.value


def test_few_rows_without_the_tails_of_their_values_have_a_wide_interval():
    rng = np.random.default_rng(4)

    def reach(x):
        estimate = of_values("variance", x)
        assert not estimate.warnings
        return estimate.high / estimate.value

    few, many = rng.normal(size=29), rng.normal(size=40)
    assert reach(few) == pytest.approx(14 * (10 / 29) ** (2 / 3))
    assert reach(many) < 4
    assert reach(rng.exponential(size=40)) >= 14 * (10 / 40) ** (2 / 3) - 1e-9  # plainly not normal
    assert reach(np.array([1.0, 2, 3, 4, 5, 5, 4, 3, 2, 4, 5, 3, 1, 2])) < 4  # a scale has no tails
    giant = np.concatenate([np.zeros(100, int), np.arange(300) % 59 + 1])
    skewed = rng.lognormal(size=400)
    for clusters, worth in (
        (np.arange(400) % 14, 42),
        (giant, 400**2 / (100**2 + 59 * 300**2 / 59**2)),
    ):
        assert of_values("variance", rng.normal(size=400), cluster=clusters).high < 3
        estimate = of_values("variance", skewed, cluster=clusters)
        assert estimate.high / estimate.value == pytest.approx(
            14 * (10 / worth) ** (2 / 3), rel=0.02
        )
    assert reach(np.tile(few, 20)[:400]) < 2


def test_the_variance_of_zeros_and_ones_follows_the_interval_of_their_share():
    x = np.repeat([0.0, 1.0], [36, 4])
    estimate = of_values("variance", x)
    assert (estimate.low, estimate.high) == pytest.approx(
        [p * (1 - p) for p in clopper_pearson(4, 40, 0.95)]
    )
    assert of_values("variance", np.repeat([0.0, 1.0], [22, 18])).high == pytest.approx(
        0.25, abs=0.01
    )


@pytest.mark.parametrize("rows", [15, 100])
@pytest.mark.parametrize("shape", ["student", "lognormal"])
def test_the_interval_of_rmse_holds_the_truth_of_heavy_tails(shape, rows):
    """Of 15 and 100 rows, 59 to 76% of the intervals without a warning held the truth."""
    truth = {"student": 3.0, "lognormal": np.exp(2)}[shape] ** 0.5
    unwarned = covered = 0
    for seed in range(120):
        rng = np.random.default_rng([7, seed])
        errors = rng.standard_t(3, rows) if shape == "student" else rng.lognormal(size=rows)
        estimate = of_pairs("rmse", errors, np.zeros(rows))
        unwarned += not estimate.warnings
        covered += not estimate.warnings and estimate.low <= truth <= estimate.high
    assert unwarned > 100 and covered / unwarned > 0.93


def test_pearson_of_many_normal_rows_has_nearly_fishers_interval():
    rng = np.random.default_rng(1)
    x = rng.normal(size=1000)
    y = x + rng.normal(size=1000)
    estimate = of_pairs("pearson", x, y)
    wanted = np.tanh(np.arctanh(estimate.value) + np.array([-1.96, 1.96]) / np.sqrt(997))
    assert [estimate.low, estimate.high] == pytest.approx(wanted, abs=0.01)


@pytest.mark.parametrize("wild", [1e80, 1e160, 1e300])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_one_wild_number_costs_a_metric_never_the_report(wild):
    """Fourth powers overflowed, and the report ended with an internal error."""
    x, y = np.array([*range(20), wild]), np.arange(21.0)

    def every_metric(first, second):
        return numbers.number_pairs(first, second) | numbers.number_values(first, False)

    of_all = estimates(every_metric, (x, y))
    assert of_all["mean"].value == pytest.approx(wild / 21)
    assert of_all["median"].value == 10
    assert of_all["variance"].value is None or of_all["variance"].value > 1e100
    undefined = {estimate.reason for estimate in of_all.values() if estimate.value is None}
    assert undefined == (set() if wild < 1e100 else {"the numbers are too large to compute it"})


def test_metrics_of_numbers_do_not_depend_on_the_unit():
    rng = np.random.default_rng(4)
    x = rng.normal(size=40)
    y = x + rng.normal(size=40)
    names = ["pearson", "weighted_kappa", "krippendorff_alpha", "mae", "rmse"]
    for name in names:
        usual, small = (of_pairs(name, x * unit, y * unit) for unit in (1.0, 2.0**-10))
        unit = 2.0**-10 if name in ("mae", "rmse") else 1.0
        for end in ("value", "low", "high"):
            assert getattr(small, end) == pytest.approx(getattr(usual, end) * unit, rel=1e-6), (
                name,
                end,
            )


@pytest.mark.parametrize("n", [30, 80, 1000])
def test_normal_values_mostly_look_normal_and_skewed_or_heavy_tailed_ones_do_not(n):
    rng = np.random.default_rng(n)
    normal = [near_normal(rng.normal(50, 3, n)) for _ in range(400)]
    skewed = [near_normal(rng.lognormal(size=n)) for _ in range(400)]
    heavy = [near_normal(rng.standard_t(3, n)) for _ in range(400)]
    assert np.mean(normal) > 0.6
    assert np.mean(skewed) < 0.03
    assert np.mean(heavy) < {30: 0.4, 80: 0.1, 1000: 0.01}[n]


def test_equal_values_look_normal_and_those_beyond_floats_do_not():
    assert near_normal(np.full(10, 3.0))
    assert not near_normal(np.array([1e200, 0.0, 1.0]))
