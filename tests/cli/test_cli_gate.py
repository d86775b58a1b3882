"""`verdict gate`: a run's gates decided again."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest
from jsonl import jsonl

CONFIG = """verdict: 1
name: t
model: baseline/lexical
dataset: {id: key}
pipeline:
- {unit: JudgeUnit, name: judge, prompt: 'Rate {source.text}'}
evaluate: {level: {value: output.score >= 1, metrics: [mean, variance]}}
gates: [{metric: level.mean, min: 0.9, confidence: 0.95}]
"""


@pytest.fixture
def run(shell: Any) -> Any:
    done = shell("run", shell.write("c.yaml", CONFIG), shell.rows(12), "--out", "out", "--json")
    assert done.code == 1
    assert done.json()["gates"][0]["verdict"] == "inconclusive"
    return shell


def test_too_few_rows_are_inconclusive_and_fail_unless_configured_otherwise(run):
    assert run("gate", "out", "-h").code == 0
    assert run("gate", "out").code == 1
    passed = run("gate", "out", "--inconclusive", "pass", "--json")
    assert passed.code == 0
    assert passed.json()["gates"][0] == {
        "metric": "level.mean",
        "passed": True,
        "value": 1.0,
        "limit": 0.9,
        "verdict": "inconclusive",
        "reason": "the interval's lower end 0.7354 is below 0.9",
    }
    assert run("gate", "out", "--inconclusive", "perhaps").code == 2
    assert passed.json()["conclusion"].startswith(
        "the gate is inconclusive (tolerated): level.mean 1.000 (≥ 0.9"
    )


def test_the_run_takes_the_same_flag(run):
    again = run("run", "c.yaml", "data.jsonl", "--out", "other", "--inconclusive", "pass", "--json")
    assert again.code == 0


def test_other_gates_replace_those_of_the_run(run):
    run.write("g.yaml", "gates: [{metric: level.mean, min: 0.5}, {metric: run.calls, max: 3}]")
    done = run("gate", "out", "--gates", "g.yaml", "--json")
    assert done.code == 1
    verdicts = {gate["metric"]: gate["verdict"] for gate in done.json()["gates"]}
    assert verdicts == {"level.mean": "passed", "run.calls": "failed", "run.coverage": "passed"}
    assert done.json()["conclusion"] == "1 of 2 gates failed: run.calls 12 (≤ 3)"
    assert (
        json.loads((run.folder / "out" / "report.json").read_text())["gates"][1]["verdict"]
        == "failed"
    )


def test_a_pipeline_file_lends_its_gates(run):
    run.write("strict.yaml", CONFIG.replace("min: 0.9, confidence: 0.95", "min: 0.2"))
    assert run("gate", "out", "--gates", "strict.yaml").code == 0


def test_gates_that_are_no_gates_are_refused_at_their_place(run):
    run.write("g.yaml", "gates:\n- {metric: level.mean, mn: 0.5}\n")
    unknown = run("gate", "out", "--gates", "g.yaml")
    assert (unknown.code, "g.yaml:2:24" in unknown.err) == (2, True)
    run.write("h.yaml", "gates:\n- {metric: level.median, min: 0.5}\n")
    unmeasured = run("gate", "out", "--gates", "h.yaml")
    assert unmeasured.code == 2
    assert "h.yaml:2:12: gates[0].metric: `level` does not measure `median`" in unmeasured.err


def test_a_run_without_gates_is_an_error(shell):
    config = shell.write("c.yaml", CONFIG.partition("gates:")[0])
    assert shell("run", config, shell.rows(3), "--out", "out").code == 0
    done = shell("gate", "out")
    assert done.code == 2
    assert "has no gates" in done.err
    assert not done.out
    assert shell("report", "out").code == 0
    empty = shell("gate", "out", "--gates", shell.write("g.yaml", "gates: []"))
    assert (empty.code, "g.yaml has no gates" in empty.err) == (2, True)


@pytest.mark.parametrize(
    "gates", ["", "\ngates: [{metric: level.mean, min: 0}]"], ids=["none", "some"]
)
def test_implied_gates_exist_only_where_there_are_gates(gates, shell):
    steps = "- {unit: JudgeUnit, name: judge, prompt: 'Rate {source.text}'}"
    config = shell.config(
        f"{steps}\nevaluate: {{level: {{value: output.score, metrics: [mean]}}}}{gates}"
    )
    document = shell("run", config, shell.rows(3), "--out", "implied", "--json").json()
    assert [gate["metric"] for gate in document["gates"]] == (
        ["level.mean", "run.coverage"] if gates else []
    )


def test_two_positives_do_not_pass_a_confident_gate_and_clusters_have_their_worth(
    shell,
):
    """Both of two positives in 100 rows were found: balanced accuracy 0.990 [0.964, 0.997] passed 0.9. Reports had a value,
    its ends and n, and never a number of clusters."""
    config = """verdict: 1
