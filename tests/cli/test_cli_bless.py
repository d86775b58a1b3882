"""A baseline that is committed: `verdict gate RUN --bless FILE` and `baseline: FILE`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonl import jsonl

PIPELINE = """verdict: 1
name: t
dataset: {id: key}
pipeline: [{unit: MapUnit, name: judge, map: {score: source.COLUMN, p: source.p}}]
evaluate:
  right: {prediction: output.score, target: source.label, cluster: source.doc, metrics: [accuracy]}
  sure: {probability: output.p, target: source.label, metrics: [brier]}
"""
GATES = """gates:
  - {metric: right.accuracy, baseline: BASELINE, max_drop: 0.1}
  - {metric: right.accuracy, baseline: BASELINE, max_drop: 0.2, where: {source.kind: a}}
  - {metric: sure.brier, baseline: BASELINE, max_drop: 0.05}
"""
ROWS = [
    {
        "key": f"r{number:02}",
        "label": number % 2 == 0,
        "old": number % 5 != 0,
        "new": number % 7 != 0,
        "p": (number % 10) / 10,
        "kind": "ab"[number % 3 == 0],
        "doc": number // 2,
    }
    for number in range(60)
]


@pytest.fixture
def runs(shell: Any) -> Any:
    """Two runs of the same rows, `old` and `new`; the baseline of the first."""
    data = shell.write("d.jsonl", jsonl(ROWS))
    for name in ("old", "new"):
        config = shell.write(f"{name}.yaml", PIPELINE.replace("COLUMN", name))
        assert shell("run", config, data, "--out", name, "-q").code == 0
    gates = shell.write("g.yaml", GATES.replace("BASELINE", "judge.baseline"))
    assert shell("gate", "old", "--gates", gates, "--bless", "judge.baseline").code == 0
    return shell


def decided(runs: Any, baseline: str, run: str = "new") -> Any:
    return runs(
        "gate", run, "--gates", runs.write("g.yaml", GATES.replace("BASELINE", baseline)), "--json"
    )


def test_a_file_decides_as_the_directory_of_its_run(runs):
    file, directory = decided(runs, "judge.baseline"), decided(runs, "old")
    assert len(file.json()["gates"]) == len(directory.json()["gates"]) >= 4
    for ours, theirs in zip(file.json()["gates"], directory.json()["gates"], strict=True):
        assert ours == theirs


def test_the_command_line_gives_another_baseline(runs):
    gates = runs.write("g.yaml", GATES.replace("BASELINE", "elsewhere"))
    from_option = runs("gate", "new", "--gates", gates, "--baseline", "judge.baseline", "--json")
    assert from_option.json()["gates"] == decided(runs, "judge.baseline").json()["gates"]
    plain = runs.write("p.yaml", "- right.accuracy >= 0.1")
    none = runs("gate", "new", "--gates", plain, "--baseline", "judge.baseline")
    assert (none.code, "no gate has a `baseline`" in none.err) == (2, True)


def test_the_file_has_a_line_for_each_row_by_its_id(runs):
    header, *lines = (runs.folder / "judge.baseline").read_text().splitlines()
    assert set(json.loads(header)) == {"verdict_baseline", "pipeline", "data", "run", "columns"}
    assert "source.p" not in json.loads(header)["columns"]  # no evaluation reads it
    assert [json.loads(line)[0] for line in lines] == [row["key"] for row in ROWS]


def test_only_rows_that_changed_change_in_the_file(runs):
    assert runs("gate", "new", "--gates", "g.yaml", "--bless", "new.baseline").code == 0
    old, new = (
        (runs.folder / name).read_text().splitlines()[1:]
        for name in ("judge.baseline", "new.baseline")
    )
    changed = sum(row["old"] != row["new"] for row in ROWS)
    assert sum(a != b for a, b in zip(old, new, strict=True)) == changed > 0


def test_a_run_is_not_gated_by_its_own_file(runs):
    done = decided(runs, "judge.baseline", run="old")
    assert (done.code, "is this run itself" in done.err) == (2, True)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda text: text.replace('["r10"', '<<<<<<<\n["r10"'), "judge.baseline:12"),
        (lambda text: text.replace('["r10",', '["r10",1,'), "judge.baseline:12"),
        (lambda text: text.replace("verdict_baseline", "other"), "it is no baseline"),
        (lambda text: "", "it is no baseline"),
    ],
)
def test_a_damaged_file_is_exit_2_with_its_line(damage, words, runs):
    path = runs.folder / "judge.baseline"
    path.write_text(damage(path.read_text()))
    done = decided(runs, "judge.baseline")
    assert (done.code, words in done.err) == (2, True), done.err


def test_a_missing_file_is_exit_2_before_a_row_is_judged(runs):
    config = PIPELINE.replace("COLUMN", "new") + GATES.replace("BASELINE", "none.baseline")
    done = runs("run", runs.write("c.yaml", config), "d.jsonl", "--out", "again")
    assert (done.code, "the baseline none.baseline is not there" in done.err) == (2, True), done.err
    assert not (runs.folder / "again" / "results.parquet").exists()


def test_rows_without_an_id_are_refused(shell):
    rows = [{"label": True, "new": True, "p": 0.5, "doc": 1}] * 3
    data = shell.write("d.jsonl", jsonl(rows))
    config = PIPELINE.replace("COLUMN", "new").replace("dataset: {id: key}\n", "")
    assert shell("run", shell.write("c.yaml", config), data, "--out", "out", "-q").code == 0
    done = shell("gate", "out", "--bless", "judge.baseline")
    assert (done.code, "dataset: {id: COLUMN}" in done.err) == (2, True), done.err


def test_a_file_that_cannot_be_written_is_one_message(runs):
    done = runs("gate", "old", "--bless", "no/such/folder/judge.baseline")
    assert done.code != 70
    assert "cannot be written" in done.err
