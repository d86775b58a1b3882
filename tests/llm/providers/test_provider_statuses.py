from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verdict_cli.errors import ProviderError, Refused, Rejected, Retryable
from verdict_cli.llm.providers.http_errors import (
    Source,
    clean,
    error_detail,
    error_of,
    response_error,
)
from verdict_cli.llm.providers.retry_hints import retry_hint

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5", 5.0),
        ("0.25", 0.25),
        ("-3", 0.0),
        ("Sat, 21 Nov 2026 12:00:30 GMT", 30.0),
        ("Sat, 21 Nov 2026 11:00:00 GMT", 0.0),
        ("soon", None),
        ("inf", None),
        ("nan", None),
        ("", None),
    ],
)
def test_retry_after_is_read_as_seconds_or_as_a_date(text, seconds):
    assert retry_hint({"retry-after": text}, None, NOW) == seconds


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (b'{"error": {"message": "m", "code": "c"}}', ("m", "c")),
        (b'{"error": {"message": "m", "code": 7}}', ("m", "7")),
        (b'{"error": "m"}', ("m", "")),
        (b'{"message": "m"}', ("m", "")),
        (b'{"detail": "m"}', ("m", "")),
        (b'[{"error": {"message": "m"}}]', ("m", "")),
        (b"plain \xff words", ("plain \ufffd words", "")),
        (b"", ("", "")),
    ],
)
def test_the_providers_words_are_read_in_every_shape(body, detail):
    assert error_detail(body) == detail


@pytest.mark.parametrize(
    "secret",
    [
        "sk-proj-abcdef123456",
        "sk-ant-api03-abcdef",
        "sk-ab******wxyz",
        "Bearer abcdef123",
        "gsk_abcdefgh",
    ],
)
def test_what_looks_like_a_key_is_left_out(secret):
    assert secret.removeprefix("Bearer ") not in clean(
        f"Incorrect API key provided: {secret} was sent"
    )


def test_a_redirect_says_where_to():
    error = response_error(
        307,
        b"",
        Source("m", "http://old/v1", {"location": "https://new/v1/chat/completions?key=K"}, ("K",)),
    )
    assert "redirect (307): to https://new/v1/chat/completions" in str(error)
    assert "=K" not in str(error)


@pytest.mark.parametrize(
    ("message", "refused"),
    [
        ("API key not valid. Please pass a valid API key.", True),
        ("Invalid API key", True),
        ("the prompt asks for an API key", False),
    ],
)
def test_a_wrong_key_stops_a_run_with_status_400_too(message, refused):
    error = error_of(400, message, "", Source("m", "http://x"))
    assert isinstance(error, Refused if refused else Rejected)


@given(
    status=st.integers(300, 999), body=st.binary(max_size=100), wait=st.none() | st.floats(0, 10)
)
def test_every_status_is_one_of_our_errors(status, body, wait):
    detail, code = error_detail(body)
    headers = {} if wait is None else {"retry-after": str(wait)}
    problem = error_of(status, detail, code, Source("m", headers=headers))
    assert isinstance(problem, ProviderError)
    assert problem.status == status


def test_a_body_that_a_server_does_not_take_is_rejected_whatever_its_status():
    detail = "1 validation error:\n  {'loc': ('body', 'response_format', 'type'), 'msg': \"Input should be 'text'\"}"
    assert isinstance(error_of(500, detail, "", Source("m")), Rejected)
    assert isinstance(error_of(500, "out of memory", "", Source("m")), Retryable)
