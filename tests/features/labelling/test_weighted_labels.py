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
    said = np.where(wrong, 1 - true, true)
    doubt = np.where(wrong | (true == 1), rng.beta(3, 2, rows), rng.beta(1, 4, rows))
    if draw == "stratified":
        each = stratified_probabilities(said.astype(int), labels)
    else:
        each = inclusion_probabilities(scaled_sizes(doubt), labels)
    kept = systematic_draw(each, rng)
    known, inclusion = np.full((2, rows), np.nan)
    known[kept], inclusion[kept] = true[kept], each[kept]
    return GoldPairs(said, known, True, inclusion=inclusion), float(true.mean())


def test_estimates_are_those_of_the_weighted_formulas_by_hand() -> None:
    """Weights 2, 2, 4: labels 1, 0, 1 have the mean (2 + 4) / 8; residuals at a slope of 1 are 0, -1, 1."""
    nan = np.nan
    found = GoldPairs(
        np.array([1.0, 1, 0, 1, 0, 0, 1, 0]),
        np.array([1.0, 0, 1, nan, nan, nan, nan, nan]),
        True,
        inclusion=np.array([0.5, 0.5, 0.25, nan, nan, nan, nan, nan]),
        of="rows",
    )
    assert weighted_influence(found, 0.0)[0] == pytest.approx(6 / 8)
    value, influence = weighted_influence(found, 1.0)
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
    estimates, _ = corrected(found, Draw(np.random.default_rng(1)))
    assert estimates["labelled"].value == pytest.approx(6 / 8)
    # Sensitivity 2 / 6, specificity 0 / 2: a judge that says the opposite corrects nothing.
    assert "no better than chance" in estimates["rogan_gladen"].reason


def test_rogan_gladen_weighs_sensitivity_and_specificity() -> None:
    said = np.array([1.0, 1, 0, 0, 0, 1] + [1, 0] * 20)
    known = np.array([1.0, 1, 1, 0, 0, 0] + [np.nan] * 40)
    weights = np.array([4.0, 4, 2, 4, 4, 2])
    found = GoldPairs(said, known, True, inclusion=np.array([*1 / weights, *[np.nan] * 40]))
    one = corrected(found, Draw(np.random.default_rng(1)))[0]["rogan_gladen"]
    sensitivity, specificity = 8 / 10, 8 / 10
    assert one.value == pytest.approx(
        (said.mean() + specificity - 1) / (sensitivity + specificity - 1)
    )


@pytest.mark.parametrize(("draw", "of"), [("stratified", "population"), ("uncertain", "rows")])
def test_intervals_hold_the_truth_about_as_often_as_they_say(draw: str, of: Any) -> None:
    rng = np.random.default_rng(23)
    held, unweighted, alarms, times = 0, 0, 0, 200
    for _ in range(times):
        found, share = queued(rng, draw, 500, 80, 0.3)
        estimates = corrected(replace(found, of=of), Draw(rng))[0]
        truth = share if of == "rows" else 0.3
        one = estimates["ppi"]
        held += one.low <= truth <= one.high
        alarms += bool(one.warnings)
        plain = corrected(GoldPairs(found.judge, found.truth, True, of=of), Draw(rng))[0][
            "labelled"
        ]
        unweighted += plain.low <= truth <= plain.high
    assert 0.91 <= held / times <= 0.99  # 93 to 98%, and what chance adds
    assert unweighted / times < 0.8, "the draw does not matter, so this shows nothing"
    assert alarms <= 6, "the designed draw is no reason for a warning"


@settings(max_examples=30)
@given(
    st.sampled_from(["stratified", "uncertain"]),
    st.sampled_from([0.0, 0.02, 0.98, 1.0]),
    st.integers(0, 1_000),
    st.sampled_from(["population", "rows"]),
)
def test_rare_labels_stay_inside_the_range(draw: str, share: float, seed: int, of: Any) -> None:
    rng = np.random.default_rng(seed)
    found, _ = queued(rng, draw, 200, 20, share)
    for one in corrected(replace(found, of=of), Draw(rng))[0].values():
        if one.value is not None:
            assert 0 <= one.low <= one.value <= one.high <= 1


def test_equal_weights_give_the_estimates_of_equal_draws() -> None:
    rng = np.random.default_rng(5)
    true = (rng.random(2_000) < 0.6).astype(float)
    said = np.where(rng.random(2_000) < 0.85, true, 1 - true)
    kept = np.arange(2_000) < 300
    known = np.where(kept, true, np.nan)
    plain = corrected(GoldPairs(said, known, True), Draw(rng))[0]
    equal = GoldPairs(said, known, True, inclusion=np.where(kept, 0.15, np.nan))
    for name, one in corrected(equal, Draw(rng))[0].items():
        ends = (plain[name].value, plain[name].low, plain[name].high)
        assert (one.value, one.low, one.high) == pytest.approx(ends, abs=4e-3), name


def test_clusters_widen_the_weighted_interval() -> None:
    rng = np.random.default_rng(6)
    cluster = np.repeat(np.arange(40), 10)
    true = np.repeat((rng.random(40) < 0.5).astype(float), 10)
    said = np.where(rng.random(400) < 0.6, true, 1 - true)
    inclusion = np.where(rng.random(400) < 0.5, rng.choice([0.3, 0.6], 400), np.nan)
    known = np.where(np.isnan(inclusion), np.nan, true)
    alone, together = (
        corrected(GoldPairs(said, known, True, of, inclusion=inclusion), Draw(rng))[0]["ppi"]
        for of in (None, cluster)
    )
    assert together.value == alone.value and together.high - together.low > 1.5 * (
        alone.high - alone.low
    )


def test_labels_that_do_not_fit_their_weights_are_told() -> None:
    said = np.repeat([0.0, 1.0], [100, 300])
    inclusion = np.where(np.arange(400) < 60, 0.2, np.nan)
    found = GoldPairs(said, np.where(np.isnan(inclusion), np.nan, 0.0), True, inclusion=inclusion)
    assert (
        "not a sample with these weights"
        in corrected(found, Draw(np.random.default_rng(1)))[0]["ppi"].reason
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
    ("weights", "kind", "said"),
    [
        ([0.5, 1.5, 0.2], "float", "row 1: `source.p` gives 1.5, which is not a row's probability"),
        ([0.5, None, 0.0], "float", "row 2: `source.p` gives 0"),
        (["0.5", None, "0.1"], "str", "gives a text"),
    ],
)
def test_a_weight_that_is_no_probability_is_refused_with_its_row(
    tmp_path: Path, weights: list[Any], kind: str, said: str
) -> None:
    with pytest.raises(DataError) as raised:
        measure({"e": GOLD}, rows_with(tmp_path / "results.parquet", weights, kind))
    problem = raised.value.problem
    assert (
        said in problem.message
        and problem.path == "evaluate.e.gold.weight"
        and "human.inclusion" in problem.hint
    )


def test_a_label_without_a_weight_does_not_count(tmp_path: Path) -> None:
    some = rows_with(tmp_path / "results.parquet", [0.5, None, 0.25, 1, None])
    found = measure({"e": GOLD}, some)["e"]
    assert found.gold is not None and found.gold.labels == 3
    assert found.values["labelled"].value == pytest.approx((2 * 1 + 4 * 0 + 1 * 1) / 7)
    none = rows_with(tmp_path / "none.parquet", [None] * 5)
    assert (
        measure({"e": GOLD}, none)["e"].values["ppi"].reason
        == "fewer than two rows have a label and its weight"
    )
