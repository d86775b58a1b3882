"""Where providers say when to come back, and in which words they refuse."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from verdict_cli.llm.providers.http_errors import is_context_overflow, is_exhausted
from verdict_cli.llm.providers.retry_hints import retry_hint

NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
GOOGLE = {
    "error": {
        "code": 429,
        "message": "You exceeded the rate. Please retry in 34.07s.",
        "details": [
            {"@type": "type.googleapis.com/google.rpc.QuotaFailure"},
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34s"},
        ],
    }
}


@pytest.mark.parametrize(
    ("headers", "body", "seconds"),
    [
        ({"retry-after": "7"}, {}, 7),
        ({"retry-after": "0.5"}, {}, 0.5),
        ({"retry-after-ms": "1500", "retry-after": "2"}, {}, 1.5),
        ({"retry-after": format_datetime(NOW + timedelta(seconds=30), usegmt=True)}, {}, 30),
        ({"retry-after": format_datetime(NOW - timedelta(seconds=30), usegmt=True)}, {}, 0),
        ({}, GOOGLE, 34),
        ({}, [GOOGLE], 34),
        ({}, {"error": {"message": "Rate limit reached. Please try again in 1.2s."}}, 1.2),
        ({}, {"error": {"message": "Please try again in 6m0s. Visit …"}}, 360),
        ({}, {"error": {"message": "Please try again in 250ms"}}, 0.25),
        ({}, {"error": {"message": "retry after 3 seconds"}}, 3),
        ({}, "slow down: try again in 2 minutes", 120),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "8.64s"}, {}, 8.64),
        (
            {
                "anthropic-ratelimit-input-tokens-remaining": "0",
                "anthropic-ratelimit-input-tokens-reset": (NOW + timedelta(seconds=12)).isoformat(),
                "anthropic-ratelimit-requests-remaining": "49",
                "anthropic-ratelimit-requests-reset": (NOW + timedelta(seconds=50)).isoformat(),
            },
            {},
            12,
        ),
        ({"x-ratelimit-remaining-requests": "5", "x-ratelimit-reset-requests": "8s"}, {}, None),
        ({"retry-after": "soon"}, {"error": "no"}, None),
        ({}, None, None),
        ({"retry-after": "nan"}, 5, None),
    ],
)
def test_a_hint_is_read_from_any_place(headers, body, seconds):
    seconds_read = retry_hint(headers, body, NOW)
    assert seconds_read == (seconds if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize(
    "words",
    [
        "This model's maximum context length is 128000 tokens. However, your messages resulted in 750102 tokens.",
        "context_length_exceeded",
        "request (20149 tokens) exceeds the available context size (2048 tokens), try increasing it",
        "The decoder prompt (length 5000) is longer than the maximum model length of 2048.",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: context window is 200000",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        "Prompt contains 40000 tokens, too many tokens: the model takes 32768",
        "too many tokens: size limit exceeded by 300 tokens",
        "Please reduce the length of the messages or completion.",
        "Input is too long for requested model.",
        "`inputs` tokens + `max_new_tokens` must be <= 4096: input prompt tokens count exceeds 4096",
        "The input (9000 tokens) is longer than the model's context length (8192 tokens).",
        "the prompt is too long; it exceeds the context window",
    ],
)
def test_a_prompt_that_is_too_long_is_recognised_in_every_provider_s_words(words):
    assert is_context_overflow(words)


@pytest.mark.parametrize(
    "words",
    [
        "Invalid value for temperature",
        "model not found",
        "rate limit reached for requests",
        "bad schema",
        "timeout",
    ],
)
def test_other_refusals_are_no_overflow(words):
    assert not is_context_overflow(words)


@pytest.mark.parametrize(
    ("words", "exhausted"),
    [
        ("You exceeded your current quota, please check your plan and billing details.", True),
        ("insufficient_quota", True),
        ("Your credit balance is too low to access the Anthropic API.", True),
        ("Insufficient Balance", True),
        ("Quota exceeded for metric: GenerateRequestsPerDayPerProjectPerModel", True),
        (
            "Rate limit reached for gpt-4o in organization org-x on requests per day (RPD): Limit 200",
            True,
        ),
        ("Rate limit reached for requests per min (RPM): Limit 3", False),
        ("Resource has been exhausted (e.g. check quota).", False),
        ("Too Many Requests", False),
    ],
)
def test_a_used_up_account_and_a_full_minute_are_distinguished(words, exhausted):
    assert is_exhausted(words) is exhausted


def test_geminis_words_about_billing_with_a_delay_are_a_full_minute():
    words = "You exceeded your current quota, please check your plan and billing details. Please retry in 34.07s."
    assert not is_exhausted(words, 429, 34.07)
    assert is_exhausted(f"{words} GenerateRequestsPerDayPerProjectPerModel-FreeTier", 429, 34.07)


def test_words_about_limits_in_a_rejected_prompt_are_no_exhaustion():
    assert not is_exhausted("the daily limit of sugar in 'messages' is no valid role", 400)
    assert is_exhausted("Your credit balance is too low to access the Anthropic API.", 400)
