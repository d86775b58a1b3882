"""Perfect results: they have a bound, and can pass a gate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from estimates import estimates, of_values
from finished_runs import finished_run

from verdict_cli.language.evaluations import Evaluation
from verdict_cli.language.gate_rules import Gate
from verdict_cli.stats.gates import decide_gates
from verdict_cli.stats.measure import measure
from verdict_cli.stats.metrics.numbers import number_pairs, number_values
from verdict_cli.stats.metrics.panel import panel_statistics
from verdict_cli.storage.tables.writer import ParquetTable

FACTS = finished_run(
    rows=1,
    done=1,
)


def decided(
    folder: Path, evaluation: Evaluation, rows: list[dict[str, Any]], gate: Gate, **keys: Any
) -> Any:
    with ParquetTable(folder / "results.parquet", {"row": "int", "status": "str"}) as table:
        for index, row in enumerate(rows):
            table.write({"row": index, "id": index, "status": "ok", **row})
    results, evaluations = folder / "results.parquet", {"e": evaluation}
    return decide_gates(
        [gate], evaluations, measure(evaluations, results), FACTS, results, root=folder, **keys
    )[0]


def test_all_problems_solved_pass_a_gate_by_the_exact_bound(tmp_path):
    rows = [{"output.ok": True, "source.problem": at // 2} for at in range(800)]
    evaluation = Evaluation(value="output.ok", metrics=["pass_at_k"], k=1, cluster="source.problem")
    outcome = decided(
        tmp_path, evaluation, rows, Gate(metric="e.pass_at_k", min=0.99, confidence=0.95)
    )
    assert outcome.verdict == "passed"
    assert outcome.low == pytest.approx(0.025 ** (1 / 400))
    above = decided(
        tmp_path, evaluation, rows, Gate(metric="e.pass_at_k", min=0.992, confidence=0.95)
    )
    assert above.verdict == "inconclusive"


def mean_on_a_scale(values: np.ndarray) -> Any:
    def mean(distinct):
        return {"mean": number_values(distinct, False, (1.0, 5.0))["mean"]}

    return estimates(mean, (values,))["mean"]


def test_ratings_that_are_all_the_best_have_the_bound_of_their_range():
    estimate = mean_on_a_scale(np.full(500, 5.0))
    assert (estimate.value, estimate.high, estimate.warnings) == (5.0, 5.0, ())
    assert estimate.low == pytest.approx(4.947, abs=0.001)
    assert mean_on_a_scale(np.full(20, 5.0)).low < estimate.low


def test_numbers_without_a_range_have_no_bound_when_all_are_the_same():
    assert of_values("mean", np.full(500, 5.0)).low is None


def error_on_a_scale(name: str, x: np.ndarray, y: np.ndarray) -> Any:
    return estimates(lambda *sides: {name: number_pairs(*sides, 4.0)[name]}, (x, y))[name]


@pytest.mark.parametrize("name", ["mae", "rmse"])
def test_errors_on_a_scale_end_where_the_scale_does(name):
    for predictions, target in (
        ([1.0, 5.0], [1.0, 3.0]),
        ([1.0, 2.0, 3.0, 4.0], [2.0, 2.0, 4.0, 5.0]),
    ):
        estimate = error_on_a_scale(name, np.array(predictions), np.array(target))
        assert 0 <= estimate.low <= estimate.value <= estimate.high <= 4


def test_a_judge_without_an_error_has_a_bound_of_its_errors():
    x = np.arange(300.0) % 5 + 1
    estimate = error_on_a_scale("mae", x, x)
    assert (estimate.value, estimate.low) == (0, 0)
    assert 0 < estimate.high < 0.1


def test_panels_of_numbers_warn_of_nearly_uniform_ratings_as_icc_does():
    first = np.full(25, 5.0)
    first[:3] = 4
    second = first.copy()
    second[3:5] = 4

    def agreement(*judges):
        codes = [judge.astype(np.int64) for judge in judges]
        return panel_statistics(codes, list(judges), None, nominal=False)

    of_panel = estimates(agreement, (first, second))
    for name in ("krippendorff_alpha", "pairwise_kappa"):
        assert any(
            "differ from the most frequent value" in text for text in of_panel[name].warnings
        ), of_panel[name]
