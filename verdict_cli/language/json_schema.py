"""The JSON Schemas of files, generated from the classes that validate them. Editors use them; verdict does not."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic.json_schema import CoreRef, GenerateJsonSchema

from verdict_cli.config_model import ConfigModel, described
from verdict_cli.language.extractors import EXTRACTORS
from verdict_cli.language.extractors.bound_extractor import Extractor
from verdict_cli.language.metric_registry import METRICS
from verdict_cli.language.pipeline_file import PipelineFile
from verdict_cli.language.scales import IMPLIED_TYPES, SCALES, Scale
from verdict_cli.registry import Registry

if TYPE_CHECKING:
    from pydantic_core import core_schema

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_STRING_KEYS = {"propertyNames": {"type": "string"}}
"""Redundant for a JSON file, but YAML has keys that are numbers."""


class _Generator(GenerateJsonSchema):
    """Adds to pydantic's schemas what the classes check and pydantic leaves out."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.begun: set[type[ConfigModel]] = set()

    def generate_inner(self, schema: Any) -> dict[str, Any]:
        """Handle the marks of `lazy_schema`, `LazyUnion` and `RegisteredName`."""
        metadata = schema.get("metadata", {})
        if "names" in metadata:
            registry = metadata["names"]
            return {"enum": [*registry, *registry.plugins], "type": "string"}
        if "plugins" in metadata:
            union = super().generate_inner(schema)
            parts = metadata["plugins"].plugins.values()
            return {**union, "oneOf": [*union["oneOf"], *map(self._reference, parts)]} if parts else union
        if "kind" in metadata:
            return {**self._reference(metadata["kind"]()), **metadata.get("pydantic_js_extra", {})}
        return super().generate_inner(schema)

    def _reference(self, kind: type[ConfigModel]) -> dict[str, Any]:
        """A reference to the schema of a class, which is generated the first time."""
        ref = CoreRef(f"{kind.__module__}.{kind.__qualname__}:{id(kind)}")  # as pydantic names it
        name, reference = self.get_cache_defs_ref_schema(ref)
        if kind not in self.begun:
            self.begun.add(kind)
            definition = super().generate_inner(kind.__pydantic_core_schema__)
            if definition != reference:
                self.definitions[name] = definition
        return reference

    def str_schema(self, schema: core_schema.StringSchema) -> dict[str, Any]:
        """In some dialects `$` also matches before a final line break."""
        definition = super().str_schema(schema)
        return {**definition, "not": {"pattern": "\\n"}} if "pattern" in definition else definition

    def dict_schema(self, schema: core_schema.DictSchema) -> dict[str, Any]:
        """Keys are strings, unless the class allows any value of a scale."""
        definition = super().dict_schema(schema)
        return {**definition, **_STRING_KEYS} if schema.get("keys_schema", {}).get("type") == "str" else definition

    def model_schema(self, schema: core_schema.ModelSchema) -> dict[str, Any]:
        """Every property has a description. Parts that are chosen by their `type` require it."""
        kind = schema["cls"]
        definition = super().model_schema(schema)
        if issubclass(kind, ConfigModel):
            texts = described(kind)
            definition["properties"] = {
                key: {**value, "description": texts[key]} if key in texts else value
                for key, value in definition.get("properties", {}).items()
            }
        if issubclass(kind, Extractor) or (
            issubclass(kind, Scale) and kind.model_fields["type"].default not in IMPLIED_TYPES
        ):
            definition = {**definition, "required": ["type", *definition.get("required", [])]}
        return {**definition, **_STRING_KEYS} if definition.get("additionalProperties") is True else definition


PLUGIN_REGISTRIES: tuple[Registry[Any], ...] = (SCALES, EXTRACTORS, METRICS)
"""The registries to whose parts installed packages can add."""


def pipeline_schema() -> dict[str, Any]:
    """The schema of pipeline files, with the parts of installed packages that were looked up so far."""
    return _pipeline_schema(tuple(tuple(registry.plugins) for registry in PLUGIN_REGISTRIES))


def complete_schema() -> dict[str, Any]:
    """The schema of pipeline files with every part that an installed package offers."""
    for registry in PLUGIN_REGISTRIES:
        for name in registry.names():
            registry.plugin(name)
    return pipeline_schema()


@cache
def _pipeline_schema(_: tuple[tuple[str, ...], ...]) -> dict[str, Any]:
    return file_schema(PipelineFile)


def file_schema(kind: type[ConfigModel]) -> dict[str, Any]:
    """The schema of a kind of file, Draft 2020-12, with a description on every property."""
    return {"$schema": DIALECT, **schema_of(kind)}


def schema_of(kind: type[ConfigModel]) -> dict[str, Any]:
    """The schema of one class, without a dialect."""
    schema = kind.model_json_schema(by_alias=True, mode="validation", schema_generator=_Generator)
    tidy: dict[str, Any] = _without_titles(schema)
    return tidy


def _without_titles(schema: Any) -> Any:
    """The schema without the titles that pydantic derives from names: editors show them, and they say nothing."""
    if isinstance(schema, list):
        return [_without_titles(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: _without_titles(sub) for name, sub in value.items()}
        if key in ("properties", "$defs")
        else _without_titles(value)
        for key, value in schema.items()
        if not (key == "title" and isinstance(value, str))
    }
