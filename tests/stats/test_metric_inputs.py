"""Figures from rows as a run holds them: labels as numbers, truths and words, one class, all ties, one row, missing ones."""

import itertools
import json
import warnings
from pathlib import Path

import krippendorff
import numpy as np
import pytest
import scipy.stats
import sklearn.metrics

from verdict_cli.language.evaluations import Evaluation
from verdict_cli.language.metric_registry import METRICS
from verdict_cli.stats.columns.collect import Collected
from verdict_cli.stats.columns.column import ColumnBuilder, Factorized
from verdict_cli.stats.columns.row_data import EvaluationData
from verdict_cli.stats.intervals.intervals import Draw
from verdict_cli.stats.measure import metric_values
from verdict_cli.stats.metrics import ranks

DRAWN = 80
"""Inputs of each test."""
SPELLED = {
    "numbers": [0, 1, 2],
    "words": ["bad", "fair", "good"],
    "truths": [False, True],
    "decimals": [0.5, 1.0, 2.5],
}


def figures(metrics, columns, **keys):
    """The figures of columns of values, None where a row has none, as a run's results give them."""
    places = {}
    growing = {name: ColumnBuilder(places) for name in columns}
    for name, values in columns.items():
        growing[name].extend(values, np.arange(len(values)))
    rows = len(next(iter(columns.values())))
    collected = {name: builder.column() for name, builder in growing.items()}
    cluster = None
    if (of := keys.pop("cluster", None)) is not None:
        cluster = Factorized(np.array(of, np.int32), tuple(range(max(of) + 1)))
    names = [name.partition("[")[0] for name in columns]
    expressions = {name: f"source.{name}" for name in names if name != "options"}
    evaluation = Evaluation(**expressions, **keys)
    data = EvaluationData.of(evaluation, Collected(rows, collected, (), cluster, None, (), {}))
    estimates = metric_values(metrics, data, np.arange(rows), Draw(np.random.default_rng(0)))
    return {name: estimate.value for name, estimate in estimates.items()}


def check(actual, wanted, details):
    """Every wanted value is there, as near as the libraries' digits, None where it is undefined."""
    for name, value in wanted.items():
        near = None if value is None else pytest.approx(value, abs=1e-9)
        assert actual[name] == near, (name, details)


def longer_by(lengths):
    """The columns of lengths of two options, the first of which is longer by as much."""
    return {"options[0]": [*lengths], "options[1]": [0] * len(lengths)}


def drawn(seed, values):
    """Targets and predictions of one to thirty rows: in every fourth one class, in every fifth all the same."""
    rng = np.random.default_rng(seed)
    n = 1 if seed % 7 == 0 else int(rng.integers(1, 31))
    classes = values[:1] if seed % 4 == 0 else values
    target = [classes[place] for place in rng.integers(0, len(classes), n)]
    predictions = (
        target if seed % 5 == 0 else [values[place] for place in rng.integers(0, len(values), n)]
    )
    predictions = [
        None if seed % 3 == 0 and is_lost else value
        for is_lost, value in zip(rng.random(n) < 0.2, predictions, strict=True)
    ]
    return target, predictions


def present(target, predictions):
    """The rows with a prediction, as places among the labels."""
    both = [(a, b) for a, b in zip(target, predictions, strict=True) if b is not None]
    labels = sorted({value for pair in both for value in pair})
    return tuple(
        np.array([labels.index(value) for value in side]) for side in zip(*both, strict=True)
    ) or ((), ())


def gwet(target, predictions, labels):
    """Gwet (2008), row by row; `labels` is how many the evaluation has."""
    if labels < 2:
        return None
    shares = [
        np.mean(
            [int(a == label) + int(b == label) for a, b in zip(target, predictions, strict=True)]
        )
        / 2
        for label in range(3)
    ]
    chance = sum(share * (1 - share) for share in shares) / (labels - 1)
    return (np.mean(target == predictions) - chance) / (1 - chance)


