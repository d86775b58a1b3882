"""An error in a body with status 200 is read as if its code were the status."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from verdict_cli.errors import ProviderError, Refused, Rejected, ReplyError, Retryable, VerdictError
from verdict_cli.llm.model_families import family
from verdict_cli.llm.providers.http_errors import Source
from verdict_cli.llm.providers.protocols import protocol_of
from verdict_cli.llm.providers.read_reply import read_body
from verdict_cli.messages import Message, Request, Row
from verdict_cli.model import Model

SOURCE = Source("openai/m", "http://host/v1/chat/completions", {"retry-after": "7"})
USED = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}


def raised(body: Any, model: str = "openai/m", *, stream: bool = False) -> ProviderError:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    wanted_model = Model(name=model)
    request = Request(Row(0, 0, {}), "judge", wanted_model, (Message("user", "?"),), stream=stream)
    of = family(wanted_model)
    assert of is not None
    with pytest.raises(ProviderError) as caught:
        read_body(content, request, replace(SOURCE, model=model), protocol=protocol_of(of))
    return caught.value


def events(*values: Any) -> bytes:
    return b"".join(b"data: %b\n\n" % json.dumps(value).encode() for value in values)


ERRORS: list[tuple[dict[str, Any], type[ProviderError], str, int]] = [
    ({"message": "Rate limit exceeded", "code": 429}, Retryable, "rate-limit", 429),
    ({"message": "Rate limit exceeded", "code": "429"}, Retryable, "rate-limit", 429),
    ({"message": "No auth credentials found", "code": 401}, Refused, "refused-by-provider", 401),
    ({"message": "Insufficient credits", "code": 402}, Refused, "refused-by-provider", 402),
    ({"message": "Input was flagged by moderation", "code": 403}, Rejected, "content-filter", 403),
    ({"message": "not available in your region", "code": 403}, Refused, "refused-by-provider", 403),
    (
        {"message": "maximum context length is 4096 tokens.", "code": 400},
        Rejected,
        "context-too-long",
        400,
    ),
    ({"message": "bad top_p", "code": 400}, Rejected, "rejected", 400),
    ({"message": "upstream fell over", "code": 502}, Retryable, "unavailable", 502),
    (
        {"message": "Incorrect API key provided", "code": "invalid_api_key"},
        Refused,
        "refused-by-provider",
        401,
    ),
    (
        {"message": "pay", "type": "insufficient_quota", "code": 1234},
        Refused,
        "refused-by-provider",
        402,
    ),
    ({"message": "try later", "status": "RESOURCE_EXHAUSTED"}, Retryable, "rate-limit", 429),
    ({"message": "Overloaded", "type": "overloaded_error"}, Retryable, "rate-limit", 529),
    ({"message": "what?", "code": 17}, Retryable, "unavailable", 200),
]
FORMS = {
    "under its key": lambda error: {"error": error, "user_id": "u"},
    "with choices null": lambda error: {"error": error, "choices": None},
    "the body itself": lambda error: {"object": "error", **error},
    "in the choice": lambda error: {
        "choices": [
            {
                "error": error,
                "finish_reason": "error",
                "message": {"role": "assistant", "content": "half"},
            }
        ]
    },
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("error", "kind", "failure", "status"), ERRORS)
def test_an_error_in_a_body_is_what_its_code_or_its_words_say(form, error, kind, failure, status):
    caught = raised(FORMS[form](error))
    assert (type(caught), caught.failure, caught.status) == (kind, failure, status)
    assert error["message"] in caught.message


@pytest.mark.parametrize(("error", "kind", "failure", "status"), ERRORS)
def test_an_error_in_a_stream_is_read_alike(error, kind, failure, status):
    delta = {"choices": [{"delta": {"content": "half"}}], "usage": USED}
    for last in (
        {"error": error},
        {"object": "error", **error},
        {"choices": [{"delta": {}, "error": error}]},
    ):
        caught = raised(events(delta, last), stream=True)
        assert (type(caught), caught.failure, caught.status) == (kind, failure, status)
        assert caught.reply is not None and caught.reply.usage.completion_tokens == 2


@pytest.mark.parametrize(
    ("model", "body"),
    [
        (
            "anthropic/claude-haiku-4-5",
            {"type": "error", "error": {"type": "rate_limit_error", "message": "slow"}},
        ),
        (
            "gemini/gemini-2.5-flash",
            {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "slow"}},
        ),
        (
            "gpt-5-pro",
            {"status": "failed", "error": {"code": "rate_limit_exceeded", "message": "slow"}},
        ),
    ],
)
def test_an_error_of_every_protocol_is_read_alike(model, body):
    caught = raised(body, model)
    assert (caught.failure, caught.status) == ("rate-limit", 429)
    assert "slow" in caught.message


def test_the_delay_in_the_headers_holds_for_an_error_in_a_body():
    caught = raised({"error": {"message": "Rate limit exceeded", "code": 429}})
    assert isinstance(caught, Retryable) and caught.retry_after_s == 7


def test_a_gateways_error_has_the_words_of_the_provider_behind_it():
    error = {
        "message": "Provider returned error",
        "code": 429,
        "metadata": {"raw": "model is rate-limited upstream"},
    }
    assert "rate-limited upstream" in raised({"error": error}).message


@pytest.mark.parametrize(
    "body", ['"Unexpected endpoint or method."', {"error": "Unexpected endpoint (POST /v1/v1)"}]
)
def test_an_address_that_has_no_such_path_leads_to_api_base(body):
    caught = raised(body.encode() if isinstance(body, str) else body)
    assert isinstance(caught, Refused) and "api_base" in caught.hint
    assert "Unexpected endpoint" in caught.message


def failed(content: bytes, content_type: str = "", **more: Any) -> VerdictError:
    """The error of a body that is no reply."""
    request = Request(
        Row(0, 0, {}), "judge", Model(name="openai/m"), (Message("user", "?"),), **more
    )
    source = Source("m", "http://host/v1/chat/completions", {"content-type": content_type})
    with pytest.raises(VerdictError) as caught:
        read_body(content, request, source)
    return caught.value


PAGE = b"<!DOCTYPE html><html><head><style>p {color: red}</style></head><body><p>Sign in &amp; continue</p></body></html>"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("content", "content_type", "message"),
    [
        (PAGE, "text/html; charset=utf-8", "it is text/html, not JSON: Sign in & continue"),
        (b"OK", "text/plain", "it is text/plain, not JSON: OK"),
        (b"", "application/json", "the body is empty"),
        (b" \n", "", "the body is empty"),
        (
            b'{"model": "llama3", "message": {"content": "4"}, "done": true}',
            "",
            'no choices in {"model":"llama3"',
        ),
        (
            b'{"a": 1}\n{"b": 2}',
            "",
            'the body is not JSON: Extra data: line 2 column 1 (char 9): {"a": 1}',
        ),
    ],
)
def test_a_body_that_is_no_reply_is_quoted_with_its_address(stream, content, content_type, message):
    error = failed(content, content_type, stream=stream)
    assert isinstance(error, Retryable)
    assert (
        f"the reply of http://host/v1/chat/completions cannot be used: {message}" in error.message
    )
    assert "api_base" in error.hint or "not JSON: Extra" in message


def test_a_server_that_streams_unasked_is_read():
    content = events(
        {"choices": [{"delta": {"content": "4"}}]},
        {"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": USED},
    )
    for before in (b"", b": keep-alive\n\n", b"event: message\n", b"\r\n"):
        request = Request(Row(0, 0, {}), "judge", Model(name="openai/m"), (Message("user", "?"),))
        assert read_body(before + content + b"data: [DONE]\n\n", request, Source("m")).text == "4"


@pytest.mark.parametrize("content", [None, "", " "])
def test_an_empty_content_beside_reasoning_names_the_parser(content):
    for key in ("reasoning_content", "reasoning"):
        message = {"content": content, key: 'It is right. {"score": true}'}
        error = failed(
            json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode()
        )
        assert isinstance(error, ReplyError) and error.failure == "empty"
        assert "28 characters" in error.message and "reasoning parser" in error.hint


def test_a_reply_that_its_provider_broke_off_is_no_answer():
    choice = {"message": {"content": '{"score": 1'}, "finish_reason": "error"}
    error = failed(json.dumps({"choices": [choice], "usage": USED}).encode())
    assert isinstance(error, Retryable) and error.reply is not None
