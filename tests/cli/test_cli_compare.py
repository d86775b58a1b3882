"""`verdict compare`: two runs, row by row."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from jsonl import jsonl

CONFIG = """verdict: 1
name: t
model: gpt-4o-mini
scales: {safety: {type: discrete, values: [unsafe, safe]}}
dataset: {id: key}
pipeline:
- {unit: JudgeUnit, name: judge, scale: safety, prompt: 'Judge {source.text}'}
evaluate:
  safety: {prediction: output.score, target: source.label, positive: unsafe, metrics: [accuracy, f1]}
"""


def judged(shell: Any, out: str, right: list[bool], config: str = CONFIG, last: str = "") -> Any:
    """A run whose judge was right on these rows, from a recording."""
    labels = ["safe", "unsafe"]
    rows, replies = [], []
    for place, hit in enumerate(right):
        label = labels[place % 2]
        rows.append(
            {
                "key": f"r{place}",
                "text": f"text {place}{last}",
                "label": label,
                "type": "xy"[place % 2],
            }
        )
        reply_label = label if hit else labels[1 - place % 2]
        replies.append({"row": place, "unit": "judge", "reply": json.dumps({"score": reply_label})})
    data = shell.write(f"{out}.jsonl", jsonl(rows))
    tape = shell.write(f"{out}-tape.jsonl", jsonl(replies))
    return shell(
        "run",
        shell.write(f"{out}.yaml", config),
        data,
        "--replay",
        tape,
        "--out",
        out,
        "-q",
        "--json",
    )


@pytest.fixture
def runs(shell: Any) -> Any:
    assert judged(shell, "a", [True] * 24 + [False] * 16).code == 0
    assert judged(shell, "b", [True] * 38 + [False] * 2).code == 0
    return shell


def test_the_document_has_every_value_test_and_flip(runs):
    done = runs("compare", "a", "b", "--by", "source.type", "--json")
    assert done.code == 0
    document = done.json()
    (first,), (second,) = (pipeline["runs"] for pipeline in document["pipelines"].values())
    assert (first["calls"], second["rows"], document["paired_by"]) == (40, 40, "id")
    safety = document["evaluations"]["safety"]
    accuracy = safety["figures"]["accuracy"]
    assert accuracy["values"] == {"a": 0.6, "b": 0.95}
    accuracy = accuracy["differences"]["b"]
    assert accuracy["difference"] == pytest.approx(0.35)
    assert 0 < accuracy["low"] < 0.35 < accuracy["high"]
    assert safety["test"]["name"] == "mcnemar"
    assert safety["test"]["p"] == pytest.approx(2 * 0.5**14)
    assert len(safety["flipped"]) == 14
    assert safety["flipped"][0] == {
        "id": "r24",
        "a": "unsafe",
        "b": "safe",
        "target": "safe",
        "gain": 1.0,
    }
    assert set(safety["by"]["source.type"]) == {"x", "y"}
    ends = f"[{accuracy['low']:.3f}, {accuracy['high']:.3f}], p < 0.001"
    assert accuracy["p_adjusted"] < 0.001
    assert (
        document["conclusion"]
        == f"b is better on accuracy: +0.350 {ends} (paired permutation test, adjusted)"
    )


def test_the_terminal_shows_the_first_flips_and_says_how_many_more(runs):
    done = runs("compare", "a", "b")
    assert done.code == 0
    assert "14 rows are scored differently" in done.out
    assert "r24" in done.out
    assert "4 more with --json" in done.out
    assert "latency" in done.out


def test_the_conclusion_of_equal_runs_claims_no_power(runs):
    assert judged(runs, "c", [False] + [True] * 38 + [False]).code == 0
    equal = runs("compare", "b", "c", "--html", "page.html")
    first = " ".join(equal.out.split()).split("runs compared ")[1]
    assert first.startswith("no significant difference in accuracy: c − b is 0.000 [")
    assert "power" not in first
    assert (
        '<p class="conclusion">no significant difference' in (runs.folder / "page.html").read_text()
    )


def test_rows_that_only_one_run_has_come_before_the_result(runs):
    """A shorter second run compared only what it shared, and said nothing of the rest in its first line."""
    assert judged(runs, "c", [True] * 30).code == 0
    document = runs("compare", "a", "c", "--json").json()
    assert document["conclusion"].startswith(
        "inconclusive: 25% of the rows are scored in only one run; on the others "
    )
    accuracy = document["evaluations"]["safety"]["figures"]["accuracy"]["differences"]["b"]
    left_out = accuracy["open_rows"]
    assert (
        left_out["share"] == 0.25
        and left_out["low"] < accuracy["low"] < accuracy["high"] < left_out["high"]
    )
    assert "inconclusive: 25% of the rows" in " ".join(runs("compare", "a", "b", "c").out.split())
    assert not runs("compare", "a", "b", "--json").json()["conclusion"].startswith("inconclusive")


def test_runs_over_other_data_are_no_repeated_runs(runs):
    assert judged(runs, "c", [True] * 40, last=" again").code == 0
    config = runs.write("free.yaml", CONFIG.replace("gpt-4o-mini", "baseline/random"))
    for out, data in (("s1", "a"), ("s2", "a"), ("s3", "c")):
        runs("run", config, f"{data}.jsonl", "--seed", out[1], "--out", out, "-q")
    assert "runs of one pipeline" not in runs("compare", "s1", "s3").out
    pipelines = runs("compare", "s1", "s2", "s3", "--json").json()["pipelines"]
    assert [len(pipeline["runs"]) for pipeline in pipelines.values()] == [2, 1]


def test_a_comparison_that_cannot_be_made_is_an_error(runs):
    lone = runs("compare", "a", "nowhere")
    assert (lone.code, "not the directory of a run" in lone.err) == (2, True)
    wrong = runs("compare", "a", "b", "--by", "source.nope")
    assert (wrong.code, "nope" in wrong.err) == (2, True)
    other = CONFIG.replace("  safety:", "  danger:")
    assert judged(runs, "c", [True] * 4, other).code == 0
    none = runs("compare", "a", "c")
    assert (none.code, "share no evaluation" in none.err) == (2, True)


def test_rows_without_ids_that_hold_the_same_are_refused(shell):
    config = CONFIG.replace("dataset: {id: key}\n", "")
    judged(shell, "a", [True] * 4, config)
    judged(shell, "b", [True] * 4, config)
    assert shell("compare", "a", "b", "--json").json()["paired_by"] == "content"
    same = "".join('{"text": "t", "label": "safe"}\n' for _ in range(2))
    for out in ("c", "d"):
        path = shell.write("same.jsonl", same)
        shell("run", "a.yaml", path, "--replay", "a-tape.jsonl", "--out", out, "-q")
    done = shell("compare", "c", "d")
    assert done.code == 2
    assert "rows 0 and 1 have no id and the same content" in done.err


@pytest.mark.parametrize(
    ("form", "id_cell"), [({"id": None}, "0"), ({"id": 7}, "7")], ids=["no id", "integer"]
)
def test_rows_of_integer_or_absent_ids_are_compared(shell, form, id_cell):
    config = CONFIG.replace("dataset: {id: key}\n", "")
    rows = [{"text": f"t{place}", "label": "safe"} for place in range(2)]
    if form["id"]:
        rows = [{"id": form["id"] + place, **row} for place, row in enumerate(rows)]
    data = shell.write("d.jsonl", jsonl(rows))
    for out, label in (("a", "safe"), ("b", "unsafe")):
        reply = json.dumps({"score": label})
        tape = shell.write(f"{out}-tape.jsonl", jsonl({"row": place, "unit": "judge", "reply": reply} for place in range(2)))  # fmt: skip
        run = shell("run", shell.write("p.yaml", config), data, "--replay", tape, "--out", out)
        assert run.code == 0
        assert ("rows are identified by the column 'id'" in run.err) == bool(form["id"])
    done = shell("compare", "a", "b")
    assert (done.code, "internal error" in done.out + done.err) == (0, False)
    assert f" {id_cell}    safe  unsafe" in re.sub(r" {4,}", "    ", done.out)
    assert f"paired by {'id' if form['id'] else 'content'}" in done.out


def test_a_gate_against_a_baseline_prints_the_end_that_it_compared(runs):
    runs.write("g.yaml", "gates: [{metric: safety.accuracy, baseline: a, max_drop: 0.05}]")
    done = runs("gate", "b", "--gates", "g.yaml")
    assert done.code == 0
    assert "✓ safety.accuracy 0.350 against a, at most 0.05 worse" in done.out
    assert "  lower end 0." in done.out and "≥ -0.05; n=40" in done.out


def test_an_interval_that_contradicts_the_exact_test_has_a_note(runs):
    """Five rows of 40 differ, all for the better: McNemar's p is 1/16, and the adjusted Wald interval excludes 0."""
    assert judged(runs, "c", [True] * 29 + [False] * 11).code == 0
    done = runs("compare", "a", "c", "--json").json()["evaluations"]["safety"]
    assert done["figures"]["accuracy"]["differences"]["b"]["low"] > 0 and done["test"][
        "p"
    ] == pytest.approx(0.0625)
    assert done["notes"][0].startswith("accuracy: the 95% interval excludes 0, but p is 0.06")
    assert "McNemar's p is 0.062" in done["notes"][0]
    assert done["notes"][0][:40] in runs("compare", "a", "c").out
    assert runs("compare", "a", "b", "--json").json()["evaluations"]["safety"]["notes"] == []