@pytest.mark.parametrize("spelled", SPELLED)
def test_drawn_inputs_have_scikit_learns_metrics_however_labels_are_spelled(spelled):
    values = SPELLED[spelled]
    metrics = sklearn.metrics
    for seed in range(DRAWN):
        target, predictions = drawn(seed, values)
        names = [
            "accuracy",
            "balanced_accuracy",
            "cohen_kappa",
            "mcc",
            "gwet_ac1",
            "f1",
            "precision",
            "recall",
            "krippendorff_alpha",
            "confusion",
        ]
        values_of = figures(
            names, {"target": target, "prediction": predictions}, kind="classification"
        )
        a, b = present(target, predictions)
        if not len(a):
            assert set(values_of.values()) == {None}
            continue
        macro = {"average": "macro", "zero_division": 0}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wanted = {
                "accuracy": metrics.accuracy_score(a, b),
                "balanced_accuracy": metrics.balanced_accuracy_score(a, b),
                "cohen_kappa": metrics.cohen_kappa_score(a, b) if len({*a, *b}) > 1 else None,
                "mcc": metrics.matthews_corrcoef(a, b) if len({*a}) > 1 and len({*b}) > 1 else None,
                "gwet_ac1": gwet(
                    a, b, len({value for value in (*target, *predictions) if value is not None})
                ),
                "f1": metrics.f1_score(a, b, **macro),
                "precision": metrics.precision_score(a, b, **macro),
                "recall": metrics.recall_score(a, b, **macro),
                "krippendorff_alpha": alpha(a, b, "nominal"),
            }
            confusion = metrics.confusion_matrix(a, b).tolist()
        assert [row[:-1] for row in values_of["confusion"]["counts"]] == confusion or (
            values_of["confusion"]["counts"] == confusion
        ), (seed, target, predictions)
        check(values_of, wanted, (seed, target, predictions))


@pytest.mark.parametrize("spelled", ["words", "truths", "numbers"])
def test_drawn_inputs_have_scikit_learns_metrics_of_a_positive_label(spelled):
    positive = SPELLED[spelled][-1]
    for seed in range(DRAWN):
        target, predictions = drawn(seed, SPELLED[spelled])
        columns = {"target": target, "prediction": predictions}
        actual = figures(["precision", "recall", "f1"], columns, positive=positive)
        both = [
            (a == positive, b == positive)
            for a, b in zip(target, predictions, strict=True)
            if b is not None
        ]
        hits, targets, said_so = (
            sum(map(of, both)) for of in (all, lambda pair: pair[0], lambda pair: pair[1])
        )
        wanted = {
            "precision": hits / said_so if said_so else None,
            "recall": hits / targets if targets else None,
            "f1": 2 * hits / (targets + said_so) if targets + said_so else None,
        }
        check(actual, wanted, (seed, target, predictions))


def alpha(first, second, level):
    """Krippendorff's alpha of two observers, None where there is one value only."""
    if len({*first, *second}) < 2:
        return None
    return krippendorff.alpha(np.array([first, second], float), level_of_measurement=level)


def weighted(first, second):
    """Cohen's kappa with squared distances, counted pair by pair."""
    chance = np.mean((np.array(first)[:, None] - np.array(second)[None, :]) ** 2)
    return 1 - np.mean((np.array(first) - np.array(second)) ** 2) / chance if chance else None


def test_drawn_inputs_have_scipys_correlations_and_errors():
    for seed in range(DRAWN):
        target, predictions = drawn(seed, [1, 2, 5])
        names = [
            "pearson",
            "spearman",
            "kendall",
            "mae",
            "rmse",
            "weighted_kappa",
            "krippendorff_alpha",
        ]
        actual = figures(names, {"target": target, "prediction": predictions}, kind="ordinal")
        both = [(a, b) for a, b in zip(target, predictions, strict=True) if b is not None]
        if not both:
            assert set(actual.values()) == {None}
            continue
        a, b = np.array(both, float).T
        varies = len(set(a)) > 1 and len(set(b)) > 1
        wanted = {
            "mae": np.abs(a - b).mean(),
            "rmse": np.sqrt(((a - b) ** 2).mean()),
            "weighted_kappa": weighted(a, b),
            "krippendorff_alpha": alpha(a, b, "interval"),
        }
        for name, formula in (
            ("pearson", scipy.stats.pearsonr),
            ("spearman", scipy.stats.spearmanr),
            ("kendall", scipy.stats.kendalltau),
        ):
            wanted[name] = formula(b, a).statistic if varies else None
        check(actual, wanted, (seed, target, predictions))


