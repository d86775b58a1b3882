"""Labels of rows that were drawn with unequal probabilities: weighted estimates, their intervals, and wrong weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from verdict_cli.errors import DataError
from verdict_cli.features.labelling.draw import (
    inclusion_probabilities,
    scaled_sizes,
    stratified_probabilities,
    systematic_draw,
)
from verdict_cli.language.evaluations import Evaluation
from verdict_cli.stats.columns.row_data import GoldPairs
from verdict_cli.stats.intervals.intervals import Draw
from verdict_cli.stats.measure import measure
from verdict_cli.stats.prediction_powered import corrected, weighted_influence
from verdict_cli.storage.tables.writer import ParquetTable


def queued(
    rng: np.random.Generator, draw: str, rows: int, labels: int, share: float = 0.6
) -> tuple[GoldPairs, float]:
    """A judge with labels of rows drawn as `verdict queue` draws them, and the rows' true share."""
    true = (rng.random(rows) < share).astype(float)
    wrong = rng.random(rows) < 0.15
    verdicts = np.where(wrong, 1 - true, true)
    doubt = np.where(wrong | (true == 1), rng.beta(3, 2, rows), rng.beta(1, 4, rows))
    if draw == "stratified":
        probabilities = stratified_probabilities(verdicts.astype(int), labels)
    else:
        probabilities = inclusion_probabilities(scaled_sizes(doubt), labels)
    chosen = systematic_draw(probabilities, rng)
    labels_seen, inclusion = np.full((2, rows), np.nan)
    labels_seen[chosen], inclusion[chosen] = true[chosen], probabilities[chosen]
    return GoldPairs(verdicts, labels_seen, True, inclusion=inclusion), float(true.mean())


def test_estimates_are_those_of_the_weighted_formulas_by_hand():
    """Weights 2, 2, 4: labels 1, 0, 1 have the mean (2 + 4) / 8; residuals at a slope of 1 are 0, -1, 1."""
    nan = np.nan
    pairs = GoldPairs(
        np.array([1.0, 1, 0, 1, 0, 0, 1, 0]),
        np.array([1.0, 0, 1, nan, nan, nan, nan, nan]),
        True,
        inclusion=np.array([0.5, 0.5, 0.25, nan, nan, nan, nan, nan]),
        of="rows",
    )
    assert weighted_influence(pairs, 0.0)[0] == pytest.approx(6 / 8)
    value, influence = weighted_influence(pairs, 1.0)
    assert value == pytest.approx(4 / 8 + (0 * 2 - 1 * 2 + 1 * 4) / 8)
    # A residual's distance from 0.25, times its weight over 8, its row's share that is not drawn, and 8²/24 of 2.67 less 2.
    worth = 64 / 24
    by_hand = (
        [2 * -0.25, 2 * -1.25, 4 * 0.75]
        / np.array(8)
        * np.sqrt([0.5, 0.5, 0.75])
        * np.sqrt(worth / (worth - 2))
    )
    assert influence[:3] == pytest.approx(by_hand) and not influence[3:].any()
    estimates, _ = corrected(pairs, Draw(np.random.default_rng(1)))
    assert estimates["labelled"].value == pytest.approx(6 / 8)
    # Sensitivity 2 / 6, specificity 0 / 2: a judge that says the opposite corrects nothing.
    assert "no better than chance" in estimates["rogan_gladen"].reason


def test_rogan_gladen_weighs_sensitivity_and_specificity():
    verdicts = np.array([1.0, 1, 0, 0, 0, 1] + [1, 0] * 20)
    labels_seen = np.array([1.0, 1, 1, 0, 0, 0] + [np.nan] * 40)
    weights = np.array([4.0, 4, 2, 4, 4, 2])
    pairs = GoldPairs(
        verdicts, labels_seen, True, inclusion=np.array([*1 / weights, *[np.nan] * 40])
    )
    estimate = corrected(pairs, Draw(np.random.default_rng(1)))[0]["rogan_gladen"]
    sensitivity, specificity = 8 / 10, 8 / 10
    assert estimate.value == pytest.approx(
        (verdicts.mean() + specificity - 1) / (sensitivity + specificity - 1)
    )


@pytest.mark.parametrize(("draw", "of"), [("stratified", "population"), ("uncertain", "rows")])
def test_intervals_hold_the_truth_about_as_often_as_they_say(draw, of):
    rng = np.random.default_rng(23)
    covered, unweighted, alarms, times = 0, 0, 0, 200
    for _ in range(times):
        pairs, share = queued(rng, draw, 500, 80, 0.3)
        estimates = corrected(replace(pairs, of=of), Draw(rng))[0]
        truth = share if of == "rows" else 0.3
        estimate = estimates["ppi"]
        covered += estimate.low <= truth <= estimate.high
        alarms += bool(estimate.warnings)
        plain = corrected(GoldPairs(pairs.judge, pairs.truth, True, of=of), Draw(rng))[0][
            "labelled"
        ]
        unweighted += plain.low <= truth <= plain.high
    assert 0.91 <= covered / times <= 0.99  # 93 to 98%, and what chance adds
    assert unweighted / times < 0.8, "the draw does not matter, so this shows nothing"
    assert alarms <= 6, "the designed draw is no reason for a warning"


