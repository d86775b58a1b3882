"""Coverage of the intervals in a few of the adversarial designs of `benchmarks/interval_coverage.py`, with fixed seeds."""

import importlib.util
import sys

import pytest
from paths import ROOT

FILE = ROOT / "benchmarks" / "interval_coverage.py"
spec = importlib.util.spec_from_file_location("interval_coverage", FILE)
benchmark = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = benchmark
spec.loader.exec_module(benchmark)

DESIGNS = {
    "rare label": {"family": "labels", "n": 100, "rare": 0.1, "labels": 2},
    "accuracy in clusters of one size": {
        "family": "labels",
        "n": 120,
        "clusters": 12,
        "clustering": "equal",
    },
    "accuracy in clusters of Pareto sizes": {
        "family": "labels",
        "n": 150,
        "clusters": 40,
        "clustering": "pareto",
    },
    "half of the rows in one cluster": {
        "family": "labels",
        "n": 150,
        "clusters": 40,
        "clustering": "giant",
    },
    "differences in clusters": {
        "family": "two judges",
        "n": 120,
        "clusters": 12,
        "clustering": "equal",
    },
    "rare positives": {"family": "probabilities", "n": 150, "rare": 0.12},
    "2 percent positives": {"family": "probabilities", "n": 1000, "rare": 0.02},
    "2 percent positives of few rows": {"family": "probabilities", "n": 300, "rare": 0.02},
    "ratings at the ceiling": {"family": "ratings", "n": 60, "ceiling": True},
    "two ratings": {"family": "two ratings", "n": 60},
    "few values with heavy tails": {"family": "values", "n": 20, "shape": "lognormal"},
    "few predictions with heavy tails": {"family": "predictions", "n": 20, "shape": "lognormal"},
    "skewed errors in clusters of Pareto sizes": {
        "family": "predictions",
        "n": 255,
        "clusters": 61,
        "clustering": "pareto",
        "shape": "exponential",
    },
    "only 0 and 1": {"family": "values", "n": 30, "shape": "binary", "rare": 0.03},
}
REST = {
    "index": 7, "clustering": "independent", "clusters": 0, "rare": 0.3, "labels": 3, "hard": True,
    "ceiling": False, "shape": "normal",
}  # fmt: skip
SAMPLES = 60


@pytest.mark.parametrize("name", DESIGNS)
def test_intervals_without_a_warning_hold_the_truth(name):
    cell = {**REST, **DESIGNS[name]}
    cell["correlation"] = 0.4 if cell["clusters"] else 0.0
    for metric, (unwarned, covered, above, below, *_) in benchmark.run_cell(cell, SAMPLES, 3)[
        "metrics"
    ].items():
        # One in a thousand metrics at 93% is below this by chance, and one in a thousand tails at 5% above.
        if unwarned:
            margin = 3.1 * (0.93 * 0.07 / unwarned) ** 0.5
            assert covered / unwarned >= 0.93 - margin, (metric, unwarned, covered)
            assert max(above, below) / unwarned <= 0.05 + 3.1 * (0.05 * 0.95 / unwarned) ** 0.5, (
                metric,
                above,
                below,
            )


@pytest.mark.parametrize(
    "design", [{"n": 100}, {"n": 400}, {"n": 400, "clusters": 80, "clustering": "equal"}]
)
def test_weighted_averages_count_the_labels_shares_as_estimated(design):
    cell = {**REST, "family": "unequal recalls", "labels": 2, "correlation": 0.2, **design}
    for metric, (unwarned, covered, *_) in benchmark.run_cell(cell, 600, 3)["metrics"].items():
        assert covered / unwarned >= 0.93 - 2 * (0.93 * 0.07 / unwarned) ** 0.5, (
            metric,
            unwarned,
            covered,
        )


@pytest.mark.parametrize("n", [100, 200, 600])
def test_calibration_errors_of_few_nearly_sure_levels_hold_the_truth(n):
    cell = {**REST, "family": "nearly sure levels", "n": n, "correlation": 0.0}
    unwarned, covered, above, below, *_ = benchmark.run_cell(cell, 400, 3)["metrics"]["ece"]
    assert covered / unwarned >= 0.93
    assert max(above, below) / unwarned <= 0.05


@pytest.mark.parametrize("n", [20, 60])
@pytest.mark.parametrize("hard", [False, True])
def test_means_near_an_end_of_their_scale_hold_the_truth_on_either_side(n, hard):
    """Student's interval of scores from 1 to 10 lay above the truth in 5 to 13% of samples near the ceiling."""
    cell = {**REST, "family": "near an end", "n": n, "hard": hard, "correlation": 0.0}
    unwarned, covered, above, below, *_ = benchmark.run_cell(cell, 600, 3)["metrics"]["mean"]
    assert covered / unwarned >= 0.93
    assert max(above, below) / unwarned <= 0.05


def test_enough_rows_of_each_label_and_clusters_have_no_warning():
    clusters = {"n": 200, "clusters": 25, "clustering": "equal", "correlation": 0.2}
    designs = [
        (family, clusters) for family in ("labels", "two judges", "probabilities", "two ratings")
    ]
    designs += [
        (family, {"n": 20, "shape": "lognormal", "correlation": 0.0})
        for family in ("values", "predictions")
    ]
    for family, design in designs:
        cell = {**REST, "family": family, **design}
        results = benchmark.run_cell(cell, 20, 4)
        assert results["benign"] == 20
        for metric, (unwarned, *_) in results["metrics"].items():
            assert unwarned >= 17, metric


def test_parts_have_the_cells_of_the_whole():
    whole = [benchmark.draw_cell(20, index) for index in range(30)]
    parts = [benchmark.draw_cell(20, index) for part in range(3) for index in range(part, 30, 3)]
    assert sorted(whole, key=lambda cell: cell["index"]) == sorted(
        parts, key=lambda cell: cell["index"]
    )
    later = [
        benchmark.draw_cell(20, first + index)
        for first in (benchmark.FURTHER, benchmark.NEWEST)
        for index in range(16)
    ]
    assert {cell["family"] for cell in whole + later} == set(benchmark.FAMILIES)
