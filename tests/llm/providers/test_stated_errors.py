"""An error in a body with status 200 is read as if its code were the status."""

from __future__ import annotations

import json
from typing import Any

import pytest

from verdict_cli.errors import ProviderError, Refused, Rejected, Retryable
from verdict_cli.llm.model_families import family
from verdict_cli.llm.providers.chat_completions import read_body
from verdict_cli.llm.providers.http_errors import Source
from verdict_cli.llm.providers.protocols import protocol_of
from verdict_cli.messages import Message, Request, Row
from verdict_cli.model import Model

SOURCE = Source("http://host/v1/chat/completions", {"retry-after": "7"})
USED = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}


def raised(body: Any, model: str = "openai/m", *, stream: bool = False) -> ProviderError:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    asked = Model(name=model)
    request = Request(Row(0, 0, {}), "judge", asked, (Message("user", "?"),), stream=stream)
    of = family(asked)
    assert of is not None
    with pytest.raises(ProviderError) as caught:
        read_body(content, request, 0.1, "", (), protocol_of(of), SOURCE)
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
    ({"message": "maximum context length is 4096 tokens.", "code": 400}, Rejected, "context-too-long", 400),
    ({"message": "bad top_p", "code": 400}, Rejected, "rejected", 400),
    ({"message": "upstream fell over", "code": 502}, Retryable, "unavailable", 502),
    ({"message": "Incorrect API key provided", "code": "invalid_api_key"}, Refused, "refused-by-provider", 401),
    ({"message": "pay", "type": "insufficient_quota", "code": 1234}, Refused, "refused-by-provider", 402),
    ({"message": "try later", "status": "RESOURCE_EXHAUSTED"}, Retryable, "rate-limit", 429),
    ({"message": "Overloaded", "type": "overloaded_error"}, Retryable, "rate-limit", 529),
    ({"message": "what?", "code": 17}, Retryable, "unavailable", 0),
]
FORMS = {
    "under its key": lambda error: {"error": error, "user_id": "u"},
    "with choices null": lambda error: {"error": error, "choices": None},
    "the body itself": lambda error: {"object": "error", **error},
    "in the choice": lambda error: {
        "choices": [{"error": error, "finish_reason": "error", "message": {"role": "assistant", "content": "half"}}]
    },
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("error", "kind", "failure", "status"), ERRORS)
def test_an_error_in_a_body_is_what_its_code_or_its_words_say(
    form: str, error: dict[str, Any], kind: type[ProviderError], failure: str, status: int
) -> None:
    caught = raised(FORMS[form](error))
    assert (type(caught), caught.failure, caught.status) == (kind, failure, status)
    assert error["message"] in caught.message


@pytest.mark.parametrize(("error", "kind", "failure", "status"), ERRORS)
def test_an_error_in_a_stream_is_read_alike(
    error: dict[str, Any], kind: type[ProviderError], failure: str, status: int
) -> None:
    delta = {"choices": [{"delta": {"content": "half"}}], "usage": USED}
    for last in ({"error": error}, {"object": "error", **error}, {"choices": [{"delta": {}, "error": error}]}):
        caught = raised(events(delta, last), stream=True)
        assert (type(caught), caught.failure, caught.status) == (kind, failure, status)
        assert caught.reply is not None and caught.reply.usage.completion_tokens == 2


@pytest.mark.parametrize(
    ("model", "body"),
    [
        ("anthropic/claude-haiku-4-5", {"type": "error", "error": {"type": "rate_limit_error", "message": "slow"}}),
        ("gemini/gemini-2.5-flash", {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "slow"}}),
        ("gpt-5-pro", {"status": "failed", "error": {"code": "rate_limit_exceeded", "message": "slow"}}),
    ],
)
def test_an_error_of_every_protocol_is_read_alike(model: str, body: dict[str, Any]) -> None:
    caught = raised(body, model)
    assert (caught.failure, caught.status) == ("rate-limit", 429)
    assert "slow" in caught.message


def test_the_delay_in_the_headers_holds_for_an_error_in_a_body() -> None:
    caught = raised({"error": {"message": "Rate limit exceeded", "code": 429}})
    assert isinstance(caught, Retryable) and caught.retry_after_s == 7


def test_the_words_of_the_provider_behind_a_gateway_are_shown() -> None:
    error = {"message": "Provider returned error", "code": 429, "metadata": {"raw": "model is rate-limited upstream"}}
    assert "rate-limited upstream" in raised({"error": error}).message


@pytest.mark.parametrize("body", ['"Unexpected endpoint or method."', {"error": "Unexpected endpoint (POST /v1/v1)"}])
def test_an_address_that_has_no_such_path_leads_to_api_base(body: Any) -> None:
    caught = raised(body.encode() if isinstance(body, str) else body)
    assert isinstance(caught, Refused) and "api_base" in caught.hint
    assert "Unexpected endpoint" in caught.message
