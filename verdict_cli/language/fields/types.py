"""The types that a field of a response, an input or an output may have.

Each is a frozen value that reads a JSON value (`read`: the value, or ReplyError) and has a JSON Schema, a name for
messages, and whether its values have numbers.
"""

from __future__ import annotations

import base64
import math
import mimetypes
import sys
from pathlib import Path
from typing import Any

from msgspec import Struct

from verdict_cli.config_model import JsonSchema
from verdict_cli.errors import ReplyError, RowError
from verdict_cli.language.conversation import ConversationError, number_messages
from verdict_cli.language.scales import Scale
from verdict_cli.language.scales.written_number import quote_value, strip_quotes
from verdict_cli.messages import JsonObject, NamedValues

Values = JsonObject
"""Values by the names of their fields."""


class FieldType(Struct, frozen=True):
    """The type of a field's values."""

    def read(self, value: Any) -> Any:
        """The value, or ReplyError when it is not of this type."""
        return value

    def json_schema(self) -> JsonSchema:
        """JSON Schema of a value."""
        return {}

    def type_name(self) -> str:
        """The type's name for messages."""
        return "any"

    def numeric(self) -> bool | None:
        """Whether values have numbers; None where that depends on the values."""
        return False


Fields = dict[str, FieldType]
"""Types by the names of fields."""


class PlainType(FieldType, frozen=True):
    """`str`, `int`, `float` or `bool`."""

    name: str

    def read(self, value: Any) -> Any:
        """The value. Only numbers that stay equal are converted: 4 to a float, 4.0 to an int."""
        if self.name == "float" and type(value) is int and abs(value) <= sys.float_info.max:
            return float(value)
        if self.name == "int" and isinstance(value, float) and value.is_integer():
            return int(value)
        if type(value) is not _PLAIN[self.name][0] or (
            isinstance(value, float) and not math.isfinite(value)
        ):
            raise ReplyError(f"{quote_value(value)} is not of type {self.name}")
        return value

    def json_schema(self) -> JsonSchema:
        return {"type": _PLAIN[self.name][1]}

    def type_name(self) -> str:
        return self.name

    def numeric(self) -> bool:
        return self.name != "str"


_PLAIN: dict[str, tuple[type, str]] = {
    "str": (str, "string"),
    "int": (int, "integer"),
    "float": (float, "number"),
    "bool": (bool, "boolean"),
}


class TextListType(FieldType, frozen=True):
    """`list[str]`; with ``ranks``, an order of these letters, each exactly once."""

    ranks: tuple[str, ...] = ()

    def read(self, value: Any) -> Any:
        """A list of strings, in capitals where it ranks letters."""
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise ReplyError(f"{quote_value(value)} is not a list of strings")
        if not self.ranks:
            return value
        order = [strip_quotes(item).upper() for item in value]
        if sorted(order) != sorted(self.ranks):
            raise ReplyError(
                f"{quote_value(value)} does not rank each of {', '.join(self.ranks)} exactly once"
            )
        return order

    @property
    def item(self) -> FieldType:
        return TEXT

    def json_schema(self) -> JsonSchema:
        if not self.ranks:
            return {"type": "array", "items": {"type": "string"}}
        count = len(self.ranks)
        bounds = {"minItems": count, "maxItems": count, "uniqueItems": True}
        return {"type": "array", "items": {"type": "string", "enum": list(self.ranks)}, **bounds}

    def type_name(self) -> str:
        return f"ranking of {', '.join(self.ranks)}" if self.ranks else "list[str]"


class ListType(FieldType, frozen=True):
    """`list[T]`, for any T but `str`."""

    item: FieldType

    def read(self, value: Any) -> list[Any]:
        """The entries, read; ReplyError has the number of the one that is not of their type."""
        if not isinstance(value, list | tuple):
            raise ReplyError(f"{value!r:.200} is not a list")
        read = []
        for index, entry in enumerate(value):
            try:
                read.append(self.item.read(entry))
            except ReplyError as error:
                raise ReplyError(f"[{index}]: {error.message}", kind=error.failure) from None
        return read

    def json_schema(self) -> JsonSchema:
        return {"type": "array", "items": self.item.json_schema()}

    def type_name(self) -> str:
        return f"list[{self.item.type_name()}]"


