"""What a pipeline declares of a field's values reaches the statistics by the metadata of `results.parquet`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from finished_runs import finished_run
from jsonl import jsonl
from typer.testing import CliRunner

from verdict_cli.cli.app import app
from verdict_cli.language.evaluations import Evaluation
from verdict_cli.language.gate_rules import Gate
from verdict_cli.report.report_context import evaluate_run
from verdict_cli.stats.gates import decide_gates
from verdict_cli.stats.intervals.intervals import Draw
from verdict_cli.stats.measure import measure
from verdict_cli.stats.prediction_powered import GoldPairs, corrected
from verdict_cli.storage.tables.column_types import DeclaredType
from verdict_cli.storage.tables.reader import declared_types
from verdict_cli.storage.tables.writer import ParquetTable

LIKERT = DeclaredType({"type": "integer", "enum": [1, 2, 3, 4, 5]})
COLUMNS = {"row": "int", "id": "int", "status": "str"}


def results(
    path: Path, scores: list[Any], declared: DeclaredType | None, targets: list[Any] | None = None
) -> Path:
    types = {} if declared is None else {"output.score": declared}
    with ParquetTable(path, COLUMNS, declared=types) as table:
        for row, score in enumerate(scores):
            target = {} if targets is None else {"source.target": targets[row]}
            table.write({"row": row, "id": row, "status": "ok", "output.score": score, **target})
    return path


def test_a_missing_number_may_lie_at_the_end_of_the_scale_that_is_farther_away(
    tmp_path,
):
    """Of a target of 2 the worst score is 5, three away; of 4 it is 1. The nearer ends, 1 and 5, would pass the gate."""
    targets = [2, 4] * 200
    path = results(tmp_path / "results.parquet", [*targets[:-20], *[None] * 20], LIKERT, targets)
    evaluation = Evaluation(prediction="output.score", target="source.target", metrics=["mae"])
    gate = Gate(metric="e.mae", max=0.2, confidence=0.95)
    facts = finished_run(
        seed=0,
        rows=400,
    )
    measures = measure({"e": evaluation}, path)
    outcome = decide_gates([gate], {"e": evaluation}, measures, facts, path)[0]
    assert (outcome.value, outcome.verdict) == (0, "inconclusive"), outcome


@pytest.mark.parametrize("scores", [[2, 5], [3, 3, 4], [1, 1, 2], [5, 5, 4, 5]])
def test_the_mean_of_a_scale_has_no_interval_end_outside_it(tmp_path, scores):
    """Nine 5s and a 1 had the interval [3.61, 5.86]."""
    evaluation = Evaluation(value="output.score", metrics=("mean",))
    path = results(tmp_path / "results.parquet", scores, LIKERT)
    mean = measure({"e": evaluation}, path)["e"].values["mean"]
    assert mean.value == pytest.approx(np.mean(scores))
    assert mean.low is not None and mean.high is not None
    assert 1 <= mean.low <= mean.value <= mean.high <= 5


def test_a_run_declares_its_fields_and_the_report_keeps_to_their_scale(tmp_path):
    (tmp_path / "p.yaml").write_text(
        "verdict: 1\nname: p\nmodel: baseline/lexical\npipeline:\n"
        '  - {unit: JudgeUnit, name: judge, explanation: true, prompt: "{source.text}"}\n'
        "evaluate:\n  e: {value: output.score, metrics: [mean]}\n"
    )
    (tmp_path / "d.jsonl").write_text('{"text": "a"}\n{"text": "b"}\n')
    replies = [
        {"row": row, "unit": "judge", "reply": json.dumps({"explanation": "", "score": 3 + row})}
        for row in (0, 1)
    ]
    (tmp_path / "r.jsonl").write_text(jsonl(replies))
    words = ["run", "p.yaml", "d.jsonl", "--replay", "r.jsonl", "--out", "out", "--json", "--quiet"]
    paths = [str(tmp_path / word) if "." in word or word == "out" else word for word in words]
    done = CliRunner().invoke(app, paths)
    assert done.exit_code == 0, done.output
    mean = json.loads(done.stdout)["evaluations"]["e"]["mean"]
    assert (mean["low"], mean["high"]) == (1, 5)  # two rows say next to nothing
    declared = declared_types(tmp_path / "out" / "results.parquet")
    assert declared["judge.score"].bounds == declared["output.score"].bounds == (1, 5)
    assert declared["output.score"].values == (1, 2, 3, 4, 5)
    assert declared["output.explanation"].schema == {"type": "string"}


def test_a_table_without_declared_types_is_measured_as_before(tmp_path):
    evaluation = Evaluation(value="output.score", metrics=("mean",))
    path = results(tmp_path / "results.parquet", [2, 5], None)
    assert declared_types(path) == {}
    high = measure({"e": evaluation}, path)["e"].values["mean"].high
    assert high is not None and high > 5


def test_a_computed_value_has_not_the_scale_of_its_field(tmp_path):
    path = results(tmp_path / "results.parquet", [2, 5], LIKERT)
    high = (
        measure({"e": Evaluation(value="output.score * 2", metrics=("mean",))}, path)["e"]
        .values["mean"]
        .high
    )
    assert high is not None and high > 10


def test_values_outside_the_declared_scale_are_not_clipped(tmp_path):
    path = results(tmp_path / "results.parquet", [2, 50], LIKERT)
    assert (
        measure({"e": Evaluation(value="output.score", metrics=("mean",))}, path)["e"]
        .values["mean"]
        .value
        == 26
    )


def test_words_of_a_scale_are_listed_in_its_order(tmp_path):
    declared = DeclaredType({"type": "string", "enum": ["poor", "fair", "excellent"]})
    words = ["fair", "excellent", "poor", "fair"]
    path = results(tmp_path / "results.parquet", words, declared, ["fair", "poor", "poor", "other"])
    evaluation = Evaluation(
        prediction="output.score", target="source.target", metrics=("confusion",)
    )
    confusion = measure({"e": evaluation}, path)["e"].values["confusion"].value
    assert confusion["labels"] == ["poor", "fair", "excellent", "other"]


def test_a_histogram_spans_the_scale(tmp_path):
    path = results(tmp_path / "results.parquet", [3, 4, 3], LIKERT, [3, 4, 4])
    evaluation = Evaluation(prediction="output.score", target="source.target")
    histogram = evaluate_run({"e": evaluation}, path).distributions["e"].predictions
    assert histogram is not None
    assert histogram.edges == (0.5, 1.5, 2.5, 3.5, 4.5, 5.5)


def test_estimates_from_human_labels_keep_to_the_scale():
    judge = np.array([4.0, 5.0, 5.0, 4.0, 5.0, 5.0])
    truth = np.array([5.0, 4.0, np.nan, np.nan, np.nan, np.nan])
    draw = Draw(np.random.default_rng(1))
    free, _ = corrected(GoldPairs(judge, truth, False), draw)
    values, _ = corrected(GoldPairs(judge, truth, False, bounds=(1, 5)), draw)
    assert free["ppi"].high > 5 and free["labelled"].high > 5
    assert all(
        values[name].low >= 1 and values[name].high <= 5 for name in ("judged", "labelled", "ppi")
    )


def test_declared_types_survive_a_wider_column(tmp_path):
    first = tmp_path / "a.parquet"
    with ParquetTable(first, COLUMNS, row_group=2, declared={"output.score": LIKERT}) as table:
        for row, score in enumerate([1, 2, 3, 4.5, "none"]):
            table.write({"row": row, "id": row, "status": "ok", "output.score": score})
    assert declared_types(first) == {"output.score": LIKERT}
