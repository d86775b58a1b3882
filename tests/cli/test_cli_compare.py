"""`verdict compare`: two runs, row by row."""

from __future__ import annotations

import json
from typing import Any

import pytest

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
        rows.append({"key": f"r{place}", "text": f"text {place}{last}", "label": label, "type": "xy"[place % 2]})
        said = label if hit else labels[1 - place % 2]
        replies.append({"row": place, "unit": "judge", "reply": json.dumps({"score": said})})
    data = shell.write(f"{out}.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    tape = shell.write(f"{out}-tape.jsonl", "".join(json.dumps(reply) + "\n" for reply in replies))
    return shell("run", shell.write(f"{out}.yaml", config), data, "--replay", tape, "--out", out, "-q", "--json")


@pytest.fixture
def runs(shell: Any) -> Any:
    assert judged(shell, "a", [True] * 24 + [False] * 16).code == 0
    assert judged(shell, "b", [True] * 38 + [False] * 2).code == 0
    return shell


def test_the_document_has_every_figure_test_and_flip(runs: Any) -> None:
    done = runs("compare", "a", "b", "--by", "source.type", "--json")
    assert done.code == 0
    document = done.json()
    assert (document["a"]["calls"], document["b"]["rows"], document["paired_by"]) == (40, 40, "id")
    safety = document["evaluations"]["safety"]
    accuracy = safety["figures"]["accuracy"]
    assert (accuracy["a"], accuracy["b"]) == (0.6, 0.95)
    assert accuracy["difference"] == pytest.approx(0.35)
    assert 0 < accuracy["low"] < 0.35 < accuracy["high"]
    assert safety["test"]["name"] == "mcnemar"
    assert safety["test"]["p"] == pytest.approx(2 * 0.5**14)
    assert len(safety["flipped"]) == 14
    assert safety["flipped"][0] == {"id": "r24", "a": "unsafe", "b": "safe", "target": "safe", "gain": 1.0}
    assert set(safety["by"]["source.type"]) == {"x", "y"}


def test_the_terminal_shows_the_first_flips_and_says_how_many_more(runs: Any) -> None:
    done = runs("compare", "a", "b")
    assert done.code == 0
    assert "14 rows are scored differently" in done.out
    assert "r24" in done.out
    assert "4 more with --json" in done.out
    assert "latency" in done.out


def test_a_comparison_that_cannot_be_made_is_an_error(runs: Any) -> None:
    lone = runs("compare", "a", "nowhere")
    assert (lone.code, "not the directory of a run" in lone.err) == (2, True)
    wrong = runs("compare", "a", "b", "--by", "source.nope")
    assert (wrong.code, "nope" in wrong.err) == (2, True)
    other = CONFIG.replace("  safety:", "  danger:")
    assert judged(runs, "c", [True] * 4, other).code == 0
    none = runs("compare", "a", "c")
    assert (none.code, "share no evaluation" in none.err) == (2, True)


def test_rows_without_ids_that_hold_the_same_are_refused(shell: Any) -> None:
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


def test_a_gate_against_a_baseline_prints_what_it_could_have_detected(runs: Any) -> None:
    runs.write("g.yaml", "gates: [{metric: safety.accuracy, baseline: a, max_drop: 0.05}]")
    done = runs("gate", "b", "--gates", "g.yaml")
    assert done.code == 0
    assert "✓ safety.accuracy 0.350 against a, at most 0.05 worse" in done.out
    assert "least detectable difference 0." in done.out