def test_several_runs_have_intervals_that_hold_together_and_one_family_of_p_values(
    runs,
):
    worse = CONFIG.replace("Judge {", "Judge hard {")
    assert judged(runs, "c", [True] * 20 + [False] * 20, worse).code == 0
    done = runs(
        "compare",
        "b",
        "a",
        "c",
        "--reference",
        "a",
        "--by",
        "source.type",
        "--json",
        "--html",
        "page.html",
    )
    assert done.code == 0
    document = done.json()
    assert (document["reference"], document["paired_by"]) == ("a", "id")
    assert {
        letter: [run["run"] for run in pipeline["runs"]]
        for letter, pipeline in document["pipelines"].items()
    } == {
        "a": ["a"],
        "b": ["b"],
        "c": ["c"],
    }
    accuracy = document["evaluations"]["safety"]["figures"]["accuracy"]
    assert accuracy["values"] == pytest.approx({"a": 0.6, "b": 0.95, "c": 0.5})
    assert accuracy["between_runs"] is None
    pairwise = runs("compare", "a", "b", "--json").json()["evaluations"]["safety"]["figures"][
        "accuracy"
    ]["differences"]["b"]
    difference = accuracy["differences"]["b"]
    assert difference["difference"] == pytest.approx(pairwise["difference"])
    assert difference["low"] < pairwise["low"] < pairwise["high"] < difference["high"]
    assert difference["p_adjusted"] >= difference["p"]
    assert set(document["evaluations"]["safety"]["by"]["source.type"]) == {"x", "y"}
    assert "3 runs" in (runs.folder / "page.html").read_text()
    assert document["conclusion"].startswith("b is better than a on accuracy: +0.350 [")
    result = runs("compare", "a", "b", "c")
    assert "b, c against a, the reference" in (runs.folder / "page.html").read_text()
    assert "− a" in result.out
    assert "the intervals of a metric hold together, at 95%" in result.out


