"""The shipped JSON Schema, for editors, refuses what the program refuses as far as a schema can say it."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from jsonschema import Draft202012Validator
from paths import ROOT

from verdict_cli.errors import Problem, SpecError
from verdict_cli.language.document.document import read_document
from verdict_cli.language.document.source_positions import Document, Position, ValueNode
from verdict_cli.plan.build import load_plan

SHIPPED = ROOT / "schemas" / "pipeline.schema.json"
VALIDATOR = Draft202012Validator(orjson.loads(SHIPPED.read_bytes()))
CONFIGS = sorted((ROOT / "configs").rglob("*.yaml"))
PIPELINES = [
    path
    for path in CONFIGS
    if b"\npipeline:" in path.read_bytes() and path.parent.name != "studies"
]

JUDGE = {"unit": "JudgeUnit", "prompt": "{source.a}"}


def file(step: dict[str, Any] | None = None, **keys: Any) -> dict[str, Any]:
    return {
        "verdict": 1,
        "name": "p",
        "model": "baseline/lexical",
        "pipeline": [step or JUDGE],
        **keys,
    }


def document(data: Any) -> Document:
    return Document("p.yaml", data, ValueNode(data, Position(1, 1)))


def problems(data: Any) -> tuple[Problem, ...]:
    try:
        load_plan(document(data), ROOT / "configs")
    except SpecError as error:
        return error.problems
    return ()


WRONG = [
    file({**JUDGE, "unit": "JugeUnit"}),
    file({"layer": [{**JUDGE, "unit": "CotUnit"}], "repeat": 2}),
    file({"block": [JUDGE, {**JUDGE, "unit": "JudgeUnits"}]}),
    file({"use": "b"}, blocks={"b": [{"unit": "MeanPool"}]}),
    file(blocks={"unused": [{"layer": [{**JUDGE, "unit": "JugeUnit"}]}]}),
    file(blocks={"unused": [{**JUDGE, "scale": "bolean"}]}),
    file({**JUDGE, "scale": "bolean"}),
    file({"layer": [{**JUDGE, "scale": "licert"}]}),
    file({**JUDGE, "scale": {"type": "discreet"}}),
    file({**JUDGE, "scale": {"range": ["1", "5"]}}),
    file({**JUDGE, "extract": "regexp"}),
    file({**JUDGE, "extract": {"type": "strucured"}}),
    file({**JUDGE, "promt": "x"}),
    file({"layer": [JUDGE], "repeats": 3}),
    file({"layer": [JUDGE], "inner": "sequence"}),
    file(evaluate={"my metric/1": {"value": "output.score"}}),
    file(evaluate={"x": {"value": "output.score", "metrics": ["acuracy"]}}),
    file(evaluate={"x": {"panel": ["output.score", "output.score"], "value": "output.score"}}),
    file(evaluate={"x": {"value": "output.score", "target": "source.y"}}),
    file(evaluate={"x": {"gold": {"target": "source.y"}}}),
    file(evaluate={"x": {"prediction": "output.score"}}),
    file({"unit": "JudgeUnit"}),
    file({"unit": "Unit", "prompt": "x"}),
    file({"unit": "RubricUnit", "prompt": "x", "criteria": ["a"], "n": 5}),
    file({"unit": "BestOfKJudgeUnit", "prompt": "x"}),
    file({"unit": "CategoricalJudgeUnit", "prompt": "x"}),
    file(
        {
            "unit": "CategoricalJudgeUnit",
            "prompt": "x",
            "categories": ["a", "b"],
            "scale": "boolean",
        }
    ),
    file(
        {"layer": [JUDGE], "repeat": 2},
        pipeline=[JUDGE, {"unit": "MeanPoolUnit", "field": "score", "fields": ["score"]}],
    ),
    file({**JUDGE, "scale": {"type": "discrete"}}),
    file({**JUDGE, "scale": {"range": [1, 5], "values": [1, 2]}}),
    file({**JUDGE, "extract": {"type": "regex"}}),
    file(
        {
            **JUDGE,
            "extract": {"type": "regex", "pattern": "FIRST_INT", "fields": {"score": "FIRST_INT"}},
        }
    ),
    file(
        {
            **JUDGE,
            "scale": "1-5",
            "extract": {"type": "token_probability", "first_token": True, "after": "x"},
        }
    ),
    file(
        {
            **JUDGE,
            "scale": "1-5",
            "extract": {"type": "token_probability", "first_token": True, "sequence": True},
        }
    ),
    file({**JUDGE, "scale": "1-5", "extract": {"type": "weighted_summed_score", "min_mass": 3}}),
    file(gates=[{"metric": "x.accuracy", "minimum": 0.8}]),
    file(model={"name": "m", "temprature": 0.1}),
    file(models={"m": {"name": "m", "retries": -1}}),
]


@pytest.mark.parametrize("data", WRONG, ids=lambda data: json.dumps(data["pipeline"])[:60])
def test_a_wrong_file_is_refused_by_the_schema_too(data):
    assert problems(data)
    assert not VALIDATOR.is_valid(data)


@pytest.mark.parametrize(
    "data",
    [
        file({"unit": "Mine", "prompt": "x"}, units={"Mine": {"base": "JudgeUnit"}}),
        file({**JUDGE, "scale": "mine"}, scales={"mine": {"range": [1, 3]}}),
        *(
            file({**JUDGE, "scale": name})
            for name in ("likert", "boolean", "continuous", "1-10", "-3-3")
        ),
        file({**JUDGE, "scale": {"range": ["a", "e"]}}),
    ],
    ids=lambda data: json.dumps(data["pipeline"])[:60],
)
def test_declared_and_built_in_names_are_accepted(data):
    assert (problems(data), VALIDATOR.is_valid(data)) == ((), True)


@pytest.mark.parametrize(
    ("parts", "place", "code"),
    [
        ({"blocks": {"unused": [{"unit": "JudgeUnit"}]}}, "blocks.unused[0]", "missing-key"),
        ({"blocks": {"unused": [{"unit": "Unit", "prompt": "x"}]}}, "blocks.unused[0]", "bad-unit"),
        ({"blocks": {"unused": [{**JUDGE, "scale": {"type": "discrete"}}]}}, "blocks.unused[0].scale", "bad-scale"),
        ({"blocks": {"unused": [{**JUDGE, "extract": {"type": "regex"}}]}}, "blocks.unused[0].extract", "bad-extractor"),
        ({"scales": {"unused": {"type": "discrete"}}}, "scales.unused", "bad-scale"),
    ],
)  # fmt: skip
def test_a_part_that_nobody_uses_is_refused_in_the_words_of_its_class(parts, place, code):
    data = file(**parts)
    assert [(problem.path, problem.code) for problem in problems(data)] == [(place, code)]
    assert not VALIDATOR.is_valid(data)


@pytest.mark.parametrize(
    "data",
    [
        file({"unit": "RubricUnit", "prompt": "x", "n": 5, "criteria": None}),
        file({**JUDGE, "scale": {"range": [1, 5], "values": None}}),
        file(
            {
                **JUDGE,
                "scale": "1-5",
                "extract": {"type": "token_probability", "first_token": False, "after": "x"},
            }
        ),
    ],
    ids=lambda data: json.dumps(data["pipeline"])[:60],
)
def test_an_empty_key_counts_as_absent(data):
    assert (problems(data), VALIDATOR.is_valid(data)) == ((), True)


def test_every_wrong_file_of_the_findings_is_refused(shared):
    path = shared / "findings" / "cases" / "schema" / "wrong.jsonl"
    if not path.is_file():
        pytest.skip("the findings are not there")
    cases = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [case["what"] for case in cases if VALIDATOR.is_valid(case["file"])] == []


@pytest.mark.parametrize("path", PIPELINES, ids=lambda path: path.stem)
def test_every_shipped_pipeline_is_accepted(path):
    assert [error.message for error in VALIDATOR.iter_errors(read_document(path).data)] == []