def test_drawn_inputs_have_the_calibration_error_of_ten_bins_counted_by_hand():
    for seed in range(DRAWN):
        rng = np.random.default_rng(seed)
        n = 1 if seed % 7 == 0 else int(rng.integers(1, 31))
        p = [
            float(number) for number in (rng.random(n) if seed % 2 else rng.integers(0, 11, n) / 10)
        ]
        y = [bool(number) for number in (np.ones(n) if seed % 5 == 0 else rng.random(n) < 0.5)]
        probabilities = [
            None if seed % 3 == 0 and probability < 0.2 else probability for probability in p
        ]
        actual = figures(["ece"], {"target": y, "probability": probabilities})["ece"]
        complete = [
            (probability, true)
            for probability, true in zip(probabilities, y, strict=True)
            if probability is not None
        ]
        gaps = []
        for place in range(10):
            low, high = place / 10, (place + 1) / 10
            in_bin = [
                pair for pair in complete if low < pair[0] <= high or (place == 0 and pair[0] == 0)
            ]
            if in_bin:
                gaps.append(
                    abs(
                        sum(true for _, true in in_bin)
                        - sum(probability for probability, _ in in_bin)
                    )
                )
        assert actual == (
            pytest.approx(sum(gaps) / len(complete), abs=1e-9) if complete else None
        ), seed


def test_drawn_rankings_have_scipys_and_scikit_learns_metrics():
    for seed in range(DRAWN):
        rng = np.random.default_rng(seed)
        n, k = (1 if seed % 7 == 0 else int(rng.integers(1, 9))), int(rng.integers(2, 6))
        items = [f"item {place}" for place in range(k)] if seed % 2 else list(range(k))
        target = [[items[index] for index in rng.permutation(k)] for _ in range(n)]
        predictions = (
            target
            if seed % 5 == 0
            else [[items[index] for index in rng.permutation(k)] for _ in range(n)]
        )
        names = ["accuracy", "top1", "spearman", "kendall", "kendall_distance", "ndcg"]
        actual = figures(names, {"target": target, "prediction": predictions})
        rows = []
        for true, predicted in zip(target, predictions, strict=True):
            ranks = [true.index(item) for item in items], [predicted.index(item) for item in items]
            gains = [[k - 1 - place for place in side] for side in ranks]
            tau = scipy.stats.kendalltau(*ranks).statistic
            rho = scipy.stats.spearmanr(*ranks).statistic
            dcg = sklearn.metrics.ndcg_score([gains[0]], [gains[1]])
            rows.append((true == predicted, true[0] == predicted[0], rho, tau, (1 - tau) / 2, dcg))
        assert list(actual.values()) == pytest.approx(
            np.mean(np.array(rows, float), axis=0).tolist(), abs=1e-9
        ), seed


def test_drawn_inputs_have_the_mean_of_scipys_correlations_within_clusters():
    formulas = {
        "pearson_within": scipy.stats.pearsonr,
        "spearman_within": scipy.stats.spearmanr,
        "kendall_within": scipy.stats.kendalltau,
    }
    for seed in range(DRAWN):
        target, predictions = drawn(seed, [1, 2, 5])
        of = np.random.default_rng(seed).integers(0, 5, len(target))
        columns = {"target": target, "prediction": predictions}
        actual = figures(list(formulas), columns, kind="ordinal", cluster=of.tolist())
        for name, formula in formulas.items():
            coefficients = []
            for cluster in range(5):
                both = [
                    (a, b)
                    for a, b, at in zip(target, predictions, of, strict=True)
                    if at == cluster and b is not None
                ]
                sides = list(zip(*both, strict=True))
                if both and all(len(set(side)) > 1 for side in sides):
                    coefficients.append(formula(*sides).statistic)
            near = pytest.approx(np.mean(coefficients), abs=1e-9) if coefficients else None
            assert actual[name] == near, (seed, name, target, predictions)


def test_drawn_inputs_have_scikit_learns_metrics_of_a_probability():
    for seed in range(DRAWN):
        rng = np.random.default_rng(seed)
        n = 1 if seed % 7 == 0 else int(rng.integers(1, 31))
        p = (np.full(n, 0.5) if seed % 4 == 0 else rng.integers(0, 11, n) / 10).tolist()
        y = [bool(number) for number in (np.ones(n) if seed % 5 == 0 else rng.random(n) < 0.5)]
        probabilities = [
            None if seed % 3 == 0 and is_lost else probability
            for probability, is_lost in zip(p, rng.random(n) < 0.2, strict=True)
        ]
        actual = figures(
            ["auroc", "average_precision", "brier", "log_loss"],
            {"target": y, "probability": probabilities},
        )
        complete = [
            (true, probability)
            for probability, true in zip(probabilities, y, strict=True)
            if probability is not None
        ]
        if not complete:
            assert set(actual.values()) == {None}
            continue
        a, b = (np.array(side, float) for side in zip(*complete, strict=True))
        metrics = sklearn.metrics
        wanted = {
            "auroc": metrics.roc_auc_score(a, b) if 0 < a.sum() < len(a) else None,
            "average_precision": metrics.average_precision_score(a, b) if a.any() else None,
            "brier": np.mean((a - b) ** 2),
            "log_loss": metrics.log_loss(a, b, labels=[0, 1]),
        }
        check(actual, wanted, (seed, probabilities, y))


