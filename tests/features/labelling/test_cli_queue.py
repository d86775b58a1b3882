"""`verdict queue`: rows of a run to label, and the metrics of several annotators."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonl import jsonl

from verdict_cli.storage.tables.human_labels import add_label
from verdict_cli.storage.tables.label_queue import read_queue

STEPS = """- layer:
    - {unit: JudgeUnit, name: strict, scale: boolean, prompt: 'Strict: {source.text}'}
    - {unit: JudgeUnit, name: kind, scale: boolean, prompt: 'Kind: {source.text}'}
- {unit: ModePoolUnit, agreement: true}
"""
EVALUATE = "\nevaluate:\n  right: {prediction: output.score, target: human.label}\n"


@pytest.fixture
def run(shell: Any) -> Any:
    config = shell.config(STEPS + EVALUATE)
    rows = shell.write(
        "data.jsonl",
        "".join(
            f'{{"id": "r{place}", "text": "words {place} {place % 7}"}}\n' for place in range(60)
        ),
    )
    config.write_text(config.read_text() + "dataset: {id: id}\n")
    done = shell("run", config, rows, "--model", "baseline/random", "--out", "out")
    assert done.code == 0, done.err
    return shell


def test_rows_are_drawn_and_the_next_steps_are_printed(run):
    done = run("queue", "out", "--n", "12", "--annotators", "2", "--blind")
    assert done.code == 0, done.err
    assert (
        "12 rows, random, drawn with probability 0.2" in done.err
        and "verdict view out --as NAME" in done.err
    )
    queue = read_queue(run.folder / "out")
    assert (len(queue.rows), queue.annotators, queue.blind) == (12, 2, True)
    assert {row.inclusion for row in queue.rows} == {0.2}
    again = run("queue", "out", "--n", "12")
    assert again.code != 0 and "--replace" in again.err
    assert run("queue", "out", "--n", "12", "--seed", "1", "--replace").code == 0
    assert read_queue(run.folder / "out") != queue


@pytest.mark.parametrize("choose", ["stratified", "uncertain", "disagree"])
def test_rows_can_be_drawn_by_what_the_run_says_of_them(run, choose):
    done = run("queue", "out", "--n", "20", "--choose", choose, "--json")
    assert done.code == 0, done.err
    document = done.json()
    assert document["choose"] == choose and document["by"]
    assert 0 < document["least_inclusion"] <= document["most_inclusion"] <= 1
    if choose != "stratified":
        assert document["most_inclusion"] / document["least_inclusion"] == pytest.approx(11)


def test_a_row_whose_probability_is_null_is_as_likely_as_the_most_doubtful_one(shell):
    config = shell.config(STEPS + "evaluate: {e: {probability: source.p, target: human.label}}")
    lines = [
        {"id": f"r{place}", "text": "a", "p": [0.5, 1, None][place % 3]} for place in range(60)
    ]
    rows = shell.write("data.jsonl", jsonl(lines))
    assert shell("run", config, rows, "--model", "baseline/random", "--out", "out").code == 0
    done = shell("queue", "out", "--n", "20", "--choose", "uncertain")
    assert done.code == 0, done.err
    likely = {row.row % 3: row.inclusion for row in read_queue(shell.folder / "out").rows}
    assert likely[2] == likely[0] > likely.get(1, 0.0)
    done = shell(
        "queue", "out", "--n", "20", "--choose", "uncertain", "--by", "2 * source.p", "--replace"
    )
    assert "--by cannot be computed on 20 rows" in done.err
    assert "`2 * source.p`: unsupported operand type(s) for *: a number and null" in done.err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--n", "61"], "more than the 60 rows"),
        (["--by", "output.score"], "--by has no meaning"),
        (["--choose", "uncertain", "--by", "source.text"], "is not a number"),
        (
            ["--choose", "disagree", "--by", "strict.score"],
            "does not name a field of two or more units",
        ),
        (
            ["--choose", "disagree", "--by", "strict.score, lenient.score"],
            "there is no unit 'lenient'",
        ),
        (["--choose", "stratified", "--by", "source.none"], "--by cannot be computed"),
    ],
)
def test_what_cannot_be_drawn_is_one_error(run, flags, message):
    done = run("queue", "out", "--n", "10", *flags)
    assert done.code == 2 and message in done.err and "Traceback" not in done.err


def test_a_report_says_how_far_people_agree_and_the_judge_with_them(run):
    for row in range(40):
        for index, name in enumerate(("ann", "bob", "cyd")):
            add_label(
                run.folder / "out" / "labels.jsonl",
                f"r{row}",
                (row + (row % 5 == index)) % 2 == 0,
                None,
                "",
                name,
            )
    done = run("report", "out")
    assert done.code == 0, done.err
    assert (
        "human_alpha" in done.out
        and "alternative annotator test" in done.out
        and "people agree on" in done.out
    )
    evaluation = json.loads((run.folder / "out" / "report.json").read_text())["evaluations"][
        "right"
    ]
    assert evaluation["figures"]["human_alpha"]["n"] == 40
    assert [annotator["name"] for annotator in evaluation["annotators"]["annotators"]] == [
        "ann",
        "bob",
        "cyd",
    ]
    page = (run.folder / "out" / "report.html").read_text()
    assert "annotator" in page and "judge and a person" in page and "cyd, others" in page
