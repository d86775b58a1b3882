"""Every figure equals scikit-learn's, scipy's or krippendorff's, or a value computed by hand."""

import json
import os
import warnings
from pathlib import Path

import krippendorff
import numpy as np
import pytest
import scipy.stats
import sklearn.metrics
from hypothesis import given, settings
from hypothesis import strategies as st

from verdict_cli.stats.columns.sample import Sample
from verdict_cli.stats.metrics import confusion, numbers, probability, ranks

SHARED = Path(os.environ.get("VERDICT_SHARED", Path(__file__).parents[3] / "shared"))


def values(statistics, columns):
    """Each statistic's value over rows, through atoms and counts, None where it is undefined."""
    sample = Sample.of(columns)
    statistics_by_name = statistics(*(column[sample.first] for column in columns))
    weights = sample.counts[None, :]
    return {
        name: None if not np.isfinite(v := statistic.at(weights)[0]) else float(v)
        for name, statistic in statistics_by_name.items()
    }


def of_labels(target, prediction, count, positive=None):
    return values(
        lambda t, p: confusion.label_statistics(t, p, count, positive, False),
        (np.array(target), np.array(prediction)),
    )


def of_pairs(target, prediction):
    columns = (np.array(prediction, float), np.array(target, float))
    return values(lambda x, y: numbers.number_pairs(x, y) | ranks.rank_pairs(x, y), columns)


