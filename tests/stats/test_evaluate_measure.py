"""From a results table to figures: what is counted, what is left out, and what is said about it."""

import itertools
import json
import math

import numpy as np
import pytest
import sklearn.metrics
from hypothesis import given, settings
from hypothesis import strategies as st

from verdict_cli.errors import DataError
from verdict_cli.language.evaluations import Evaluation
from verdict_cli.stats.intervals.interval_methods import MetricValue
from verdict_cli.stats.measure import measure
from verdict_cli.storage.tables.writer import ParquetTable

LABELS = {"prediction": "output.label", "target": "source.label"}


@pytest.fixture(scope="session")
def table(tmp_path_factory):
    """Writes rows of (target, prediction, further columns); a prediction of FAILED is a failed row."""

    def write(rows, **further):
        path = tmp_path_factory.mktemp("run") / "results.parquet"
        with ParquetTable(path, {"row": "int", "status": "str"}) as out:
            for index, (target, prediction, *extra) in enumerate(rows):
                failed = prediction is FAILED
                row = {
                    "row": index,
                    "id": index,
                    "status": "failed" if failed else "ok",
                    "calls": 1,
                    "cost_usd": 0.0,
                }
                row["source.label"] = target
                row |= extra[0] if extra else {}
                if failed:
                    row |= {
                        "failure.kind": "timeout",
                        "failure.message": "slow",
                        "failure.node": "judge",
                    }
                else:
                    row["output.label"] = prediction
                    row["judge[0].label"] = prediction
                out.write(row)
        return path

    return write


FAILED = object()


def test_a_confusion_matrix_counts_targets_by_row_and_predictions_by_column(table):
    rows = [("a", "a"), ("a", "b"), ("b", "b"), ("b", "b"), (None, "a")]
    measures = measure({"e": Evaluation(**LABELS)}, table(rows))["e"]
    assert measures.values["confusion"].value == {"labels": ["a", "b"], "counts": [[1, 1], [0, 2]]}
    assert measures.values["accuracy"].value == 0.75
    assert (measures.rows, measures.unlabelled, measures.missing, measures.coverage) == (5, 1, 0, 1)
    assert measures.kind == "classification"


def test_failed_rows_are_left_out_and_the_bounds_say_what_they_could_change(table):
    rows = [("a", "a")] * 6 + [("a", "b")] * 2 + [("b", FAILED)] * 2
    measures = measure({"e": Evaluation(**LABELS)}, table(rows))["e"]
    assert measures.values["accuracy"].value == 0.75
    assert measures.values["accuracy"].n == 8
    assert measures.coverage == 0.8
    assert measures.bounds["accuracy"] == (0.6, 0.8)
    assert measures.bounds["balanced_accuracy"] == (0.375, 0.875)


def test_missing_wrong_counts_failed_rows_as_wrong(table):
    rows = [("a", "a")] * 3 + [("b", "b")] * 3 + [("a", FAILED)] * 2
    evaluation = Evaluation(**LABELS, missing="wrong", positive="a")
    figures = measure({"e": evaluation}, table(rows))["e"].values
    assert figures["accuracy"].value == 0.75
    assert figures["accuracy"].n == 8
    assert figures["recall"].value == 0.6
    assert figures["precision"].value == 1
    assert figures["confusion"].value["labels"] == ["a", "b", None]


def test_missing_wrong_leaves_metrics_without_a_wrong_value_undefined(table):
    rows = [(1, 1), (2, 3), (4, 4), (2, FAILED)]
    figures = measure({"e": Evaluation(**LABELS, missing="wrong")}, table(rows))["e"].values
    assert figures["mae"].value is None
    assert "no meaning" in figures["mae"].reason
    assert figures["accuracy"].value == 0.5


def test_a_row_whose_prediction_cannot_be_computed_is_missing_with_its_message(table):
    rows = [("a", "a"), ("b", "b"), ("a", None)]
    evaluation = Evaluation(
        prediction="output.label | upper | lower if output.label else output.nothing",
        target="source.label",
    )
    measures = measure({"e": evaluation}, table(rows))["e"]
    assert measures.missing == 1
    assert measures.coverage == pytest.approx(2 / 3)
    assert "row 2" in measures.warnings[0]
    assert measures.unreadable == {"prediction": 1}


def test_a_row_whose_target_cannot_be_computed_is_an_error_that_names_it(table):
    evaluation = Evaluation(prediction="output.label", target="source.lable")
    with pytest.raises(DataError, match=r"row 0.*lable"):
        measure({"e": evaluation}, table([("a", "a")]))