@settings(max_examples=30)
@given(
    st.sampled_from(["stratified", "uncertain"]),
    st.sampled_from([0.0, 0.02, 0.98, 1.0]),
    st.integers(0, 1_000),
    st.sampled_from(["population", "rows"]),
)
def test_rare_labels_stay_inside_the_range(draw, share, seed, of):
    rng = np.random.default_rng(seed)
    pairs, _ = queued(rng, draw, 200, 20, share)
    for estimate in corrected(replace(pairs, of=of), Draw(rng))[0].values():
        if estimate.value is not None:
            assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1


def test_equal_weights_give_the_estimates_of_equal_draws():
    rng = np.random.default_rng(5)
    true = (rng.random(2_000) < 0.6).astype(float)
    verdicts = np.where(rng.random(2_000) < 0.85, true, 1 - true)
    is_chosen = np.arange(2_000) < 300
    labels_seen = np.where(is_chosen, true, np.nan)
    plain = corrected(GoldPairs(verdicts, labels_seen, True), Draw(rng))[0]
    equal = GoldPairs(verdicts, labels_seen, True, inclusion=np.where(is_chosen, 0.15, np.nan))
    for name, estimate in corrected(equal, Draw(rng))[0].items():
        ends = (plain[name].value, plain[name].low, plain[name].high)
        assert (estimate.value, estimate.low, estimate.high) == pytest.approx(ends, abs=4e-3), name


def test_clusters_widen_the_weighted_interval():
    rng = np.random.default_rng(6)
    cluster = np.repeat(np.arange(40), 10)
    true = np.repeat((rng.random(40) < 0.5).astype(float), 10)
    verdicts = np.where(rng.random(400) < 0.6, true, 1 - true)
    inclusion = np.where(rng.random(400) < 0.5, rng.choice([0.3, 0.6], 400), np.nan)
    labels_seen = np.where(np.isnan(inclusion), np.nan, true)
    alone, together = (
        corrected(GoldPairs(verdicts, labels_seen, True, of, inclusion=inclusion), Draw(rng))[0][
            "ppi"
        ]
        for of in (None, cluster)
    )
    assert together.value == alone.value and together.high - together.low > 1.5 * (
        alone.high - alone.low
    )


def test_labels_that_do_not_fit_their_weights_are_reported():
    verdicts = np.repeat([0.0, 1.0], [100, 300])
    inclusion = np.where(np.arange(400) < 60, 0.2, np.nan)
    pairs = GoldPairs(
        verdicts, np.where(np.isnan(inclusion), np.nan, 0.0), True, inclusion=inclusion
    )
    assert (
        "not a sample with these weights"
        in corrected(pairs, Draw(np.random.default_rng(1)))[0]["ppi"].reason
    )


def rows_with(path: Path, weights: list[Any], kind: str = "float") -> Path:
    """Results whose rows all have a label and these weights."""
    with ParquetTable(
        path, {"row": "int", "id": "int", "status": "str", "source.p": kind}
    ) as table:
        for row, weight in enumerate(weights):
            table.write(
                {
                    "row": row,
                    "id": row,
                    "status": "ok",
                    "output.score": row % 2 == 0,
                    "source.human": row % 3 == 0,
                    "source.p": weight,
                }
            )
    return path


GOLD = Evaluation.model_validate(
    {"value": "output.score", "gold": {"target": "source.human", "weight": "source.p"}}
)


@pytest.mark.parametrize(
    ("weights", "kind", "message"),
    [
        ([0.5, 1.5, 0.2], "float", "row 1: `source.p` gives 1.5, which is not a row's probability"),
        ([0.5, None, 0.0], "float", "row 2: `source.p` gives 0"),
        (["0.5", None, "0.1"], "str", "row 0: `source.p` gives '0.5'"),
        ([True, None, True], "bool", "row 0: `source.p` gives true or false"),
        ([0.5, None, True], "json", "row 2: `source.p` gives true or false"),
    ],
)
def test_a_weight_that_is_no_probability_is_refused_with_its_row(tmp_path, weights, kind, message):
    with pytest.raises(DataError) as raised:
        measure({"e": GOLD}, rows_with(tmp_path / "results.parquet", weights, kind))
    problem = raised.value.problem
    assert (
        message in problem.message
        and problem.path == "evaluate.e.gold.weight"
        and "human.inclusion" in problem.hint
    )


def test_a_label_without_a_weight_does_not_count(tmp_path):
    some = rows_with(tmp_path / "results.parquet", [0.5, None, 0.25, 1, None])
    measures = measure({"e": GOLD}, some)["e"]
    assert measures.gold is not None and measures.gold.labels == 3
    assert measures.values["labelled"].value == pytest.approx((2 * 1 + 4 * 0 + 1 * 1) / 7)
    none = rows_with(tmp_path / "none.parquet", [None] * 5)
    assert (
        measure({"e": GOLD}, none)["e"].values["ppi"].reason
        == "fewer than two rows have a label and its weight"
    )
