"""The type of a field in a pipeline file, and which types fit where another one is expected."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ForwardRef

from pydantic import Discriminator, Field, Tag, TypeAdapter, ValidationError
from typing_extensions import TypeAliasType

from verdict_cli.config_model import (
    ConfigModel,
    Expected,
    HintedError,
    JsonSchema,
    MessageAndHint,
    NonEmptyTuple,
    display_value,
)
from verdict_cli.errors import SpecError
from verdict_cli.language.fields.types import (
    INTEGER,
    NUMBER,
    TEXT,
    TRUTH,
    Fields,
    FieldType,
    ImageType,
    ListType,
    OptionalType,
    PlainType,
    RecordType,
    ScaleType,
    TextListType,
    TranscriptType,
    UnknownType,
    list_of,
    without_null,
)
from verdict_cli.language.scales import SCALES, Scale, TypedScaleKeys, Value, named_scales
from verdict_cli.language.scales.discrete import Categories
from verdict_cli.messages import JsonObject, NamedValues
from verdict_cli.regex import closing_brace, regex

TYPES_HINT = (
    "types are `str`, `int`, `float`, `bool`, `image`, `conversation`, scales, `list[T]`, `{field: T}`, and `T?` for "
    "a value that may be null"
)
_SPECIAL = regex(r"[\[\]{}?]")
_NAME = regex(r"[^\s\[\]{}?,:\"']+")
_KEY = regex(r"\s*(?:\"((?:[^\"\\]|\\.)*)\"|'((?:[^']|'')*)'|([^\s\[\]{}?,:\"']+))\s*:\s*")
_NOT_A_RECORD = regex(r"\{\s*[\"']?(?:enum|type)\b")
_BRACES = regex(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^']|'')*'|[{}]")
_PLAIN_FIELD = regex(r"[A-Za-z_][\w-]*")
_DEEPEST = 50


class TypeTextError(HintedError):
    """A text that is no type: what is wrong, and a hint."""

    def __init__(self, message: str, hint: str = TYPES_HINT) -> None:
        super().__init__(message, hint)


def type_text(key: Any) -> str:
    """The text of a type that is given as a pipeline file has it."""
    if isinstance(key, str):
        return key
    if (
        not isinstance(key, Mapping)
        or isinstance(key.get("enum"), list)
        or not all(map(_is_type, key.values()))
    ):
        return json.dumps(key, ensure_ascii=False)
    fields = (
        f"{name if _PLAIN_FIELD.fullmatch(name) else json.dumps(name)}: {type_text(kind)}"
        for name, kind in key.items()
    )
    return "{" + ", ".join(fields) + "}"


def _is_type(value: Any) -> bool:
    return isinstance(value, str | Mapping)


class _Parser:
    """Reads the type that a text means. TypeTextError where it means none."""

    def __init__(self, text: str, scale_named: Callable[[str], Scale]) -> None:
        self.text, self.scale_named = text, scale_named
        self.at = self.depth = 0

    def whole(self) -> FieldType:
        """The type of the whole text."""
        kind = self.type()
        self._skip()
        if self.at < len(self.text):
            raise self._error("the end")
        return kind

    def type(self) -> FieldType:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise TypeTextError(
                f"the type {self.text[:40]!r}… is nested too deeply", "use fewer levels"
            )
        kind = self._atom()
        while self._take("?"):
            kind = kind if isinstance(kind, OptionalType) else OptionalType(kind)
        self.depth -= 1
        return kind

    def _atom(self) -> FieldType:
        self._skip()
        if self.text.startswith("{", self.at):
            return self._mapping()
        name = _NAME.match(self.text, self.at)
        if name is None:
            raise self._error("a type")
        self.at = name.end()
        if name[0] == "list" and self._take("["):
            item = self.type()
            self._expect("]")
            return list_of(item)
        return field_type(name[0], self.scale_named)

    def _mapping(self) -> FieldType:
        if _NOT_A_RECORD.match(self.text, self.at):
            end = closing_brace(_BRACES, self.text, self.at)
            value = _flow_mapping(self.text[self.at : end])
            kind = None if value is None else _written_type(value)
            if kind is not None:
                self.at = end
                return kind
        self._expect("{")
        fields: Fields = {}
        while not self._take("}"):
            key = _KEY.match(self.text, self.at)
            if key is None:
                raise self._error("`field: type`")
            name = next(part for part in key.groups() if part is not None)
            if name in fields:
                raise TypeTextError(
                    f"the type {self.text!r:.120} has the field {name!r} twice",
                    "name each field once",
                )
            self.at = key.end()
            fields[name] = self.type()
            if not self._take(","):
                self._expect("}")
                break
        if not fields:
            raise TypeTextError(f"the type {self.text!r:.120} has a record without fields")
        return RecordType(fields)

    def _skip(self) -> None:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    def _take(self, mark: str) -> bool:
        self._skip()
        follows = self.text.startswith(mark, self.at)
        self.at += len(mark) if follows else 0
        return follows

    def _expect(self, mark: str) -> None:
        if not self._take(mark):
            raise self._error(f"`{mark}`")

    def _error(self, expected: str) -> TypeTextError:
        next_text = (
            repr(self.text[self.at : self.at + 12]) if self.at < len(self.text) else "the end"
        )
        return TypeTextError(
            f"{self.text!r:.120} is not a type: expected {expected}, found {next_text}"
        )


def _flow_mapping(text: str) -> JsonObject | None:
    """The mapping in a text of YAML; None where it is none, as where it contains `list[…]`."""
    from verdict_cli.language.document.document import (
        parse_document,  # only a type with an `enum` or a scale needs it
    )

    try:
        data = parse_document(text.encode(), "").data
    except SpecError:
        return None
    return data if isinstance(data, dict) else None


PLAIN: Fields = {
    "str": TEXT,
    "int": INTEGER,
    "float": NUMBER,
    "bool": TRUTH,
    "list[str]": TextListType(),
    "image": ImageType(),
    "conversation": TranscriptType(),
}
"""The types with a name of their own. Any other name is that of a scale."""


class Enum(ConfigModel):
    """One of the listed values."""

    enum: NonEmptyTuple[Value]
    """The values that are allowed."""


def _field_tag(value: Any) -> str | None:
    if isinstance(value, str):
        return "<name>"
    if isinstance(value, Enum):
        return "<enum>"
    if isinstance(value, Scale):
        return "<scale>"
    if not isinstance(value, dict):
        return None
    if isinstance(value.get("enum"), list):
        return "<enum>"
    return "<scale>" if _is_scale_type(value.get("type")) else "<record>"


def _is_scale_type(name: Any) -> bool:
    """Whether `{type: NAME}` is a scale, and not a record whose field `type` is of the type NAME."""
    if not isinstance(name, str) or name in PLAIN:
        return False
    return name in SCALES or SCALES.plugin(name) is not None


def _without_scale_type(schema: JsonSchema) -> None:
    types = [*SCALES, *SCALES.plugins]
    schema["not"] = {"properties": {"type": {"enum": types}}, "required": ["type"]}


def _expected(value: Any) -> MessageAndHint:
    return (
        f"expected a type, found {display_value(value)}",
        "write `str`, `int`, `float`, `bool`, `list[T]`, a scale, `{enum: [a, b]}` or `{field: type}`; `T?` may be null",
    )


if TYPE_CHECKING:
    _Record = dict[str, "FieldKey"]
else:
    _Record = ForwardRef("dict[str, FieldKey]", module=__name__)

FieldKey = TypeAliasType(
    "FieldKey",
    Annotated[
        Annotated[str, Tag("<name>")]
        | Annotated[Enum, Tag("<enum>")]
        | Annotated[TypedScaleKeys, Tag("<scale>")]
        | Annotated[
            _Record,
            Field(min_length=1, json_schema_extra=_without_scale_type),
            Tag("<record>"),
        ],
        Discriminator(_field_tag),
        Expected(_expected),
    ],
)
"""`str`, `int`, `float`, `bool`, a scale's name, an `{enum: …}`, a scale, or `{field: type}`; as text also `list[T]`
and `T?`."""

FieldTypes = TypeAliasType("FieldTypes", Annotated[dict[str, FieldKey], Field(min_length=1)])
"""Types by the names of fields."""


class InputDefault(ConfigModel):
    """The type of an input field with its default."""

    type: FieldKey
    """The field's type."""
    default: Any
    """The value where no unit before this one and no column of the row gives the field."""