class OptionalType(FieldType, frozen=True):
    """`T?`: a value of another type, or null."""

    item: FieldType

    def read(self, value: Any) -> Any:
        return None if value is None else self.item.read(value)

    def json_schema(self) -> JsonSchema:
        return {"anyOf": [self.item.json_schema(), {"type": "null"}]}

    def type_name(self) -> str:
        return self.item.type_name() + (" or null" if isinstance(self.item, ScaleType) else "?")

    def numeric(self) -> bool | None:
        return False if self.item.numeric() is False else None


class ScaleType(FieldType, frozen=True):
    """A value of a scale; an `enum` is a discrete scale without directions."""

    scale: Scale

    def read(self, value: Any) -> Any:
        return self.scale.read(value)

    def json_schema(self) -> JsonSchema:
        return self.scale.json_schema()

    def type_name(self) -> str:
        return f"{self.scale.type} scale {self.scale.display()}"

    def numeric(self) -> bool:
        return self.scale.numeric()


class RecordType(FieldType, frozen=True):
    """A mapping with these fields, in this order."""

    fields: Fields
    unknown: str = ""
    """Why it may have fields beside these that only a row shows; "" where it has none."""

    def __repr__(self) -> str:
        return f"RecordType(fields={self.fields!r})"

    def kind_of(self, name: object) -> FieldType | None:
        """The type of a field, `UnknownType` where only a row shows it; None where there is no such field."""
        kind = self.fields.get(name) if isinstance(name, str) else None
        return UnknownType() if kind is None and self.unknown else kind

    def read(self, value: Any) -> Values:
        """Every declared field, read; ReplyError names the field that is missing, unknown or of a wrong type."""
        if not isinstance(value, dict):
            raise ReplyError(
                f"expected an object with {', '.join(self.fields)}, found {quote_value(value)}"
            )
        if self.unknown:
            return value
        if value.keys() != self.fields.keys():
            raise self._misfit(value)
        read = {}
        try:
            for name, kind in self.fields.items():
                read[name] = kind.read(value[name])
        except ReplyError as error:
            raise ReplyError(f"{name}: {error.message}", kind=error.failure) from None
        return read

    def _misfit(self, value: NamedValues) -> ReplyError:
        """The error for the first missing field, else for the first unknown one."""
        missing = next((name for name in self.fields if name not in value), None)
        if missing is not None:
            return ReplyError(f"the field {missing!r} is missing")
        unknown = next(name for name in value if name not in self.fields)
        return ReplyError(
            f"the field {unknown!r} is not in the response schema; expected {', '.join(self.fields)}"
        )

    def json_schema(self) -> JsonSchema:
        """JSON Schema of a value: every field is required, no other is allowed."""
        return {
            "type": "object",
            "properties": {name: kind.json_schema() for name, kind in self.fields.items()},
            "required": list(self.fields),
            "additionalProperties": False,
        }

    def type_name(self) -> str:
        fields = (f"{name}: {kind.type_name()}" for name, kind in self.fields.items())
        return "{" + ", ".join(fields) + "}"


class DistributionType(FieldType, frozen=True):
    """`{value: probability}` over a scale's values, summing to 1."""

    scale: Scale

    def json_schema(self) -> JsonSchema:
        return {"type": "object", "additionalProperties": {"type": "number"}}

    def type_name(self) -> str:
        return "distribution"


class TranscriptType(FieldType, frozen=True):
    """A conversation: a list of messages with a `role` and a `content`."""

    def read(self, value: Any) -> Any:
        """The messages in OpenAI's form, whatever API's form they have. They are not read again where a prompt shows them."""
        try:
            return number_messages(value)
        except ConversationError as error:
            raise ReplyError(str(error)) from None

    def json_schema(self) -> JsonSchema:
        return {"type": "array", "items": {"type": "object"}}

    def type_name(self) -> str:
        return "conversation"


