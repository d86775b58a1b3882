"""How a pipeline spells a field's type."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from verdict_cli.fields import (
    INTEGER,
    NUMBER,
    PLAIN,
    TEXT,
    TRUTH,
    Enum,
    FieldKey,
    Fields,
    OnScale,
    Record,
    TextList,
    field_type,
    record,
)
from verdict_cli.scales import LIKERT, Boolean, Categories, Continuous, Discrete, Scale

KEY: TypeAdapter[Any] = TypeAdapter(FieldKey)


def named(name: str) -> Scale:
    return {"likert": LIKERT}[name]


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        ("str", TEXT),
        ("int", INTEGER),
        ("float", NUMBER),
        ("bool", TRUTH),
        ("list[str]", TextList()),
        ("likert", OnScale(LIKERT)),
        ({"enum": ["a", "b"]}, OnScale(Categories(values=("a", "b")))),
        ({"type": "boolean"}, OnScale(Boolean())),
        ({"type": "discrete", "range": [1, 3]}, OnScale(Discrete(range=(1, 3)))),
        ({"type": "continuous", "max": 10}, OnScale(Continuous(max=10))),
        ({"a": "int", "b": {"c": "str"}}, Record({"a": INTEGER, "b": Record({"c": TEXT})})),
        ({"type": "str", "enum": "int"}, Record({"type": TEXT, "enum": INTEGER})),
    ],
)
def test_each_spelling_of_the_language_means_its_type(written: Any, kind: Any) -> None:
    assert field_type(KEY.validate_python(written), named) == kind


@pytest.mark.parametrize(
    "written", [None, 3, ["str"], {}, {"enum": []}, {"a": 3}, {"type": "discrete", "rnage": [1, 2]}]
)
def test_what_spells_no_type_is_refused(written: Any) -> None:
    with pytest.raises(ValidationError):
        KEY.validate_python(written)


def test_an_unknown_name_is_left_to_the_one_who_knows_the_scales() -> None:
    with pytest.raises(KeyError):
        field_type("lickert", named)


def test_a_schema_of_fields_is_a_record_in_the_written_order() -> None:
    keys = TypeAdapter(Fields).validate_python({"b": "int", "a": {"enum": [1, 2]}})
    assert list(record(keys, named).fields) == ["b", "a"]
    assert isinstance(keys["a"], Enum)
    with pytest.raises(ValidationError):
        TypeAdapter(Fields).validate_python({})


def test_the_plain_types_are_those_of_the_language() -> None:
    assert list(PLAIN) == ["str", "int", "float", "bool", "list[str]", "image"]
