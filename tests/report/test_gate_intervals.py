"""One interval for one share on a page: that of the gate on it, with the n that counts."""

import json

import pytest
from jsonl import jsonl

STEPS = """
- {unit: JudgeUnit, name: judge, scale: boolean, prompt: "Is {source.text} good?"}
evaluate:
  right: {prediction: output.score, target: source.good, positive: true, metrics: [recall, accuracy]}
gates:
  - {metric: right.recall, min: 0.01, confidence: 0.95}
"""


def test_a_share_with_a_gate_has_the_gates_interval_and_the_rows_that_count(shell, scripted_model):
    from verdict_cli.messages import Reply

    scripted_model.answer = lambda request: Reply(json.dumps({"score": request.row.index < 4}))
    data = jsonl({"text": f"text {at}", "good": at < 4} for at in range(84))
    shell(
        "run",
        shell.config(STEPS, "model: {name: m, retries: 0}"),
        shell.write("d.jsonl", data),
        "--out",
        "r",
    )
    report = json.loads((shell.folder / "r" / "report.json").read_text())
    recall = report["evaluations"]["right"]["figures"]["recall"]
    assert recall["n"] == 4
    assert recall["low"] == pytest.approx(0.025 ** (1 / 4))
    (gate,) = [
        decided_gate for decided_gate in report["gates"] if decided_gate["metric"] == "right.recall"
    ]
    assert (gate["low"], gate["n"]) == (recall["low"], 4)
    accuracy = report["evaluations"]["right"]["figures"]["accuracy"]
    assert (accuracy["n"], accuracy["method"]) == (84, "Clopper-Pearson")