def test_an_output_that_no_row_has_reads_as_missing(table):
    evaluation = Evaluation(prediction="output.label", target="source.label")
    measures = measure({"e": evaluation}, table([("a", FAILED), ("b", FAILED)]))["e"]
    assert measures.coverage == 0
    assert measures.values["accuracy"] == MetricValue(None, None, None, 0, "no rows")


def test_text_against_numbers_is_an_error_instead_of_an_accuracy_of_zero(table):
    with pytest.raises(
        DataError, match="predictions are text such as '1' and targets are numbers such as 1"
    ):
        measure({"e": Evaluation(**LABELS)}, table([(1, "1"), (0, "0")]))


def test_booleans_equal_zero_and_one(table):
    measures = measure({"e": Evaluation(**LABELS)}, table([(1, True), (0, False), (1, False)]))["e"]
    assert measures.values["accuracy"].value == pytest.approx(2 / 3)
    assert measures.kind == "classification"


@pytest.mark.parametrize(
    ("rows", "further", "kind"),
    [
        ([("a", "b")], {}, "classification"),
        ([("A", "B"), ("tie", "A")], {}, "pairwise"),
        ([(True, False)], {}, "classification"),
        ([(1, 2)], {}, "ordinal"),
        ([(1, 0)], {"positive": 1}, "classification"),
        ([(1, 2.5)], {}, "numeric"),
        ([(["a", "b"], ["b", "a"])], {}, "ranking"),
        ([("1", "2")], {"kind": "ordinal"}, "ordinal"),
    ],
)
def test_the_kind_is_inferred_from_the_types(table, rows, further, kind):
    assert measure({"e": Evaluation(**LABELS, **further)}, table(rows))["e"].kind == kind


def test_alpha_is_nominal_for_classes_and_interval_for_numbers(table):
    rows = [(1, 1), (2, 2), (3, 2), (4, 4), (5, 5), (3, 5)]
    path = table(rows)
    alpha = {**LABELS, "metrics": ["krippendorff_alpha"]}
    ordinal = measure({"e": Evaluation(**alpha)}, path)["e"].values["krippendorff_alpha"].value
    nominal = measure({"e": Evaluation(**alpha, kind="classification")}, path)["e"].values
    assert ordinal == pytest.approx(0.8160535117056856, abs=1e-9)
    assert nominal["krippendorff_alpha"].value != ordinal


def test_groups_have_the_same_values_as_their_rows_alone(table):
    rows = [
        ("a", "a", {"source.g": 1}),
        ("b", "a", {"source.g": 1}),
        ("b", "b", {"source.g": None}),
    ]
    evaluation = Evaluation(**LABELS, by=["source.g"], metrics=["accuracy"])
    groups = measure({"e": evaluation}, table(rows))["e"].groups["source.g"]
    assert {key: figures["accuracy"].value for key, figures in groups.items()} == {
        "1": 0.5,
        "null": 1.0,
    }


def test_a_word_and_a_number_that_read_alike_are_two_groups(table):
    rows = [("a", "a", {"source.g": 1}), ("b", "a", {"source.g": "1"})]
    evaluation = Evaluation(**LABELS, by=["source.g"], metrics=["accuracy"])
    groups = measure({"e": evaluation}, table(rows))["e"].groups["source.g"]
    assert {key: figures["accuracy"].value for key, figures in groups.items()} == {"1": 1, '"1"': 0}


def test_only_the_most_frequent_groups_are_listed_with_a_warning(table):
    rows = [("a", "a", {"source.g": index}) for index in range(51)] + [("a", "b", {"source.g": 50})]
    evaluation = Evaluation(**LABELS, by=["source.g"], metrics=["accuracy"])
    measures = measure({"e": evaluation}, table(rows))["e"]
    assert len(measures.groups["source.g"]) == 50
    assert next(iter(measures.groups["source.g"])) == "50"
    assert "51 values" in measures.warnings[0]


def test_where_selects_rows_and_must_be_true_or_false(table):
    path = table([("a", "a"), ("b", "a")])
    measures = measure({"e": Evaluation(**LABELS, where="source.label == 'a'")}, path)["e"]
    assert (measures.rows, measures.values["accuracy"].value) == (1, 1)
    with pytest.raises(DataError, match="not true or false"):
        measure({"e": Evaluation(**LABELS, where="source.label")}, path)


