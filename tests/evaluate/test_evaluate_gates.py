"""Gates: what passes, what fails, and what is not known well enough to pass."""

from dataclasses import replace

import numpy as np
import pytest

from verdict_cli.data import ParquetTable
from verdict_cli.evaluate import decide, measure
from verdict_cli.spec.evaluate import Evaluation
from verdict_cli.spec.gate import Gate
from verdict_cli.values import RunFacts

EVALUATIONS = {
    "e": Evaluation(prediction="output.label", target="source.label", metrics=["accuracy", "cohen_kappa"])
}
FACTS = RunFacts(
    "run", "finished", "", "", "", "", "", "", rows=100, done=100, calls=100, cost_usd=0.5, wall_s=3.0
)


def write(path, right, ids=None, kinds=None):
    """A run with one row for each entry of `right`: whether the prediction is the target."""
    path.mkdir(exist_ok=True)
    with ParquetTable(path / "results.parquet", {"row": "int", "status": "str"}) as table:
        for index, hit in enumerate(right):
            target = "ab"[index % 2]
            table.write(
                {
                    "row": index,
                    "id": ids[index] if ids else index,
                    "status": "ok",
                    "source.label": target,
                    "source.type": kinds[index] if kinds else "x",
                    "output.label": target if hit else "ba"[index % 2],
                }
            )
    return path / "results.parquet"


def outcome(gate, results, facts=FACTS, **further):
    measures = measure(EVALUATIONS, results)
    return decide([Gate(**gate)], EVALUATIONS, measures, facts, results, **further)[0]


def test_a_point_gate_looks_at_the_value_only(tmp_path):
    results = write(tmp_path, [True] * 93 + [False] * 7)
    assert outcome({"metric": "e.accuracy", "min": 0.93}, results).passed
    missed = outcome({"metric": "e.accuracy", "min": 0.94}, results)
    assert (missed.passed, missed.value, missed.limit) == (False, 0.93, 0.94)
    assert missed.reason == "0.93 is below 0.94"
    assert outcome({"metric": "e.accuracy", "max": 0.9}, results).verdict == "failed"


def test_a_gate_with_confidence_needs_the_intervals_end(tmp_path):
    results = write(tmp_path, [True] * 93 + [False] * 7)
    held = outcome({"metric": "e.accuracy", "min": 0.9, "confidence": 0.95}, results)
    assert held.verdict == "inconclusive"
    assert not held.passed
    assert "lower end 0.86" in held.reason
    assert outcome({"metric": "e.accuracy", "min": 0.86, "confidence": 0.95}, results).passed
    assert outcome({"metric": "e.accuracy", "min": 0.9, "confidence": 0.5}, results).passed


def test_perfect_agreement_of_few_rows_is_no_confident_kappa(tmp_path):
    results = write(tmp_path, [True] * 4)
    held = outcome({"metric": "e.cohen_kappa", "min": 0.5, "confidence": 0.95}, results)
    assert (held.verdict, held.value) == ("inconclusive", 1)


def test_where_restricts_a_gate_to_some_rows(tmp_path):
    results = write(tmp_path, [True, True, False, False], kinds=["x", "x", "y", "y"])
    held = outcome({"metric": "e.accuracy", "where": {"source.type": "x"}, "min": 1.0}, results)
    assert held.passed
    assert held.n == 2
    assert (
        outcome({"metric": "e.accuracy", "where": {"source.type": "z"}, "min": 0}, results).verdict
        == "failed"
    )


def test_a_baseline_gate_pairs_rows_by_id(tmp_path):
    rng = np.random.default_rng(0)
    old = rng.random(400) < 0.8
    write(tmp_path / "main", old)
    new = old.copy()
    new[np.flatnonzero(~old)[:10]] = True
    results = write(tmp_path / "new", new)
    gate = {"metric": "e.accuracy", "baseline": "main", "max_drop": 0.01}
    held = outcome(gate, results, root=tmp_path)
    assert held.passed
    assert held.value == pytest.approx(10 / 400)
    assert 0 < held.low < held.value < held.high
    assert held.n == 400


def test_a_drop_beyond_the_limit_fails_and_an_unsure_one_is_inconclusive(tmp_path):
    old = np.array([True] * 80 + [False] * 20)
    worse = old.copy()
    worse[:10] = False
    write(tmp_path / "main", old)
    results = write(tmp_path / "new", worse)
    gate = {"metric": "e.accuracy", "baseline": "main", "max_drop": 0.05}
    assert outcome(gate, results, root=tmp_path).verdict == "failed"
    held = outcome(gate | {"max_drop": 0.11}, results, root=tmp_path)
    assert held.verdict == "inconclusive"
    assert "may be up to" in held.reason
    assert outcome(gate | {"max_drop": 0.25}, results, root=tmp_path).passed


def test_the_same_answers_again_pass_any_baseline(tmp_path):
    write(tmp_path / "main", [True, False, True])
    results = write(tmp_path / "new", [True, False, True])
    held = outcome({"metric": "e.cohen_kappa", "baseline": "main", "max_drop": 0}, results, root=tmp_path)
    assert (held.passed, held.value) == (True, 0)


@pytest.mark.parametrize(
    ("ids", "reason"),
    [([7, 7, 8], "ids repeat"), ([10, 11, 12], "no row in common"), (None, "targets differ")],
)
def test_a_baseline_that_cannot_be_paired_fails_with_the_reason(tmp_path, ids, reason):
    write(tmp_path / "main", [True] * 3, ids=ids or [1, 0, 2])
    results = write(tmp_path / "new", [True] * 3)
    held = outcome({"metric": "e.accuracy", "baseline": "main", "max_drop": 0.1}, results, root=tmp_path)
    assert held.verdict == "failed"
    assert reason in held.reason


def test_a_baseline_that_is_not_there_fails_its_gate(tmp_path):
    results = write(tmp_path, [True])
    held = outcome({"metric": "e.accuracy", "baseline": "runs/main", "max_drop": 0.1}, results, root=tmp_path)
    assert "runs/main holds no results.parquet" in held.reason


def test_facts_of_the_run_have_gates(tmp_path):
    results = write(tmp_path, [True])
    assert outcome({"metric": "run.cost_usd", "max": 5}, results).passed
    assert outcome({"metric": "run.calls", "max": 99}, results).verdict == "failed"
    unknown = outcome({"metric": "run.cost_usd", "max": 5}, results, replace(FACTS, cost_usd=None))
    assert unknown.verdict == "failed"
    assert "cost is unknown" in unknown.reason


def test_full_coverage_is_implied_unless_a_gate_names_coverage(tmp_path):
    results = write(tmp_path, [True])
    measures = measure(EVALUATIONS, results)
    facts = replace(FACTS, failed=1)

    def metrics(*gates):
        found = decide([Gate(**gate) for gate in gates], EVALUATIONS, measures, facts, results)
        return [(one.metric, one.passed) for one in found]

    assert metrics() == []
    assert metrics({"metric": "run.calls", "max": 500}) == [("run.calls", True), ("run.coverage", False)]
    assert metrics({"metric": "run.coverage", "min": 0.9}) == [("run.coverage", True)]