@pytest.mark.parametrize("kind", ["numbers", "truths"])
def test_drawn_inputs_have_numpys_metrics_of_a_value(kind):
    for seed in range(DRAWN):
        values, _ = drawn(seed, SPELLED["truths"] if kind == "truths" else [0.1, 2, -3.5, 2])
        is_lost = np.random.default_rng(seed).random(len(values)) < (0.3 if seed % 3 == 0 else 0)
        incomplete = [
            None if is_lost_here else value
            for value, is_lost_here in zip(values, is_lost, strict=True)
        ]
        actual = figures(["mean", "median", "variance"], {"value": incomplete})
        complete = np.array([value for value in incomplete if value is not None], float)
        wanted = {
            "mean": complete.mean() if len(complete) else None,
            "median": np.median(complete) if len(complete) else None,
            "variance": complete.var(ddof=1) if len(complete) > 1 else None,
        }
        check(actual, wanted, (seed, incomplete))


def test_drawn_inputs_have_the_preferences_that_are_counted_by_hand():
    for seed in range(DRAWN):
        choices, _ = drawn(seed, ["A", "B", "tie"])
        rng = np.random.default_rng(seed)
        consistent = [bool(number) for number in rng.random(len(choices)) < 0.7]
        longer = rng.integers(-1, 2, len(choices)).tolist()
        choices = [
            None if is_lost else choice
            for choice, is_lost in zip(choices, rng.random(len(choices)) < 0.2, strict=True)
        ]
        columns = {"prediction": choices, "consistent": consistent, **longer_by(longer)}
        names = ["consistency", "first_position_rate", "longer_preference"]
        actual = figures(names, columns, kind="pairwise", options=("source.a", "source.b"))
        chosen = [
            (choice, side)
            for choice, side in zip(choices, longer, strict=True)
            if choice in ("A", "B")
        ]
        longest = [(choice == "A") == (side > 0) for choice, side in chosen if side]
        wanted = {
            "consistency": np.mean(consistent),
            "first_position_rate": np.mean([choice == "A" for choice, _ in chosen])
            if chosen
            else None,
            "longer_preference": np.mean(longest) if longest else None,
        }
        check(actual, wanted, (seed, choices, longer))


@pytest.mark.parametrize("spelled", ["truths", "words"])
def test_drawn_panels_have_krippendorffs_scikit_learns_and_numpys_metrics(spelled):
    for seed in range(DRAWN):
        first, second = drawn(seed, SPELLED[spelled])
        target, _ = drawn(seed + 1000, SPELLED[spelled])
        target = (target * len(first))[: len(first)]
        columns = {"panel[0]": first, "panel[1]": second, "target": target}
        names = ["krippendorff_alpha", "pairwise_kappa", "error_correlation", "effective_judges"]
        actual = figures(names, columns, kind="classification")
        both = [row for row in zip(first, second, target, strict=True) if row[1] is not None]
        wanted = dict.fromkeys(names)
        if both:
            labels = sorted({value for row in both for value in row[:2]})
            a, b = ([labels.index(row[side]) for row in both] for side in (0, 1))
            wrong = np.array([[row[side] != row[2] for row in both] for side in (0, 1)], float)
            wanted["krippendorff_alpha"] = alpha(a, b, "nominal")
            wanted["pairwise_kappa"] = (
                sklearn.metrics.cohen_kappa_score(a, b) if len(labels) > 1 else None
            )
            if wrong.std(axis=1).all():
                wanted["error_correlation"] = np.corrcoef(wrong)[0, 1]
                worth = 1 + wanted["error_correlation"]
                wanted["effective_judges"] = 2 / worth if worth > 1e-9 else None
        check(actual, wanted, (seed, first, second, target))


