"""Streamed replies are put together to what the same call gives unstreamed."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from verdict_cli.errors import Retryable
from verdict_cli.llm.providers.http_errors import Source
from verdict_cli.llm.providers.litellm import LitellmProvider
from verdict_cli.llm.providers.native import NativeProvider
from verdict_cli.llm.providers.read_reply import read_body
from verdict_cli.llm.providers.sse import END, TextStream, assemble, text_of
from verdict_cli.llm.providers.sse import events as read_events
from verdict_cli.messages import Message, Reply, Request, Row
from verdict_cli.model import Model

SCHEMA = {
    "type": "object",
    "properties": {"score": {"type": "integer"}},
    "required": ["score"],
    "additionalProperties": False,
}


def events(*parts: Any) -> bytes:
    return b"".join(
        b"data: " + (json.dumps(event).encode() if event != "[DONE]" else b"[DONE]") + b"\n\n"
        for event in parts
    )


def delta(finish: str | None = None, **keys: Any) -> dict[str, Any]:
    return {"model": "m", "choices": [{"delta": keys, "finish_reason": finish}]}


def request(url: str = "http://127.0.0.1/v1", **keys: Any) -> Request:
    model = Model(name="openai/gpt-4o-mini", api_base=url)
    return Request(
        Row(0, 0, {}), "judge", model, (Message("user", "Rate it."),), stream=True, **keys
    )


@settings(deadline=None)
@given(st.lists(st.text(), min_size=1, max_size=6))
def test_the_parts_of_a_text_are_joined_in_order(parts):
    body = events(*(delta(content=part) for part in parts), delta("stop"), "[DONE]")
    assert assemble(read_events(body))["choices"][0]["message"]["content"] == "".join(parts)


def test_arguments_of_a_tool_are_joined_with_usage_and_log_probabilities():
    logprobs = {"content": [{"token": "4", "logprob": -0.1, "top_logprobs": []}]}
    first = {
        "choices": [
            {
                "delta": {
                    "tool_calls": [{"index": 0, "function": {"name": "reply", "arguments": '{"sc'}}]
                },
                "logprobs": logprobs,
            }
        ]
    }
    second = {
        "choices": [
            {
                "delta": {"tool_calls": [{"index": 0, "function": {"arguments": 'ore": 4}'}}]},
                "finish_reason": "tool_calls",
            }
        ]
    }
    usage = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}
    whole = assemble(read_events(events(first, second, usage)))
    assert whole["choices"][0]["message"]["tool_calls"][0]["function"] == {
        "name": "reply",
        "arguments": '{"score": 4}',
    }
    assert whole["choices"][0]["logprobs"] == logprobs
    assert whole["usage"]["completion_tokens"] == 2


def test_a_stream_that_ends_early_is_no_reply():
    with pytest.raises(Retryable, match="ended before"):
        read_body(events(delta(content="4 of")), request(), Source("m"))


def test_a_stream_that_ends_without_a_reason_is_a_reply():
    assert (
        read_body(
            events(delta(content="4"), delta(content=" of 5"), "[DONE]"), request(), Source("m")
        ).text
        == "4 of 5"
    )
    with pytest.raises(Retryable, match="ended before"):
        read_body(events(delta(role="assistant"), "[DONE]"), request(), Source("m"))


def test_an_error_among_the_events_is_reported():
    with pytest.raises(Retryable, match="overloaded"):
        read_body(
            events(delta(content="4"), {"error": {"message": "overloaded"}}), request(), Source("m")
        )


@pytest.mark.parametrize("kind", [NativeProvider, LitellmProvider])
def test_a_streamed_call_gives_the_reply_of_an_unstreamed_one(kind, loopback, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-mock")
    to_send = request(loopback.url, json_schema=SCHEMA)

    async def both() -> tuple[Reply, Reply]:
        provider = kind()
        try:
            return await provider.ask(to_send), await provider.ask(replace(to_send, stream=False))
        finally:
            await provider.close()

    streamed, plain = asyncio.run(both())
    assert streamed.text == plain.text
    assert streamed.finish_reason == plain.finish_reason
    assert '"stream":true' in streamed.sent.replace(" ", "")


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_pieces_are_passed_on_however_the_bytes_are_cut(size):
    content = (
        b'data: {"choices":[{"delta":{"content":"A "}}]}\r\n\r\ndata: {"choices":[]}\n: note\ndata: broken\n'
        b'data: {"choices":[{"delta":{"content":"fine \xc3\xa9"}}]}\n\ndata: [DONE]\n'
        b'data: {"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"{}"}}]}}]}\n'
    )
    pieces = TextStream(text_of)
    chunks = [pieces.feed(content[at : at + size]) for at in range(0, len(content), size)]
    assert "".join(chunks) == "A fine é{}"


def test_a_whole_reply_in_one_event_is_read():
    choice = {"message": {"content": "4"}, "finish_reason": "stop"}
    assert assemble([{"choices": [choice]}, END])["choices"][0]["message"]["content"] == "4"


def test_a_message_beside_its_delta_is_not_added_again():
    stream = [
        {"choices": [{"delta": {"content": text}, "message": {"content": "45"}}]} for text in "45"
    ]
    assert assemble([*stream, END])["choices"][0]["message"]["content"] == "45"
