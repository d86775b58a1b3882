"""How a pipeline file spells a field's type, and which types fit where others are expected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag
from typing_extensions import TypeAliasType

from verdict_cli.config_model import ConfigModel, Seq
from verdict_cli.language.fields.image import ImageType
from verdict_cli.language.fields.types import (
    INTEGER,
    NUMBER,
    TEXT,
    TRUTH,
    FieldType,
    PlainType,
    RecordType,
    ScaleType,
    TextListType,
    UnknownType,
)
from verdict_cli.language.scales import Scale
from verdict_cli.language.scales.boolean import Boolean
from verdict_cli.language.scales.continuous import Continuous
from verdict_cli.language.scales.discrete import Categories, Discrete, Value

PLAIN: dict[str, FieldType] = {
    "str": TEXT,
    "int": INTEGER,
    "float": NUMBER,
    "bool": TRUTH,
    "list[str]": TextListType(),
    "image": ImageType(),
}
"""The types that are named by a word. Any other word is the name of a scale."""


class Enum(ConfigModel):
    """One of the listed values."""

    enum: Annotated[Seq[Value], Field(min_length=1)]
    """The values that are allowed."""


def _spelling(value: Any) -> str | None:
    if isinstance(value, str):
        return "<name>"
    if isinstance(value, Enum):
        return "<enum>"
    if isinstance(value, Scale):
        return value.type
    if not isinstance(value, dict):
        return None
    if isinstance(value.get("enum"), list):
        return "<enum>"
    kind = value.get("type")
    return kind if isinstance(kind, str) and kind in ("boolean", "discrete", "continuous") else "<record>"


_TYPED: dict[str, Any] = {"required": ["type"]}
_UNTYPED: dict[str, Any] = {
    "not": {"properties": {"type": {"enum": ["boolean", "discrete", "continuous"]}}, "required": ["type"]}
}

FieldKey = TypeAliasType(
    "FieldKey",
    Annotated[
        Annotated[str, Tag("<name>")]
        | Annotated[Enum, Tag("<enum>")]
        | Annotated[Boolean, Field(json_schema_extra=_TYPED), Tag("boolean")]
        | Annotated[Discrete, Field(json_schema_extra=_TYPED), Tag("discrete")]
        | Annotated[Continuous, Field(json_schema_extra=_TYPED), Tag("continuous")]
        | Annotated["dict[str, FieldKey]", Field(min_length=1, json_schema_extra=_UNTYPED), Tag("<record>")],
        Discriminator(_spelling),
    ],
)
"""`str`, `int`, `float`, `bool`, `list[str]`, a scale's name, an `{enum: …}`, a scale, or `{field: type}`."""

FieldTypes = Annotated[dict[str, FieldKey], Field(min_length=1)]


def field_type(key: Any, scale_named: Callable[[str], Scale]) -> FieldType:
    """The type that a spelling means. `scale_named` resolves a scale's name, or raises."""
    if isinstance(key, str):
        return PLAIN[key] if key in PLAIN else ScaleType(scale_named(key))
    if isinstance(key, Enum):
        return ScaleType(Categories(values=key.enum))
    if isinstance(key, dict):
        return record(key, scale_named)
    return ScaleType(key)


def record(keys: dict[str, Any], scale_named: Callable[[str], Scale]) -> RecordType:
    """The record that a mapping of spellings means."""
    return RecordType({name: field_type(key, scale_named) for name, key in keys.items()})


def fits(given: FieldType, wanted: FieldType) -> bool:
    """Whether every value of `given` can stand where `wanted` is asked for.

    A type fits itself; an int fits a float; a scale of words, integers … fits that plain type; an unknown type
    fits everything, and is checked when its value is there.
    """
    if given == wanted or isinstance(given, UnknownType) or isinstance(wanted, UnknownType):
        return True
    if isinstance(wanted, PlainType):
        if isinstance(given, ScaleType):
            kind = given.json_schema().get("type")
            return kind == wanted.json_schema()["type"] or (kind == "integer" and wanted.name == "float")
        return isinstance(given, PlainType) and given.name == "int" and wanted.name == "float"
    if isinstance(wanted, TextListType):
        return isinstance(given, TextListType) and not wanted.ranks
    if isinstance(wanted, ScaleType) and isinstance(given, ScaleType):
        return given.scale.json_schema() == wanted.scale.json_schema()
    if isinstance(wanted, RecordType) and isinstance(given, RecordType):
        return set(wanted.fields) <= set(given.fields) and all(
            fits(given.fields[name], kind) for name, kind in wanted.fields.items()
        )
    return False
