"""`verdict watch`: looks at frozen anchors, drift, changed anchors, served models, and the page in the viewer."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from verdict_cli.cli.app import app
from verdict_cli.messages import Reply

CONFIG = """
verdict: 1
name: watched
model: {name: gpt-4o-mini, temperature: 0}
dataset: {id: id}
pipeline:
  - {unit: JudgeUnit, name: judge, scale: {range: [1, 5]}, prompt: "Rate {source.text}"}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    (tmp_path / "judge.yaml").write_text(CONFIG)
    rows = [{"id": index, "text": f"t{index}"} for index in range(120)]
    (tmp_path / "anchors.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return tmp_path


@pytest.fixture
def look_at(folder: Path, scripted_model: Any) -> Callable[..., Any]:
    """One look; `score` answers each call, and `model` is what the provider says has answered."""

    def look(score: Callable[[str], Any] = lambda _: 4, model: str = "m-1", words: tuple[str, ...] = ()) -> Any:
        scripted_model.answer = lambda request: Reply(
            json.dumps({"score": score(re.search(r"Rate (t\d+)", str(request.messages))[1])}), model=model
        )
        files = [str(folder / "judge.yaml"), str(folder / "anchors.jsonl")]
        history = ["--history", str(folder / "history"), "--quiet", "--json", "--yes"]
        return CliRunner().invoke(app, ["watch", *files, *history, *words])

    return look


def low(share: int) -> Callable[[str], int]:
    """Rates the texts whose number is below `share` lower."""
    return lambda text: 2 if int(text.removeprefix("t")) < share else 4


def test_a_judge_that_stays_has_not_drifted_and_one_that_drops_has(look_at: Callable[..., Any], folder: Path) -> None:
    first = look_at()
    assert (first.exit_code, json.loads(first.stdout)["drifted"]) == (0, False)
    for _ in range(2):
        same = look_at()
        assert (same.exit_code, json.loads(same.stdout)["change"]) == (0, 0.0)
    dropped = look_at(low(119))
    document = json.loads(dropped.stdout)
    assert dropped.exit_code == 1
    assert (document["drifted"], document["since"], document["first_drift"]) == (True, 3, 3)
    assert document["change"] == pytest.approx(-2 * 119 / 120)
    assert document["low"] < document["change"] < document["high"] < 0
    assert [each["mean"] for each in document["trend"]] == [4.0, 4.0, 4.0, pytest.approx(4 - 2 * 119 / 120)]
    lines = [json.loads(line) for line in (folder / "history" / "history.jsonl").read_text().splitlines()]
    assert (lines[0]["watch"], lines[0]["anchors"]["rows"], lines[0]["range"]) == (1, 120, [1, 5])
    assert [line["look"] for line in lines[1:]] == [0, 1, 2, 3]
    assert "the judge has drifted" in (folder / "history" / "watch.md").read_text()


def test_every_look_calls_the_model_again(look_at: Callable[..., Any], scripted_model: Any) -> None:
    look_at()
    look_at()
    assert len(scripted_model.requests) == 240


def test_another_served_model_is_told_and_is_no_drift(look_at: Callable[..., Any]) -> None:
    look_at()
    changed = look_at(model="m-2")
    assert changed.exit_code == 0
    assert json.loads(changed.stdout)["served_model_changes"] == [{"look": 1, "before": ["m-1"], "after": ["m-2"]}]


def test_changed_anchors_another_pipeline_and_another_score_are_refused(
    look_at: Callable[..., Any], folder: Path
) -> None:
    look_at()
    with_score = look_at(words=("--score", "output.score > 3"))
    assert "watches `output.score` from 1 to 5" in str(with_score.exception)
    other = look_at(words=("--set", "model.temperature=1"))
    assert "the pipeline has changed" in str(other.exception)
    anchors = folder / "anchors.jsonl"
    anchors.write_text(anchors.read_text().replace("t7", "t8", 1))
    assert "the anchors have changed" in str(look_at().exception)


def test_an_anchor_that_fails_is_left_out_and_told_and_the_exit_code_is_3(look_at: Callable[..., Any]) -> None:
    look_at()
    failed = look_at(lambda text: "none" if text == "t5" else 4)
    trend = json.loads(failed.stdout)["trend"]
    assert (failed.exit_code, [each["failed"] for each in trend]) == (3, [0, 1])
    assert json.loads(failed.stdout)["drifted"] is False


def test_a_look_whose_anchors_all_fail_is_not_counted(look_at: Callable[..., Any], folder: Path) -> None:
    look_at()
    nothing = look_at(lambda _: "none")
    assert "no anchor has a score" in str(nothing.exception)
    assert len((folder / "history" / "history.jsonl").read_text().splitlines()) == 2


def test_a_condition_is_watched_and_a_number_off_the_range_is_told(look_at: Callable[..., Any], folder: Path) -> None:
    condition = look_at(words=("--score", "output.score > 3"))
    assert json.loads(condition.stdout)["trend"][0]["mean"] == 1.0
    off = look_at(words=("--score", "output.score * 2", "--history", str(folder / "other")))
    assert "outside 0 to 1" in str(off.exception)
    bad = look_at(words=("--range", "5,1"))
    assert "--range '5,1' is not two numbers" in str(bad.exception)


def test_a_damaged_history_is_told(look_at: Callable[..., Any], folder: Path) -> None:
    look_at()
    (folder / "history" / "history.jsonl").write_text('{"watch": 1}\n')
    assert "not a history of `verdict watch`" in str(look_at().exception)
