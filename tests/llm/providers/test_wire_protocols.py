"""The wire forms of Anthropic, Gemini and OpenAI's Responses API: what is sent, and what a reply means."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from verdict_cli.errors import Refused, Rejected, ReplyError, Retryable
from verdict_cli.llm.providers.anthropic_messages import ANTHROPIC_MESSAGES
from verdict_cli.llm.providers.chat_completions import read_envelope
from verdict_cli.llm.providers.gemini import GEMINI
from verdict_cli.llm.providers.openai_responses import OPENAI_RESPONSES
from verdict_cli.llm.providers.wire_protocol import WireProtocol, events
from verdict_cli.messages import Message, Reply, Request, Row, Usage
from verdict_cli.model import Model

ROW = Row(0, 0, {})
SCHEMA = {
    "type": "object",
    "properties": {"score": {"type": "integer", "minimum": 1, "maximum": 5}},
    "required": ["score"],
    "additionalProperties": False,
}
PIXEL = "data:image/png;base64,iVBORw0KGgo="
ALL = [ANTHROPIC_MESSAGES, GEMINI, OPENAI_RESPONSES]


def request(name: str = "m", **keys: Any) -> Request:
    model = Model(name=name, **keys.pop("model", {}))
    messages = keys.pop("messages", (Message("system", "Be fair."), Message("user", "How good?")))
    return Request(ROW, "judge", model, messages, **keys)


def read(protocol: WireProtocol, body: dict[str, Any], asked: Request | None = None) -> Reply:
    return read_envelope(protocol.to_chat(body), asked or request(), 0.1)


def test_anthropic_takes_the_system_prompt_apart_and_a_limit_always() -> None:
    body = ANTHROPIC_MESSAGES.body(request(model={"temperature": 0.5, "stop": "END"}), "claude-x", "schema")
    assert body["system"] == [{"type": "text", "text": "Be fair."}]
    assert body["messages"] == [{"role": "user", "content": [{"type": "text", "text": "How good?"}]}]
    assert (body["max_tokens"], body["temperature"], body["stop_sequences"]) == (4096, 0.5, ["END"])


def test_anthropic_gets_bounds_as_a_description_and_the_schema_stays_whole() -> None:
    asked = request(json_schema=SCHEMA)
    schema = ANTHROPIC_MESSAGES.body(asked, "claude-x", "schema")["output_config"]["format"]["schema"]
    assert schema["properties"]["score"] == {"type": "integer", "description": "minimum: 1, maximum: 5"}
    assert SCHEMA["properties"]["score"]["minimum"] == 1  # type: ignore[index]


def test_anthropic_is_not_forced_to_a_tool_while_it_thinks() -> None:
    body = ANTHROPIC_MESSAGES.body(request(json_schema=SCHEMA, model={"reasoning_effort": "low"}), "claude-x", "tool")
    assert "tool_choice" not in body and body["thinking"]["budget_tokens"] < body["max_tokens"]
    assert "JSON Schema" in body["messages"][-1]["content"][-1]["text"]


@pytest.mark.parametrize(
    ("protocol", "keys", "named"),
    [
        (ANTHROPIC_MESSAGES, {"model": {"seed": 7}}, "takes no seed"),
        (ANTHROPIC_MESSAGES, {"top_logprobs": 5}, "no token log-probabilities"),
        (ANTHROPIC_MESSAGES, {"model": {"reasoning_effort": "low", "temperature": 0}}, "no temperature together"),
        (OPENAI_RESPONSES, {"model": {"seed": 7}}, "takes no seed"),
        (OPENAI_RESPONSES, {"model": {"stop": "x"}}, "takes no stop"),
        (GEMINI, {"model": {"reasoning_effort": "very"}}, "unknown reasoning_effort"),
    ],
)
def test_settings_that_an_api_lacks_are_refused_in_our_words(
    protocol: WireProtocol, keys: dict[str, Any], named: str
) -> None:
    with pytest.raises(Refused, match=named):
        protocol.body(request(**keys), "m", "schema")


def test_gemini_names_roles_and_settings_its_own_way() -> None:
    messages = (Message("system", "S"), Message("user", "a"), Message("assistant", "b"), Message("user", "c"))
    asked = request(messages=messages, model={"max_tokens": 9, "top_p": 0.5, "seed": 3}, json_schema=SCHEMA)
    body = GEMINI.body(asked, "gemini-2.5-flash", "schema")
    assert [turn["role"] for turn in body["contents"]] == ["user", "model", "user"]
    assert body["systemInstruction"] == {"parts": [{"text": "S"}]}
    assert body["generationConfig"] == {
        "topP": 0.5,
        "maxOutputTokens": 9,
        "seed": 3,
        "responseMimeType": "application/json",
        "responseJsonSchema": SCHEMA,
    }


def test_responses_are_not_kept_by_the_provider_and_have_a_least_limit() -> None:
    body = OPENAI_RESPONSES.body(request(model={"max_tokens": 3, "reasoning_effort": "high"}), "gpt-5-pro", "schema")
    assert (body["store"], body["max_output_tokens"], body["reasoning"]) == (False, 16, {"effort": "high"})


@pytest.mark.parametrize(
    ("protocol", "where", "expected"),
    [
        (
            ANTHROPIC_MESSAGES,
            lambda body: body["messages"][0]["content"][1],
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
        ),
        (
            GEMINI,
            lambda body: body["contents"][0]["parts"][1],
            {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}},
        ),
        (OPENAI_RESPONSES, lambda body: body["input"][0]["content"][1], {"type": "input_image", "image_url": PIXEL}),
    ],
)
def test_pictures_stand_at_their_place(protocol: WireProtocol, where: Any, expected: dict[str, Any]) -> None:
    asked = request(messages=(Message("user", "see  it", images=((4, PIXEL),)),))
    assert where(protocol.body(asked, "m", "schema")) == expected


ANTHROPIC_REPLY = {
    "type": "message",
    "model": "claude-x-2026",
    "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": '{"score": 4}'}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 10, "cache_read_input_tokens": 90, "cache_creation_input_tokens": 5, "output_tokens": 7},
}
GEMINI_REPLY = {
    "candidates": [
        {
            "content": {"parts": [{"text": "let me see", "thought": True}, {"text": '{"score": 4}'}]},
            "finishReason": "STOP",
            "logprobsResult": {
                "chosenCandidates": [{"token": "4", "logProbability": -0.1}],
                "topCandidates": [
                    {"candidates": [{"token": "4", "logProbability": -0.1}, {"token": "5", "logProbability": -2.5}]}
                ],
            },
        }
    ],
    "usageMetadata": {"promptTokenCount": 105, "candidatesTokenCount": 5, "thoughtsTokenCount": 2},
    "modelVersion": "gemini-2.5-flash",
}
RESPONSES_REPLY = {
    "status": "completed",
    "model": "gpt-5-pro-2026",
    "output": [
        {"type": "reasoning", "summary": []},
        {"type": "message", "content": [{"type": "output_text", "text": '{"score": 4}'}]},
    ],
    "usage": {"input_tokens": 105, "output_tokens": 7, "output_tokens_details": {"reasoning_tokens": 2}},
}


@pytest.mark.parametrize(
    ("protocol", "body"), [*zip(ALL, [ANTHROPIC_REPLY, GEMINI_REPLY, RESPONSES_REPLY], strict=True)]
)
def test_a_reply_is_its_text_with_all_tokens_that_are_charged(protocol: WireProtocol, body: dict[str, Any]) -> None:
    reply = read(protocol, body)
    assert (reply.text, reply.finish_reason, reply.usage) == ('{"score": 4}', "stop", Usage(105, 7))
    assert reply.model == body.get("model", body.get("modelVersion"))


def test_gemini_s_log_probabilities_have_the_chosen_token_first() -> None:
    (position,) = read(GEMINI, GEMINI_REPLY).logprobs or ()
    assert [(each.token, each.logprob) for each in position] == [("4", -0.1), ("5", -2.5)]


@pytest.mark.parametrize(
    ("protocol", "body"),
    [
        (
            ANTHROPIC_MESSAGES,
            {**ANTHROPIC_REPLY, "content": [{"type": "tool_use", "name": "reply", "input": {"score": 4}}]},
        ),
        (GEMINI, {"candidates": [{"content": {"parts": [{"functionCall": {"name": "reply", "args": {"score": 4}}}]}}]}),
        (OPENAI_RESPONSES, {"output": [{"type": "function_call", "name": "reply", "arguments": '{"score":4}'}]}),
    ],
)
def test_a_forced_tool_s_arguments_are_the_reply(protocol: WireProtocol, body: dict[str, Any]) -> None:
    assert orjson.loads(read(protocol, body).text) == {"score": 4}


@pytest.mark.parametrize(
    ("protocol", "body", "error", "kind"),
    [
        (ANTHROPIC_MESSAGES, {**ANTHROPIC_REPLY, "stop_reason": "refusal"}, ReplyError, "refused"),
        (ANTHROPIC_MESSAGES, {**ANTHROPIC_REPLY, "content": [], "stop_reason": "max_tokens"}, ReplyError, "cut-off"),
        (ANTHROPIC_MESSAGES, {**ANTHROPIC_REPLY, "stop_reason": "pause_turn"}, Retryable, "unavailable"),
        (ANTHROPIC_MESSAGES, {"type": "error", "error": {"message": "no"}}, Retryable, "unavailable"),
        (GEMINI, {"promptFeedback": {"blockReason": "SAFETY"}}, Rejected, "content-filter"),
        (GEMINI, {"candidates": [{"finishReason": "RECITATION"}]}, Rejected, "content-filter"),
        (GEMINI, {"candidates": [{"finishReason": "MAX_TOKENS", "content": {}}]}, ReplyError, "cut-off"),
        (GEMINI, {"candidates": []}, Retryable, "unavailable"),
        (
            OPENAI_RESPONSES,
            {"output": [{"type": "message", "content": [{"type": "refusal", "refusal": "no"}]}]},
            ReplyError,
            "refused",
        ),
        (
            OPENAI_RESPONSES,
            {"output": [], "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
            ReplyError,
            "cut-off",
        ),
        (OPENAI_RESPONSES, {"output": None, "error": {"message": "boom"}}, Retryable, "unavailable"),
    ],
)
def test_what_is_no_reply_is_the_same_error_on_every_protocol(
    protocol: WireProtocol, body: dict[str, Any], error: type[Exception], kind: str
) -> None:
    with pytest.raises(error) as raised:
        read(protocol, body)
    assert raised.value.failure == kind  # type: ignore[attr-defined]


def stream(*parts: dict[str, Any]) -> bytes:
    return b"".join(b"event: x\ndata: " + orjson.dumps(part) + b"\n\n" for part in parts)


STREAMS = {
    "anthropic": stream(
        {"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 3, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": '{"score"'}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": ": 4}"}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 7}},
        {"type": "message_stop"},
    ),
    "gemini": stream(
        {"candidates": [{"content": {"parts": [{"text": '{"score"'}]}}]},
        {
            "candidates": [{"content": {"parts": [{"text": ": 4}"}]}, "finishReason": "STOP"}],
            "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 7},
        },
    ),
    "responses": stream(
        {"type": "response.output_text.delta", "delta": '{"score"'},
        {"type": "response.output_text.delta", "delta": ": 4}"},
        {
            "type": "response.completed",
            "response": {
                "output": [{"type": "message", "content": [{"type": "output_text", "text": '{"score": 4}'}]}],
                "usage": {"input_tokens": 3, "output_tokens": 7},
            },
        },
    ),
}


@pytest.mark.parametrize("protocol", ALL, ids=lambda protocol: protocol.name)
def test_a_stream_is_the_reply_that_the_call_gives_unstreamed(protocol: WireProtocol) -> None:
    body = STREAMS[protocol.name]
    reply = read(protocol, protocol.assemble(events(body)))
    assert (reply.text, reply.usage) == ('{"score": 4}', Usage(3, 7))
    assert "".join(map(protocol.text_of, events(body))) == '{"score": 4}'


@pytest.mark.parametrize("protocol", ALL, ids=lambda protocol: protocol.name)
def test_a_stream_that_breaks_off_is_no_reply(protocol: WireProtocol) -> None:
    with pytest.raises(ValueError, match="ended before"):
        protocol.assemble(list(events(STREAMS[protocol.name]))[:-1])
