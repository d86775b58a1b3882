"""A conversation in a prompt: numbered turns, filters that keep the numbers, images as images."""

from __future__ import annotations

from typing import Any

import pytest

from verdict_cli.errors import RowError
from verdict_cli.language.expressions.paths import ExpressionPath, Resolved
from verdict_cli.language.fields.types import UnknownType
from verdict_cli.language.prompts.jinja import compile_jinja
from verdict_cli.language.prompts.prompt import compile_prompt

PIXEL = "data:image/png;base64,iVBORw0KGgo="
CALL = {"id": "c", "type": "function", "function": {"name": "search", "arguments": '{"q":"x"}'}}
MESSAGES = [
    {"role": "user", "content": "Hi", "name": None},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c", "content": "found"},
    {"role": "user", "content": [{"type": "text", "text": "And this?"}, {"type": "image_url", "image_url": {"url": PIXEL}}]},
]  # fmt: skip


def resolve(path: ExpressionPath) -> Resolved:
    return Resolved((path,), UnknownType())


def rendered(text: str, messages: Any = MESSAGES, *, delimit: bool = False) -> Any:
    problems: list[str] = []
    prompt = compile_prompt(
        text, resolve, lambda *parts: problems.append(parts[0]), lambda *_: None, delimit
    )
    assert not problems, problems
    return prompt.render({"source": {"messages": messages}}).messages[0]


@pytest.mark.parametrize(
    ("filters", "turns"),
    [
        ("", [1, 2, 3, 4]),
        (" | last(2)", [3, 4]),
        (" | first(2)", [1, 2]),
        (" | last(0)", []),
        ("|last(9)", [1, 2, 3, 4]),
        (" | without('tool')", [1, 2, 4]),
        (' | only("assistant")', [2]),
        (" | without('tool') | last(2)", [2, 4]),
    ],
)
def test_filters_keep_the_numbers_of_the_turns(filters, turns):
    content = rendered(f"{{source.messages{filters}}}").content
    assert [int(line[1 : line.index("]")]) for line in content.splitlines()] == turns
    jinja = compile_jinja(f"{{{{ source.messages{filters} }}}}", ("source",), resolve, pytest.fail)
    assert jinja is not None
    assert (
        jinja.render({"source": {"messages": MESSAGES}}).messages[0].content if turns else ""
    ) == content


@pytest.mark.parametrize("delimit", [False, True])
def test_images_are_sent_as_images_and_no_data_is_in_the_text(delimit):
    message = rendered("Judge:\n{source.messages}\nDone.", delimit=delimit)
    assert "base64" not in message.content and "None" not in message.content
    assert "[4] user: And this? (image)" in message.content
    assert [url for _, url in message.images] == [PIXEL]


def test_only_the_images_of_the_messages_shown_are_sent():
    assert rendered("{source.messages | first(3)}").images == ()


def test_one_message_has_no_number():
    assert rendered("{source.messages[1]}").content == 'assistant called search({"q": "x"})'


@pytest.mark.parametrize(
    ("filter_text", "message"),
    [
        ("{source.messages | last('user')}", "takes a number of messages"),
        ("{source.messages | only(3)}", "takes a role"),
        ("{source.messages | upper}", "not allowed in a placeholder"),
    ],
)
def test_a_wrong_filter_is_an_error(filter_text, message):
    problems: list[str] = []
    compile_prompt(
        filter_text, resolve, lambda *parts: problems.append(parts[0]), lambda *_: None, False
    )
    assert message in problems[0]


@pytest.mark.parametrize("value", ["text", [1], [{"role": "user", "content": None}]])
def test_a_filter_of_anything_else_fails_the_row(value):
    with pytest.raises(RowError, match="takes a conversation"):
        rendered("{source.messages | last(2)}", value)


def test_a_null_turn_fails_the_row():
    with pytest.raises(RowError, match=r"\[0\]: its content is null"):
        rendered("{source.messages}", [{"role": "user", "content": None}])
