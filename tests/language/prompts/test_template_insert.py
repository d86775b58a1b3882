"""How a value is written into a prompt."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verdict_cli.errors import RowError
from verdict_cli.language.conversation import looks_like_conversation
from verdict_cli.language.expressions.value_text import insert

JSON = st.recursive(
    st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


def _holds_null(value: Any) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return value is None or any(map(_holds_null, inner))


@settings(deadline=None)
@given(JSON)
def test_every_value_of_json_is_inserted_as_the_language_says(value):
    if _holds_null(value):
        with pytest.raises(RowError, match="null"):
            insert(value)
    elif isinstance(value, str):
        assert insert(value) == value
    elif isinstance(value, bool):
        assert insert(value) == json.dumps(value)
    elif isinstance(value, int | float):
        assert insert(value) == str(value)
    elif isinstance(value, list) and all(isinstance(item, str) for item in value):
        assert insert(value) == "\n".join(value)
    elif not looks_like_conversation(value) and not looks_like_conversation([value]):
        assert json.loads(insert(value)) == value


def test_a_debate_is_inserted_between_tags_of_its_speakers():
    turns = [{"role": "Proponent", "content": "Yes."}, {"role": "Opponent", "content": "No."}]
    assert insert(turns) == "<Proponent>\nYes.\n</Proponent>\n\n<Opponent>\nNo.\n</Opponent>"


def test_a_conversation_is_inserted_as_numbered_turns():
    turns = [{"role": "user", "content": "Hi"}, {"role": "Proponent #1", "content": "No,\nwait."}]
    assert insert(turns) == "[1] user: Hi\n[2] Proponent #1: No,\n    wait."


@pytest.mark.parametrize("value", [[10**30], ["\ud800", 1], {"a": [[10**30]]}])
def test_json_that_the_fast_writer_refuses_is_written_all_the_same(value):
    assert json.loads(insert(value)) == value


def deep(levels: int) -> Any:
    value: Any = [1]
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("value", [{1, 2}, {"a": object()}, b"x", deep(100_000)])
def test_what_json_cannot_say_fails_the_row(value):
    with pytest.raises(RowError, match="cannot be written as JSON"):
        insert(value)


def test_a_date_from_a_table_is_written_in_its_iso_form():
    assert insert({"day": datetime.date(2024, 2, 29)}) == '{"day":"2024-02-29"}'


@pytest.mark.parametrize(
    ("value", "spec"),
    [("a", ".2f"), (3, "s"), ([1], ">5"), (10**400, ".2f"), (1.5, "d"), (-5, "c"), ({}, ".1f")],
)
def test_a_format_that_does_not_fit_fails_the_row(value, spec):
    with pytest.raises(RowError, match="does not fit"):
        insert(value, spec)


def test_values_that_are_not_messages_are_no_conversation():
    assert not looks_like_conversation([{"role": "a", "text": "b"}])
    assert not looks_like_conversation([])
    assert not looks_like_conversation("text")


CALL = {"role": "assistant", "content": None, "tool_calls": [{"name": "search"}]}


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (["a", None], "[1]"),
        ([1, [2, None]], "[1][1]"),
        ({"a": {"b": None}}, "['a']['b']"),
        ([{"a": [None]}], "[0]['a'][0]"),
    ],
)
def test_a_null_inside_a_value_is_an_error_that_names_its_place(value, place):
    with pytest.raises(RowError, match="is null; a prompt needs a value") as caught:
        insert(value)
    assert caught.value.message.startswith(place)
    assert caught.value.failure == "missing-value"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": None}],
            "[1]: its content is null",
        ),
        (
            [{"role": "user", "content": None, "tool_calls": [1]}],
            "[0]: the tool call 1 is not a mapping",
        ),
        ([{**CALL, "tool_calls": []}], "[0]: its content is null"),
        (
            [{**CALL, "tool_calls": [{"name": None}]}],
            "[0]: the tool call {'name': None} has no name",
        ),
    ],
)
def test_a_broken_message_is_an_error_that_names_it(value, message):
    with pytest.raises(RowError) as caught:
        insert(value)
    assert caught.value.message.startswith(message)
    assert caught.value.failure == "missing-value"


def test_a_message_that_calls_tools_needs_no_content():
    assert insert([CALL]) == "[1] assistant called search({})"


def test_optional_keys_of_a_message_that_parquet_fills_with_null_are_left_out():
    assert insert([{"role": "user", "content": "Hi", "name": None}]) == "[1] user: Hi"


@pytest.mark.parametrize(("spec", "text"), [("", "true"), (">6", "  true"), (".1f", "1.0")])
def test_a_boolean_is_spelled_as_in_json(spec, text):
    assert insert(True, spec) == text


def test_a_conversation_of_content_parts_is_its_text():
    assert insert([{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]) == "[1] user: Hi"