def test_where_on_an_output_leaves_failed_rows_out_and_says_so(table):
    measures = measure(
        {"e": Evaluation(**LABELS, where="output.label == 'a'")}, table([("a", "a"), ("b", FAILED)])
    )
    assert measures["e"].rows == 1
    assert "1 row without an output is left out" in measures["e"].warnings[0]


def test_groups_of_rows_are_reduced_before_anything_is_measured(table):
    rows = [
        (True, 0.2, {"source.claim": "x"}),
        (True, 0.9, {"source.claim": "x"}),
        (False, 0.1, {"source.claim": "y"}),
        (None, 0.3, {"source.claim": "y"}),
        (True, 0.9, {"source.claim": "z"}),
        (True, FAILED, {"source.claim": "z"}),
    ]
    evaluation = Evaluation(
        prediction="output.label >= 0.5",
        target="source.label",
        group="source.claim",
        reduce={"prediction": "any", "target": "first"},
    )
    measures = measure({"e": evaluation}, table(rows))["e"]
    assert (measures.rows, measures.missing, measures.values["accuracy"].value) == (3, 1, 1)


@pytest.mark.parametrize(
    ("how", "wanted"),
    [("max", 5), ("min", 1), ("mean", 8 / 3), ("median", 2), ("mode", 5), ("first", 5)],
)
def test_each_reduction(table, how, wanted):
    values = [5, 1, 2] if how != "mode" else [5, 1, 1, 5]
    rows = [(value, value, {"source.g": "x"}) for value in values]
    evaluation = Evaluation(value="output.label", group="source.g", reduce={"value": how})
    assert measure({"e": evaluation}, table(rows))["e"].values["mean"].value == pytest.approx(
        wanted
    )


@pytest.mark.parametrize("how", ["max", "min", "mean", "median", "mode", "first", "any", "all"])
def test_each_reduction_of_rows_that_all_failed_has_no_value(table, how):
    rows = [(1, FAILED, {"source.g": "x"}), (1, FAILED, {"source.g": "y"})]
    evaluation = Evaluation(value="output.label", group="source.g", reduce={"value": how})
    measures = measure({"e": evaluation}, table(rows))["e"]
    assert (measures.rows, measures.missing, measures.values["mean"].value) == (2, 2, None)


def test_the_maximum_of_words_is_an_error_that_names_the_reduction(table):
    evaluation = Evaluation(
        **LABELS, group="source.label", reduce={"prediction": "max", "target": "first"}
    )
    with pytest.raises(
        DataError, match=r"evaluate\.e\.reduce\.prediction: `max` needs numbers; found str"
    ):
        measure({"e": evaluation}, table([("a", "a")]))


def test_nodes_are_reached_by_name(table):
    evaluation = Evaluation(prediction="nodes['judge[0]'].label", target="source.label")
    assert measure({"e": evaluation}, table([("a", "a")]))["e"].values["accuracy"].value == 1


def test_a_value_alone_has_a_mean_and_a_boolean_one_its_exact_interval(table):
    path = table([(None, index < 7) for index in range(10)])
    estimates = measure({"e": Evaluation(value="output.label")}, path)["e"].values
    assert list(estimates) == ["mean"]
    assert estimates["mean"].value == 0.7
    assert estimates["mean"].low == pytest.approx(0.3475, abs=1e-4)
    assert estimates["mean"].high == pytest.approx(0.9333, abs=1e-4)


def test_words_as_a_value_say_what_to_write(table):
    estimate = measure(
        {"e": Evaluation(value="output.label", metrics=["mean"])}, table([(None, "A")])
    )["e"].values["mean"]
    assert estimate.value is None
    assert "write an expression" in estimate.reason


def test_a_positive_label_that_never_occurs_is_warned_of(table):
    measures = measure(
        {"e": Evaluation(**LABELS, positive="unsfae")},
        table([("unsafe", "safe"), ("safe", "safe")]),
    )["e"]
    assert measures.values["recall"].value is None
    assert "`positive: unsfae` is never a target" in measures.warnings[0]


def test_probabilities_are_measured_against_the_positive_label(table):
    rng = np.random.default_rng(3)
    truth = rng.random(60) < 0.4
    p = np.clip(truth * 0.3 + rng.random(60) * 0.7, 0, 1)
    rows = [
        ("unsafe" if t else "safe", "safe", {"output.p": float(q)})
        for t, q in zip(truth, p, strict=True)
    ]
    evaluation = Evaluation(probability="output.p", target="source.label", positive="unsafe")
    figures = measure({"e": evaluation}, table(rows))["e"].values
    assert list(figures) == ["auroc", "average_precision", "brier", "log_loss", "ece"]
    assert figures["auroc"].value == pytest.approx(sklearn.metrics.roc_auc_score(truth, p))
    assert all(estimate.low <= estimate.value <= estimate.high for estimate in figures.values())


