"""The wiring cases of the language, built from Python steps."""

from __future__ import annotations

import json
from typing import Any

import pytest

from verdict_cli import Block, CoTUnit, Layer, Pipeline, SpecError
from verdict_cli.language.authoring.step import Step


def built(step: dict[str, Any]) -> Step:
    """The step of a case as a Python value."""
    if "unit" in step:
        assert step["unit"] == "CoTUnit"
        return CoTUnit(name=step["name"]).prompt(step["prompt"])
    if "block" in step:
        return Block([built(inner) for inner in step["block"]])
    keys = {name: value for name, value in step.items() if name != "layer"}
    return Layer([built(item) for item in step["layer"]], **keys)


def pipeline_of(case: dict[str, Any]) -> Pipeline:
    pipeline = Pipeline(case["name"], model="gpt-4o-mini")
    for step in case["pipeline"]:
        pipeline = pipeline >> built(step)
    return pipeline


def test_every_wiring_case_has_its_graph(shared):
    cases = json.loads((shared / "spec" / "wiring-cases.json").read_text(encoding="utf-8"))["cases"]
    assert len(cases) > 10
    for case in cases:
        expected = case["expect"]
        if expected.get("error"):
            with pytest.raises(SpecError):
                pipeline_of(case).validate()
            continue
        graph = pipeline_of(case).graph("json")
        assert [node["id"] for node in graph["nodes"]] == expected["nodes"], case["name"]
        assert sorted(graph["edges"]) == sorted(expected["edges"]), case["name"]
        for key in ("roots", "leaves", "outputs"):
            assert graph[key] == expected[key], (case["name"], key)
