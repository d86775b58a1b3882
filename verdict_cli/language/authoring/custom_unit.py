"""Units that are subclassed in Python, written as their built-in base with the keys that the class sets."""

from __future__ import annotations

from typing import Any

from verdict_cli.language.authoring.arguments import prompt_key
from verdict_cli.language.authoring.functions import OUTPUT_NAMES, RULE_NAMES, method_function, rule
from verdict_cli.language.authoring.schema import Schema
from verdict_cli.language.authoring.step import FunctionsByPath, StepPath
from verdict_cli.language.extractors.bound_extractor import EXPLANATION
from verdict_cli.language.units.base import LLMUnit, snake


def custom_unit_document(
    unit: LLMUnit, keys: dict[str, Any], path: StepPath, functions: FunctionsByPath
) -> dict[str, Any]:
    """The unit's keys with what its class declares. Its `validate` and `process` are added to `functions`."""
    from verdict_cli import Extractor

    kind = type(unit)
    data = {"unit": keys.pop("unit")}
    if kind is not unit.language_class():
        data["name"] = unit.name or snake(_class_attribute(kind, "_char") or kind.__name__)
    data |= keys
    prompt = _class_attribute(kind, "_prompt")
    if "prompt" not in data and prompt is not None:
        data["prompt"] = prompt_key(prompt)
    is_processed = kind.process is not LLMUnit.process
    schemas = {
        "input": unit.InputSchema or Schema,
        "response": unit.ResponseSchema or Schema,
        "output": unit.OutputSchema or Schema,
    }
    for key, schema in schemas.items():
        if schema.declared() and not (key == "output" and is_processed):
            data[key] = {**data.get(key, {}), **schema.declared()}
    arguments = {key: schemas[key] for key in ("response", "input")}
    if kind.validate is not LLMUnit.validate:
        functions[*path, "validate"] = rule(unit.validate, f"{kind.__name__}.validate", RULE_NAMES, arguments)
    if is_processed:
        fields = schemas["output"].declared() or None
        what = f"{kind.__name__}.process"
        functions[*path, "process"] = method_function(unit.process, what, OUTPUT_NAMES, arguments, fields)
    extractor = data.get("extract")
    if isinstance(extractor, Extractor):
        data["extract"] = extractor.key(_response_fields(unit, data))
    return data


def _class_attribute(kind: type[LLMUnit], name: str) -> Any:
    """A private attribute of the class. One that is annotated is taken away by pydantic, which keeps its default."""
    private = getattr(kind, "__private_attributes__", {}).get(name)
    return getattr(kind, name) if private is None else private.default


def _response_fields(unit: LLMUnit, data: dict[str, Any]) -> list[str]:
    """The names of the response's fields, except the explanation."""
    own = unit.own_fields(unit.scale or unit.default_scale())  # type: ignore[arg-type]
    return [name for name in dict.fromkeys([*data.get("response", {}), *own]) if name != EXPLANATION]
