"""`verdict calibrate`: a file that the pipeline names, and that another judge refuses."""

from __future__ import annotations

import json
import math
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from jsonl import jsonl
from typer.testing import CliRunner

from verdict_cli.cli.app import app
from verdict_cli.storage.tables.human_labels import FILE, add_label
from verdict_cli.storage.tables.reader import read_table

HEAD = "verdict: 1\nname: c\nmodel: {name: m, retries: 0}\ndataset: {id: key}\npipeline:\n"
JUDGE = """
  - unit: JudgeUnit
    name: judge
    scale: boolean
    prompt: "{source.key}"
    extract: %s
"""
SURE = JUDGE % "token_probability" + (
    "    propagate: {score: 'output.distribution[true] > 0.5', p: output.distribution.values() | max}\n"
)


def verdict(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, [*map(str, words)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        assert code == 2, result.exception
        return str(result.exception)
    assert result.exit_code == code, result.output
    return result.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Four hundred rows of a judge that is too sure, and a rating that it knows."""
    draw = Random(3)
    rows, replies = [], []
    for key in range(400):
        odds = draw.gauss(0.5, 1.2)
        truth = draw.random() < 1 / (1 + math.exp(-odds))
        p = 1 / (1 + math.exp(-3 * odds))
        rows.append({"key": key, "label": truth, "rating": 2 + 3 * p})
        top = [
            {"token": "yes", "logprob": math.log(p)},
            {"token": "no", "logprob": math.log(1 - p)},
        ]
        replies.append({"id": key, "unit": "judge", "reply": "yes", "logprobs": [top]})
    for name, lines in (("d.jsonl", rows), ("r.jsonl", replies)):
        (tmp_path / name).write_text(jsonl(lines))
    return tmp_path


def run(folder: Path, steps: str, out: str = "run", more: str = "", code: int = 0) -> Any:
    (folder / "c.yaml").write_text(HEAD + steps + more)
    words = [
        "run",
        folder / "c.yaml",
        folder / "d.jsonl",
        "--replay",
        folder / "r.jsonl",
        "--fresh",
    ]
    printed = verdict(*words, "--out", folder / out, "--json", "--quiet", code=code)
    return json.loads(printed) if printed.startswith("{") else printed


EVALUATE = """
evaluate:
  e: {prediction: output.p > 0.5, probability: output.p, target: source.label, metrics: [brier, ece]}
"""


def test_a_map_lowers_ece_and_brier_on_held_out_rows_and_in_the_pipeline(
    folder,
):
    passed = "    propagate: {p: 'output.distribution[true]'}\n"
    before = run(folder, JUDGE % "token_probability" + passed, more=EVALUATE)["evaluations"]["e"]
    document = json.loads(
        verdict(
            "calibrate",
            folder / "run",
            "--target",
            "source.label",
            "--out",
            folder / "m.yaml",
            "--json",
        )
    )
    for name in ("ece", "brier"):
        assert document["figures"]["platt"][name]["change"]["high"] < 0
    with_map = JUDGE % "{type: token_probability, calibration: {file: m.yaml}}" + passed
    after = run(folder, with_map, "again", EVALUATE)["evaluations"]["e"]
    assert after["brier"]["value"] < before["brier"]["value"]
    assert after["ece"]["value"] < before["ece"]["value"]


def test_labels_of_people_are_a_target_like_a_column(folder):
    run(folder, JUDGE % "token_probability")
    rows = [json.loads(line) for line in (folder / "d.jsonl").read_text().splitlines()]
    for row in rows[:300]:
        add_label(folder / "run" / FILE, row["key"], row["label"], None, "")
    words = ["calibrate", folder / "run", "--out", folder / "m.yaml", "--json", "--target"]
    people = json.loads(verdict(*words, "human.label"))
    column = json.loads(verdict(*words, "source.label", "--where", "human.label is not none"))
    assert people["calibration"]["rows"] == 300
    assert people["figures"] == column["figures"]
    assert "human.lable" in verdict(*words, "human.lable", code=2)


@pytest.mark.parametrize("method", ["temperature", "isotonic"])
def test_each_method_makes_a_file_that_is_read(folder, method):
    run(folder, JUDGE % "token_probability")
    verdict(
        "calibrate",
        folder / "run",
        "--target",
        "source.label",
        "--method",
        method,
        "--out",
        folder / "m.yaml",
    )
    run(folder, JUDGE % "{type: token_probability, calibration: {file: m.yaml}}", "again")


def test_score_weights_bring_the_sum_near_the_target(folder):
    run(folder, JUDGE % "weighted_summed_score")
    words = ["--target", "source.rating", "--fit", "score_weights", "--out", folder / "w.yaml"]
    verdict("calibrate", folder / "run", *words)
    assert yaml.safe_load((folder / "w.yaml").read_text())["weights"] == {
        True: pytest.approx(5, abs=0.1),
        False: pytest.approx(2, abs=0.1),
    }
    run(folder, JUDGE % "{type: weighted_summed_score, weights: {file: w.yaml}}", "again")
    (batch,) = read_table(folder / "again" / "results.parquet", ["judge.score", "source.rating"])
    assert batch["judge.score"] == pytest.approx(batch["source.rating"], abs=0.1)


def test_a_bound_sends_on_what_is_below_it(folder):
    run(folder, SURE)
    words = ["--target", "source.label", "--agreement", "0.8", "--out", folder / "t.yaml"]
    calibration = json.loads(verdict("calibrate", folder / "run", *words, "--json"))["calibration"]
    document = run(folder, SURE + "    escalate: {when: {file: t.yaml}, to: abstain}\n", "again")
    assert document["abstained"] == round(400 * (1 - calibration["answered"]))
    (batch,) = read_table(
        folder / "again" / "results.parquet", ["judge.p", "judge.score", "source.label"]
    )
    answered = [
        (score, label)
        for score, label in zip(batch["judge.score"], batch["source.label"], strict=True)
        if score is not None
    ]
    assert sum(score == label for score, label in answered) / len(answered) >= 0.8


def test_a_run_that_escalated_is_no_ground_for_a_bound(folder):
    run(folder, SURE + "    escalate: {when: output.p < 0.8, to: abstain}\n")
    message = verdict(
        "calibrate", folder / "run", "--target", "source.label", "--agreement", "0.8", code=2
    )
    assert "escalated in this run" in message


def test_an_agreement_that_cannot_be_shown_is_not_written(folder):
    run(folder, SURE)
    words = ["--target", "source.label", "--agreement", "0.9999", "--out", folder / "t.yaml"]
    assert "no bound" in verdict("calibrate", folder / "run", *words, code=2)
    assert not (folder / "t.yaml").exists()


CHANGES = [
    ("prompt", '"{source.key}"', '"Is it? {source.key}"'),
    ("model", "name: judge", "name: judge\n    model: other"),
    ("scale", "scale: boolean", "scale: {type: boolean, yes: [Yes], no: [No]}"),
    ("extractor", "type: token_probability", "type: argmax_score"),
]


@pytest.mark.parametrize(("what", "old", "new"), CHANGES)
def test_a_changed_judge_refuses_the_calibration_and_says_what_changed(folder, what, old, new):
    run(folder, JUDGE % "token_probability")
    verdict("calibrate", folder / "run", "--target", "source.label", "--out", folder / "m.yaml")
    with_map = JUDGE % "{type: token_probability, calibration: {file: m.yaml}}"
    (folder / "c.yaml").write_text(HEAD + with_map.replace(old, new))
    problems = json.loads(verdict("validate", folder / "c.yaml", "--json", code=2))["errors"]
    assert [problem["code"] for problem in problems] == ["stale-calibration"]
    assert problems[0]["path"] == "pipeline[0].extract.calibration"
    assert f"its {what} changed since" in problems[0]["message"]


def test_the_layout_of_the_prompt_and_how_a_model_is_reached_change_nothing(folder):
    run(folder, JUDGE % "token_probability")
    verdict("calibrate", folder / "run", "--target", "source.label", "--out", folder / "m.yaml")
    with_map = JUDGE % "{type: token_probability, calibration: {file: m.yaml}}"
    with_map = with_map.replace('"{source.key}"', '"  {source.key}\\n"').replace(
        "name: judge", "name: sure"
    )
    (folder / "c.yaml").write_text(HEAD.replace("retries: 0", "retries: 0, timeout: 9") + with_map)
    assert json.loads(verdict("validate", folder / "c.yaml", "--json"))["ok"]


def test_a_calibration_of_another_kind_is_refused(folder):
    run(folder, SURE)
    words = ["--target", "source.label", "--agreement", "0.7", "--out", folder / "t.yaml"]
    verdict("calibrate", folder / "run", *words)
    (folder / "c.yaml").write_text(
        HEAD + JUDGE % "{type: argmax_score, calibration: {file: t.yaml}}"
    )
    problems = json.loads(verdict("validate", folder / "c.yaml", "--json", code=2))["errors"]
    assert [problem["code"] for problem in problems] == ["wrong-calibration"]


def test_the_runs_directory_needs_no_other_file(folder):
    run(folder, JUDGE % "token_probability")
    verdict("calibrate", folder / "run", "--target", "source.label", "--out", folder / "m.yaml")
    run(folder, JUDGE % "{type: token_probability, calibration: {file: m.yaml}}", "again")
    (folder / "m.yaml").unlink()
    assert json.loads(verdict("report", folder / "again", "--json"))["rows"] == 400


GATE = "gates: [{metric: run.calibration_age_days, max: 90}]\n"


def test_a_gate_wants_a_fresh_calibration(folder):
    run(folder, JUDGE % "token_probability", more=GATE, code=1)
    verdict("calibrate", folder / "run", "--target", "source.label", "--out", folder / "m.yaml")
    with_map = JUDGE % "{type: token_probability, calibration: {file: m.yaml}}"
    assert run(folder, with_map, "fresh", GATE)["gates"][0]["passed"]
    old = yaml.safe_load((folder / "m.yaml").read_text()) | {"made": "2020-01-01T00:00:00+00:00"}
    (folder / "m.yaml").write_text(yaml.safe_dump(old))
    assert not run(folder, with_map, "old", GATE, code=1)["gates"][0]["passed"]


VOTE = """
  - layer: [{unit: JudgeUnit, name: judge, scale: boolean, prompt: "{source.key}", extract: {type: regex, fields: {score: yes|no}}}]
    repeat: 3
  - {unit: ModePoolUnit, name: vote, field: score%s}
"""


@pytest.fixture
def votes(tmp_path: Path) -> Path:
    """Three judges, of which the first knows and the others guess."""
    draw = Random(4)
    rows, replies = [], []
    for key in range(300):
        truth = draw.random() < 0.5
        rows.append({"key": key, "label": truth})
        for place, right in enumerate((0.95, 0.55, 0.55)):
            vote = truth if draw.random() < right else not truth
            replies.append({"id": key, "unit": f"judge[{place}]", "reply": "yes" if vote else "no"})
    for name, lines in (("d.jsonl", rows), ("r.jsonl", replies)):
        (tmp_path / name).write_text(jsonl(lines))
    return tmp_path


@pytest.mark.parametrize("method", ["logistic", "log_odds", "dawid_skene"])
def test_pool_weights_hear_the_judge_that_knows(votes, method):
    run(votes, VOTE % "")
    words = [
        "--target",
        "source.label",
        "--fit",
        "pool_weights",
        "--method",
        method,
        "--out",
        votes / "w.yaml",
    ]
    document = json.loads(verdict("calibrate", votes / "run", *words, "--json"))
    if method != "dawid_skene":
        assert document["figures"][method]["accuracy"]["change"]["low"] > 0
    run(votes, VOTE % ", weights: {file: w.yaml}", "again")
    (batch,) = read_table(votes / "again" / "results.parquet", ["vote.score", "source.label"])
    right = sum(
        score == label
        for score, label in zip(batch["vote.score"], batch["source.label"], strict=True)
    )
    assert right / 300 > (0.9 if method != "dawid_skene" else 0.5)


def test_dawid_and_skene_need_no_label_and_the_others_do(votes):
    run(votes, VOTE % "")
    words = ["calibrate", votes / "run", "--fit", "pool_weights"]
    verdict(*words, "--method", "dawid_skene")
    assert (votes / "run" / "calibrations" / "vote-pool_weights.yaml").exists()
    assert "--target is missing" in verdict(*words, code=2)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--target", "source.label"], "reads token probabilities"),
        (["--target", "source.label", "--fit", "threshold"], "go together"),
        (
            ["--target", "source.label", "--method", "platt", "--fit", "pool_weights"],
            "does not fit pool_weights",
        ),
        (["--target", "source.lable", "--fit", "pool_weights"], "lable"),
        (
            ["--target", "source.label", "--fit", "pool_weights", "--where", "source.key < 10"],
            "are needed",
        ),
    ],
)
def test_what_cannot_be_fitted_says_why(votes, words, message):
    run(votes, VOTE % "")
    assert message in verdict("calibrate", votes / "run", *words, code=2)


JURY = """
  - layer:
      - {unit: JudgeUnit, name: juror, scale: boolean, prompt: "{source.key}", extract: {type: regex, fields: {score: "true|false"}}}
    repeat: 5
  - {unit: ModePoolUnit, name: vote, field: score, agreement: true}
"""


def test_a_bound_on_how_many_votes_agree_makes_a_jury_abstain(tmp_path):
    draw = Random(5)
    rows, replies = [], []
    for key in range(400):
        truth, clear = draw.random() < 0.5, draw.random() < 0.6
        rows.append({"key": key, "label": truth})
        for juror in range(5):
            right = draw.random() < (0.97 if clear else 0.55)
            vote = "true" if right == truth else "false"
            replies.append({"id": key, "unit": f"juror[{juror}]", "reply": vote})
    for name, lines in (("d.jsonl", rows), ("r.jsonl", replies)):
        (tmp_path / name).write_text(jsonl(lines))
    run(tmp_path, JURY)
    words = [
        "--unit",
        "vote",
        "--target",
        "source.label",
        "--agreement",
        "0.85",
        "--out",
        tmp_path / "t.yaml",
    ]
    verdict("calibrate", tmp_path / "run", *words, "--confidence", "output.agreement")
    bounded = JURY.rstrip().removesuffix("}") + ", escalate: {when: {file: t.yaml}, to: abstain}}\n"
    document = run(tmp_path, bounded, "again")
    (batch,) = read_table(
        tmp_path / "again" / "results.parquet", ["vote.score", "vote.agreement", "source.label"]
    )
    answered = [vote for vote in zip(*batch.values(), strict=True) if vote[0] is not None]
    assert 0 < document["abstained"] == 400 - len(answered)
    assert sum(score == label for score, _, label in answered) / len(answered) >= 0.85


REPEATED = """
  - layer:
      - {unit: JudgeUnit, name: juror, scale: boolean, prompt: "{source.key}", extract: {type: regex, fields: {score: "true|false"}}}
    repeat: 5
  - {unit: ModePoolUnit, name: vote, field: score}
"""


def test_copies_of_a_row_and_rows_of_a_cluster_count_once(tmp_path):
    """25 labelled rows, all right: five identical copies of each are no more evidence than one."""
    rows = [{"key": key, "label": True, "doc": key // 2} for key in range(60)]
    replies = [
        {"id": key, "unit": f"juror[{juror}]", "reply": "true"}
        for key in range(60)
        for juror in range(5)
    ]
    for name, lines in (("d.jsonl", rows), ("r.jsonl", replies)):
        (tmp_path / name).write_text(jsonl(lines))
    run(tmp_path, REPEATED)
    words = [
        "calibrate",
        tmp_path / "run",
        "--unit",
        "juror",
        "--target",
        "source.label",
        "--confidence",
        "1",
    ]
    verdict(*words, "--agreement", "0.9", "--out", tmp_path / "t.yaml")
    assert "rows: 60" in (tmp_path / "t.yaml").read_text()
    verdict(*words, "--agreement", "0.9", "--cluster", "source.doc", "--out", tmp_path / "c.yaml")
    assert "rows: 30" in (tmp_path / "c.yaml").read_text()


@pytest.mark.parametrize(
    ("fit", "hint"),
    [
        ("probability", "add `extract: token_probability` to the judge"),
        ("pool_weights", "add a ModePoolUnit or"),
    ],
)
def test_a_run_without_a_unit_that_fits_has_an_error_with_what_its_pipeline_lacks(shell, fit, hint):
    judge = "- {unit: JudgeUnit, name: judge, prompt: '{source.text}'}"
    assert shell("run", shell.config(judge), shell.rows(3), "--out", "r", "--quiet").code == 0
    done = shell("calibrate", "r", "--target", "source.text", "--fit", fit)
    assert (
        done.code == 2 and "no unit of this run" in done.err and hint in " ".join(done.err.split())
    )


def test_fc10_a_run_whose_rows_failed_is_to_be_retried_not_labelled(folder):
    replies = (folder / "r.jsonl").read_text().splitlines()
    (folder / "r.jsonl").write_text("\n".join(replies[:4]) + "\n")
    run(folder, SURE, code=3)
    message = verdict("calibrate", folder / "run", "--target", "source.label", code=2)
    assert "396 rows" in message and "--retry-failed" in message
    assert "label more rows" not in message
