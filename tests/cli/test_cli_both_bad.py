"""`both_bad`: a pairwise judge says that neither option is acceptable."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonl import jsonl

from verdict_cli import PairwiseJudgeUnit, Pipeline, load_run
from verdict_cli.storage.tables.human_labels import FILE, add_label

CONFIG = """verdict: 1
name: t
model: m
dataset: {id: id}
pipeline:
- {unit: PairwiseJudgeUnit, name: judge, options: [source.a, source.b], tie: true, both_bad: true, MORE
   prompt: '{source.id} {input.A} or {input.B}'}
evaluate:
  right: {prediction: output.choice, target: source.label, metrics: [accuracy]}
  people: {prediction: output.choice, target: human.label, metrics: [accuracy]}
  position: {prediction: output.choice, metrics: [first_position_rate]}
"""
CHOICES = {"r0": "A", "r1": "B", "r2": "tie", "r3": "both_bad", "r4": "both_bad"}


def rows(shell: Any) -> Any:
    lines = [
        {"id": key, "a": "x", "b": "y", "label": "both_bad" if key == "r4" else choice}
        for key, choice in CHOICES.items()
    ]
    return shell.write("d.jsonl", jsonl(lines))


@pytest.fixture
def judged(shell: Any, scripted_model: Any) -> Any:
    def answer(request: Any) -> str:
        key = request.messages[-1].content.split()[0]
        return json.dumps({"choice": CHOICES[key]})

    scripted_model.answer = answer
    return shell


def metrics(shell: Any) -> Any:
    report = json.loads((shell.folder / "out" / "report.json").read_text())
    return {name: evaluation["figures"] for name, evaluation in report["evaluations"].items()}


def test_both_bad_is_a_choice_that_agreement_compares_and_preferences_leave_out(
    judged,
):
    config = judged.write("c.yaml", CONFIG.replace("MORE", ""))
    done = judged("run", config, rows(judged), "--out", "out")
    assert done.code == 0, done.err
    frame = load_run(judged.folder / "out").to_pandas()
    assert dict(zip(frame.id, frame["output.choice"], strict=True)) == CHOICES
    measured = metrics(judged)
    assert measured["right"]["accuracy"]["value"] == 1.0
    rate = measured["position"]["first_position_rate"]
    assert (rate["value"], rate["n"]) == (0.5, 2)


def test_a_label_of_people_may_be_written_both_bad(judged):
    config = judged.write("c.yaml", CONFIG.replace("MORE", ""))
    assert judged("run", config, rows(judged), "--out", "out").code == 0
    for key, label in (("r3", "Both bad"), ("r4", "tie")):
        add_label(judged.folder / "out" / FILE, key, label, None, "", "ann")
    assert judged("report", "out").code == 0
    accuracy = metrics(judged)["people"]["accuracy"]
    assert (accuracy["value"], accuracy["n"]) == (0.5, 2)


@pytest.mark.parametrize(
    ("answers", "choice"),
    [(("both_bad", "both_bad"), "both_bad"), (("both_bad", "A"), "tie"), (("A", "B"), "A")],
)
def test_both_orders_must_agree_that_both_are_bad(answers, choice, judged, scripted_model):
    def answer(request: Any) -> str:
        is_given_order = "x or y" in request.messages[-1].content
        return json.dumps({"choice": answers[0 if is_given_order else 1]})

    scripted_model.answer = answer
    config = judged.write("c.yaml", CONFIG.replace("MORE", "positions: both,"))
    done = judged("run", config, rows(judged), "--limit", "1", "--out", "out")
    assert done.code == 0, done.err
    frame = load_run(judged.folder / "out").to_pandas()
    assert frame["output.choice"].tolist() == [choice]


def test_without_the_key_both_bad_is_no_choice():
    unit = PairwiseJudgeUnit(options=["source.a", "source.b"])
    plain = (Pipeline("p", model="m") >> unit).to_yaml()
    allowed = PairwiseJudgeUnit(options=["source.a", "source.b"], both_bad=True)
    assert "both_bad" not in plain
    assert "both_bad: true" in (Pipeline("p", model="m") >> allowed).to_yaml()