class UnknownType(FieldType, frozen=True):
    """A value whose type depends on the row, such as that of some expressions."""

    def numeric(self) -> None:
        return None


class ItemsType(UnknownType, frozen=True):
    """A list that exists within expressions alone, such as `outputs`: each item is of one of these types."""

    items: tuple[FieldType, ...]


def list_of(item: FieldType) -> FieldType:
    """The type of lists whose entries are of this type."""
    return TextListType() if item == TEXT else ListType(item)


def without_null(kind: FieldType) -> FieldType:
    """The type of the values that are not null."""
    return kind.item if isinstance(kind, OptionalType) else kind


def number_bounds(kind: FieldType) -> tuple[float, float] | None:
    """The smallest and the largest number that a value can have: 0 and 1 for truths; None where a scale has no ends."""
    if kind == TRUTH:
        return 0.0, 1.0
    return kind.scale.bounds() if isinstance(kind, ScaleType) else None


def all_values(kind: FieldType) -> tuple[Any, ...] | None:
    """Every value of the type; None where they are not known, or too many."""
    if kind == TRUTH:
        return False, True
    return (kind.scale.values() or None) if isinstance(kind, ScaleType) else None


class MassType(PlainType, frozen=True):
    """How well a value is known, such as how much probability the tokens of its scale had; it is not pooled with values."""


MASS_TYPE, DEFAULTED_TYPE = MassType("float"), MassType("bool")
TEXT, INTEGER, NUMBER, TRUTH = map(PlainType, _PLAIN)


_SIGNATURES = {
    b"\x89PNG": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"RIFF": "image/webp",
}
_URLS = ("http://", "https://", "data:image/")


class ImageType(FieldType, frozen=True):
    """`image`. The value is a URL (`https:`, `data:`) or the path of a file; bytes become a `data:` URL.

    Without ``files`` a path is rejected: the output of a model or an expression must not name a file of this machine.
    """

    files: bool = True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ImageType)

    def __hash__(self) -> int:
        return hash(ImageType)

    def read(self, value: Any) -> str:
        """The URL or path; ReplyError for another value and for a missing file."""
        if isinstance(value, bytes):
            return _data_url(value)
        if not isinstance(value, str) or not value:
            raise ReplyError(f"{value!r:.80} is not an image: a path, a URL or bytes are expected")
        if not is_image_url(value):
            if not self.files:
                raise ReplyError(
                    f"{value!r:.80} is not an http:, https: or data: URL, and the output of a unit cannot name a file"
                )
            if not _is_file(value):
                raise ReplyError(f"there is no image file {value!r:.200}")
        return value

    def json_schema(self) -> JsonSchema:
        return {"type": "string"}

    def type_name(self) -> str:
        return "image"


def _is_file(path: str) -> bool:
    try:
        return Path(path).is_file()
    except (OSError, ValueError):
        return False


def is_image_url(value: str) -> bool:
    """Whether an image's value is an address; anything else is the path of a file."""
    return value.startswith(_URLS)


def image_url(value: str) -> str:
    """What a provider takes: a URL as it is, a file as a `data:` URL. RowError when the file cannot be read."""
    if is_image_url(value):
        return value
    try:
        content = Path(value).read_bytes()
    except (OSError, ValueError) as fault:
        raise RowError(
            f"the image {value!r:.200} cannot be read: {getattr(fault, 'strerror', fault)}",
            kind="missing-value",
        ) from None
    try:
        return _data_url(content)
    except ReplyError as error:
        raise RowError(f"{value!r:.200}: {error.message}", kind="missing-value") from None


def _data_url(content: bytes) -> str:
    """The `data:` URL of an image, whose media type its first bytes say. ReplyError for other bytes."""
    for signature, kind in _SIGNATURES.items():
        if content.startswith(signature):
            return f"data:{kind};base64,{base64.b64encode(content).decode()}"
    endings = ", ".join(mimetypes.guess_extension(kind) or kind for kind in _SIGNATURES.values())
    raise ReplyError(f"these {len(content)} bytes are not an image that models take ({endings})")