def test_the_same_seed_gives_the_same_intervals(table):
    rows = [(index % 3 == 0, True, {"output.p": (index * 7) % 30 / 30}) for index in range(30)]
    path, evaluation = table(rows), Evaluation(probability="output.p", target="source.label")
    first, again = (measure({"e": evaluation}, path, seed=7) for _ in range(2))
    assert first == again
    assert measure({"e": evaluation}, path, seed=8)["e"].values["ece"] != first["e"].values["ece"]


def test_a_probability_needs_positive_unless_its_target_is_boolean(table):
    evaluation = Evaluation(probability="output.p", target="source.label", metrics=["auroc"])
    rows = [(index > 3, "x", {"output.p": index / 8}) for index in range(8)]
    assert measure({"e": evaluation}, table(rows))["e"].values["auroc"].value == 1
    with pytest.raises(DataError, match="`probability` needs `positive`") as error:
        measure({"e": evaluation}, table([("safe", "x", {"output.p": 0.5})]))
    assert "positive: safe" in error.value.problem.hint


def test_clusters_widen_the_interval_of_rows_that_repeat_each_other(table):
    rows = [
        ("a", "a" if index // 10 % 2 else "b", {"source.doc": index // 10}) for index in range(300)
    ]
    path = table(rows)
    alone = measure({"e": Evaluation(**LABELS, metrics=["accuracy"])}, path)["e"].values["accuracy"]
    together = measure(
        {"e": Evaluation(**LABELS, metrics=["accuracy"], cluster="source.doc")}, path
    )["e"].values
    assert together["accuracy"].value == alone.value
    width = together["accuracy"].high - together["accuracy"].low
    assert width > 2 * (alone.high - alone.low)


def test_a_row_without_a_cluster_is_a_cluster_and_the_report_counts_them(table):
    def rows(clusters):
        return [
            ("a", "ab"[row % 5 == 0], {"source.c": cluster}) for row, cluster in enumerate(clusters)
        ]

    evaluation = Evaluation(**LABELS, cluster="source.c", metrics=["accuracy"])
    some = measure(
        {"e": evaluation}, table(rows([row // 2 if row < 30 else None for row in range(50)]))
    )["e"]
    with_ids = measure(
        {"e": evaluation}, table(rows([row // 2 if row < 30 else row for row in range(50)]))
    )["e"]
    assert some.values["accuracy"] == with_ids.values["accuracy"]
    assert some.values["accuracy"].clusters == 35
    warning = (
        "20 rows have no cluster, because `source.c` is null: each counts as a cluster of its own"
    )
    assert (some.warnings, with_ids.warnings) == ((warning,), ())


def test_an_infinite_prediction_is_no_prediction(table):
    measures = measure({"e": Evaluation(**LABELS)}, table([(1.0, math.inf), (2.0, 2.0)]))["e"]
    assert measures.missing == 1
    assert "not a finite number" in measures.warnings[0]


scalars = st.one_of(
    st.none(), st.booleans(), st.integers(0, 3), st.sampled_from(["a", "b", ""]), st.just(0.5)
)


@settings(deadline=None, max_examples=40)
@given(
    rows=st.lists(st.tuples(scalars, st.one_of(scalars, st.just(FAILED))), min_size=1, max_size=12),
    wrong=st.booleans(),
)
def test_any_mix_of_values_gives_metrics_or_one_clear_error(table, rows, wrong):
    evaluation = Evaluation(**LABELS, missing="wrong" if wrong else "exclude")
    try:
        measures = measure({"e": evaluation}, table(rows))["e"]
    except DataError:
        return
    for name, estimate in measures.values.items():
        assert (estimate.value is None) == bool(estimate.reason) or estimate.value is not None, name
        if estimate.low is not None:
            assert estimate.low - 1e-9 <= estimate.high
        json.dumps(estimate.value, allow_nan=False)


@pytest.mark.parametrize("rows", [[], [(None, "a")], [("a", FAILED)]])
def test_a_run_without_a_row_to_measure_has_metrics_without_values(table, rows):
    evaluations = {
        "pair": Evaluation(**LABELS, by=["source.label"], cluster="source.label"),
        "value": Evaluation(value="output.label", metrics=["mean"]),
        "p": Evaluation(probability="output.p", target="source.label", positive="a"),
    }
    measures = measure(evaluations, table(rows))
    assert all(estimate.value is None for estimate in measures["pair"].values.values())
    assert measures["pair"].coverage == (0 if rows and rows[0][0] else None)
    assert measures["p"].values["auroc"].reason


def test_more_labels_than_classes_can_have_leave_an_accuracy_only(table):
    rows = [(f"answer {index}", f"answer {index if index % 4 else 0}") for index in range(400)]
    figures = measure({"e": Evaluation(**LABELS)}, table(rows))["e"].values
    assert figures["accuracy"].value == pytest.approx(301 / 400)
    assert figures["cohen_kappa"].value is None
    assert "400 distinct labels" in figures["cohen_kappa"].reason
    assert figures["confusion"].value is None


def test_bounds_are_the_extremes_over_all_values_of_the_missing_rows(table):
    rows = [
        (True, True),
        (True, False),
        (False, True),
        (False, False),
        (True, True),
        (True, FAILED),
        (False, FAILED),
    ]
    metrics = ["accuracy", "balanced_accuracy", "precision", "recall", "f1"]
    evaluation = Evaluation(**LABELS, positive=True, metrics=metrics)
    bounds = measure({"e": evaluation}, table(rows))["e"].bounds
    whole = []
    for guesses in itertools.product([True, False], repeat=2):
        full = [*rows[:5], (True, guesses[0]), (False, guesses[1])]
        whole.append(measure({"e": evaluation}, table(full))["e"].values)
    for name in metrics:
        extremes = [figures[name].value for figures in whole]
        assert bounds[name] == pytest.approx((min(extremes), max(extremes))), name


def test_bounds_of_a_probability_are_those_of_its_ends(table):
    rows = [(True, 0.9), (False, 0.4), (True, 0.3), (False, 0.2), (True, FAILED), (False, FAILED)]
    metrics = ["auroc", "average_precision", "brier"]
    evaluation = Evaluation(probability="output.label", target="source.label", metrics=metrics)
    bounds = measure({"e": evaluation}, table(rows))["e"].bounds
    y, p = [1, 0, 1, 0, 1, 0], [0.9, 0.4, 0.3, 0.2]
    for name, formula in (
        ("auroc", sklearn.metrics.roc_auc_score),
        ("average_precision", sklearn.metrics.average_precision_score),
        ("brier", sklearn.metrics.brier_score_loss),
    ):
        extremes = sorted(formula(y, [*p, *ends]) for ends in ([0.0, 1.0], [1.0, 0.0]))
        assert bounds[name] == pytest.approx(tuple(extremes)), name


def test_labels_that_differ_only_in_type_case_or_unicode_form_are_reported(table):
    """They counted as wrong without a word."""
    evaluation = Evaluation(**LABELS, metrics=["accuracy"])
    rows = [(1, "1"), ("a", "a"), (2, 2), ("yes", "Yes"), ("caf\u00e9", "cafe\u0301"), ("b", "b")]
    measures = measure({"e": evaluation}, table(rows))["e"]
    assert measures.values["accuracy"].value == 0.5
    (warning,) = measures.warnings
    assert warning.startswith(
        "3 rows count as wrong although prediction and target differ only in type, case"
    )
    assert not measure({"e": evaluation}, table([("a", "b"), ("a", "a")]))["e"].warnings


@pytest.mark.parametrize(
    ("keys", "metrics"),
    [
        ({}, "accuracy balanced_accuracy f1 cohen_kappa confusion"),
        ({"average": "micro"}, "accuracy balanced_accuracy cohen_kappa confusion"),
        ({"positive": "a"}, "accuracy precision recall f1 cohen_kappa confusion"),
    ],
)
def test_the_default_metrics_of_words_are_few_and_none_repeats_another(table, keys, metrics):
    rows = [("ab"[index % 2], "ab"[index % 3 > 0]) for index in range(12)]
    measures = measure({"e": Evaluation(**LABELS, **keys)}, table(rows))["e"]
    assert set(measures.values) == set(metrics.split())
    assert measures.averages == ({"f1": "macro"} if not keys else {})


@pytest.mark.parametrize(
    ("kind", "metrics"),
    [
        ("ordinal", "accuracy weighted_kappa spearman mae confusion"),
        ("numeric", "pearson spearman mae"),
    ],
)
def test_the_default_metrics_of_numbers_are_few(table, kind, metrics):
    measures = measure(
        {"e": Evaluation(**LABELS, kind=kind)}, table([(1, 1), (2, 3), (4, 4), (5, 3)])
    )["e"]
    assert set(measures.values) == set(metrics.split())
