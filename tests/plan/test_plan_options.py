"""Units that choose need their options' texts only where the program lays them out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from verdict_cli import BestOfKJudgeUnit, PairwiseJudgeUnit, Pipeline, RankerUnit
from verdict_cli.cli.app import app
from verdict_cli.errors import DataError, SpecError

REPLIES = {
    "PairwiseJudgeUnit": {"choice": "B"},
    "BestOfKJudgeUnit": {"choice": "B"},
    "RankerUnit": {"ranking": ["B", "A"]},
}
PROMPT = "Which is better? {source.x} or {source.y}"
ROW = {"x": "first", "y": "second"}
LAID_OUT = "<option_A>\nfirst\n</option_A>\n\n<option_B>\nsecond\n</option_B>"


def _pipeline(tmp_path: Any, unit: str, prompt: str = PROMPT, **keys: Any) -> Pipeline:
    if unit != "PairwiseJudgeUnit" and "options" not in keys:
        keys["k"] = 2
    step = {"unit": unit, "name": "j", "prompt": prompt, **keys}
    path = tmp_path / "t.yaml"
    path.write_text(json.dumps({"verdict": 1, "name": "t", "model": "m", "pipeline": [step]}))
    return Pipeline.from_yaml(path)


@pytest.mark.parametrize("unit", REPLIES)
def test_a_prompt_with_its_own_placeholders_needs_no_options(tmp_path, scripted_model, unit):
    scripted_model.answer = lambda _: json.dumps(REPLIES[unit])
    assert dict(_pipeline(tmp_path, unit).run(ROW)) == REPLIES[unit]
    assert scripted_model.texts()[0].startswith("Which is better? first or second")


@pytest.mark.parametrize(
    "unit", [PairwiseJudgeUnit(), BestOfKJudgeUnit(2), RankerUnit(2)], ids=REPLIES
)
def test_so_it_is_from_python(scripted_model, unit):
    reply = REPLIES[type(unit).__name__]
    scripted_model.answer = lambda _: json.dumps(reply)
    assert dict((Pipeline("t").via("m") >> unit.prompt(PROMPT)).run(ROW)) == reply


@pytest.mark.parametrize("unit", REPLIES)
@pytest.mark.parametrize(
    ("prompt", "text"),
    [
        ("Choose:\n{input.options}", LAID_OUT),
        ("{input.options[1]}", "second"),
        ("{input.A}", "first"),
    ],
)
def test_a_prompt_shows_the_options_laid_out(tmp_path, scripted_model, unit, prompt, text):
    scripted_model.answer = lambda _: json.dumps(REPLIES[unit])
    _pipeline(tmp_path, unit, prompt, options=["source.x", "source.y"]).run(ROW)
    assert text in scripted_model.texts()[0]
    with pytest.raises(DataError, match="no column 'A'") as caught:
        _pipeline(tmp_path, unit, prompt).run(ROW)
    assert "options: [" in str(caught.value.problem.hint)


@pytest.mark.parametrize(
    ("unit", "keys"),
    [
        ("PairwiseJudgeUnit", {"original": True}),
        ("PairwiseJudgeUnit", {"positions": "both"}),
        ("BestOfKJudgeUnit", {"shuffle": True}),
        ("RankerUnit", {"original": True}),
    ],
)
def test_what_is_computed_from_the_texts_needs_them(tmp_path, invoke, unit, keys):
    prompt = (
        f"{PROMPT}\n{{input.A}}\n{{input.B}}" if {"positions", "shuffle"} & keys.keys() else PROMPT
    )
    pipeline = _pipeline(tmp_path, unit, prompt, **keys)
    assert [used.column for used in pipeline.plan().columns] == ["A", "B", "x", "y"]
    (tmp_path / "rows.jsonl").write_text(json.dumps(ROW) + "\n")
    for command in ("validate", "run"):
        done = invoke(command, tmp_path / "t.yaml", tmp_path / "rows.jsonl")
        assert "the data has no column 'A'" in done.output + str(done.exception)
        assert "options: [" in done.output + str(done.exception)


def test_a_unit_before_that_gives_no_option_names_the_key(tmp_path):
    path = tmp_path / "t.yaml"
    path.write_text(
        "verdict: 1\nname: t\nmodel: m\npipeline:\n  - {unit: JudgeUnit, prompt: x}\n  - {unit: PairwiseJudgeUnit}\n"
    )
    with pytest.raises(SpecError) as caught:
        Pipeline.from_yaml(path).plan()
    assert "`options: [" in caught.value.problems[0].hint


@pytest.fixture
def invoke(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs the command line in an empty folder."""
    from typer.testing import CliRunner

    monkeypatch.chdir(tmp_path)
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words])
