"""Expected tool calls next to those that an agent made."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verdict_cli.errors import RowError
from verdict_cli.language.expressions.entry_lists import match_calls


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def trace(*calls: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"role": "user", "content": "Do it."},
        {"role": "assistant", "content": None, "tool_calls": list(calls)},
    ]


def matches(messages: Any, expected: Any) -> list[tuple[str, str]]:
    return [(entry["tool"], entry["match"]) for entry in match_calls(messages, expected)]


def test_calls_are_exact_or_have_other_arguments_or_are_missing_or_extra():
    transcript = trace(call("find", q="a"), call("open", id=3), call("delete", id=3))
    expected = [call("open", id=3.0), call("find", q="b"), call("close", id=3)]
    assert match_calls(transcript, expected) == [
        {
            "tool": "open",
            "match": "exact",
            "expected": 'open({"id": 3.0})',
            "made": 'open({"id": 3})',
            "turn": 2,
        },
        {
            "tool": "find",
            "match": "arguments",
            "expected": 'find({"q": "b"})',
            "made": 'find({"q": "a"})',
            "turn": 2,
        },
        {
            "tool": "close",
            "match": "missing",
            "expected": 'close({"id": 3})',
            "made": "",
            "turn": None,
        },
        {
            "tool": "delete",
            "match": "extra",
            "expected": "",
            "made": 'delete({"id": 3})',
            "turn": 2,
        },
    ]


def test_an_equal_call_is_preferred_to_another_one_of_the_tool():
    assert matches(trace(call("find", q="a"), call("find", q="b")), [call("find", q="b")]) == [
        ("find", "exact"),
        ("find", "extra"),
    ]


@pytest.mark.parametrize(
    "tool_call",
    [
        {"type": "function", "function": {"name": "find", "arguments": '{ "q": "a", "n": 1 }'}},
        {"type": "tool_use", "name": "find", "input": {"n": 1, "q": "a"}},
        {"name": "find", "args": {"n": 1.0, "q": "a"}},
        {"name": "find", "inputParameters": {"n": 1, "q": "a"}},
    ],
)
def test_calls_of_any_api_are_compared(tool_call):
    assert matches([tool_call], [call("find", q="a", n=1)]) == [("find", "exact")]


def test_arguments_that_are_not_json_are_compared_as_text():
    broken = {"function": {"name": "run", "arguments": "{rm -rf"}}
    assert matches([broken], [broken]) == [("run", "exact")]


@pytest.mark.parametrize(
    ("messages", "expected"),
    [("x", []), ([], None), ([], [3]), ([3], []), ([{"role": "user"}], [])],
)
def test_what_is_not_a_list_of_calls_fails_the_row(messages, expected):
    with pytest.raises(RowError, match="match_calls"):
        match_calls(messages, expected)


CALLS = st.lists(st.builds(call, st.sampled_from("fgh"), x=st.integers(0, 2)), max_size=6)


@given(CALLS, CALLS)
def test_every_call_counts_once(calls, expected):
    matches_of_calls = match_calls(trace(*calls) if calls else [], expected)
    kinds = [entry["match"] for entry in matches_of_calls]
    assert len(matches_of_calls) - kinds.count("extra") == len(expected)
    assert len(matches_of_calls) - kinds.count("missing") == len(calls)
    texts = sorted(map(json.dumps, calls)), sorted(map(json.dumps, expected))
    equal = sum(min(texts[0].count(text), texts[1].count(text)) for text in set(texts[0]))
    assert kinds.count("exact") == equal


@pytest.mark.parametrize(
    ("argument", "expected", "match"),
    [
        (True, 1, "arguments"),
        ({"a": [0]}, {"a": [False]}, "arguments"),
        (5.0, 5, "exact"),
        ([{"a": None}], [{"a": None}], "exact"),
        ([1, 2], [1], "arguments"),
    ],
)
def test_arguments_are_equal_as_json_values(argument, expected, match):
    entries = match_calls(
        [{"name": "f", "arguments": {"n": argument}}], [{"name": "f", "arguments": {"n": expected}}]
    )
    assert [entry["match"] for entry in entries] == [match]
