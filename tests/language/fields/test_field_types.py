"""The types of fields."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verdict_cli.errors import ReplyError
from verdict_cli.language.fields.types import (
    INTEGER,
    NUMBER,
    TEXT,
    TRUTH,
    DistributionType,
    FieldType,
    ListType,
    OptionalType,
    RecordType,
    ScaleType,
    TextListType,
    TranscriptType,
    UnknownType,
)
from verdict_cli.language.scales.boolean import BooleanScale
from verdict_cli.language.scales.continuous import ContinuousScale
from verdict_cli.language.scales.discrete import LIKERT, DiscreteScale

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
TYPES: dict[str, tuple[FieldType, st.SearchStrategy[Any]]] = {
    "str": (TEXT, st.text()),
    "int": (INTEGER, st.integers()),
    "float": (NUMBER, st.floats(allow_nan=False, allow_infinity=False)),
    "bool": (TRUTH, st.booleans()),
    "list[str]": (TextListType(), st.lists(st.text())),
    "likert": (ScaleType(LIKERT), st.integers(1, 5)),
    "continuous": (ScaleType(ContinuousScale()), st.floats(0, 1)),
    "record": (
        RecordType({"a": INTEGER, "b": TEXT}),
        st.fixed_dictionaries({"a": st.integers(), "b": st.text()}),
    ),
    "list[int]": (ListType(INTEGER), st.lists(st.integers())),
    "list[likert]?": (
        OptionalType(ListType(ScaleType(LIKERT))),
        st.none() | st.lists(st.integers(1, 5)),
    ),
    "list[record]": (
        ListType(RecordType({"a": INTEGER, "b": OptionalType(TEXT)})),
        st.lists(st.fixed_dictionaries({"a": st.integers(), "b": st.none() | st.text()})),
    ),
    "conversation": (
        TranscriptType(),
        st.lists(st.fixed_dictionaries({"role": st.text(), "content": st.text()})),
    ),
}


@pytest.mark.parametrize("name", TYPES)
@settings(deadline=None)
@given(st.data())
def test_a_value_of_the_type_is_read_unchanged(name, data):
    kind, values = TYPES[name]
    value = data.draw(values)
    assert kind.read(value) == value


@pytest.mark.parametrize("name", TYPES)
@settings(deadline=None)
@given(value=JSON)
def test_any_value_reads_or_raises_a_reply_error(name, value):
    kind, _ = TYPES[name]
    try:
        read = kind.read(value)
    except ReplyError as error:
        assert len(str(error)) < 1000
    else:
        assert isinstance(value, str) or read == value


def test_only_numbers_that_stay_equal_are_converted():
    assert (NUMBER.read(4), type(NUMBER.read(4))) == (4.0, float)
    assert (INTEGER.read(4.0), type(INTEGER.read(4.0))) == (4, int)
    for kind, value in (
        (INTEGER, 4.5),
        (INTEGER, "4"),
        (NUMBER, "4"),
        (TEXT, 4),
        (TRUTH, 1),
        (INTEGER, True),
        (NUMBER, True),
    ):
        with pytest.raises(ReplyError, match="is not of type"):
            kind.read(value)


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan"), 10**400])
def test_a_number_that_no_float_holds_is_not_read_as_one(value):
    with pytest.raises(ReplyError, match="is not of type float"):
        NUMBER.read(value)


def test_a_record_names_the_field_that_is_missing_unknown_or_of_a_wrong_type():
    record = RecordType({"score": ScaleType(LIKERT), "why": TEXT})
    with pytest.raises(ReplyError, match="the field 'why' is missing"):
        record.read({"score": 3})
    with pytest.raises(
        ReplyError, match="'extra' is not in the response schema; expected score, why"
    ):
        record.read({"score": 3, "why": "", "extra": 1})
    with pytest.raises(ReplyError, match="score: 9 is not on the scale") as caught:
        record.read({"score": 9, "why": ""})
    assert caught.value.failure == "off-scale"
    with pytest.raises(ReplyError, match="expected an object with score, why"):
        record.read([3])


def test_a_record_is_read_in_its_own_order():
    record = RecordType({"b": INTEGER, "a": RecordType({"c": TEXT})})
    assert list(record.read({"a": {"c": "x"}, "b": 1})) == ["b", "a"]


@pytest.mark.parametrize(
    "value",
    [
        None,
        "hello",
        {"role": "a", "content": "b"},
        [{"role": "a"}],
        [{"role": 1, "content": "b"}],
        [["a", "b"]],
        [{"role": "user", "content": None}],
    ],
)
def test_what_is_no_conversation_is_not_read_as_one(value):
    with pytest.raises(
        ReplyError, match=r"is not a (list of messages|message) with|its content is null"
    ):
        TranscriptType().read(value)


def test_a_types_schema_requires_every_field_and_allows_no_other():
    schema = RecordType({"score": ScaleType(LIKERT), "items": TextListType()}).json_schema()
    assert schema == {
        "type": "object",
        "properties": {
            "score": {"type": "integer", "enum": [1, 2, 3, 4, 5]},
            "items": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["score", "items"],
        "additionalProperties": False,
    }


def test_a_list_names_the_entry_that_is_not_of_its_type():
    claims = ListType(RecordType({"text": TEXT, "weight": NUMBER}))
    assert claims.read([{"weight": 1, "text": "a"}]) == [{"text": "a", "weight": 1.0}]
    with pytest.raises(ReplyError, match=r"^\[1\]: weight: 'heavy' is not of type float"):
        claims.read([{"text": "a", "weight": 1}, {"text": "b", "weight": "heavy"}])
    with pytest.raises(ReplyError, match=r"^\[0\]: null is not of type int"):
        ListType(INTEGER).read([None])
    with pytest.raises(ReplyError, match=r"^\[2\]: 9 is not on the scale") as caught:
        ListType(ScaleType(LIKERT)).read([1, 2, 9])
    assert caught.value.failure == "off-scale"
    with pytest.raises(ReplyError, match="'abc' is not a list"):
        ListType(INTEGER).read("abc")


def test_the_schema_of_a_list_and_of_a_nullable_value_is_that_of_its_values():
    assert ListType(OptionalType(RecordType({"a": ScaleType(BooleanScale())}))).json_schema() == {
        "type": "array",
        "items": {
            "anyOf": [
                {
                    "type": "object",
                    "properties": {"a": {"type": "boolean"}},
                    "required": ["a"],
                    "additionalProperties": False,
                },
                {"type": "null"},
            ]
        },
    }


def test_every_type_says_its_name_and_whether_it_has_numbers():
    words = ScaleType(DiscreteScale(values=("a", "b")))
    spelled = {
        "str": (TEXT, False),
        "int": (INTEGER, True),
        "bool": (TRUTH, True),
        "list[str]": (TextListType(), False),
        "discrete scale a, b": (words, False),
        "boolean scale yes, no": (ScaleType(BooleanScale()), True),
        "{a: int}": (RecordType({"a": INTEGER}), False),
        "list[{a: int}]": (ListType(RecordType({"a": INTEGER})), False),
        "str?": (OptionalType(TEXT), False),
        "float?": (OptionalType(NUMBER), None),
        "boolean scale yes, no or null": (OptionalType(ScaleType(BooleanScale())), None),
        "distribution": (DistributionType(LIKERT), False),
        "conversation": (TranscriptType(), False),
        "any": (UnknownType(), None),
    }
    for name, (kind, numeric) in spelled.items():
        assert kind.type_name() == name
        assert kind.numeric() is numeric
        assert isinstance(kind.json_schema(), dict)


def test_values_without_a_declared_type_are_taken_as_they_are():
    for kind in (UnknownType(), DistributionType(LIKERT)):
        assert kind.read({"x": [1]}) == {"x": [1]}


def test_messages_in_the_form_of_opentelemetry_are_read_as_messages_with_a_content():
    call = {"type": "tool_call", "id": "c1", "name": "search", "arguments": {"q": "x"}}
    messages = [
        {
            "role": "user",
            "parts": [{"type": "text", "content": "a"}, {"type": "text", "content": "b"}],
        },
        {"role": "assistant", "parts": [call], "finish_reason": "tool_call"},
        {
            "role": "tool",
            "parts": [{"type": "tool_call_response", "id": "c1", "response": {"n": 1}}],
        },
        {
            "role": "assistant",
            "parts": [{"type": "text", "content": "c"}, {**call, "arguments": "{}"}],
        },
        {
            "role": "user",
            "parts": [{"type": "text", "content": "d"}, {"type": "uri", "uri": "https://x/y.png"}],
        },
        {"role": "user", "content": "e"},
    ]
    called = {
        "id": "c1",
        "type": "function",
        "function": {"name": "search", "arguments": '{"q": "x"}'},
    }
    assert TranscriptType().read(messages) == [
        {"role": "user", "content": "a\nb"},
        {"role": "assistant", "content": None, "tool_calls": [called]},
        {"role": "tool", "content": '{"n": 1}', "tool_call_id": "c1", "name": "search"},
        {
            "role": "assistant",
            "content": "c",
            "tool_calls": [{**called, "function": {"name": "search", "arguments": "{}"}}],
        },
        {
            "role": "user",
            "content": [{"type": "text", "text": "d"}, {"type": "uri", "uri": "https://x/y.png"}],
        },
        {"role": "user", "content": "e"},
    ]
    for wrong in (
        [{"role": "user", "parts": "a"}],
        [{"parts": []}],
        [{"role": "user", "parts": [1], "content": 3}],
    ):
        with pytest.raises(ReplyError, match=r"is not a message|its content|the part 1"):
            TranscriptType().read(wrong)
