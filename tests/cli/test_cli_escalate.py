"""A cascade on the command line: who answered is recorded, resumed, replayed and reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonl import jsonl
from typer.testing import CliRunner

from verdict_cli.cli.app import app
from verdict_cli.storage.tables.reader import read_table

CONFIG = """
verdict: 1
name: cascade
model: {name: cheap, retries: 0}
dataset: {id: key}
pipeline:
  - unit: JudgeUnit
    name: judge
    scale: boolean
    prompt: "{source.key}"
    extract: token_probability
    propagate: {score: "output.distribution[true] > 0.5", p: "output.distribution.values() | max"}
    escalate: {when: output.p < 0.8, to: [large, abstain]}
evaluate: {right: {prediction: output.score, target: source.label, metrics: [accuracy], by: [output.answered_by]}}
"""


@pytest.fixture
def done(tmp_path: Path) -> dict[str, Any]:
    """Twenty rows: ten are clear to the cheap model, five to the large one, five to none."""
    rows = [{"key": place, "label": True} for place in range(20)]
    replies = []
    for place in range(20):
        replies.append(reply(place, 0, -0.01 if place < 10 else -0.5))
        if place >= 10:
            replies.append(reply(place, 1, -0.01 if place < 15 else -0.5))
    (tmp_path / "c.yaml").write_text(CONFIG)
    for name, lines in (("d.jsonl", rows), ("r.jsonl", replies)):
        (tmp_path / name).write_text(jsonl(lines))
    return run(tmp_path, "r.jsonl", "out")


def reply(key: int, call: int, logprob: float) -> dict[str, Any]:
    no = {"token": "no", "logprob": -4.0 if logprob > -0.1 else -0.9}
    alternatives = [{"token": "yes", "logprob": logprob}, no]
    return {"id": key, "unit": "judge", "call": call, "reply": "yes", "logprobs": [alternatives]}


def run(folder: Path, replay: str, out: str, *more: str) -> dict[str, Any]:
    words = [
        "run",
        str(folder / "c.yaml"),
        str(folder / "d.jsonl"),
        "--replay",
        str(folder / replay),
    ]
    result = CliRunner().invoke(
        app, [*words, "--out", str(folder / out), "--json", "--quiet", *more]
    )
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_the_document_says_who_answered(done):
    stages = {
        stage["model"]: (stage["answered"], stage["calls"]) for stage in done["stages"]["judge"]
    }
    assert stages == {"cheap": (10, 20), "large": (5, 10), "abstain": (5, 0)}
    assert (done["failed"], done["abstained"]) == (0, 5)


def test_a_row_without_a_verdict_counts_in_coverage_and_in_no_value(done, tmp_path):
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    measures = report["evaluations"]["right"]
    assert (measures["coverage"], measures["figures"]["accuracy"]["n"]) == (0.75, 15)
    assert measures["figures"]["accuracy"]["value"] == 1.0
    assert "abstained 5" in (tmp_path / "out" / "report.md").read_text()


def test_each_row_names_the_model_that_answered(done, tmp_path):
    (batch,) = read_table(tmp_path / "out" / "results.parquet", ["status", "judge.answered_by"])
    assert batch["judge.answered_by"] == ["cheap"] * 10 + ["large"] * 5 + [None] * 5
    assert batch["status"] == ["ok"] * 15 + ["abstained"] * 5


def test_a_replay_of_the_run_answers_the_same(done, tmp_path):
    again = run(tmp_path, "out", "again")
    assert again["stages"] == done["stages"]


def test_the_report_can_be_written_again(done, tmp_path):
    result = CliRunner().invoke(app, ["report", str(tmp_path / "out"), "--json"])
    assert json.loads(result.stdout)["stages"] == done["stages"]


def test_a_gate_on_coverage_counts_abstaining(done, tmp_path):
    gates = "gates: [{metric: right.accuracy, min: 0.9}%s]\n"
    (tmp_path / "c.yaml").write_text(CONFIG + gates % "")
    words = [
        "run",
        str(tmp_path / "c.yaml"),
        str(tmp_path / "d.jsonl"),
        "--replay",
        str(tmp_path / "r.jsonl"),
    ]
    words += ["--json", "--quiet", "--fresh", "--out", str(tmp_path / "gated")]
    assert CliRunner().invoke(app, words).exit_code == 1
    more = ", {metric: run.coverage, min: 0.7}, {metric: run.abstained, max: 5}"
    (tmp_path / "c.yaml").write_text(CONFIG + gates % more)
    assert CliRunner().invoke(app, words).exit_code == 0


def test_a_single_row_without_a_verdict_says_so(done, tmp_path):
    words = ["judge", str(tmp_path / "c.yaml"), "--replay", str(tmp_path / "r.jsonl"), "--quiet"]
    rows = "\n".join(json.dumps({"key": key}) for key in (0, 19))
    results = json.loads(CliRunner().invoke(app, [*words, "--json"], input=rows).stdout)
    assert [result["status"] for result in results] == ["ok", "abstained"]
    assert (results[1]["output"], results[1]["failure"]) == (None, None)
    result = CliRunner().invoke(app, words, input=rows)
    assert result.exit_code == 0
    assert "no verdict" in result.stdout


def test_a_later_stages_replies_are_cached_where_the_first_model_is_local(shell, scripted_model):
    scripted_model.answer = lambda _: '{"score": 3}'
    unit = (
        "- {unit: JudgeUnit, name: judge, prompt: 'Rate {source.text}', "
        "escalate: {when: 'true', to: {name: openai/m, api_base: 'http://127.0.0.1:9/v1'}}}"
    )
    config = shell.config(unit, "model: baseline/lexical")
    for out in ("first", "second"):
        done = shell("run", config, shell.rows(4), "--out", out)
        assert done.code == 0, done.err
    models = [request.model.name for request in scripted_model.requests]
    assert models.count("openai/m") == 4
