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


BROKEN = (
    "{prediction: output.score, target: source.label, by: ['1 / (output.score - output.score)']}"
)


def run_with_broken(shell: Shell, gates: str) -> Outcome:
    """A run of two evaluations of which one cannot be measured."""
    step = "  - {unit: JudgeUnit, name: j, scale: boolean, prompt: '{source.text}'}"
    evaluate = f"evaluate:\n  right: {{prediction: output.score, target: source.label}}\n  broken: {BROKEN}"
    shell.config(step, f"model: baseline/lexical\n{evaluate}\ngates: {gates}")
    shell.write("rows.jsonl", jsonl(ROWS))
    return shell("run", "pipeline.yaml", "rows.jsonl", "--out", "out")


def test_row_25_a_paid_run_has_its_report_where_an_evaluation_cannot_be_measured(
    shell,
):
    done = run_with_broken(
        shell, "[{metric: right.accuracy, min: 0}, {metric: broken.accuracy, min: 0}]"
    )
    assert done.code == 2
    assert "evaluate.broken.by[0]" in done.err
    report = json.loads((shell.folder / "out" / "report.json").read_text())
    assert [*report["evaluations"]] == ["right"]
    assert {gate["metric"]: gate["verdict"] for gate in report["gates"]}[
        "broken.accuracy"
    ] == "failed"
    assert "not measured: row 0" in (shell.folder / "out" / "report.md").read_text()


def test_row_25_a_gate_that_cannot_be_decided_is_reported_with_its_limit(shell):
    run_with_broken(shell, "[{metric: broken.accuracy, min: 0.8, confidence: 0.95}]")
    out = shell.folder / "out"
    gates = json.loads((out / "report.json").read_text())["gates"]
    gate = next(gate for gate in gates if gate["metric"] == "broken.accuracy")
    limit = "≥ 0.8 at 0.95 confidence"
    assert (gate["verdict"], gate["limit"], gate["rule"]) == ("failed", 0.8, limit)
    assert gate["reason"].startswith("row 0: ")
    assert f'name="broken.accuracy {limit}"' in (out / "junit.xml").read_text()
    assert f"broken.accuracy – ({limit})" in (out / "report.md").read_text()