def test_runs_that_differ_in_the_seed_only_are_one_pipeline_with_a_noise_floor(runs):
    free = CONFIG.replace("gpt-4o-mini", "baseline/random")
    for seed in ("1", "2", "3"):
        config = (
            free
            if seed != "3"
            else free.replace("model: baseline/random", "model: {name: baseline/random, seed: 9}")
        )
        runs(
            "run",
            runs.write(f"{seed}.yaml", config),
            "a.jsonl",
            "--seed",
            seed,
            "--out",
            f"s{seed}",
            "-q",
        )
    document = runs("compare", "b", "s1", "s2", "s3", "--json").json()
    assert [len(pipeline["runs"]) for pipeline in document["pipelines"].values()] == [1, 3]
    spread = document["evaluations"]["safety"]["figures"]["accuracy"]["between_runs"]
    assert spread["noise_floor"] > 0
    output = runs("compare", "s1", "s2", "s3").out
    assert "noise floor: two runs of one pipeline differ by up to" in output
    assert "p (adj.)" not in output
    assert "runs of one pipeline: their differences" in runs("compare", "s1", "s2").out


def test_runs_that_cannot_be_compared_together_are_errors(runs):
    for arguments, message in (
        (("a",), "give two runs or more"),
        (("a", "b", "a"), "given as a run more than once"),
        (("a", "b", "--reference", "c"), "not one of the runs"),
        (("a", "b", "nowhere"), "not the directory of a run"),
    ):
        done = runs("compare", *arguments)
        assert (done.code, message in done.err) == (2, True), done.err


def test_other_targets_in_one_of_several_runs_are_a_reason(runs):
    turned = CONFIG.replace("source.label", "source.label == 'safe' and 'unsafe' or 'safe'")
    assert judged(runs, "c", [True] * 40, turned).code == 0
    assert "targets differ" in runs("compare", "a", "b", "c").out


def test_the_level_of_intervals_is_that_of_the_option_or_of_the_file(runs):
    def width(*options: str) -> tuple[float, float]:
        safety = runs("compare", "a", "b", "--json", *options).json()["evaluations"]["safety"]
        difference = safety["figures"]["accuracy"]["differences"]["b"]
        return difference["level"], difference["high"] - difference["low"]

    assert width("--level", "0.8")[1] < width()[1]
    assert (width()[0], width("--level", "0.8")[0]) == (0.95, 0.8)
    assert "80% interval" in runs("compare", "a", "b", "--level", "0.8").out
    assert judged(runs, "d", [True] * 20 + [False] * 4, CONFIG + "level: 0.9\n").code == 0
    report = json.loads((runs.folder / "d/report.json").read_text())
    assert (report["level"], report["evaluations"]["safety"]["figures"]["f1"]["level"]) == (
        0.9,
        0.9,
    )
    wide = report["evaluations"]["safety"]["figures"]["accuracy"]
    runs("report", "d", "--level", "0.5")
    narrow = json.loads((runs.folder / "d/report.json").read_text())["evaluations"]["safety"][
        "figures"
    ]["accuracy"]
    assert narrow["level"] == 0.5
    assert narrow["high"] - narrow["low"] < wide["high"] - wide["low"]
    runs(
        "run", "a.yaml", "a.jsonl", "--replay", "a-tape.jsonl", "--out", "e", "-q", "--level", "0.7"
    )
    assert json.loads((runs.folder / "e/report.json").read_text())["level"] == 0.7
    assert "level: 0.7" in (runs.folder / "e/spec.yaml").read_text()
    assert runs("compare", "a", "b", "--level", "1.5").code == 2
