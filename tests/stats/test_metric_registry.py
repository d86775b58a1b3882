"""A metric is one record: validation, statistics and reports take everything from it."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from evaluation_data import number_data

from verdict_cli.language.evaluations import Evaluation, missing_keys
from verdict_cli.language.metric_registry import METRICS, Metric, find_metric
from verdict_cli.stats.measure import measure
from verdict_cli.stats.metrics import confusion, numbers, panel, probability, ranks
from verdict_cli.stats.metrics.statistic import Statistic
from verdict_cli.stats.permutation import swap_tests
from verdict_cli.storage.tables.writer import ParquetTable

CODES, VALUES = np.array([0, 1, 1]), np.array([0.2, 0.4, 0.9])
BY_INPUT: dict[str, dict[str, Statistic]] = {
    "labels": confusion.label_statistics(CODES, CODES[::-1], 2, None, False),
    "numbers": numbers.number_pairs(VALUES, VALUES[::-1])
    | ranks.rank_pairs(VALUES, VALUES[::-1])
    | numbers.ordinal_pairs(VALUES, VALUES[::-1]),
    "probability": probability.probability_statistics(VALUES, CODES.astype(float)),
    "value": numbers.number_values(VALUES - 0.5, False),
    "panel": panel.panel_statistics([CODES, CODES[::-1]], [VALUES, VALUES], [VALUES, VALUES], True)
    | panel.rater_statistics(
        [CODES, CODES[::-1]], [CODES * 1.0, CODES[::-1] * 1.0], 1, numeric=True
    ),
}


@pytest.mark.parametrize("of", BY_INPUT)
def test_every_record_has_its_statistic_and_every_statistic_its_record(of):
    records = {name for name in METRICS if of in METRICS[name].inputs}
    with_formula = {name for name in records if METRICS[name].formula is not None}
    assert set(BY_INPUT[of]) == records - with_formula - {"confusion"}


@pytest.mark.parametrize("of", BY_INPUT)
def test_bounds_and_interval_methods_are_those_of_the_record(of):
    for name, statistic in BY_INPUT[of].items():
        assert (statistic.bounds, statistic.interval) == (
            METRICS[name].bounds,
            METRICS[name].interval,
        ), name


def max_error(prediction: np.ndarray, target: np.ndarray, weight: np.ndarray) -> float:
    return float(np.abs(prediction - target)[weight > 0].max())


def test_a_new_metric_is_a_function_and_a_record(tmp_path, monkeypatch):
    record = Metric(
        "max_error",
        "The largest error.",
        ("numbers",),
        f"{__name__}:max_error",
        lower_is_better=True,
    )
    monkeypatch.setitem(METRICS._built_in, "max_error", record)
    results = tmp_path / "results.parquet"
    with ParquetTable(results, {"row": "int", "id": "int", "status": "str"}) as table:
        for row, (score, target) in enumerate([(1, 2), (5, 2), (3, 3)]):
            table.write(
                {"row": row, "status": "ok", "output.score": score, "source.target": target}
            )
    evaluation = Evaluation(prediction="output.score", target="source.target")
    with_metrics = evaluation.model_copy(update={"metrics": ("mae", "max_error")})
    assert missing_keys(with_metrics, "max_error") == [] and missing_keys(
        Evaluation(value="x"), "max_error"
    ) == [
        "prediction",
        "target",
    ]
    assert measure({"e": with_metrics}, results)["e"].values["max_error"].value == 3


def sharp_order(prediction: np.ndarray, target: np.ndarray, weight: np.ndarray) -> float:
    """The share of pairs of rows in the same order, which depends on ranks alone."""
    apart = np.sign(np.subtract.outer(prediction, prediction)) * np.sign(
        np.subtract.outer(target, target)
    )
    return float(
        weight @ (apart > 0) @ weight / (weight @ (np.subtract.outer(target, target) != 0) @ weight)
    )


@pytest.mark.parametrize("unchanged_by", ["ranks", ""])
def test_the_record_of_a_metric_says_how_runs_on_their_own_scales_compare(
    unchanged_by, monkeypatch
):
    """A judge on a scale of 100 that orders rows as one on a scale of 1 does is no better: without ranks, a swap of their answers
    within rows destroys the order, and any difference is lost among differences that large."""
    record = Metric(
        "order", "Order.", ("numbers",), sharp_order, bounds=(0.0, 1.0), unchanged_by=unchanged_by
    )
    monkeypatch.setitem(METRICS._built_in, "order", record)
    target = np.arange(30.0)
    data = [number_data(target, predictions) for predictions in (np.roll(target, 3), 100 * target)]
    where = np.arange(30)
    p, _ = swap_tests(("order",), data, (where, where), np.random.default_rng(0), 199)["order"]
    assert (p < 0.05) == (unchanged_by == "ranks")


def test_a_name_that_nobody_offers_is_no_metric():
    assert find_metric("accurcy") is None and find_metric("ppi") is None


def test_the_registry_is_read_without_numpy():
    code = "import sys, verdict_cli.language.evaluations; print([m for m in ('numpy', 'scipy', 'pyarrow') if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True
    )
    assert done.stdout.strip() == "[]"
