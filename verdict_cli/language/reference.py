"""The reference entry of a unit, a scale, an extractor, or another mapping of a pipeline file.

The texts are the docstrings of the classes, as in the JSON Schema; the examples are the pipelines of `configs/examples`,
which the tests run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from verdict_cli.config_model import JsonSchema
from verdict_cli.language.extractors import EXTRACTORS
from verdict_cli.language.json_schema import pipeline_schema, schema_of
from verdict_cli.language.package_files import folder
from verdict_cli.language.scales import SCALES
from verdict_cli.language.units import TYPES
from verdict_cli.regex import regex

_FILE = "pipeline file"
_PLAIN = {"string", "integer", "number", "boolean"}
_DATA = regex(r"^# Data: (\S+)\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ReferenceKey:
    """A key of a mapping: its kind of value, and its description."""

    name: str
    kind: str
    default: str | None
    """The default as YAML; None without one, and for an empty one."""
    required: bool
    text: str


@dataclass(frozen=True, slots=True)
class Example:
    """A complete pipeline that uses the part, and the sample that it judges."""

    file: str
    data: str
    text: str


class ReferenceEntry(Struct, frozen=True):
    """A part of the language under its name in a file or in the schema."""

    name: str
    group: str
    """`unit`, `scale`, `extractor`, or `mapping`."""
    text: str
    keys: tuple[ReferenceKey, ...]
    example: Example | None

    def own(self) -> tuple[ReferenceKey, ...]:
        """The keys without those of every unit of its kind, and without the one that names the type itself."""
        shared = {
            key.name for key in shared_keys(asking=any(key.name == "prompt" for key in self.keys))
        }
        excluded = shared if self.group == "unit" else set()
        return tuple(key for key in self.keys if key.name not in excluded | {"unit", "type"})


def entries() -> dict[str, ReferenceEntry]:
    """Every part by its name: units, scales, extractors, then the other mappings of files, the file itself first."""
    return {part.name: part for part in _entries()}


def plugin_entry(name: str) -> ReferenceEntry | None:
    """The entry of a scale or an extractor of an installed package."""
    for group, kind in (("scale", SCALES.plugin(name)), ("extractor", EXTRACTORS.plugin(name))):
        if kind is not None:
            return _entry(name, group, schema_of(kind))
    return None


def shared_keys(*, asking: bool) -> tuple[ReferenceKey, ...]:
    """The keys of every unit; with `asking`, of every unit that calls a model."""
    units = [set(_definition(TYPES.title(name))["properties"]) for name in TYPES]
    if asking:
        units = [names for names in units if "prompt" in names]
    common = set.intersection(*units)
    keys = _keys(_definition("JudgeUnit")["properties"], ("unit",))
    return tuple(key for key in keys if key.name in common)


def _entries() -> Iterator[ReferenceEntry]:
    used: set[str] = set()
    for group, names in (
        ("unit", {name: TYPES.title(name) for name in TYPES}),
        ("scale", {name: SCALES.title(name) for name in SCALES}),
        ("extractor", {name: EXTRACTORS.title(name) for name in EXTRACTORS}),
    ):
        for name, definition in names.items():
            used.add(definition)
            yield _entry(name, group, _definition(definition))
    yield _entry(_FILE, "mapping", pipeline_schema())
    for definition, schema in pipeline_schema()["$defs"].items():
        if definition not in used and schema.get("type") == "object" and "properties" in schema:
            yield _entry(definition, "mapping", schema)


def _entry(name: str, group: str, schema: JsonSchema) -> ReferenceEntry:
    text = " ".join(schema.get("description", "").split())
    example = None if group == "mapping" else _example(name)
    return ReferenceEntry(
        name,
        group,
        text,
        tuple(_keys(schema.get("properties", {}), schema.get("required", ()))),
        example,
    )


def _definition(name: str) -> JsonSchema:
    definition: JsonSchema = pipeline_schema()["$defs"][name]
    return definition


def _example(name: str) -> Example | None:
    path = folder("configs") / "examples" / f"{name}.yaml"
    if not path.is_file():
        return None
    _, _, text = path.read_text(encoding="utf-8").partition("\n")
    data = _DATA.search(text)
    assert data is not None, f"{path.name} has no line `# Data: …`"
    return Example(f"configs/examples/{path.name}", data[1], text)


def _keys(properties: JsonSchema, required: Collection[str]) -> Iterator[ReferenceKey]:
    for name, value in properties.items():
        yield ReferenceKey(
            name, _kind(value), _default(value), name in required, value.get("description", "")
        )


def _default(schema: JsonSchema) -> str | None:
    default = schema.get("default")
    if default is None or default in ("", [], {}) or isinstance(default, dict):
        return None
    return default if isinstance(default, str) else json.dumps(default)


def _kind(schema: JsonSchema) -> str:  # noqa: PLR0911 - a case for each form of a schema
    """How a value is written, in words; a mapping by the name that it has among `entries`."""
    choices = schema.get("anyOf") or schema.get("oneOf")
    if choices and "type" not in schema:
        if {choice.get("type") for choice in choices} >= _PLAIN:
            return "any plain value"
        kinds = [_kind(choice) for choice in choices if choice.get("type") != "null"]
        return " or ".join(dict.fromkeys(kind for kind in kinds if kind))
    if "$ref" in schema:
        return _named(schema["$ref"].rpartition("/")[2])
    if "const" in schema:
        return f"`{_plain(schema['const'])}`"
    if "enum" in schema:
        return ", ".join(f"`{_plain(value)}`" for value in schema["enum"])
    match schema.get("type"):
        case "array":
            items = _kind(schema.get("items", {}))
            items = f"({items})" if " or " in items else items
            return f"list of {items}" if items else "list"
        case "object":
            values = schema.get("additionalProperties")
            return (
                f"names, each with {_kind(values) or 'a value'}"
                if isinstance(values, dict)
                else "mapping"
            )
        case str() as kind:
            return {
                "string": "text",
                "integer": "whole number",
                "boolean": "`true` or `false`",
            }.get(kind, kind)
    return ""


def _named(definition: str) -> str:
    schema = pipeline_schema()["$defs"].get(definition, {})
    words = {
        "ScaleKeys": "scale",
        "ExtractorKeys": "extractor",
        "StepKey": "step",
        "FieldKey": "type of field",
    }
    return (
        words.get(definition)
        or (definition if "properties" in schema else _kind(schema))
        or definition
    )


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