name: t
pipeline: [{unit: MapUnit, name: judge, map: {label: source.said}}]
evaluate:
  x: {prediction: output.label, target: source.label, metrics: [balanced_accuracy]}
  y: {prediction: output.label, target: source.label, metrics: [accuracy], cluster: source.doc}
gates: [{metric: x.balanced_accuracy, min: 0.9, confidence: 0.95}]
"""
    rows = [{"label": row < 2, "said": row < 4, "doc": row // 2} for row in range(100)]
    data = shell.write("d.jsonl", jsonl(rows))
    done = shell("run", shell.write("p.yaml", config), data, "--out", "out", "-q")
    assert done.code == 1, done.err
    accuracy = json.loads((shell.folder / "out/report.json").read_text())["evaluations"]["y"][
        "figures"
    ]["accuracy"]
    assert (accuracy["n"], accuracy["clusters"], accuracy["level"]) == (100, 50, 0.95)
    assert accuracy["effective_n"] == pytest.approx(100 / accuracy["design_effect"])
    assert (
        accuracy["se"] > 0
        and accuracy["df"] == 49
        and "CR3" in accuracy["method"]
        and accuracy["warnings"] == []
    )
    assert "100 in 50 clusters" in (shell.folder / "out/report.md").read_text()


@pytest.mark.parametrize(
    ("gate", "words"),
    [
        ("{metric: level.mean, max: 90}", "from 0 to 1"),
        ("{metric: level.mean, min: 2}", "no run can pass"),
        ("{metric: level.mean, max: 1}", "no run can fail `max: 1`"),
        ("{metric: level.variance, max: 0.5}", "no run can fail `max: 0.5`"),
    ],
)
def test_s5_the_scale_of_a_value_bounds_its_gates_in_the_pipeline_and_in_a_file(gate, words, run):
    refused = run(
        "validate",
        run.write(
            "p.yaml", CONFIG.replace("{metric: level.mean, min: 0.9, confidence: 0.95}", gate)
        ),
    )
    assert (refused.code, words in refused.err) == (2, True), refused.err
    again = run("gate", "out", "--gates", run.write("g.yaml", f"gates: [{gate}]"))
    assert (again.code, words in again.err) == (2, True), again.err


def test_s5_a_min_at_the_lower_end_is_a_warning(run):
    config = run.write("p.yaml", CONFIG.replace("min: 0.9, confidence: 0.95", "min: 0"))
    done = run("validate", config)
    assert (done.code, "every value passes `min: 0`" in done.err + done.out) == (0, True)
    assert run("run", config, "data.jsonl", "--out", "idle").code == 0
    for name in ("run.json", "report.md", "report.html", "report.json"):
        text = (run.folder / "idle" / name).read_text()
        assert "every value passes" in text, name


def test_s5_a_min_at_the_lower_end_in_a_file_of_gates_is_a_warning(run):
    done = run("gate", "out", "--gates", run.write("g.yaml", "gates: [level.mean >= 0]"))
    words = "every value passes `min: 0`"
    assert (done.code, words in done.err, words in done.out) == (0, True, True)
    assert words in (run.folder / "out" / "run.json").read_text()
    again = run("gate", "out", "--gates", run.write("g.yaml", "gates: [level.mean >= 0.5]"))
    assert (again.code, words in again.out) == (0, False)


def test_fc16_a_missing_baseline_is_exit_2_before_a_call(run):
    gates = "gates: [{metric: level.mean, baseline: runs/none, max_drop: 0.1}]"
    again = run("gate", "out", "--gates", run.write("g.yaml", gates))
    assert (again.code, "runs/none is not there" in again.err) == (2, True)
    config = run.write("p.yaml", CONFIG.partition("gates:")[0] + gates)
    new = run("run", config, "data.jsonl", "--out", "new")
    assert (new.code, (run.folder / "new" / "results.parquet").exists()) == (2, False)


def test_s6_a_run_is_not_its_own_baseline_through_a_link(run):
    (run.folder / "main").symlink_to(run.folder / "out")
    gates = run.write("g.yaml", "gates: [{metric: level.mean, baseline: main, max_drop: 0.1}]")
    done = run("gate", "out", "--gates", gates)
    assert (done.code, "is this run itself" in done.err) == (2, True)


def test_s6_a_copy_of_the_run_is_not_its_baseline(run):
    shutil.copytree(run.folder / "out", run.folder / "copy")
    gates = run.write("g.yaml", "gates: [{metric: level.mean, baseline: copy, max_drop: 0.1}]")
    done = run("gate", "out", "--gates", gates)
    assert (done.code, "or a copy of it" in done.err) == (2, True)


def test_fc16_a_gates_file_may_be_a_plain_list_and_its_mistakes_have_their_place(run):
    run.write("list.yaml", "- {metric: level.mean, min: 0.5}\n- level.mean >= 0.4\n")
    passed = run("gate", "out", "--gates", "list.yaml")
    assert passed.code == 0, passed.err
    run.write(
        "wrong.yaml",
        "- {metric: level.mean, min: 0.5}\n- {metric: level.mean, mn: 0.5}\n- {metric: level.mean, min: 7}\n",
    )
    wrong = run("gate", "out", "--gates", "wrong.yaml")
    assert (wrong.code, "wrong.yaml:2:24" in wrong.err) == (2, True), wrong.err
    run.write("beyond.yaml", "- {metric: level.mean, min: 0.5}\n- {metric: level.mean, min: 7}\n")
    beyond = run("gate", "out", "--gates", "beyond.yaml")
    assert (beyond.code, "beyond.yaml:2:" in beyond.err) == (2, True), beyond.err


def test_a_gate_on_the_variance_of_an_enormous_scale_is_checked(shell):
    text = CONFIG.replace("{unit: JudgeUnit,", "{unit: JudgeUnit, scale: {min: 0, max: 1e200},")
    text = text.replace("score >= 1", "score").replace(
        "level.mean, min: 0.9", "level.variance, max: 9"
    )
    assert shell("validate", shell.write("c.yaml", text)).code == 0
    done = shell("validate", shell.write("c.yaml", text.replace("max: 9", "max: -1")))
    assert done.code == 2
    assert "`level.variance` is at least 0: no run can pass `max: -1`" in done.err


def test_a_run_on_an_enormous_scale_is_measured(shell):
    text = CONFIG.replace("{unit: JudgeUnit,", "{unit: JudgeUnit, scale: {min: 0, max: 1e200},")
    text = text.replace("score >= 1", "score").replace("Rate {", "{").partition("gates:")[0]
    rows = shell.write("rows.jsonl", jsonl({"key": key, "text": "x y"} for key in range(4)))
    done = shell("run", shell.write("c.yaml", text), rows, "--out", "out", "--json")
    assert done.code == 0, done.err
    assert done.json()["evaluations"]["level"]["variance"]["value"] == 0


@pytest.mark.parametrize("text", ["", "right.accuracy >= 0.1", "{metric: right.accuracy, min: 0}"])
def test_a_gates_file_of_another_form_is_told_how_one_begins(run, text):
    file = run.write("g.yaml", f"{text}\n")
    done = run("gate", "out", "--gates", file)
    assert done.code == 2
    assert "`gates:" in done.err and "A pipeline file" not in done.err
