"""The JSON Schemas of files, for editors, generated from the classes that validate them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic.json_schema import CoreRef, GenerateJsonSchema

from verdict_cli.config_model import (
    ADDED_KEYS,
    ConfigModel,
    JsonSchema,
    added_keys,
    key_descriptions,
)
from verdict_cli.language.authoring.unit_step import PACKAGE_UNITS
from verdict_cli.language.extractors import EXTRACTORS
from verdict_cli.language.extractors.bound_extractor import Extractor
from verdict_cli.language.metric_registry import METRICS
from verdict_cli.language.pipeline_file import STEP_KINDS, CustomStep, PipelineFile
from verdict_cli.language.scales import (
    IMPLIED_TYPES,
    SCALES,
    WRITTEN_RANGE,
    Scale,
    named_without_keys,
)
from verdict_cli.language.units import TYPES
from verdict_cli.language.units.base import LLMUnit, UnitBase

if TYPE_CHECKING:
    from pydantic_core import core_schema

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_STRING_KEYS = {"propertyNames": {"type": "string"}}
"""Redundant for a JSON file, but YAML has keys that are numbers."""

_ONE_LINE = {"not": {"pattern": "\\n"}}
"""In some dialects `$` also matches before a final line break."""


_NAMES = {EXTRACTORS: "ExtractorName", METRICS: "MetricKey"}
_FORMS = {SCALES: "ScaleKeys", EXTRACTORS: "ExtractorKeys"}
"""The definitions that have the parts of installed packages too."""


def _added_keys(kind: type[ConfigModel]) -> dict[str, JsonSchema]:
    """The keys that features add to a class, each with its feature: without it, messages can name what a file needs."""
    return {
        key: {"x-feature": feature}
        for owner, (feature, _) in ADDED_KEYS.items()
        if (added := added_keys(owner)) is not None and issubclass(kind, added)
        for key in added.model_fields
    }


class _Generator(GenerateJsonSchema):
    """Adds to pydantic's schemas what the classes check and pydantic leaves out."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._begun: set[type[ConfigModel]] = set()

    def generate_inner(self, schema: Any) -> JsonSchema:
        """Handle the marks of `lazy_schema`, `LazyUnion` and `RegisteredName`."""
        metadata = schema.get("metadata", {})
        if "names" in metadata:
            registry = metadata["names"]
            names = dict.fromkeys((*registry.shipped(), *registry.plugins))
            return self._defined(_NAMES[registry], {"enum": [*names], "type": "string"})
        if "plugins" in metadata:
            registry = metadata["plugins"]
            union = super().generate_inner(
                {key: value for key, value in schema.items() if key != "ref"}
            )
            union["oneOf"] = [*union["oneOf"], *map(self._reference, registry.plugins.values())]
            return self._defined(_FORMS[registry], union)
        if "kind" in metadata:
            return {**self._reference(metadata["kind"]()), **metadata.get("pydantic_js_extra", {})}
        return super().generate_inner(schema)

    def _defined(self, name: str, definition: JsonSchema) -> JsonSchema:
        """A reference to this definition."""
        key, reference = self.get_cache_defs_ref_schema(CoreRef(f"verdict_cli.{name}:0"))
        self.definitions[key] = definition
        return reference

    def _reference(self, kind: type[ConfigModel]) -> JsonSchema:
        """A reference to the schema of a class, which is generated the first time."""
        ref = CoreRef(f"{kind.__module__}.{kind.__qualname__}:{id(kind)}")  # as pydantic names it
        name, reference = self.get_cache_defs_ref_schema(ref)
        if kind not in self._begun:
            self._begun.add(kind)
            definition = super().generate_inner(kind.__pydantic_core_schema__)
            if definition != reference:
                self.definitions[name] = definition
        return reference

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Never: editors show titles, and those that pydantic derives from names say nothing."""
        return False

    def str_schema(self, schema: core_schema.StringSchema) -> JsonSchema:
        """A text with a pattern is one line."""
        definition = super().str_schema(schema)
        if "pattern" in definition:
            definition |= _ONE_LINE
        return definition

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchema:
        """Keys are strings, unless the class allows any value of a scale; a pattern of keys excludes all others."""
        definition = super().dict_schema(schema)
        if "patternProperties" in definition:
            return {
                **definition,
                "additionalProperties": False,
                "propertyNames": {"type": "string", **_ONE_LINE},
            }
        if schema.get("keys_schema", {}).get("type") == "str":
            definition |= _STRING_KEYS
        return definition

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchema:
        """Every property has a description. Parts that are chosen by a key require it."""
        kind = schema["cls"]
        definition = super().model_schema(schema)
        definition.pop("title", None)
        if issubclass(kind, ConfigModel):
            texts = key_descriptions(kind)
            features = _added_keys(kind)
            definition["properties"] = {
                key: {
                    **value,
                    **({"description": texts[key]} if key in texts else {}),
                    **features.get(key, {}),
                }
                for key, value in definition.get("properties", {}).items()
            }
        if getattr(kind, "key_rules", ()):
            definition["allOf"] = _conditions(kind)
        chosen_by = _chosen_by(kind)
        if chosen_by is not None:
            if chosen_by == "unit":
                definition["properties"][chosen_by].pop("default", None)
            definition["required"] = [chosen_by, *definition.get("required", [])]
        if (
            issubclass(kind, LLMUnit)
            and kind.default_prompt is LLMUnit.default_prompt
            and kind.model_fields["prompt_key"].default is None
        ):
            definition["required"] = [*definition.get("required", []), "prompt"]
        if definition.get("additionalProperties") is True:
            definition |= _STRING_KEYS
        return definition


def _conditions(kind: type[ConfigModel]) -> list[JsonSchema]:
    """What the keys of a class exclude and need, as KeyRule says it."""
    defaults = {field.alias or name: field.default for name, field in kind.model_fields.items()}

    def condition(key: str) -> JsonSchema:
        return {"required": [key], "properties": {key: {"not": _nothing(defaults[key])}}}

    def needed(
        key: str,
    ) -> JsonSchema:  # short, because there are many: only the program refuses a null here
        return condition(key) if defaults[key] is False else {"required": [key]}

    excluded: dict[str, JsonSchema] = {}
    conditions: list[JsonSchema] = []
    for rule in kind.key_rules:
        if rule.excludes:
            excluded.setdefault(rule.excludes, {})[rule.key] = _nothing(defaults[rule.key])
        elif not any(defaults[key] for key in rule.needs):
            choice = (
                {"anyOf": [*map(needed, rule.needs)]}
                if len(rule.needs) > 1
                else needed(*rule.needs)
            )
            conditions.append({"if": condition(rule.key), "then": choice} if rule.key else choice)
    return [
        *(
            {"if": condition(key), "then": {"properties": properties}}
            for key, properties in excluded.items()
        ),
        *conditions,
    ]


def _nothing(default: Any) -> JsonSchema:
    """The values that say nothing about a key with this default."""
    if default is None or default:
        return {"type": "null"}
    return {"enum": [None, [] if default == () else default]}


def _chosen_by(kind: type[Any]) -> str | None:
    """The key that a part must have because it is chosen by it."""
    if issubclass(kind, UnitBase):
        return "unit"
    is_implied = issubclass(kind, Scale) and kind.model_fields["type"].default in IMPLIED_TYPES
    return "type" if issubclass(kind, Scale | Extractor) and not is_implied else None


@cache
def pipeline_schema() -> JsonSchema:
    """The schema of pipeline files."""
    return _pipeline_schema()


def complete_schema() -> JsonSchema:
    """The schema of pipeline files with every part that an installed package offers."""
    for registry in (SCALES, EXTRACTORS, METRICS):
        for name in registry.names():
            registry.plugin(name)
    schema = _pipeline_schema()
    schema["$defs"]["UnitName"]["enum"] += PACKAGE_UNITS.names()
    return schema


def _pipeline_schema() -> JsonSchema:
    schema = file_schema(PipelineFile)
    schema["$defs"] |= _steps() | _names()
    record = next(form for form in schema["$defs"]["FieldKey"]["oneOf"] if "not" in form)
    record["not"]["properties"]["type"] = {"$ref": "#/$defs/ScaleType"}
    for key, names in (("units", "KnownUnits"), ("scales", "KnownScales")):
        steps = {"items": {"$ref": f"#/$defs/{names}"}}
        consequence = {"properties": {"pipeline": steps, "blocks": {"additionalProperties": steps}}}
        schema.setdefault("allOf", []).append(
            {"if": {"not": {"required": [key]}}, "then": consequence}
        )
    schema["$defs"] = dict(sorted(schema["$defs"].items()))
    return schema


def _steps() -> JsonSchema:
    """A step by the first of its keys that says what it is, and a unit by its type: an editor and a validator see the
    mistakes of the one form that is meant, not those of all."""
    forms = {"unit": "UnitStep", "layer": "Layer", "block": "Block", "use": "UseStep"}
    chain: JsonSchema = {"anyOf": [{"required": [key]} for key in STEP_KINDS]}
    for key in reversed(STEP_KINDS):
        chain = {
            "if": {"required": [key]},
            "then": {"$ref": f"#/$defs/{forms[key]}"},
            "else": chain,
        }
    units = [
        {
            "if": {"properties": {"unit": {"const": name}}},
            "then": {"$ref": f"#/$defs/{TYPES.title(name)}"},
        }
        for name in TYPES
    ]
    declared = {
        "if": {"properties": {"unit": {"enum": list(TYPES)}}},
        "else": {"$ref": f"#/$defs/{CustomStep.__name__}"},
    }
    return {"StepKey": {"type": "object", **chain}, "UnitStep": {"allOf": [*units, declared]}}


def _names() -> JsonSchema:
    """The names that a file without declarations of its own can use, and what holds steps to them."""
    scale = {"anyOf": [{"not": {"type": "string"}}, {"$ref": "#/$defs/ScaleName"}]}
    holders = {
        name: {
            "properties": {
                key: value,
                "layer": {"items": {"$ref": f"#/$defs/{name}"}},
                "block": {"items": {"$ref": f"#/$defs/{name}"}},
            }
        }
        for name, key, value in (
            ("KnownUnits", "unit", {"$ref": "#/$defs/UnitName"}),
            ("KnownScales", "scale", scale),
        )
    }
    return {
        **holders,
        "UnitName": {
            "description": "Unit types that need no declaration under `units`.",
            "enum": list(TYPES),
        },
        "ScaleName": {
            "description": "Scales that need no declaration under `scales`, and ranges such as `1-5`.",
            "anyOf": [{"enum": named_without_keys()}, {"pattern": WRITTEN_RANGE}],
        },
        "ScaleType": {
            "description": "Types of scales; a record's field `type` is of none of them.",
            "enum": [*SCALES, *SCALES.plugins],
        },
    }


def file_schema(kind: type[ConfigModel]) -> JsonSchema:
    """The schema of a kind of file, Draft 2020-12, with a description on every property."""
    return {"$schema": DIALECT, **schema_of(kind)}


def schema_of(kind: type[ConfigModel]) -> JsonSchema:
    """The schema of one class, without a dialect."""
    kind.model_rebuild()
    generator = _Generator(by_alias=True)
    return generator.generate(kind.__pydantic_core_schema__, mode="validation")