def oracle(formula, *args, **kwargs):
    """The library's value, None where it warns or gives none."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            value = float(formula(*args, **kwargs))
        except (Warning, ValueError):
            return None
    return value if np.isfinite(value) else None


codes = st.integers(0, 3)
label_rows = st.lists(st.tuples(codes, codes), min_size=1, max_size=40)
number_rows = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.25, 0.5, 1.0, 7.0, -3.5]),
        st.sampled_from([0.0, 0.1, 2.0, 5.0, -1.0]),
    ),
    min_size=1,
    max_size=40,
)


@settings(deadline=None, max_examples=80)
@given(label_rows)
def test_label_metrics_equal_scikit_learns(rows):
    target, prediction = np.array(rows).T
    actual = of_labels(target, prediction, 4)
    metrics = sklearn.metrics
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert actual["accuracy"] == pytest.approx(
            metrics.accuracy_score(target, prediction), abs=1e-12
        )
        assert actual["balanced_accuracy"] == pytest.approx(
            metrics.balanced_accuracy_score(target, prediction), abs=1e-12
        )
        macro = {"average": "macro", "zero_division": 0}
        assert actual["precision"] == pytest.approx(
            metrics.precision_score(target, prediction, **macro), abs=1e-12
        )
        assert actual["recall"] == pytest.approx(
            metrics.recall_score(target, prediction, **macro), abs=1e-12
        )
        assert actual["f1"] == pytest.approx(
            metrics.f1_score(target, prediction, **macro), abs=1e-12
        )
        constant = len(set(target)) == 1 or len(set(prediction)) == 1
        if constant:
            assert actual["mcc"] is None
        else:
            assert actual["mcc"] == pytest.approx(
                metrics.matthews_corrcoef(target, prediction), abs=1e-12
            )
        if len(set(target) | set(prediction)) == 1:
            assert actual["cohen_kappa"] is None
            assert actual["krippendorff_alpha"] is None
        else:
            assert actual["cohen_kappa"] == pytest.approx(
                metrics.cohen_kappa_score(target, prediction), abs=1e-12
            )
            alpha = krippendorff.alpha([target, prediction], level_of_measurement="nominal")
            assert actual["krippendorff_alpha"] == pytest.approx(alpha, abs=1e-12)


@settings(deadline=None, max_examples=80)
@given(label_rows)
def test_binary_metrics_equal_scikit_learns(rows):
    target, prediction = np.array(rows).T
    actual = of_labels(target, prediction, 4, positive=2)
    binary = (target == 2, prediction == 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, formula in (
            ("precision", sklearn.metrics.precision_score),
            ("recall", sklearn.metrics.recall_score),
            ("f1", sklearn.metrics.f1_score),
        ):
            wanted = formula(*binary, zero_division=np.nan)
            assert actual[name] == (None if np.isnan(wanted) else pytest.approx(wanted, abs=1e-12))


@settings(deadline=None, max_examples=80)
@given(number_rows)
def test_number_metrics_equal_scipys_and_scikit_learns(rows):
    target, prediction = np.array(rows).T
    actual = of_pairs(target, prediction)
    assert actual["mae"] == pytest.approx(
        sklearn.metrics.mean_absolute_error(target, prediction), abs=1e-9
    )
    assert actual["rmse"] == pytest.approx(
        sklearn.metrics.root_mean_squared_error(target, prediction), abs=1e-9
    )
    for name, formula in (
        ("pearson", scipy.stats.pearsonr),
        ("spearman", scipy.stats.spearmanr),
        ("kendall", scipy.stats.kendalltau),
    ):
        wanted = oracle(lambda x, y, f=formula: f(x, y).statistic, prediction, target)
        assert actual[name] == (None if wanted is None else pytest.approx(wanted, abs=1e-9)), name
    if len(set(target) | set(prediction)) == 1:
        assert actual["krippendorff_alpha"] is None
    else:
        alpha = krippendorff.alpha([target, prediction], level_of_measurement="interval")
        assert actual["krippendorff_alpha"] == pytest.approx(alpha, abs=1e-9)


@settings(deadline=None, max_examples=80)
@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=1, max_size=40))
def test_weighted_kappa_equals_scikit_learns_over_the_whole_scale(rows):
    target, prediction = np.array(rows).T
    actual = of_pairs(target, prediction)["weighted_kappa"]
    if len(set(target) | set(prediction)) == 1:
        assert actual is None
        return
    wanted = sklearn.metrics.cohen_kappa_score(
        target, prediction, weights="quadratic", labels=range(1, 6)
    )
    assert actual == pytest.approx(wanted, abs=1e-9)


@settings(deadline=None, max_examples=80)
@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 0.1, 0.3, 0.5, 0.7, 0.99, 1.0]), st.booleans()),
        min_size=1,
        max_size=40,
    )
)
def test_probability_metrics_equal_scikit_learns(rows):
    p = np.array([row[0] for row in rows])
    y = np.array([row[1] for row in rows], float)
    actual = values(probability.probability_statistics, (p, y))
    assert actual["brier"] == pytest.approx(((p - y) ** 2).mean(), abs=1e-12)
    assert actual["log_loss"] == pytest.approx(
        sklearn.metrics.log_loss(y, p, labels=[0, 1]), abs=1e-9
    )
    both = 0 < y.sum() < len(y)
    if both:
        assert actual["brier"] == pytest.approx(sklearn.metrics.brier_score_loss(y, p), abs=1e-12)
        assert actual["auroc"] == pytest.approx(sklearn.metrics.roc_auc_score(y, p), abs=1e-12)
    else:
        assert actual["auroc"] is None
    if y.sum():
        assert actual["average_precision"] == pytest.approx(
            sklearn.metrics.average_precision_score(y, p), abs=1e-12
        )
    else:
        assert actual["average_precision"] is None


def test_ece_is_the_weighted_gap_of_ten_bins_of_equal_width():
    # (0, 0.1]: 0.1 and 0.05, one of two positive; (0.2, 0.3]: 0.3, not positive; (0.9, 1]: 0.95 twice, positive
    p = np.array([0.1, 0.05, 0.3, 0.95, 0.95])
    y = np.array([1.0, 0.0, 0.0, 1.0, 1.0])
    by_hand = (2 * abs(0.5 - 0.075) + 1 * abs(0 - 0.3) + 2 * abs(1 - 0.95)) / 5
    assert values(probability.probability_statistics, (p, y))["ece"] == pytest.approx(
        by_hand, abs=1e-12
    )


def test_probabilities_outside_the_unit_interval_have_ranks_but_no_scores():
    statistics = probability.probability_statistics(np.array([-1.0, 2.0]), np.array([0.0, 1.0]))
    ones = np.ones((1, 2))
    assert statistics["auroc"].at(ones)[0] == 1
    assert np.isnan(statistics["brier"].at(ones)[0])
    assert "not between 0 and 1" in statistics["brier"].undefined


def test_ac1_is_gwets_value_by_hand():
    # 10 rows, 8 agree; shares of label 1: (7 + 7) / 20 = 0.7, chance 2 * 0.7 * 0.3 / (2 - 1) = 0.42
    target = [1] * 7 + [0] * 3
    prediction = [1] * 6 + [0] * 3 + [1]
    assert of_labels(target, prediction, 2)["gwet_ac1"] == pytest.approx(
        (0.8 - 0.42) / (1 - 0.42), abs=1e-12
    )


@settings(deadline=None, max_examples=80)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40))
def test_value_metrics_equal_numpys(given_values):
    x = np.array(given_values)
    actual = values(lambda v: numbers.number_values(v, False), (x,))
    assert actual["mean"] == pytest.approx(x.mean(), abs=1e-6)
    assert actual["median"] == pytest.approx(np.median(x), abs=1e-9)
    if len(x) == 1:
        assert actual["variance"] is None
    else:
        assert actual["variance"] == pytest.approx(
            x.var(ddof=1), rel=1e-9, abs=1e-6 * np.abs(x).max() ** 2
        )


@settings(deadline=None, max_examples=80)
@given(st.permutations(range(5)), st.permutations(range(5)))
def test_rankings_are_compared_item_by_item(target, prediction):
    statistics = ranks.rankings([list(target)], [list(prediction)])
    places = [[ranking.index(item) for item in range(5)] for ranking in (target, prediction)]
    ones = np.ones((1, 1))
    assert statistics["spearman"].at(ones)[0] == pytest.approx(
        scipy.stats.spearmanr(*places).statistic
    )
    assert statistics["kendall"].at(ones)[0] == pytest.approx(
        scipy.stats.kendalltau(*places).statistic
    )
    assert statistics["accuracy"].at(ones)[0] == (list(target) == list(prediction))


def test_rankings_of_different_items_say_so():
    found = ranks.rankings([["a", "b"]], [["a", "c"]])
    assert "same items" in found["accuracy"].undefined
    assert np.isnan(found["accuracy"].at(np.ones((1, 1)))).all()


def test_a_missing_ranking_is_wrong_and_has_no_order():
    found = ranks.rankings([["a", "b"], ["a", "b"]], [["a", "b"], None])
    assert found["accuracy"].at(np.ones((1, 2))) == 0.5
    assert "without a prediction" in found["kendall"].undefined


def test_kendall_of_many_distinct_rows_equals_scipys():
    rng = np.random.default_rng(0)
    x = rng.normal(size=ranks.MOST_ATOMS + 1)
    y = x + rng.normal(size=len(x))
    actual = ranks.rank_pairs(x, y)["kendall"].at(np.ones((1, len(x))))[0]
    assert actual == pytest.approx(scipy.stats.kendalltau(x, y).statistic, abs=1e-12)


def shared_cases():
    file = SHARED / "spec" / "value-cases.json"
    if not file.is_file():
        return []
    return [case for case in json.loads(file.read_text())["cases"] if case["topic"] == "metrics"]


@pytest.mark.skipif(not shared_cases(), reason="no shared value cases beside the project")
def test_the_shared_value_cases_come_out():
    names = {
        "kendall_tau_b": "kendall",
        "spearman_rho": "spearman",
        "krippendorff_alpha_interval": "krippendorff_alpha",
    }
    for case in shared_cases():
        truth, prediction = case["given"]["truth"], case["given"]["prediction"]
        actual = of_labels(truth, prediction, 6) | of_pairs(truth, prediction)
        for name, wanted in case["expect"].items():
            value = actual[names.get(name, name)]
            assert value == (None if wanted == "NaN" else pytest.approx(wanted, abs=1e-9)), (
                case["name"],
                name,
            )


def test_metrics_of_rankings_are_scikit_learns_and_scipys():
    import itertools

    from verdict_cli.stats.metrics.ranks import rankings

    items = ["a", "b", "c", "d"]
    for predicted in itertools.permutations(items):
        statistics = rankings([items], [list(predicted)])
        value = {
            name: float(statistic.at(np.ones((1, 1)))[0]) for name, statistic in statistics.items()
        }
        gains, scores = [3, 2, 1, 0], [4 - predicted.index(item) for item in items]
        assert value["ndcg"] == pytest.approx(
            sklearn.metrics.ndcg_score([gains], [scores]), abs=1e-12
        )
        assert value["top1"] == float(predicted[0] == "a")
        tau = scipy.stats.kendalltau(gains, scores).statistic
        assert value["kendall_distance"] == pytest.approx((1 - tau) / 2, abs=1e-12)