def _input_tag(value: Any) -> str:
    is_default = isinstance(value, InputDefault) or (isinstance(value, dict) and "default" in value)
    return "<default>" if is_default else "<type>"


_WITHOUT_DEFAULT = {"not": {"type": "object", "required": ["default"]}}

InputKey = Annotated[
    Annotated[InputDefault, Tag("<default>")]
    | Annotated[FieldKey, Field(json_schema_extra=_WITHOUT_DEFAULT), Tag("<type>")],
    Discriminator(_input_tag),
]
"""A path such as `source.messages`, a type, or `{type: …, default: …}`."""

InputFields = TypeAliasType("InputFields", Annotated[dict[str, InputKey], Field(min_length=1)])
"""Input fields by name."""

_INPUT_PATH = regex(r"(source|previous|input|unit)[.\[]")


def is_input_path(key: Any) -> bool:
    """Whether an input field's key is a path rather than the name of a type."""
    return isinstance(key, str) and _INPUT_PATH.match(key) is not None


_ENTRY_PATH = regex(r"[A-Za-z_]\w*\.")


def is_path_key(key: Any) -> bool:
    """Whether an input field's key is a path, also one into an entry of `each`, rather than the name of a type."""
    return is_input_path(key) or (isinstance(key, str) and _ENTRY_PATH.match(key) is not None)


