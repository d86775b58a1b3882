"""Metrics of the entries of a unit under `each`: one observation for each entry."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from finished_runs import finished_run

from verdict_cli.errors import DataError
from verdict_cli.language.evaluations import Evaluation, Gold, Reduce, evaluation_problems
from verdict_cli.language.gate_rules import Gate
from verdict_cli.report.run_notes import coverage_notes
from verdict_cli.stats.compare import compare_runs
from verdict_cli.stats.gates import decide_gates
from verdict_cli.stats.measure import measure
from verdict_cli.stats.row_scores import scored_rows
from verdict_cli.storage.tables.column_types import DeclaredType
from verdict_cli.storage.tables.writer import ParquetTable

CLAIMS: list[list[tuple[bool | None, bool, str]]] = [
    [(True, True, "a"), (False, True, "b")],
    [(True, True, "a"), (True, False, "a"), (False, False, "b")],
    [],
    [(True, True, "b")],
]
"""For each row its claims: what the judge says, the label, a category."""


def table(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    declared = {"check.score": DeclaredType({"type": "array", "items": {"type": "boolean"}})}
    with ParquetTable(
        path, {"row": "int", "id": "int", "status": "str"}, declared=declared
    ) as file:
        for index, row in enumerate(rows):
            file.write(
                {
                    "row": index,
                    "id": 100 + index,
                    "status": "ok",
                    "source.paper": f"p{index % 2}",
                    **row,
                }
            )
    return path


def of_claims(claims: Sequence[Any], **others: Any) -> dict[str, Any]:
    return {
        "check.item": [{"claim": {"label": label, "kind": kind}} for _, label, kind in claims],
        "check.score": [verdict for verdict, _, _ in claims],
        "output.score": 0.5,
        **others,
    }


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return table(tmp_path / "results.parquet", [of_claims(claims) for claims in CLAIMS])


ACCURACY = Evaluation(
    items="check",
    prediction="output.score",
    target="claim.label",
    metrics=("accuracy", "f1"),
    by=("claim.kind",),
)


def test_each_entry_is_an_observation(results):
    measures = measure({"claims": ACCURACY}, results)["claims"]
    pairs = [(verdict, label) for claims in CLAIMS for verdict, label, _ in claims]
    assert (measures.rows, measures.missing, measures.coverage, measures.kind) == (
        6,
        0,
        1.0,
        "classification",
    )
    assert measures.values["accuracy"].value == pytest.approx(
        np.mean([verdict == label for verdict, label in pairs])
    )
    assert measures.values["accuracy"].n == 6
    kinds = measures.groups["claim.kind"]
    assert {
        kind: (values["accuracy"].value, values["accuracy"].n) for kind, values in kinds.items()
    } == {
        "a": (pytest.approx(2 / 3), 3),
        "b": (pytest.approx(2 / 3), 3),
    }


def test_an_entry_sees_its_index_its_row_and_the_units_of_its_row(results):
    def mean(text: str, **keys: Any) -> float:
        evaluation = Evaluation(items="check", value=text, metrics=("mean",), **keys)
        return float(measure({"e": evaluation}, results)["e"].values["mean"].value)

    assert mean("index") == pytest.approx((0 + 1 + 0 + 1 + 2 + 0) / 6)
    assert mean("source.paper == 'p1'") == pytest.approx(4 / 6)
    assert mean("nodes.check.score | length") == pytest.approx((2 + 2 + 3 + 3 + 3 + 1) / 6)
    assert mean("index", where="claim.kind == 'b'") == pytest.approx((1 + 2 + 0) / 3)


def test_intervals_resample_rows_unless_a_cluster_is_named(tmp_path):
    rng = np.random.default_rng(0)
    rows = []
    for _ in range(60):
        truth = bool(rng.random() < 0.5)
        rows.append(of_claims([(truth, True, "a")] * 10))
    results = table(tmp_path / "results.parquet", rows)
    whole = measure({"e": ACCURACY}, results)["e"].values["accuracy"]
    per_row = Evaluation(value="nodes.check.score[0]", metrics=("mean",))
    alone = measure({"e": per_row}, results)["e"].values["mean"]
    by_entry = measure(
        {"e": ACCURACY.model_copy(update={"cluster": "[source.paper, index]"})}, results
    )["e"]
    width = lambda value: value.high - value.low  # noqa: E731
    assert width(whole) == pytest.approx(width(alone), rel=0.15)
    assert width(by_entry.values["accuracy"]) != pytest.approx(width(whole), rel=0.15)


def test_metrics_and_intervals_are_those_of_a_table_with_a_row_for_each_entry(
    tmp_path,
):
    rng = np.random.default_rng(1)
    rows, entries = [], []
    for paper in range(25):
        claims = [
            (
                bool(rng.random() < 0.3 + paper / 50),
                bool(rng.random() < 0.5),
                "ab"[int(rng.integers(2))],
            )
            for _ in range(int(rng.integers(1, 30)))
        ]
        rows.append(of_claims(claims, **{"source.paper": f"paper {paper}"}))
        for verdict, label, kind in claims:
            sources = {"source.paper": f"paper {paper}", "source.label": label, "source.kind": kind}
            entries.append({**sources, "output.score": verdict})
    (tmp_path / "long").mkdir()
    of_rows = Evaluation(
        prediction="output.score",
        target="source.label",
        by=("source.kind",),
        cluster="source.paper",
        metrics=("accuracy", "f1"),
        positive=True,
    )
    of_entries = of_rows.model_copy(
        update={"items": "check", "target": "claim.label", "by": ("claim.kind",)}
    )
    short = measure({"e": of_entries}, table(tmp_path / "results.parquet", rows))["e"]
    long = measure({"e": of_rows}, table(tmp_path / "long" / "results.parquet", entries))["e"]
    assert short.values == long.values
    assert short.values["accuracy"].clusters == 25
    assert short.groups["claim.kind"] == long.groups["source.kind"]
    by_default = of_entries.model_copy(update={"cluster": None})
    assert measure({"e": by_default}, tmp_path / "results.parquet")["e"].values == short.values


def test_entries_without_an_output_are_missing_and_skipped_ones_are_not_there(
    tmp_path,
):
    skipped = of_claims([(None, True, "a"), (True, True, "a"), (None, True, "b")])
    skipped["check.item"][0] = None
    results = table(tmp_path / "results.parquet", [skipped, of_claims([(False, False, "b")])])
    measures = measure({"e": ACCURACY}, results)["e"]
    assert (measures.rows, measures.missing, measures.coverage) == (3, 1, pytest.approx(2 / 3))
    assert measures.values["accuracy"].value == 1.0
    assert measures.bounds["accuracy"] == (pytest.approx(2 / 3), 1.0)
    assert coverage_notes(measures)[0] == "coverage 0.667: 1 of 3 entries have no prediction"


def test_a_failed_row_lowers_the_coverage(tmp_path):
    failed = {"status": "failed", "check.item": None, "check.score": None}
    inside = of_claims([(True, True, "a"), (None, True, "a")], status="failed")
    rows = [of_claims([(True, True, "a")] * 2), failed, inside, {**failed, "status": "ok"}]
    measures = measure({"e": ACCURACY}, table(tmp_path / "results.parquet", rows))["e"]
    assert (measures.rows, measures.missing, measures.coverage) == (5, 3, pytest.approx(2 / 5))
    assert any(
        "1 failed row counts as one missing entry" in warning for warning in measures.warnings
    )


def test_entries_of_lists_within_lists_are_observations(tmp_path):
    row = {
        "check.item": [
            [{"part": {"n": 1}, "leaf": {"n": 10}}, {"part": {"n": 1}, "leaf": {"n": 20}}],
            None,
            [],
        ],
        "check.score": [[True, False], None, []],
    }
    results = table(tmp_path / "results.parquet", [row])
    total = Evaluation(
        items="check", value="part.n + leaf.n + index + output.score", metrics=("mean",)
    )
    assert measure({"e": total}, results)["e"].values["mean"].value == pytest.approx(
        (11 + 0 + 1 + 21 + 1 + 0) / 2
    )


def test_a_wrong_path_names_the_row_and_the_entry(results):
    wrong = ACCURACY.model_copy(update={"target": "claim.lable"})
    with pytest.raises(DataError, match=r"row 0, entry 0: .*'lable'"):
        measure({"e": wrong}, results)


def test_entries_can_be_grouped_and_compared(tmp_path, results):
    grouped = ACCURACY.model_copy(
        update={"group": "source.paper", "reduce": Reduce(prediction="all", target="all"), "by": ()}
    )
    assert measure({"e": grouped}, results)["e"].rows == 2
    better = [[(label, label, kind) for _, label, kind in claims] for claims in CLAIMS]
    (tmp_path / "b").mkdir()
    other = table(tmp_path / "b" / "results.parquet", [of_claims(claims) for claims in better])
    change = compare_runs({"e": (ACCURACY, ACCURACY)}, (results, other)).evaluations["e"]
    assert change.whole.differences["accuracy"].change.value == pytest.approx(2 / 6)


def test_a_panel_is_of_rows_and_rows_are_not_scored_by_entries(results):
    panel = Evaluation(items="check", panel=("output.a", "output.b"))
    assert [path for path, _, _ in evaluation_problems("e", panel)] == ["items"]
    assert scored_rows({"e": ACCURACY}, results) == ()


def test_probabilities_and_human_labels_of_entries_are_measured(tmp_path):
    rng = np.random.default_rng(3)
    rows = []
    for _ in range(40):
        labels = [bool(rng.random() < 0.6) for _ in range(5)]
        shares = [
            float(np.clip(0.5 + (0.3 if label else -0.3) + rng.normal(0, 0.2), 0, 1))
            for label in labels
        ]
        entries = [
            {"claim": {"label": label, "human": label if rng.random() < 0.5 else None}}
            for label in labels
        ]
        rows.append({
            "check.item": entries,
            "check.score": [share > 0.5 for share in shares],
            "check.distribution": [{"true": share, "false": 1 - share} for share in shares],
        })  # fmt: skip
    results = table(tmp_path / "results.parquet", rows)
    calibrated = Evaluation(
        items="check", probability="output.distribution[true]", target="claim.label"
    )
    estimates = measure({"e": calibrated}, results)["e"].values
    assert estimates["auroc"].value > 0.9
    assert estimates["brier"].n == 200
    gold = Evaluation(
        items="check", value="output.score", gold=Gold(target="claim.human"), metrics=("mean",)
    )
    corrected = measure({"e": gold}, results)["e"]
    assert corrected.gold is not None
    assert 80 < corrected.gold.labels < 120
    truth = np.mean([entry["claim"]["label"] for row in rows for entry in row["check.item"]])
    assert corrected.values["ppi"].low < truth < corrected.values["ppi"].high


def test_gates_look_at_entries_with_confidence_over_rows_and_against_a_baseline(tmp_path, results):
    facts = finished_run(
        rows=4,
        done=4,
        calls=6,
        cost_usd=0.0,
        wall_s=1.0,
    )
    better = [[(label, label, kind) for _, label, kind in claims] for claims in CLAIMS]
    (tmp_path / "base").mkdir()
    base = table(tmp_path / "base" / "results.parquet", [of_claims(claims) for claims in better])

    def passes(**gate: Any) -> list[bool]:
        decided_gates = decide_gates(
            [Gate(metric="claims.accuracy", **gate)], {"claims": ACCURACY}, measured, facts, results
        )
        return [outcome.passed for outcome in decided_gates]

    measured = measure({"claims": ACCURACY}, results)
    assert passes(min=0.6)[0]
    assert not passes(min=0.7)[0]
    assert passes(min=0.66, where={"claim.kind": "a"})[0]
    assert not passes(min=0.1, confidence=0.95, where={"claim.label": False})[0]
    assert not passes(baseline=str(base.parent), max_drop=0.05)[0]
