"""Messages of four APIs mean the same conversation."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verdict_cli.language.conversation import (
    ConversationError,
    conversation_images,
    looks_like_conversation,
    read_conversation,
    transcript,
)

PIXEL = "data:image/png;base64,iVBORw0KGgo="

TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), min_size=1, max_size=30)
NAMES = st.from_regex(r"[a-z_]{1,8}", fullmatch=True)
VALUES = st.dictionaries(NAMES, st.integers(-5, 5) | TEXTS | st.booleans(), max_size=3)
TURNS = st.lists(
    st.tuples(st.just("user"), TEXTS, st.booleans())
    | st.tuples(st.just("assistant"), TEXTS)
    | st.tuples(st.just("call"), NAMES, VALUES, TEXTS),
    min_size=1,
    max_size=6,
)
"""What happens in a conversation: a user's text, with a picture or without; an answer; a call of a tool and its result."""


def openai(turns: list[Any]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    for number, (kind, *turn) in enumerate(turns):
        if kind == "user":
            picture = [{"type": "image_url", "image_url": {"url": PIXEL}}] if turn[1] else []
            content = [{"type": "text", "text": turn[0]}, *picture] if picture else turn[0]
            messages.append({"role": "user", "content": content})
        elif kind == "assistant":
            messages.append({"role": "assistant", "content": turn[0]})
        else:
            name, arguments, result = turn
            call = {
                "id": f"c{number}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments)},
            }
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
            messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": result})
    return messages


def anthropic(turns: list[Any]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    for number, (kind, *turn) in enumerate(turns):
        if kind == "user":
            head, data = PIXEL.removeprefix("data:").split(";base64,")
            source = {"type": "base64", "media_type": head, "data": data}
            picture = [{"type": "image", "source": source}] if turn[1] else []
            messages.append(
                {"role": "user", "content": [{"type": "text", "text": turn[0]}, *picture]}
            )
        elif kind == "assistant":
            messages.append({"role": "assistant", "content": [{"type": "text", "text": turn[0]}]})
        else:
            name, arguments, result = turn
            use = {"type": "tool_use", "id": f"c{number}", "name": name, "input": arguments}
            messages.append({"role": "assistant", "content": [use]})
            done = {
                "type": "tool_result",
                "tool_use_id": f"c{number}",
                "content": [{"type": "text", "text": result}],
            }
            messages.append({"role": "user", "content": [done]})
    return messages


def gemini(turns: list[Any]) -> list[dict[str, Any]]:
    contents: list[dict[str, Any]] = []
    for kind, *turn in turns:
        if kind == "user":
            head, data = PIXEL.removeprefix("data:").split(";base64,")
            picture = [{"inlineData": {"mimeType": head, "data": data}}] if turn[1] else []
            contents.append({"role": "user", "parts": [{"text": turn[0]}, *picture]})
        elif kind == "assistant":
            contents.append({"role": "model", "parts": [{"text": turn[0]}]})
        else:
            name, arguments, result = turn
            contents.append(
                {"role": "model", "parts": [{"functionCall": {"name": name, "args": arguments}}]}
            )
            contents.append(
                {
                    "role": "user",
                    "parts": [{"functionResponse": {"name": name, "response": result}}],
                }
            )
    return contents


def otel(turns: list[Any]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    for number, (kind, *turn) in enumerate(turns):
        if kind == "user":
            head, data = PIXEL.removeprefix("data:").split(";base64,")
            blob = {"type": "blob", "modality": "image", "mime_type": head, "content": data}
            messages.append(
                {
                    "role": "user",
                    "parts": [{"type": "text", "content": turn[0]}, *([blob] if turn[1] else [])],
                }
            )
        elif kind == "assistant":
            messages.append(
                {
                    "role": "assistant",
                    "parts": [{"type": "text", "content": turn[0]}],
                    "finish_reason": "stop",
                }
            )
        else:
            name, arguments, result = turn
            call = {"type": "tool_call", "id": f"c{number}", "name": name, "arguments": arguments}
            messages.append({"role": "assistant", "parts": [call]})
            messages.append(
                {
                    "role": "tool",
                    "parts": [
                        {"type": "tool_call_response", "id": f"c{number}", "response": result}
                    ],
                }
            )
    return messages


@settings(deadline=None, max_examples=80)
@given(TURNS)
def test_four_forms_of_a_conversation_have_one_transcript(turns):
    read = [read_conversation(form(turns)) for form in (openai, anthropic, gemini, otel)]
    assert len({transcript(messages) for messages in read}) == 1
    assert len({conversation_images(messages) for messages in read}) == 1
    for messages in read:
        assert looks_like_conversation(messages)
        assert read_conversation(messages) == messages


def test_turns_are_numbered_and_tools_are_readable():
    messages = read_conversation(
        openai(
            [
                ("user", "Where?", True),
                ("call", "search", {"q": "café"}, "Paris"),
                ("assistant", "In Paris."),
            ]
        )
    )
    assert transcript(messages).split("\n") == [
        "[1] user: Where? (image)",
        '[2] assistant called search({"q": "café"})',
        "[3] tool search: Paris",
        "[4] assistant: In Paris.",
    ]
    assert conversation_images(messages) == (PIXEL,)


def test_text_beside_a_tool_call_is_shown_with_it():
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}
    messages = read_conversation(
        [{"role": "assistant", "content": "Let me see.", "tool_calls": [call, call]}]
    )
    assert (
        transcript(messages)
        == "[1] assistant: Let me see.\n[1] assistant called f({})\n[1] assistant called f({})"
    )


def test_several_results_of_one_message_are_several_turns():
    results = [
        {"type": "tool_result", "tool_use_id": str(number), "content": f"r{number}"}
        for number in range(2)
    ]
    messages = read_conversation(
        [{"role": "user", "content": [*results, {"type": "text", "text": "And?"}]}]
    )
    assert transcript(messages) == "[1] tool: r0\n[2] tool: r1\n[3] user: And?"


def test_parts_that_are_not_text_are_named_and_never_printed():
    content = [
        {"type": "input_audio", "input_audio": {"data": "QUJD" * 100}},
        {"type": "text", "text": "What is it?"},
    ]
    assert (
        transcript(read_conversation([{"role": "user", "content": content}]))
        == "[1] user: (input audio) What is it?"
    )


@pytest.mark.parametrize(
    ("messages", "error"),
    [
        ("text", "is not a list of messages"),
        ([{"role": "user"}], r"\[0\]: its content is null"),
        ([{"role": "user", "content": "a"}, {"content": "b"}], r"\[1\]: .* is not a message"),
        ([{"role": "user", "content": 3}], r"\[0\]: its content 3 is neither"),
        ([{"role": "user", "content": [3]}], r"\[0\]: the part 3"),
        (
            [{"role": "assistant", "content": None, "tool_calls": [{}]}],
            r"\[0\]: the tool call {} has no name",
        ),
        (
            [{"role": "assistant", "content": None, "tool_calls": [{"function": {"name": ""}}]}],
            r"\[0\]: the tool call .* has no name",
        ),
        (
            [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": None}}]}],
            "has no address",
        ),
    ],
)
def test_what_is_no_conversation_is_an_error_that_names_the_message(messages, error):
    with pytest.raises(ConversationError, match=error):
        read_conversation(messages)


def test_an_empty_id_is_none_and_hides_no_other():
    call = {"type": "function_call", "name": "add", "arguments": "", "call_id": "", "id": "c1"}
    result = {"type": "function_call_output", "output": "3", "call_id": ""}
    made, answered = read_conversation([call, result])
    assert made["tool_calls"] == [
        {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    ]
    assert answered == {"role": "tool", "content": "3"}


ODD = st.sampled_from(
    [None, True, 3, "x", [], [None], {}, {"url": 3}, {"name": None}, {"parts": 3}]
)
KEYS = st.sampled_from(
    ["type", "text", "content", "source", "image_url", "inlineData", "functionCall", "functionResponse", "fileData", "function", "name"]
)  # fmt: skip
KINDS = st.sampled_from(
    ["text", "image", "image_url", "input_image", "tool_use", "tool_result", "blob", "uri", "file"]
)


@given(
    st.lists(st.dictionaries(KEYS, ODD | KINDS, max_size=4), max_size=3),
    st.none() | st.lists(st.dictionaries(KEYS, ODD)),
)
def test_parts_of_any_shape_are_read_or_a_conversation_error(parts, calls):
    try:
        transcript([{"role": "user", "content": parts, **({"tool_calls": calls} if calls else {})}])
    except ConversationError as error:
        assert str(error).startswith("[0]")


def test_messages_of_sharegpt_are_messages():
    turns = [
        {"from": "system", "value": "Be brief."},
        {"from": "human", "value": "Hello", "weight": None},
        {"from": "gpt", "value": "Hi"},
        {"from": "observation", "value": "22 degrees"},
    ]
    assert looks_like_conversation(turns)
    assert read_conversation(turns) == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hi"},
        {"role": "tool", "content": "22 degrees"},
    ]
    assert not looks_like_conversation([{"from": "a", "to": "b"}])
    assert not looks_like_conversation([{"from": 3, "value": 4}])


@pytest.mark.parametrize("identity", [7, {"x": 1}, True, "", []])
def test_records_of_calls_with_an_id_of_their_own_are_no_conversation(identity):
    assert not looks_like_conversation([{"id": identity, "kwargs": {"path": "a"}}])