def input_types(declared: NamedValues) -> JsonObject:
    """The types of input fields, but for those that come from a path."""
    return {
        name: key.type if isinstance(key, InputDefault) else key
        for name, key in declared.items()
        if not is_path_key(key)
    }


def field_type(key: Any, scale_named: Callable[[str], Scale]) -> FieldType:
    """The type that a key means. `scale_named` resolves the name of a scale, or raises."""
    if isinstance(key, str):
        if key not in PLAIN and _SPECIAL.search(key):
            return _Parser(key, scale_named).whole()
        return PLAIN[key] if key in PLAIN else ScaleType(scale_named(key))
    if isinstance(key, Enum):
        return ScaleType(Categories.model_validate({"values": key.enum}))
    if isinstance(key, dict):
        return record(key, scale_named)
    return ScaleType(key)


def _written_type(value: JsonObject) -> FieldType | None:
    """The type of an `{enum: …}` or a scale within a text; None for a record."""
    if _field_tag(value) == "<record>":
        return None
    try:
        key = TypeAdapter(FieldKey).validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"][1:])
        raise TypeTextError(
            f"{where + ': ' if where else ''}{first['msg']}, found {first['input']!r:.80}"
        ) from None
    return field_type(key, named_scales().__getitem__)


def record(keys: JsonObject, scale_named: Callable[[str], Scale]) -> RecordType:
    """The record that a mapping of field types means."""
    return RecordType({name: field_type(key, scale_named) for name, key in keys.items()})


def map_parts(
    kind: FieldType, change: Callable[[FieldType, tuple[str, ...]], FieldType]
) -> FieldType:
    """The type with `change` applied to each type in it that is neither a record, a list nor nullable; `change` is given
    the names of the fields around it."""

    def mapped(kind: FieldType, names: tuple[str, ...]) -> FieldType:
        if isinstance(kind, RecordType):
            return RecordType(
                {name: mapped(inner, (*names, name)) for name, inner in kind.fields.items()}
            )
        if isinstance(kind, ListType | OptionalType):
            return type(kind)(mapped(kind.item, names))
        return change(kind, names)

    return mapped(kind, ())


def plain_type(kind: FieldType) -> FieldType:
    """The plain type of a scale's values: int, bool, float or str; another type as it is."""
    plains = (INTEGER, TRUTH, NUMBER, TEXT)
    return next(
        (plain for plain in plains if isinstance(kind, ScaleType) and fits(kind, plain)), kind
    )


def fits(source: FieldType, expected: FieldType) -> bool:
    """Whether every value of `source` can be used where `expected` is expected.

    A type fits itself; an int fits a float; a scale of words, integers … fits that plain type; a type fits the same
    one that may be null; an unknown type fits everything, and is checked when its value is known.
    """
    if source == expected or isinstance(source, UnknownType) or isinstance(expected, UnknownType):
        return True
    if isinstance(expected, OptionalType):
        return fits(without_null(source), expected.item)
    if isinstance(expected, PlainType):
        return _fits_plain(source, expected)
    if isinstance(expected, TextListType | ListType):
        return _fits_list(source, expected)
    if isinstance(expected, ScaleType) and isinstance(source, ScaleType):
        return source.scale.json_schema() == expected.scale.json_schema()
    return _fits_record(source, expected)


def _fits_list(source: FieldType, expected: TextListType | ListType) -> bool:
    if isinstance(expected, TextListType) and expected.ranks:
        return False
    return isinstance(source, TextListType | ListType) and fits(source.item, expected.item)


def _fits_record(source: FieldType, expected: FieldType) -> bool:
    if not isinstance(expected, RecordType) or not isinstance(source, RecordType):
        return False
    return set(expected.fields) <= set(source.fields) and all(
        fits(source.fields[name], kind) for name, kind in expected.fields.items()
    )


def _fits_plain(source: FieldType, expected: PlainType) -> bool:
    if isinstance(source, ScaleType):
        kind = source.json_schema().get("type")
        is_whole = kind == "integer" and expected.name == "float"
        return is_whole or bool(kind == expected.json_schema()["type"])
    if not isinstance(source, PlainType):
        return False
    return source.name == expected.name or (source.name, expected.name) == ("int", "float")
