"""How a pipeline file spells a field's type (language.md, section 6.2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag
from typing_extensions import TypeAliasType

from verdict_cli.fields.image import Image
from verdict_cli.fields.types import INTEGER, NUMBER, TEXT, TRUTH, FieldType, OnScale, Record, TextList
from verdict_cli.keys import Keys, Seq
from verdict_cli.scales import Boolean, Categories, Continuous, Discrete, Scale
from verdict_cli.scales.discrete import Value

PLAIN: dict[str, FieldType] = {
    "str": TEXT,
    "int": INTEGER,
    "float": NUMBER,
    "bool": TRUTH,
    "list[str]": TextList(),
    "image": Image(),
}
"""The types that are named by a word. Any other word is the name of a scale."""


class Enum(Keys):
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

Fields = Annotated[dict[str, FieldKey], Field(min_length=1)]


def field_type(key: Any, scale_named: Callable[[str], Scale]) -> FieldType:
    """The type that a spelling means. `scale_named` resolves a scale's name, or raises."""
    if isinstance(key, str):
        return PLAIN[key] if key in PLAIN else OnScale(scale_named(key))
    if isinstance(key, Enum):
        return OnScale(Categories(values=key.enum))
    if isinstance(key, dict):
        return record(key, scale_named)
    return OnScale(key)


def record(keys: dict[str, Any], scale_named: Callable[[str], Scale]) -> Record:
    """The record that a mapping of spellings means."""
    return Record({name: field_type(key, scale_named) for name, key in keys.items()})
