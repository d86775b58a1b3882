"""How a pipeline spells a field's type."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from verdict_cli.language.fields.field_keys import (
    PLAIN,
    Enum,
    FieldKey,
    FieldTypes,
    TypeTextError,
    field_type,
    record,
    type_text,
)
from verdict_cli.language.fields.types import (
    INTEGER,
    NUMBER,
    TEXT,
    TRUTH,
    ListType,
    OptionalType,
    RecordType,
    ScaleType,
    TextListType,
)
from verdict_cli.language.scales import Scale
from verdict_cli.language.scales.boolean import BooleanScale
from verdict_cli.language.scales.continuous import ContinuousScale
from verdict_cli.language.scales.discrete import LIKERT, Categories, DiscreteScale

KEY: TypeAdapter[Any] = TypeAdapter(FieldKey)
MAYBE_INT, INTS = OptionalType(INTEGER), ListType(INTEGER)


def scale_named(name: str) -> Scale:
    return {"likert": LIKERT}[name]


@pytest.mark.parametrize(
    ("spelling", "kind"),
    [
        ("str", TEXT),
        ("int", INTEGER),
        ("float", NUMBER),
        ("bool", TRUTH),
        ("list[str]", TextListType()),
        ("likert", ScaleType(LIKERT)),
        ({"enum": ["a", "b"]}, ScaleType(Categories(values=("a", "b")))),
        ({"type": "boolean"}, ScaleType(BooleanScale())),
        ({"type": "discrete", "range": [1, 3]}, ScaleType(DiscreteScale(range=(1, 3)))),
        ({"type": "continuous", "max": 10}, ScaleType(ContinuousScale(max=10))),
        ({"a": "int", "b": {"c": "str"}}, RecordType({"a": INTEGER, "b": RecordType({"c": TEXT})})),
        ("list[bool]", ListType(TRUTH)),
        (" list[ str ] ", TextListType()),
        ("list[list[int]]", ListType(ListType(INTEGER))),
        ("list[likert]", ListType(ScaleType(LIKERT))),
        ("likert?", OptionalType(ScaleType(LIKERT))),
        ("list[str?]?", OptionalType(ListType(OptionalType(TEXT)))),
        (
            "list[{text: str, weight: float}]",
            ListType(RecordType({"text": TEXT, "weight": NUMBER})),
        ),
        (
            '{"a b": list[str], c: {d: int?}}',
            RecordType({"a b": TextListType(), "c": RecordType({"d": MAYBE_INT})}),
        ),
        (
            "list[{type: str, enum: list[int]}]",
            ListType(RecordType({"type": TEXT, "enum": ListType(INTEGER)})),
        ),
        ("list[{enum: [a, 'b, c']}]", ListType(ScaleType(Categories(values=("a", "b, c"))))),
        ("list[{type: boolean}]", ListType(ScaleType(BooleanScale()))),
        (
            {"a": "int?", "b": {"c": "list[int]"}},
            RecordType({"a": MAYBE_INT, "b": RecordType({"c": INTS})}),
        ),
        ({"type": "str", "enum": "int"}, RecordType({"type": TEXT, "enum": INTEGER})),
    ],
)
def test_each_spelling_of_the_language_means_its_type(spelling, kind):
    assert field_type(KEY.validate_python(spelling), scale_named) == kind


@pytest.mark.parametrize(
    "spelling",
    [None, 3, ["str"], {}, {"enum": []}, {"a": 3}, {"type": "discrete", "rnage": [1, 2]}],
)
def test_what_spells_no_type_is_refused(spelling):
    with pytest.raises(ValidationError):
        KEY.validate_python(spelling)


def test_an_unknown_name_is_left_to_the_one_who_knows_the_scales():
    with pytest.raises(KeyError):
        field_type("lickert", scale_named)


def test_a_schema_of_fields_is_a_record_in_the_written_order():
    keys = TypeAdapter(FieldTypes).validate_python({"b": "int", "a": {"enum": [1, 2]}})
    assert list(record(keys, scale_named).fields) == ["b", "a"]
    assert isinstance(keys["a"], Enum)
    with pytest.raises(ValidationError):
        TypeAdapter(FieldTypes).validate_python({})


def test_the_plain_types_are_those_of_the_language():
    assert list(PLAIN) == ["str", "int", "float", "bool", "list[str]", "image", "conversation"]


@pytest.mark.parametrize(
    ("spelling", "message"),
    [
        ("list[int", "expected `]`, found the end"),
        ("list[]", "expected a type, found ']'"),
        ("list[int]]", "expected the end, found ']'"),
        ("int?x", "expected the end, found 'x'"),
        ("{a int}", "expected `field: type`, found 'a int}'"),
        ("{a: int, a: str}", "has the field 'a' twice"),
        ("{a: int b: str}", "expected `}`, found 'b: str}'"),
        ("{}", "has a record without fields"),
        ("list[{enum: []}]", "enum: "),
        ("list[" * 400, "is nested too deeply"),
    ],
)
def test_a_text_that_is_no_type_says_what_was_expected(spelling, message):
    with pytest.raises(TypeTextError, match=re.escape(message)):
        field_type(spelling, scale_named)


@pytest.mark.parametrize(
    "key",
    [
        {"a": "int", "b c": {"d": "list[str]?"}},
        {"enum": ["a", "b, c", 1]},
        {"type": "discrete", "values": ["x", "y"], "scores": {"x": 0, "y": 1}},
        {"type": "boolean"},
        {"type": "str"},
    ],
)
def test_a_type_as_text_means_what_its_mapping_means(key):
    assert field_type(type_text(key), scale_named) == field_type(
        KEY.validate_python(key), scale_named
    )
