"""The corrected difference of two runs: by hand, how often its interval holds the truth, and in `compare` and gates."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from finished_runs import finished_run

from verdict_cli.features.labelling.draw import (
    inclusion_probabilities,
    scaled_sizes,
    systematic_draw,
)
from verdict_cli.language.evaluations import Evaluation
from verdict_cli.language.gate_rules import Gate, gate_problems
from verdict_cli.report.report_context import evaluate_run
from verdict_cli.stats.columns.row_data import GoldPairs
from verdict_cli.stats.compare import compare_runs
from verdict_cli.stats.gates import GateOutcome, decide_gates
from verdict_cli.stats.intervals.intervals import Draw
from verdict_cli.stats.measure import measure
from verdict_cli.stats.prediction_powered import corrected, corrected_difference
from verdict_cli.storage.tables.writer import ParquetTable

GOLD = Evaluation.model_validate({"value": "output.good", "gold": {"target": "human.label"}})


def two_systems(
    rng: np.random.Generator, weighted: bool, rows: int = 500, labels: int = 100
) -> list[GoldPairs]:
    """Answers of which 60 and 70% are good to people; the judge calls 10 and 30% of all good without a reason."""
    hard, pairs = rng.random(rows), []
    for share, favour in ((0.6, 0.1), (0.7, 0.3)):
        good = (np.where(rng.random(rows) < 0.3, rng.random(rows), hard) < share).astype(float)
        verdicts = np.where(rng.random(rows) < favour, 1.0, good)
        labels_seen, inclusion = np.full((2, rows), np.nan)
        chosen = rng.choice(rows, labels, replace=False)
        if weighted:
            probabilities = inclusion_probabilities(
                scaled_sizes(np.abs(verdicts - good) + rng.random(rows)), labels
            )
            chosen = systematic_draw(probabilities, rng)
            inclusion[chosen] = probabilities[chosen]
        labels_seen[chosen] = good[chosen]
        pairs.append(
            GoldPairs(verdicts, labels_seen, True, inclusion=inclusion if weighted else None)
        )
    return pairs


@pytest.mark.parametrize("weighted", [False, True])
def test_the_interval_holds_the_true_difference_about_as_often_as_it_says(weighted):
    rng, every = np.random.default_rng(31), np.arange(500)
    covered = judged = 0
    for _ in range(300):
        first, second = two_systems(rng, weighted)
        difference = corrected_difference((first, second), (every, every), 0.95)[2]
        covered += difference.low <= 0.1 <= difference.high
        raw = second.judge - first.judge
        judged += abs(raw.mean() - 0.1) <= 1.96 * raw.std() / np.sqrt(500)
    assert 0.92 <= covered / 300 <= 0.99  # 93 to 98%, and what chance adds
    assert judged / 300 < 0.7, "the judge favours neither system, so this shows nothing"


def test_labels_and_slopes_of_1_give_the_judges_difference_plus_the_rectifier():
    """Judges and people agree up to a shift on the weighted scale: the slopes are 1, and the rectifier is by hand."""
    scores = np.tile(np.arange(5.0), 8)
    inclusion = np.where(np.arange(40) < 10, np.where(np.arange(40) < 5, 0.5, 0.25), np.nan)
    labels_seen = np.where(np.isnan(inclusion), np.nan, scores)
    first = GoldPairs(scores, labels_seen, False, inclusion=inclusion)
    second = GoldPairs(
        scores + 1, labels_seen + np.where(np.arange(40) < 5, 0.5, 0.8), False, inclusion=inclusion
    )
    every = np.arange(40)
    difference = corrected_difference((first, second), (every, every), 0.95)
    weights = np.repeat([2.0, 4.0], 5)
    rectifier = weights @ (np.repeat([0.5, 0.8], 5) - 1) / weights.sum()
    assert difference[2].value == pytest.approx((scores + 1 - scores).mean() + rectifier)


def test_both_sides_are_each_runs_own_estimate_without_rows_that_one_lacks():
    rng = np.random.default_rng(4)
    for weighted in (False, True):
        first, second = two_systems(rng, weighted)
        every = np.arange(500)
        difference = corrected_difference((first, second), (every, every), 0.95)
        for side, pairs in zip(difference[:2], (first, second), strict=True):
            assert side == pytest.approx(corrected(pairs, Draw(rng))[0]["ppi"].value)
        second.judge[:50] = np.nan
        assert corrected_difference((first, second), (every, every), 0.95)[2].n == 450


def test_clusters_that_the_systems_share_widen_the_difference():
    rng, every = np.random.default_rng(9), np.arange(400)
    cluster = np.repeat(np.arange(40), 10)
    sides = []
    for share in (0.4, 0.7):
        good = np.repeat((rng.random(40) < share).astype(float), 10)
        sides.append(np.where(rng.random(400) < 0.6, good, 1 - good))
        sides.append(np.where(every % 2 == 0, good, np.nan))
    ends = []
    for of in (None, cluster):
        pairs = GoldPairs(sides[0], sides[1], True, of), GoldPairs(sides[2], sides[3], True, of)
        difference = corrected_difference(pairs, (every, every), 0.95)[2]
        ends.append(difference.high - difference.low)
    assert ends[1] > 1.5 * ends[0]


def run(folder: Path, share: float, favour: float, labels: int = 200, rows: int = 600) -> Path:
    """A run's directory: a judge that favours some answers, and labels of some rows in `labels.jsonl`."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(8)
    hard, chance, order = rng.random(rows), rng.random(rows), rng.random(rows)
    with ParquetTable(
        folder / "results.parquet", {"row": "int", "id": "str", "status": "str"}
    ) as table:
        for row in range(rows):
            good = bool(hard[row] < share)
            values = {"output.good": good or bool(chance[row] < favour), "source.id": f"q{row}"}
            values |= {"source.kind": "ab"[row % 2]}
            table.write({"row": row, "id": f"q{row}", "status": "ok", **values})
    chosen = np.argsort(order)[:labels]
    lines = [
        json.dumps({"id": f"q{row}", "label": bool(hard[row] < share), "by": "ann"})
        for row in chosen
    ]
    (folder / "labels.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return folder / "results.parquet"


def test_compare_shows_the_corrected_difference_of_all_rows_and_of_each_slice(
    tmp_path,
):
    """The judge sees no loss, since it favours the second system; people do."""
    runs = run(tmp_path / "a", 0.7, 0.0), run(tmp_path / "b", 0.5, 0.4)
    compared = compare_runs({"e": (GOLD, GOLD)}, runs, by=["source.kind"]).evaluations["e"]
    difference_ppi, judged = compared.whole.differences["ppi"], compared.whole.differences["mean"]
    assert abs(judged.change.value) < 0.05 and -0.3 < difference_ppi.change.value < -0.12
    assert (
        difference_ppi.change.high < 0
        and difference_ppi.p < 0.001
        and difference_ppi.p_adjusted >= difference_ppi.p
    )
    assert difference_ppi.first == pytest.approx(
        measure({"e": GOLD}, runs[0])["e"].values["ppi"].value
    )
    for kind in "ab":
        part = compared.slices["source.kind"][kind].differences["ppi"]
        assert part.change.n == 300 and part.change.low < -0.2 < part.change.high + 0.05
    none = run(tmp_path / "c", 0.5, 0.4, labels=0)
    bare = compare_runs({"e": (GOLD, GOLD)}, (runs[0], none)).evaluations["e"]
    assert "of the second run have a label" in bare.whole.differences["ppi"].change.reason
    plain = GOLD.model_copy(update={"gold": None})
    bare = compare_runs({"e": (plain, GOLD)}, runs).evaluations["e"]
    assert bare.whole.differences["ppi"].change.reason == "the first run's evaluation has no `gold`"


def test_several_runs_have_corrected_differences_that_hold_together(tmp_path):
    runs = [
        run(tmp_path / name, *shares)
        for name, shares in (("a", (0.7, 0.0)), ("b", (0.5, 0.4)), ("c", (0.6, 0.2)))
    ]
    alone = (
        compare_runs({"e": (GOLD, GOLD)}, (runs[0], runs[1]))
        .evaluations["e"]
        .whole.differences["ppi"]
    )
    compared = compare_runs({"e": [GOLD] * 3}, runs, by=["source.kind"]).evaluations["e"]
    ppi = compared.whole.metrics["ppi"]
    first = ppi.differences[0]
    assert (first.first, first.second, first.change.value) == (
        alone.first,
        alone.second,
        alone.change.value,
    )
    assert ppi.values == pytest.approx(
        [first.first, *(difference.second for difference in ppi.differences)]
    )
    assert first.change.low < alone.change.low < alone.change.high < first.change.high < 0
    assert first.p == alone.p and first.p_adjusted > first.p
    assert compared.slices["source.kind"]["a"].metrics["ppi"].differences[0].change.n == 300
    twice = (
        compare_runs({"e": [GOLD] * 3}, runs, sizes=[1, 2]).evaluations["e"].whole.metrics["ppi"]
    )
    mean = twice.differences[0]
    assert mean.change.value == pytest.approx(
        np.mean([difference.change.value for difference in ppi.differences])
    )
    assert (
        twice.spread.between > 0 and mean.change.se > first.change.se
    )  # the runs differ by more than their rows
    none = run(tmp_path / "d", 0.5, 0.4, labels=0)
    bare = compare_runs({"e": [GOLD] * 3}, [*runs[:2], none]).evaluations["e"].whole.metrics["ppi"]
    assert bare.values == () and "second run have a label" in bare.differences[1].change.reason


def test_an_evaluation_without_a_target_has_no_warning_for_lack_of_one(tmp_path):
    share = Evaluation.model_validate(
        {"prediction": "output.good", "positive": True, "gold": {"target": "human.label"}}
    )
    assert not evaluate_run({"e": share}, run(tmp_path / "a", 0.7, 0.1)).measures["e"].warnings


def test_a_gate_holds_the_corrected_metric_to_its_baseline(tmp_path):
    run(tmp_path / "main", 0.7, 0.0)
    worse, same = run(tmp_path / "b", 0.5, 0.4), run(tmp_path / "c", 0.7, 0.05)
    gate = Gate(metric="e.ppi", baseline="main", max_drop=0.1)
    assert not gate_problems(gate, {"e": GOLD})
    facts = finished_run(
        rows=1,
        done=1,
    )

    def decided(results: Path) -> GateOutcome:
        return decide_gates(
            [gate], {"e": GOLD}, measure({"e": GOLD}, results), facts, results, root=tmp_path
        )[0]

    assert (
        decided(worse).verdict == "failed" and "worse than the baseline's" in decided(worse).reason
    )
    assert decided(same).held.startswith("lower end -0.")
    other = Gate(metric="e.labelled", baseline="main", max_drop=0.1)
    assert "name `e.ppi`" in gate_problems(other, {"e": GOLD})[0][2]
