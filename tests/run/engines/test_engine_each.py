"""Runs with `each`: the tables, a recording of them, and evaluations beside rows that `when` skipped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonl import jsonl
from typer.testing import CliRunner

from verdict_cli import Each, JudgeUnit, Layer, MapUnit, MeanPoolUnit, Pipeline
from verdict_cli.cli.app import app
from verdict_cli.storage.tables.reader import read_table

PIPELINE = """verdict: 1
name: claims
model: m
dataset: {id: id}
pipeline:
  - each: source.sections
    as: section
    when: source.judge
    block:
      - {unit: JudgeUnit, name: check, scale: boolean, each: section.claims, as: claim, prompt: "{claim} {source.id}"}
      - {unit: MeanPoolUnit, name: part, field: score, empty: 0}
  - {unit: MeanPoolUnit, name: whole, field: score}
evaluate:
  people: {prediction: output.score, target: source.label, kind: numeric, metrics: [mae]}
"""
ROWS = [
    {"id": "a", "judge": True, "label": 1, "sections": [{"claims": ["x", "y"]}, {"claims": []}]},
    {"id": "b", "judge": False, "label": 1, "sections": [{"claims": ["x"]}]},
    {"id": "c", "judge": True, "label": 0, "sections": [{"claims": ["z"]}]},
]


@pytest.fixture
def run(tmp_path: Path) -> Any:
    (tmp_path / "p.yaml").write_text(PIPELINE)
    (tmp_path / "d.jsonl").write_text(jsonl(ROWS))

    def run(*arguments: str) -> tuple[int, str, list[dict[str, Any]], list[dict[str, Any]]]:
        out = tmp_path / "out"
        command = [
            "run",
            str(tmp_path / "p.yaml"),
            str(tmp_path / "d.jsonl"),
            "--out",
            str(out),
            "--fresh",
            *arguments,
        ]
        result = CliRunner().invoke(app, command)
        tables = []
        for name in ("results", "calls"):
            batches = (
                read_table(out / f"{name}.parquet") if (out / f"{name}.parquet").exists() else []
            )
            tables.append(
                [
                    dict(zip(batch, values, strict=True))
                    for batch in batches
                    for values in zip(*batch.values(), strict=True)
                ]
            )
        return result.exit_code, result.output or str(result.exception), *tables

    return run


def test_replies_are_recorded_and_replayed_by_entry(run, tmp_path):
    lines = [
        {"id": "a", "unit": "check", "item": "0.0", "reply": '{"score": true}'},
        {"id": "a", "unit": "check", "item": "0.1", "reply": '{"score": false}'},
        {"id": "c", "unit": "check", "item": "0.0", "reply": '{"score": true}'},
    ]
    (tmp_path / "r.jsonl").write_text(jsonl(lines))
    code, output, results, calls = run("--replay", str(tmp_path / "r.jsonl"))
    assert code == 0, output
    assert [row["check.score"] for row in results] == [[[True, False], []], None, [[True]]]
    assert results[0]["check.item"] == [
        [
            {"section": ROWS[0]["sections"][0], "claim": "x"},
            {"section": ROWS[0]["sections"][0], "claim": "y"},
        ],
        [],
    ]
    assert [row["part.score"] for row in results] == [[0.5, 0], None, [1]]
    assert [(row["id"], row["status"], row["output.score"]) for row in results] == [
        ("a", "ok", 0.25),
        ("b", "ok", None),
        ("c", "ok", 1),
    ]
    assert [row["skipped"] for row in results] == [None, ["check", "part", "whole", "output"], None]
    assert [(call["id"], call["unit"], call["item"]) for call in calls] == [
        ("a", "check", "0.0"),
        ("a", "check", "0.1"),
        ("c", "check", "0.0"),
    ]
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert "1 row is left out: `when` skipped what is measured" in output
    assert report["evaluations"]["people"]["coverage"] == 1
    (tmp_path / "out").rename(tmp_path / "recorded")
    code, output, again, _ = run("--replay", str(tmp_path / "recorded"))
    assert (code, again) == (0, results)


def test_an_item_may_be_a_number_and_is_checked(run, tmp_path):
    (tmp_path / "p.yaml").write_text(
        "verdict: 1\nname: c\nmodel: m\npipeline:\n"
        "  - {unit: JudgeUnit, name: check, scale: boolean, each: source.sections, prompt: 'x {item}'}\n"
    )
    (tmp_path / "d.jsonl").write_text(json.dumps({"sections": [1, 2]}) + "\n")
    lines = [
        {"row": 0, "unit": "check", "item": item, "reply": '{"score": true}'} for item in (0, 1)
    ]
    (tmp_path / "r.jsonl").write_text(jsonl(lines))
    code, output, results, _ = run("--replay", str(tmp_path / "r.jsonl"))
    assert (code, results[0]["output.score"]) == (0, [True, True])
    (tmp_path / "r.jsonl").write_text(json.dumps(lines[0] | {"item": "first"}) + "\n")
    code, output, *_ = run("--replay", str(tmp_path / "r.jsonl"))
    assert code == 1
    assert '"item" must be the number of an entry' in output


def test_python_builds_the_same_pipeline():
    judge = (
        JudgeUnit(scale="boolean", name="check")
        .prompt("{source.document} {claim}")
        .when("claim != 'b'")
    )
    pipeline = (
        Pipeline("p", model="baseline/lexical")
        >> Layer([Each("source.claims", judge, name="claim", most=5)])
        >> MeanPoolUnit("score", empty=0)
        >> MapUnit({"mean": "previous.score", "scores": "previous.check.score"})
    )
    judged = pipeline.run({"document": "the sky is blue", "claims": ["sky is blue", "b", "grass"]})
    assert dict(judged) == {"mean": 0.5, "scores": [True, False]}
    assert [entry and entry.score for entry in judged.nodes["check"]] == [True, None, False]
    assert pipeline.run({"document": "the sky", "claims": []}).mean == 0
    text = pipeline.to_yaml()
    assert "each: source.claims\n" in text
    assert "as: claim\n" in text
    assert (
        Pipeline.from_yaml(text)
        .run({"document": "the sky is blue", "claims": ["sky is blue"]})
        .mean
        == 1
    )


def test_judge_shows_the_outputs_of_entries(tmp_path):
    (tmp_path / "p.yaml").write_text(
        "verdict: 1\nname: c\nmodel: baseline/lexical\npipeline:\n"
        "  - {unit: JudgeUnit, name: check, scale: boolean, each: source.claims, prompt: '{source.document} {item}'}\n"
    )
    row = json.dumps({"document": "the sky is blue", "claims": ["sky is blue", "grass"]})
    result = CliRunner().invoke(app, ["judge", str(tmp_path / "p.yaml"), "--json"], input=row)
    assert result.exit_code == 0, result.output
    judged = json.loads(result.stdout)
    assert judged["output"] == {"score": [True, False]}
    assert judged["units"] == {"check": [{"score": True}, {"score": False}]}
    explained = CliRunner().invoke(app, ["judge", str(tmp_path / "p.yaml"), "--explain"], input=row)
    assert "── check · entry 1 · call 0" in explained.output
