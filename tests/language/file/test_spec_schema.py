"""The JSON Schema of pipeline files, for editors."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from jsonschema import Draft202012Validator
from paths import ROOT
from shell import needs

from verdict_cli.language.evaluations import Published
from verdict_cli.language.json_schema import file_schema, pipeline_schema

SCHEMAS = ROOT / "schemas"


def card_schema() -> Any:
    """The schema of data cards, which a feature reads."""
    return file_schema(pytest.importorskip("verdict_cli.features.benchmarks.card").Card)


KINDS = {
    "pipeline": pipeline_schema,
    "card": card_schema,
    "published": lambda: file_schema(Published),
}


def properties(schema: Any, path: str = "") -> list[tuple[str, Any]]:
    """(path, schema) of every property that a file can have. Conditions name none, nor do the names that a file without
    declarations can use; `true` stands for a property that is described where it is shared."""
    schemas: list[tuple[str, Any]] = []
    if isinstance(schema, dict):
        for name, inner in schema.get("properties", {}).items():
            if inner is not True:
                schemas.append((f"{path}/{name}", inner))
        for key, inner in schema.items():
            if key not in ("not", "if", "then", "KnownUnits", "KnownScales"):
                schemas += properties(inner, f"{path}/{key}")
    elif isinstance(schema, list):
        for inner in schema:
            schemas += properties(inner, path)
    return schemas


@needs("batches", "rank")
@pytest.mark.parametrize("name", KINDS)
def test_the_published_schema_is_the_programs_own(name):
    fresh = orjson.dumps(KINDS[name](), option=orjson.OPT_INDENT_2) + b"\n"
    assert (SCHEMAS / f"{name}.schema.json").read_bytes() == fresh, "run `make schema`"


@pytest.mark.parametrize("name", KINDS)
def test_the_schema_is_a_valid_draft_2020_12(name):
    schema = KINDS[name]()
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize(("name", "least"), [("pipeline", 150), ("card", 20), ("published", 8)])
def test_every_property_has_a_description(name, least):
    schemas = properties(KINDS[name]())
    assert len(schemas) > least
    assert [path for path, schema in schemas if not schema.get("description", "").strip()] == []


def test_titles_that_tell_nothing_are_left_out():
    assert b'"title"' not in orjson.dumps(pipeline_schema())


@pytest.mark.parametrize(
    ("data", "path"),
    [
        ({"verdict": 1, "name": "a\n", "pipeline": [{"use": "x"}]}, ("name",)),
        ({"verdict": 1, "name": "a", "pipeline": []}, ("pipeline",)),
        ({"verdict": True, "name": "a", "pipeline": [{"use": "x"}]}, ("verdict",)),
        ({"verdict": 1, "name": "a", "pipeline": [{"use": "x", "repeat": 2}]}, ("pipeline", 0)),
    ],
)
def test_what_the_schema_forbids_is_found_at_its_path(data, path):
    errors = Draft202012Validator(pipeline_schema()).iter_errors(data)
    assert {tuple(error.absolute_path) for error in errors} == {path}


@pytest.mark.parametrize(
    ("data", "path"),
    [
        ({"verdict": 1, "name": "a", "pipeline": [{"use": "x"}], "models": {1: "m"}}, ("models",)),
        (
            {
                "verdict": 1,
                "name": "a",
                "pipeline": [{"unit": "Mine", 3: 4}],
                "units": {"Mine": {"base": "Unit"}},
            },
            ("pipeline", 0),
        ),
    ],
)
def test_a_validator_that_reads_yaml_finds_keys_that_are_no_texts(data, path):
    errors = Draft202012Validator(pipeline_schema()).iter_errors(data)
    assert {tuple(error.absolute_path) for error in errors} == {path}


def test_scores_may_have_keys_that_are_numbers():
    scale = {"values": [0, 1], "scores": {0: 1, 1: 0.5}}
    data = {"verdict": 1, "name": "a", "pipeline": [{"use": "x"}], "scales": {"s": scale}}
    assert Draft202012Validator(pipeline_schema()).is_valid(data)
