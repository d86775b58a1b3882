"""What the details of a row have of a conversation."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verdict_cli.report.chat import as_conversation, chat_preview, chat_turns, image_notes

MESSAGES = [
    {"role": "user", "content": "x" * 60},
    {"role": "assistant", "content": "y"},
    {"role": "user", "content": "z"},
]


def same(text: str) -> str:
    return text


def test_turns_after_the_limit_are_counted():
    messages = as_conversation(MESSAGES)
    assert messages is not None
    assert chat_turns(messages, same, 1_000)["left"] == 0
    cut = chat_turns(messages, same, 50)
    assert ([turn["number"] for turn in cut["turns"]], cut["left"]) == ([1], 2)


@pytest.mark.parametrize(
    ("address", "note"),
    [
        ("data:image/png;base64,AAAA", "image/png, 3 bytes"),
        ("data:image/png;base64,AA==", "image/png, 1 byte"),
        ("data:image/jpeg;base64," + "A" * 40_000, "image/jpeg, 30.0 kB"),
        ("data:image/jpeg;base64," + "A" * 150 + "…", "image/jpeg"),
        ("data:,abc", "image, 3 bytes"),
        ("https://pictures.example/a.png", "https://pictures.example/a.png"),
        ("x" * 300, "x" * 200 + "…"),
    ],
)
def test_images_are_notes(address, note):
    assert image_notes([address]) == [note]


@pytest.mark.parametrize("value", [None, 3, "[{", '[{"role": 3}]', '[{"role": "user"}]', [], ["a"], [{"role": "user", "content": None}], "[{" * 9_000 + '"role"'])  # fmt: skip
def test_other_values_stay_as_they_are(value):
    assert as_conversation(value) is None
    assert chat_preview(value) == value


def test_a_preview_reads_only_the_beginning():
    many = json.dumps(MESSAGES * 100)
    assert str(chat_preview(many)).splitlines()[-1] == "[8] assistant: y"


PARTS = st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": st.text()}) | st.dictionaries(st.text(), st.text(), max_size=3), max_size=3)  # fmt: skip


@given(st.lists(st.fixed_dictionaries({"role": st.text(), "content": st.none() | st.text() | PARTS | st.integers()}, optional={"tool_calls": st.lists(st.dictionaries(st.text(), st.text()))}), max_size=5))  # fmt: skip
def test_any_messages_are_a_chat_or_a_plain_value(messages):
    read = as_conversation(messages)
    if read is not None:
        assert json.dumps(chat_turns(read, same, 1_000_000))
