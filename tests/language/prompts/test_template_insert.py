"""How a value is written into a prompt."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verdict_cli.errors import RowError
from verdict_cli.language.prompts.placeholders import insert, is_conversation, transcript

JSON = st.recursive(
    st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None)
@given(JSON)
def test_every_value_of_json_is_inserted_as_the_language_says(value: Any) -> None:
    if value is None:
        with pytest.raises(RowError, match="null"):
            insert(value)
    elif isinstance(value, str):
        assert insert(value) == value
    elif isinstance(value, int | float):
        assert insert(value) == str(value)
    elif isinstance(value, list) and all(isinstance(item, str) for item in value):
        assert insert(value) == "\n".join(value)
    elif not is_conversation(value):
        assert json.loads(insert(value)) == value


def test_a_conversation_is_inserted_as_its_transcript() -> None:
    turns = [{"role": "Proponent #1", "content": "No."}, {"role": "Opponent #2", "content": "Yes."}]
    expected = "<Proponent #1>\nNo.\n</Proponent #1>\n\n<Opponent #2>\nYes.\n</Opponent #2>"
    assert insert(turns) == transcript(turns) == expected
    assert insert([]) == ""


@pytest.mark.parametrize("value", [[10**30], ["\ud800", 1], {"a": [[10**30]]}])
def test_json_that_the_fast_writer_refuses_is_written_all_the_same(value: Any) -> None:
    assert json.loads(insert(value)) == value


def deep(levels: int) -> Any:
    value: Any = [1]
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("value", [{1, 2}, {"a": object()}, b"x", deep(100_000)])
def test_what_json_cannot_say_fails_the_row(value: Any) -> None:
    with pytest.raises(RowError, match="cannot be written as JSON"):
        insert(value)


def test_a_date_from_a_table_is_written_in_its_iso_form() -> None:
    assert insert({"day": datetime.date(2024, 2, 29)}) == '{"day":"2024-02-29"}'


@pytest.mark.parametrize(
    ("value", "spec"), [("a", ".2f"), (3, "s"), ([1], ">5"), (10**400, ".2f"), (1.5, "d"), (-5, "c"), ({}, ".1f")]
)
def test_a_format_that_does_not_fit_fails_the_row(value: Any, spec: str) -> None:
    with pytest.raises(RowError, match="does not fit"):
        insert(value, spec)


def test_values_that_are_not_exactly_turns_are_no_conversation() -> None:
    assert not is_conversation([{"role": "a", "content": "b", "id": 1}])
    assert not is_conversation("text")
    assert not is_conversation({"role": "a", "content": "b"})
