"""Scales that look like labels in a judge's place, and the sentence of a boolean scale."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from verdict_cli.cli.app import app
from verdict_cli.language.load import load
from verdict_cli.plan.build import build_plan
from verdict_cli.plan.node import LLMNode

PIPELINE = """
verdict: 1
name: labels
model: baseline/lexical
pipeline:
  - {{unit: JudgeUnit, name: judge, {keys}, prompt: "{{source.x}}"}}
"""


def warnings(folder: Path, keys: str) -> list[str]:
    path = folder / "p.yaml"
    path.write_text(PIPELINE.format(keys=keys), encoding="utf-8")
    result = CliRunner().invoke(app, ["validate", str(path), "--json"])
    document = json.loads(result.stdout)
    assert document["ok"], document
    return [warning["message"] for warning in document["warnings"]]


@pytest.mark.parametrize(
    "scale",
    [
        "{values: [no_error, error], ordered: true}",
        "{values: ['B>A', 'A>B'], scores: {'B>A': 0, 'A>B': 1}}",
        "{values: ['no', 'yes'], ordered: true}",
        "{values: ['no', partly, 'yes'], scores: {'no': 0, partly: 0.5, 'yes': 1}}",
        "{values: [unsafe, safe], scores: {unsafe: 0, safe: 1}}",
        "{values: [safe, unsafe], end_is_worst: true}",
        "{values: [not supported, supported], ordered: true}",
        "{values: [fail, pass], scores: {fail: 0, pass: 1}}",
        "{values: ['B < A', tie, 'A < B'], ordered: true}",
    ],
)
def test_a_prompt_on_an_ordered_scale_of_labels_needs_a_sentence_of_it(tmp_path, scale):
    (message,) = warnings(tmp_path, f"scale: {scale}")
    assert "look like labels, but the prompt calls" in message
    assert warnings(tmp_path, f"scale: {scale}, scale_instructions: false") == []


@pytest.mark.parametrize(
    "scale",
    [
        "boolean",
        "likert",
        "{values: [bad, fair, good], ordered: true}",
        "{values: [poor, excellent], scores: {poor: 0, excellent: 1}}",
        "{values: [wrong, partly right, right], scores: {wrong: 0, partly right: 0.5, right: 1}}",
        "{values: [unhelpful, helpful], ordered: true}",
        "{values: [no_error, error]}",
        "{values: ['no', 'yes']}",
        "{range: [a, e]}",
    ],
)
def test_a_scale_of_quality_and_a_nominal_one_are_not(tmp_path, scale):
    assert warnings(tmp_path, f"scale: {scale}") == []


def test_two_numbers_that_may_be_the_ends_of_a_range_are_warned_of(tmp_path):
    (message,) = warnings(tmp_path, "scale: {values: [1, 5]}")
    assert "did you mean range" in message


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ("scale: boolean", 'Answer with true ("yes") or false ("no") as the score.'),
        (
            "scale: {yes: [right], no: [wrong]}",
            'Answer with true ("right") or false ("wrong") as the score.',
        ),
        ("scale: {yes: ['true'], no: ['false']}", "Answer with true or false as the score."),
        ("scale: boolean, extract: verdict", 'Answer with "yes" or "no" as the score.'),
        (
            "scale: boolean, extract: {type: regex, fields: {score: 'yes|no'}}",
            'Answer with "yes" or "no" as the score.',
        ),
    ],
)
def test_the_sentence_of_a_boolean_scale_names_what_the_reply_is_to_hold(tmp_path, keys, sentence):
    path = tmp_path / "p.yaml"
    path.write_text(PIPELINE.format(keys=keys), encoding="utf-8")
    (node,) = build_plan(load(path)).plan.nodes
    assert isinstance(node.work, LLMNode)
    assert node.work.suffix(0) == sentence