def test_averages_over_the_labels_are_scikit_learns():
    metrics = sklearn.metrics
    for seed in range(60):
        target, predictions = drawn(seed, SPELLED["words"])
        a, b = present(target, predictions)
        if not len(a):
            continue
        for average in ("macro", "micro", "weighted"):
            names = ["precision", "recall", "f1", "f_beta"]
            actual = figures(
                names,
                {"target": target, "prediction": predictions},
                kind="classification",
                average=average,
                beta=2,
            )
            keys = {"average": average, "zero_division": 0}
            wanted = {
                "precision": metrics.precision_score(a, b, **keys),
                "recall": metrics.recall_score(a, b, **keys),
                "f1": metrics.f1_score(a, b, **keys),
                "f_beta": metrics.fbeta_score(a, b, beta=2, **keys),
            }
            assert actual == pytest.approx(wanted, abs=1e-9), (seed, average)
        a, b = a == a[0], b == a[0]
        positive = {"positive": target[[value is not None for value in predictions].index(True)]}
        actual = figures(
            ["specificity", "f_beta"],
            {"target": target, "prediction": predictions},
            beta=0.5,
            **positive,
        )
        wanted = None if a.all() else metrics.recall_score(~a, ~b, zero_division=0)
        assert actual["specificity"] == (None if wanted is None else pytest.approx(wanted)), seed
        assert actual["f_beta"] == pytest.approx(
            metrics.fbeta_score(a, b, beta=0.5, zero_division=0)
        ), seed


def test_ordinal_agreement_is_krippendorffs_and_scikit_learns():
    for seed in range(60):
        rng = np.random.default_rng(seed)
        first = rng.integers(1, 6, 25)
        second = np.clip(first + rng.integers(-1, 2, 25), 1, 5)
        third = [
            None if is_lost else int(value)
            for is_lost, value in zip(rng.random(25) < 0.3, second[::-1], strict=True)
        ]
        columns = {"target": first.tolist(), "prediction": second.tolist()}
        actual = figures(["ordinal_alpha", "linear_weighted_kappa"], columns)
        assert actual["ordinal_alpha"] == pytest.approx(krippendorff_of(first, second))
        assert actual["linear_weighted_kappa"] == pytest.approx(
            sklearn.metrics.cohen_kappa_score(
                first, second, weights="linear", labels=[1, 2, 3, 4, 5]
            )
        )
        panel = {"panel[0]": first.tolist(), "panel[1]": second.tolist(), "panel[2]": third}
        ratings = [np.nan if value is None else value for value in third]
        assert figures(["ordinal_alpha"], panel)["ordinal_alpha"] == pytest.approx(
            krippendorff_of(first, second, ratings)
        )


def krippendorff_of(*judges):
    return krippendorff.alpha(np.array(judges, float), level_of_measurement="ordinal")


def test_fleiss_kappa_is_the_papers_and_icc_is_that_of_shrout_and_fleiss():
    # Fleiss (1971), as in Wikipedia's worked example: 10 subjects, 14 raters, 5 categories, kappa 0.210.
    counts = """0 0 0 0 14/0 2 6 4 2/0 0 3 5 6/0 3 9 2 0/2 2 8 1 1/7 7 0 0 0/3 2 6 3 0/2 5 3 2 2/6 5 2 1 0/0 2 2 3 7"""
    rows = [
        [label for label, n in enumerate(map(int, row.split())) for _ in range(n)]
        for row in counts.split("/")
    ]
    panel = {f"panel[{judge}]": [row[judge] for row in rows] for judge in range(14)}
    assert figures(["fleiss_kappa"], panel)["fleiss_kappa"] == pytest.approx(0.20993, abs=1e-5)
    # Shrout and Fleiss (1979), tables 2 and 4: 6 targets, 4 judges.
    ratings = [
        [9, 2, 5, 8],
        [6, 1, 3, 2],
        [8, 4, 6, 8],
        [7, 1, 2, 6],
        [10, 5, 6, 9],
        [6, 2, 4, 7],
        [3, 3, 3, None],
    ]
    actual = figures(
        ["icc", "icc_k"], {f"panel[{judge}]": [row[judge] for row in ratings] for judge in range(4)}
    )
    assert (round(actual["icc"], 2), round(actual["icc_k"], 2)) == (0.29, 0.62)


def test_pass_at_k_is_the_share_of_subsets_with_a_right_sample():
    samples = {
        0: [True, False, False, True],
        1: [False, False, False],
        2: [True, True, True],
        3: [False],
    }
    wanted = np.mean([any(pair) for pair in itertools.combinations(samples[0], 2)]), 0.0, 1.0
    values = [value for problem in samples.values() for value in problem]
    cluster = [problem for problem, of in samples.items() for _ in of]
    actual = figures(["pass_at_k"], {"value": values}, cluster=cluster, k=2)
    assert actual["pass_at_k"] == pytest.approx(np.mean(wanted))
    columns = {
        f"panel[{index}]": [
            *(samples[of][index] if index < len(samples[of]) else None for of in samples)
        ]
        for index in range(4)
    }
    assert figures(["pass_at_k"], columns, k=2)["pass_at_k"] == pytest.approx(np.mean(wanted))
    assert figures(["pass_at_k"], {"value": [0.5, 1.0]}, cluster=[0, 0], k=2)["pass_at_k"] is None


