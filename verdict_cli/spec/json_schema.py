"""The JSON Schema of pipeline files, made from the same classes that read them."""

from __future__ import annotations

from functools import cache
from typing import Any

from verdict_cli.spec.pipeline import PipelineFile

DIALECT = "https://json-schema.org/draft/2020-12/schema"


@cache
def pipeline_schema() -> dict[str, Any]:
    """The schema, Draft 2020-12, with a description on every property."""
    made = PipelineFile.model_json_schema(by_alias=True, mode="validation")
    return {"$schema": DIALECT, **_tidy(made)}


def violations(data: Any) -> list[tuple[tuple[str | int, ...], str]]:
    """(path, message) of everything in the data that the schema forbids."""
    from jsonschema import Draft202012Validator

    errors = Draft202012Validator(pipeline_schema()).iter_errors(data)
    return [(tuple(error.absolute_path), error.message) for error in errors]


def _tidy(schema: Any) -> Any:
    """The schema without the titles that pydantic derives from names: they tell an editor nothing."""
    if isinstance(schema, list):
        return [_tidy(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: _tidy(sub) for name, sub in value.items()}
        if key in ("properties", "$defs")
        else _tidy(value)
        for key, value in schema.items()
        if not (key == "title" and isinstance(value, str))
    }
