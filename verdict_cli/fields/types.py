"""The types that a field of a response, an input or an output may have.

Each is a frozen value that reads a JSON value (`read`: the value, or ReplyError), says its JSON Schema, its
spelling, and whether its values have numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from verdict_cli.errors import ReplyError
from verdict_cli.scales import Scale


class FieldType(Protocol):
    """What the program knows of a field's values."""

    def read(self, value: Any) -> Any:
        """The value, or ReplyError when it is not of this type."""

    def json_schema(self) -> dict[str, Any]:
        """JSON Schema of a value."""

    def spell(self) -> str:
        """The type as a pipeline file names it."""

    def numeric(self) -> bool | None:
        """Whether values have numbers; None where that is known only when they are there."""


@dataclass(frozen=True, slots=True)
class Plain:
    """`str`, `int`, `float` or `bool`."""

    name: str

    def read(self, value: Any) -> Any:
        """The value; an int is read as a float where a float is wanted, nothing else is converted."""
        if self.name == "float" and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        if self.name == "int" and isinstance(value, float) and value.is_integer():
            return int(value)
        if type(value) is not _PLAIN[self.name][0]:
            raise ReplyError(f"{value!r:.200} is not of type {self.name}")
        return value

    def json_schema(self) -> dict[str, Any]:
        """JSON Schema of a value."""
        return {"type": _PLAIN[self.name][1]}

    def spell(self) -> str:
        """The type's name."""
        return self.name

    def numeric(self) -> bool:
        """True of int, float and bool."""
        return self.name != "str"


_PLAIN: dict[str, tuple[type, str]] = {
    "str": (str, "string"),
    "int": (int, "integer"),
    "float": (float, "number"),
    "bool": (bool, "boolean"),
}


@dataclass(frozen=True, slots=True)
class TextList:
    """`list[str]`."""

    def read(self, value: Any) -> Any:
        """A list of strings."""
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise ReplyError(f"{value!r:.200} is not a list of strings")
        return value

    def json_schema(self) -> dict[str, Any]:
        """JSON Schema of a value."""
        return {"type": "array", "items": {"type": "string"}}

    def spell(self) -> str:
        """`list[str]`."""
        return "list[str]"

    def numeric(self) -> bool:
        """False."""
        return False


@dataclass(frozen=True, slots=True)
class OnScale:
    """A value of a scale; an `enum` is a discrete scale without directions."""

    scale: Scale

    def read(self, value: Any) -> Any:
        """The scale's value."""
        return self.scale.read(value)

    def json_schema(self) -> dict[str, Any]:
        """JSON Schema of a value."""
        return self.scale.json_schema()

    def spell(self) -> str:
        """The scale and its values."""
        return f"{self.scale.type} scale {self.scale.display()}"

    def numeric(self) -> bool:
        """Whether the scale's values have numbers."""
        return self.scale.numeric()


@dataclass(frozen=True)
class Record:
    """A mapping with these fields, in this order."""

    fields: Mapping[str, FieldType]

    def read(self, value: Any) -> dict[str, Any]:
        """Every declared field, read; ReplyError names the field that is missing, unknown or of a wrong type."""
        if not isinstance(value, dict):
            raise ReplyError(f"expected an object with {', '.join(self.fields)}, found {value!r:.200}")
        missing = [name for name in self.fields if name not in value]
        if missing:
            raise ReplyError(f"the field {missing[0]!r} is missing")
        unknown = [name for name in value if name not in self.fields]
        if unknown:
            raise ReplyError(f"the field {unknown[0]!r} was not asked for; expected {', '.join(self.fields)}")
        read = {}
        for name, kind in self.fields.items():
            try:
                read[name] = kind.read(value[name])
            except ReplyError as error:
                raise ReplyError(f"{name}: {error.message}", kind=error.failure) from None
        return read

    def json_schema(self) -> dict[str, Any]:
        """JSON Schema of a value: every field is required, no other is allowed."""
        return {
            "type": "object",
            "properties": {name: kind.json_schema() for name, kind in self.fields.items()},
            "required": list(self.fields),
            "additionalProperties": False,
        }

    def spell(self) -> str:
        """`{a: int}`."""
        return "{" + ", ".join(f"{name}: {kind.spell()}" for name, kind in self.fields.items()) + "}"

    def numeric(self) -> bool:
        """False."""
        return False


@dataclass(frozen=True, slots=True)
class Distribution:
    """`{value: probability}` over a scale's values, summing to 1."""

    scale: Scale

    def read(self, value: Any) -> Any:
        """The mapping as it is."""
        return value

    def json_schema(self) -> dict[str, Any]:
        """JSON Schema of a value."""
        return {"type": "object", "additionalProperties": {"type": "number"}}

    def spell(self) -> str:
        """The name of the type."""
        return "distribution"

    def numeric(self) -> bool:
        """False."""
        return False


@dataclass(frozen=True, slots=True)
class Transcript:
    """A conversation: a list of `{role, content}` turns."""

    def read(self, value: Any) -> Any:
        """The list as it is."""
        return value

    def json_schema(self) -> dict[str, Any]:
        """JSON Schema of a value."""
        return {"type": "array", "items": {"type": "object"}}

    def spell(self) -> str:
        """The name of the type."""
        return "conversation"

    def numeric(self) -> bool:
        """False."""
        return False


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value whose type is known only when it is there, such as an expression's."""

    def read(self, value: Any) -> Any:
        """The value as it is."""
        return value

    def json_schema(self) -> dict[str, Any]:
        """JSON Schema that allows everything."""
        return {}

    def spell(self) -> str:
        """`any`."""
        return "any"

    def numeric(self) -> None:
        """None."""
        return None


TEXT, INTEGER, NUMBER, TRUTH = Plain("str"), Plain("int"), Plain("float"), Plain("bool")


def fits(given: FieldType, wanted: FieldType) -> bool:
    """Whether every value of `given` can stand where `wanted` is asked for.

    A type fits itself; an int fits a float; a scale of words, integers … fits that plain type; an unknown type
    fits everything, and is checked when its value is there.
    """
    if given == wanted or isinstance(given, Unknown) or isinstance(wanted, Unknown):
        return True
    if isinstance(wanted, Plain):
        if isinstance(given, OnScale):
            kind = given.json_schema().get("type")
            return kind == _PLAIN[wanted.name][1] or (kind == "integer" and wanted.name == "float")
        return isinstance(given, Plain) and given.name == "int" and wanted.name == "float"
    if isinstance(wanted, OnScale) and isinstance(given, OnScale):
        return given.scale.json_schema() == wanted.scale.json_schema()
    if isinstance(wanted, Record) and isinstance(given, Record):
        return set(wanted.fields) <= set(given.fields) and all(
            fits(given.fields[name], kind) for name, kind in wanted.fields.items()
        )
    return False