def test_the_length_controlled_win_rate_is_the_intercept_of_a_logistic_regression():
    from sklearn.linear_model import LogisticRegression

    for seed in range(20):
        rng = np.random.default_rng(seed)
        longer = rng.integers(-300, 400, 120).astype(float)
        size = np.tanh(longer / longer.std())
        wins = rng.random(120) < 1 / (1 + np.exp(-0.3 - 1.5 * size))
        choice = ["A" if won else "B" for won in wins]
        actual = figures(
            ["length_controlled_win_rate"],
            {"prediction": choice, **longer_by(longer.tolist())},
            options=("a", "b"),
        )
        fit = LogisticRegression(C=np.inf, tol=1e-8, max_iter=1000).fit(size[:, None], wins)
        wanted = 1 / (1 + np.exp(-fit.intercept_[0]))
        assert actual["length_controlled_win_rate"] == pytest.approx(wanted, abs=1e-4), seed
    alone = figures(
        ["length_controlled_win_rate"],
        {"prediction": ["A"] * 9, **longer_by(range(9))},
        options=("a", "b"),
    )
    assert alone["length_controlled_win_rate"] is None


def test_every_metric_has_an_oracle_above():
    text = Path(__file__).read_text(encoding="utf-8")
    text += (Path(__file__).parents[1] / "features" / "rank" / "test_arena.py").read_text(
        encoding="utf-8"
    )  # values of each system
    assert [name for name in METRICS if f'"{name}"' not in text] == []


def test_f_beta_of_a_label_that_is_never_right_is_zero_without_an_interval() -> None:
    rows = {"target": ["a", "b", "c", "b"], "prediction": ["b", "a", "a", "c"]}
    assert figures(["f_beta"], rows, beta=0.5, positive="a") == {"f_beta": 0.0}


def test_the_shared_value_cases_come_out(shared):
    """Words have no correlations, and numbers no kappa of labels: the cases are measured as both."""
    cases = json.loads((shared / "spec" / "value-cases.json").read_text(encoding="utf-8"))["cases"]
    numeric = {
        "kendall_tau_b": "kendall",
        "spearman_rho": "spearman",
        "krippendorff_alpha_interval": "krippendorff_alpha",
    }
    for case in [case for case in cases if case["topic"] == "metrics"]:
        columns = {"target": case["given"]["truth"], "prediction": case["given"]["prediction"]}
        labels = figures(["accuracy", "cohen_kappa"], columns, kind="classification")
        numbers = figures(list(numeric.values()), columns, kind="ordinal")
        wanted = {
            numeric.get(name, name): None if value == "NaN" else value
            for name, value in case["expect"].items()
        }
        check(labels | numbers, wanted, case["name"])


def test_probabilities_outside_the_unit_interval_have_ranks_but_no_scores():
    columns = {"target": [False, True], "probability": [-1.0, 2.0]}
    assert figures(["auroc", "brier"], columns) == {"auroc": 1.0, "brier": None}


def test_rankings_of_different_items_say_so():
    accuracy = ranks.rankings([["a", "b"]], [["a", "c"]])["accuracy"]
    assert "same items" in accuracy.undefined
    assert np.isnan(accuracy.at(np.ones((1, 1)))).all()


def test_a_missing_ranking_is_wrong_and_has_no_order():
    statistics = ranks.rankings([["a", "b"], ["a", "b"]], [["a", "b"], None])
    assert statistics["accuracy"].at(np.ones((1, 2))) == 0.5
    assert "without a prediction" in statistics["kendall"].undefined


def test_kendall_of_many_distinct_rows_equals_scipys():
    rng = np.random.default_rng(0)
    x = rng.normal(size=ranks.MOST_ATOMS + 1)
    y = x + rng.normal(size=len(x))
    actual = figures(["kendall"], {"target": x.tolist(), "prediction": y.tolist()})["kendall"]
    assert actual == pytest.approx(scipy.stats.kendalltau(x, y).statistic, abs=1e-12)
