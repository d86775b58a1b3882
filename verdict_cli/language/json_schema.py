"""The JSON Schemas of files, made from the same classes that read them."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

import orjson
from pydantic.json_schema import CoreRef, GenerateJsonSchema

from verdict_cli.config_model import ConfigModel, described
from verdict_cli.language import extractors, metric_registry, scales
from verdict_cli.language.entry_points import PluginUnion
from verdict_cli.language.extractors.bound_extractor import BaseExtractor
from verdict_cli.language.package_files import folder
from verdict_cli.language.pipeline_file import PipelineFile

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator
    from pydantic_core import core_schema

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_NAME = "pipeline.schema.json"
_TEXT_KEYS = {"propertyNames": {"type": "string"}}
"""Says nothing of a JSON file, but YAML has keys that are numbers."""


class _Generator(GenerateJsonSchema):
    """Says what pydantic checks and leaves out of a schema."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.begun: set[type[ConfigModel]] = set()

    def generate_inner(self, schema: Any) -> dict[str, Any]:
        """A class that stands within another one is a reference to its own schema, which is made the first time."""
        met = schema.get("metadata", {})
        if "offers" in met:
            return self._with_offered(super().generate_inner(schema), met["offers"])
        if "kind" not in met:
            return super().generate_inner(schema)
        return {**self._reference(met["kind"]()), **met.get("pydantic_js_extra", {})}

    def _with_offered(self, own: dict[str, Any], mark: PluginUnion) -> dict[str, Any]:
        found = {
            name: self._reference(part) if isinstance(part, type) else {} for name, part in mark.offers.found.items()
        }
        return mark.spelled(own, found) if found else own

    def _reference(self, kind: type[ConfigModel]) -> dict[str, Any]:
        ref = CoreRef(f"{kind.__module__}.{kind.__qualname__}:{id(kind)}")  # as pydantic names it
        name, reference = self.get_cache_defs_ref_schema(ref)
        if kind not in self.begun:
            self.begun.add(kind)
            made = super().generate_inner(kind.__pydantic_core_schema__)
            if made != reference:
                self.definitions[name] = made
        return reference

    def str_schema(self, schema: core_schema.StringSchema) -> dict[str, Any]:
        """In some dialects `$` also matches before a final line break."""
        made = super().str_schema(schema)
        return {**made, "not": {"pattern": "\\n"}} if "pattern" in made else made

    def dict_schema(self, schema: core_schema.DictSchema) -> dict[str, Any]:
        """Keys are texts, except where the class says that they may be any value of a scale."""
        made = super().dict_schema(schema)
        return {**made, **_TEXT_KEYS} if schema.get("keys_schema", {}).get("type") == "str" else made

    def model_schema(self, schema: core_schema.ModelSchema) -> dict[str, Any]:
        """Every property says what it is for. A mapping is an extractor by its `type`; the keys of a declared unit type are texts too."""
        made = super().model_schema(schema)
        if issubclass(schema["cls"], ConfigModel):
            texts = described(schema["cls"])
            made["properties"] = {
                key: {**value, "description": texts[key]} if key in texts else value
                for key, value in made.get("properties", {}).items()
            }
        if issubclass(schema["cls"], BaseExtractor):
            made = {**made, "required": ["type", *made.get("required", [])]}
        return {**made, **_TEXT_KEYS} if made.get("additionalProperties") is True else made


SCHEMA_PLUGINS = (scales.SCALE_PLUGINS, extractors.EXTRACTOR_PLUGINS, metric_registry.METRIC_PLUGINS)
"""What installed packages can add to the schema."""


def pipeline_schema() -> dict[str, Any]:
    """The schema of pipeline files, with the parts of installed packages that were looked up so far."""
    return _pipeline_schema(_found())


def complete_schema() -> dict[str, Any]:
    """The schema of pipeline files with every part that an installed package offers."""
    for offers in SCHEMA_PLUGINS:
        for name in offers.names():
            offers.get(name)
    return pipeline_schema()


def _found() -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(offers.found) for offers in SCHEMA_PLUGINS)


@cache
def _pipeline_schema(_: tuple[tuple[str, ...], ...]) -> dict[str, Any]:
    return file_schema(PipelineFile)


def file_schema(kind: type[ConfigModel]) -> dict[str, Any]:
    """The schema of a kind of file, Draft 2020-12, with a description on every property."""
    return {"$schema": DIALECT, **schema_of(kind)}


def schema_of(kind: type[ConfigModel]) -> dict[str, Any]:
    """The schema of one class, without a dialect."""
    made = kind.model_json_schema(by_alias=True, mode="validation", schema_generator=_Generator)
    tidied: dict[str, Any] = _tidy(made)
    return tidied


def violations(data: Any) -> list[tuple[tuple[str | int, ...], str]]:
    """(path, message) of everything in the data that the schema forbids. Keys that are numbers count as JSON would write
    them: that a key must be a text is for the classes to say."""
    found = _validator(_found()).iter_errors(_as_json(data))
    return [(tuple(error.instance_path), error.message) for error in found]


@cache
def _validator(offered: tuple[tuple[str, ...], ...]) -> Draft202012Validator:
    """Of the published file, which a test keeps equal to `pipeline_schema`: reading it is quicker than making it. Where parts
    of installed packages were looked up, the schema is made with them."""
    from jsonschema_rs import Draft202012Validator

    if any(offered):
        return Draft202012Validator(_pipeline_schema(offered))
    return Draft202012Validator(orjson.loads((folder("schemas") / _NAME).read_bytes()))


def _as_json(data: Any) -> Any:
    if isinstance(data, list):
        return [_as_json(item) for item in data]
    if not isinstance(data, dict):
        return data
    return {key if isinstance(key, str) else json.dumps(key): _as_json(value) for key, value in data.items()}


def _tidy(schema: Any) -> Any:
    """The schema without the titles that pydantic derives from names: they tell an editor nothing."""
    if isinstance(schema, list):
        return [_tidy(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: _tidy(sub) for name, sub in value.items()} if key in ("properties", "$defs") else _tidy(value)
        for key, value in schema.items()
        if not (key == "title" and isinstance(value, str))
    }
