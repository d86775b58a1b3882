"""Short forms of scales, slices and gates mean the same as their long forms, in the program and in the schema."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from verdict_cli.errors import SpecError
from verdict_cli.language.document.document import parse_document
from verdict_cli.language.json_schema import pipeline_schema
from verdict_cli.language.load import validate_document
from verdict_cli.plan.build import build_plan

FILE = """verdict: 1
name: x
model: m
pipeline:
  - {unit: JudgeUnit, scale: SCALE, prompt: "{source.a}"}
evaluate:
  right: {prediction: output.score, target: source.b, by: SLICES}
gates:
  - GATE
"""
LONG = {
    "SCALE": "{range: [1, 5]}",
    "SLICES": "[source.c]",
    "GATE": "{metric: right.accuracy, min: 0.9}",
}


def plan_of(**forms):
    text = FILE
    for word, form in (LONG | forms).items():
        text = text.replace(word, form)
    assert Draft202012Validator(pipeline_schema()).is_valid(yaml.safe_load(text))
    return build_plan(validate_document(parse_document(text.encode(), "p.yaml"), Path())).plan


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ({"SCALE": "1-5"}, {}),
        ({"SCALE": "0-10"}, {"SCALE": "{type: discrete, range: [0, 10]}"}),
        ({"SCALE": "-2-2"}, {"SCALE": "{type: discrete, range: [-2, 2]}"}),
        ({"SLICES": "source.c"}, {}),
        ({"GATE": "right.accuracy >= 0.9"}, {}),
        ({"GATE": "right.accuracy<=0.5"}, {"GATE": "{metric: right.accuracy, max: 0.5}"}),
        ({"GATE": "run.failed <= 0"}, {"GATE": "{metric: run.failed, max: 0.0}"}),
    ],
)
def test_a_short_form_is_its_long_form(short, long):
    from_short, from_long = plan_of(**short), plan_of(**long)
    assert from_short.gates == from_long.gates and from_short.evaluations == from_long.evaluations
    assert (
        from_short.nodes[0].output == from_long.nodes[0].output
        and from_short.nodes[0].fingerprint == from_long.nodes[0].fingerprint
    )


@pytest.mark.parametrize(
    ("wrong", "message", "hint"),
    [
        (
            {"GATE": "right.accuracy > 0.9"},
            "found 'right.accuracy > 0.9'",
            "write `right.accuracy >= 0.9`",
        ),
        ({"GATE": "right.accuracy"}, "expected a gate such as", "a number"),
        ({"GATE": "right.acuracy >= 0.9"}, "`acuracy`", "`accuracy`"),
        ({"SCALE": "5-1"}, "from 5 down to 1", "smaller end first"),
        ({"SCALE": "1..5"}, "unknown scale '1..5'", "1-5"),
        ({"SLICES": "5"}, "expected a list, found 5", ""),
    ],
)
def test_a_wrong_short_form_is_one_error_that_shows_the_right_one(wrong, message, hint):
    text = FILE
    for word, form in (LONG | wrong).items():
        text = text.replace(word, form)
    with pytest.raises(SpecError) as caught:
        build_plan(validate_document(parse_document(text.encode(), "p.yaml"), Path()))
    (problem,) = caught.value.problems
    assert message in problem.message and hint in (problem.hint or "")
