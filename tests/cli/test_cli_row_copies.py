"""Copies of a row are evidence once in a gate with confidence, and are told."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonl import jsonl

CONFIG = """verdict: 1
name: t
model: baseline/lexical
ID
pipeline:
- {unit: JudgeUnit, name: judge, prompt: 'Rate {source.text}'}
evaluate: {level: {value: output.score >= 1, metrics: [mean]}}
gates: [{metric: level.mean, min: 0.9, confidence: 0.95}]
"""


def judged(shell: Any, rows: list[dict[str, Any]], id_key: str = "") -> Any:
    config = shell.write("c.yaml", CONFIG.replace("ID\n", id_key))
    data = shell.write("d.jsonl", jsonl(rows))
    return shell("run", config, data, "--out", "out", "--json")


@pytest.mark.parametrize(
    ("rows", "id_key"),
    [
        ([{"text": "one"}] * 100, ""),
        ([{"text": "one", "key": number} for number in range(100)], "dataset: {id: key}\n"),
    ],
    ids=["equal rows", "with ids of their own"],
)
def test_s19_copies_of_one_row_pass_no_gate_with_confidence(rows, id_key, shell):
    done = judged(shell, rows, id_key)
    assert done.code == 1, done.err
    assert done.json()["gates"][0]["verdict"] == "inconclusive"
    assert "99 rows are a copy of another row" in done.err
    assert "99 rows are a copy" in "".join(
        json.loads((shell.folder / "out/run.json").read_text())["warnings"]
    )


def test_s19_different_rows_pass_it_without_a_warning(shell):
    done = judged(shell, [{"text": f"text {number}"} for number in range(100)])
    assert (done.code, "copy" in done.err) == (0, False), done.err
