"""Row 25 of the safety findings: what the report needs of the columns is checked before any call."""

from __future__ import annotations

import json

import pytest
from jsonl import jsonl
from shell import Outcome, Shell

ROWS = [{"text": "a", "label": True, "n": "1"}, {"text": "b", "label": True, "n": "x", "other": 1}]


def run(shell: Shell, keys: str) -> Outcome:
    evaluate = f"evaluate: {{e: {{prediction: output.score, target: source.label, {keys}}}}}"
    step = "  - {unit: JudgeUnit, name: j, scale: boolean, prompt: '{source.text}'}"
    shell.config(step, f"model: baseline/lexical\n{evaluate}")
    shell.write("rows.jsonl", jsonl(ROWS))
    return shell("run", "pipeline.yaml", "rows.jsonl", "--out", "out")


@pytest.mark.parametrize(
    ("keys", "path"),
    [
        ("by: ['source.n[3]']", "by[0]"),
        ("by: ['1 / (source.text | length - 1)']", "by[0]"),
        ("cluster: source.n.y", "cluster"),
        ("where: source.n > 2", "e"),
        ("where: source.n", "where"),
    ],
)
def test_row_25_an_expression_that_a_row_cannot_give_is_refused_before_a_call(keys, path, shell):
    done = run(shell, keys)
    assert done.code == 2
    assert "row 0: " in done.err
    assert f"evaluate.e{'' if path == 'e' else f'.{path}'}: " in done.err
    assert not (shell.folder / "out" / "results.parquet").exists()


@pytest.mark.parametrize(
    "keys",
    [
        "by: [source.n], cluster: source.text",
        "by: ['source.n | int'], where: source.n == '1'",
        "by: [source.absent]",
        "by: ['source.n[3]'], where: source.n == '?'",
        "by: ['output.score']",
    ],
)
def test_row_25_what_the_selected_rows_can_give_is_no_error(keys, shell):
    done = run(shell, keys)
    assert done.code == 0, done.err


def test_row_25_a_paid_run_has_its_report_where_an_evaluation_cannot_be_measured(
    shell,
):
    step = "  - {unit: JudgeUnit, name: j, scale: boolean, prompt: '{source.text}'}"
    broken = "{prediction: output.score, target: source.label, by: ['1 / (output.score - output.score)']}"
    evaluate = f"evaluate:\n  right: {{prediction: output.score, target: source.label}}\n  broken: {broken}"
    gates = "gates: [{metric: right.accuracy, min: 0}, {metric: broken.accuracy, min: 0}]"
    shell.config(step, f"model: baseline/lexical\n{evaluate}\n{gates}")
    shell.write("rows.jsonl", jsonl(ROWS))
    done = shell("run", "pipeline.yaml", "rows.jsonl", "--out", "out")
    assert done.code == 2
    assert "evaluate.broken.by[0]" in done.err
    report = json.loads((shell.folder / "out" / "report.json").read_text())
    assert [*report["evaluations"]] == ["right"]
    assert {gate["metric"]: gate["verdict"] for gate in report["gates"]}[
        "broken.accuracy"
    ] == "failed"
    assert "not measured: row 0" in (shell.folder / "out" / "report.md").read_text()
