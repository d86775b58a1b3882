"""A study as a file: `verdict sweep STUDY.yaml DATA`."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from jsonl import jsonl

from verdict_cli.features.sweep.study_file import Study, read_study, studies

PIPELINE = """
model: baseline/lexical
pipeline:
  - layer:
      - {unit: JudgeUnit, name: judge, scale: boolean, prompt: "Is {source.text} good?"}
    repeat: 1
  - {unit: ModePoolUnit, name: vote, field: score}
evaluate:
  right: {prediction: output.score, target: source.good, metrics: [accuracy, f1]}
"""
STUDY: dict[str, Any] = {"study": 1, "name": "votes", "pipeline": "judge.yaml"}
TWO = [
    {"name": "alone", "set": {"pipeline[0].repeat": 1}},
    {"name": "three", "set": {"pipeline[0].repeat": 3}},
]


def write(shell: Any, **keys: Any) -> tuple[str, str]:
    shell.write("judge.yaml", f"verdict: 1\nname: judge\n{PIPELINE}")
    rows = [{"text": f"text {index}", "good": index % 2 == 0} for index in range(6)]
    data = shell.write("d.jsonl", jsonl(rows))
    return str(shell.write("study.yaml", yaml.safe_dump({**STUDY, **keys}))), str(data)


def test_variants_have_the_names_and_the_order_of_the_file(shell):
    config, data = write(shell, variants=TWO, metrics=["right.accuracy", "right.f1"])
    ran = shell("sweep", config, data, "--json")
    document = json.loads(ran.out)
    assert [variant["name"] for variant in document["variants"]] == ["alone", "three"]
    assert [variant["calls"] for variant in document["variants"]] == [6, 18]
    assert document["metric"] == "right.accuracy"
    assert [list(variant["metrics"]) for variant in document["variants"]] == [
        ["right.f1"],
        ["right.f1"],
    ]
    assert document["sweep"] == "sweeps/votes"


def test_vary_in_a_file_and_on_the_command_line_make_the_same_variants(shell):
    config, data = write(shell, vary={"pipeline[0].repeat": [1, 3]}, name=None)
    of_file = json.loads(shell("sweep", config, data, "--out", "a", "--json").out)
    words = ("--vary", "pipeline[0].repeat=1,3", "--out", "b", "--json")
    of_options = json.loads(shell("sweep", "judge.yaml", data, *words).out)
    names = [
        [variant["name"] for variant in document["variants"]] for document in (of_file, of_options)
    ]
    assert names[0] == names[1] == ["repeat=1", "repeat=3"]


def test_variants_that_differ_only_in_the_model_run_once_with_another_model(shell):
    variants = [
        {"name": "judge", "model": "gpt-4o"},
        {"name": "judge", "model": "gpt-4o-mini"},
        {"name": "jury", "model": "gpt-4o", "set": {"pipeline[0].repeat": 3}},
    ]
    config, data = write(shell, variants=variants)
    document = json.loads(shell("sweep", config, data, "--model", "baseline/lexical", "--json").out)
    assert [variant["name"] for variant in document["variants"]] == ["judge", "jury"]


@pytest.mark.parametrize(
    ("keys", "words", "message"),
    [
        ({}, (), "either `variants` or `vary`"),
        ({"variants": TWO, "vary": {"model": ["a"]}}, (), "either `variants` or `vary`"),
        ({"variants": TWO}, ("--vary", "model=a"), "says what varies"),
        ({"variants": TWO, "pipeline": None}, (), "names no pipeline"),
        ({"variants": [*TWO, {**TWO[1], "off": ["model"]}]}, (), "three twice"),
        ({"variants": [{"name": "x", "sett": {}}]}, (), "sett"),
    ],
)
def test_a_mistake_in_a_study_is_reported_before_a_call(shell, keys, words, message):
    config, data = write(shell, **keys)
    ran = shell("sweep", config, data, *words)
    assert ran.code == 2
    assert message in ran.err


def test_a_pipeline_without_variants_is_an_error_with_the_way_to_have_some(shell):
    _, data = write(shell)
    ran = shell("sweep", "judge.yaml", data)
    assert ran.code == 2
    assert "nothing varies" in ran.err and "--vary" in ran.err


@pytest.mark.parametrize("path", studies().values(), ids=list(studies()))
def test_a_shipped_study_is_valid_and_names_its_schema(path):
    assert isinstance(read_study(path), Study)
    first = path.read_text(encoding="utf-8").splitlines()[0]
    schema = path.parent / first.removeprefix("# yaml-language-server: $schema=")
    assert schema.resolve().name == "study.schema.json" and schema.is_file()
