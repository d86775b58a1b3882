from datetime import UTC, datetime, timedelta

import pytest

from verdict_cli.llm.providers.http_errors import allowance_of
from verdict_cli.llm.providers.retry_hints import duration
from verdict_cli.messages import Allowance


def test_openais_headers_are_read():
    headers = {
        "x-ratelimit-limit-requests": "60",
        "x-ratelimit-remaining-requests": "59",
        "x-ratelimit-reset-requests": "1s",
        "x-ratelimit-limit-tokens": "150000",
        "x-ratelimit-remaining-tokens": "149984",
        "x-ratelimit-reset-tokens": "6m0s",
    }
    assert allowance_of(headers) == Allowance(60, 59, 1.0, 150000, 149984, 360.0)


@pytest.mark.parametrize(
    ("count_text", "count"), [("-1", None), ("0", 0), ("nan", None), ("inf", None), ("many", None)]
)
def test_a_count_below_zero_or_that_is_no_number_says_nothing(count_text, count):
    headers = {
        "x-ratelimit-limit-requests": "60",
        "x-ratelimit-remaining-requests": "59",
        "x-ratelimit-limit-tokens": "150000",
        "x-ratelimit-remaining-tokens": count_text,
    }
    allowance = allowance_of(headers)
    assert allowance is not None
    assert (allowance.requests_left, allowance.tokens_left) == (59, count)


@pytest.mark.parametrize("kind", ["tokens", "input-tokens", "output-tokens"])
def test_anthropics_headers_are_read_with_the_time_of_their_reset(kind):
    reset = (datetime.now(UTC) + timedelta(seconds=30)).isoformat()
    headers = {
        "anthropic-ratelimit-requests-limit": "50",
        "anthropic-ratelimit-requests-remaining": "49",
        "anthropic-ratelimit-requests-reset": reset,
        f"anthropic-ratelimit-{kind}-limit": "30000",
        f"anthropic-ratelimit-{kind}-remaining": "29000",
        f"anthropic-ratelimit-{kind}-reset": reset,
    }
    allowance = allowance_of(headers)
    assert allowance is not None
    assert (
        allowance.requests,
        allowance.requests_left,
        allowance.tokens,
        allowance.tokens_left,
    ) == (
        50,
        49,
        30000,
        29000,
    )
    assert allowance.requests_reset_s == pytest.approx(30, abs=5)
    assert allowance.tokens_reset_s == pytest.approx(30, abs=5)


def test_headers_that_say_nothing_are_none():
    assert allowance_of({}) is None
    assert allowance_of({"x-ratelimit-limit-requests": "60"}) is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1s", 1.0),
        ("120ms", 0.12),
        ("6m0s", 360.0),
        ("1h2m3.5s", 3723.5),
        ("7.66", 7.66),
        ("0", 0.0),
        ("", None),
        (None, None),
        ("soon", None),
        ("2026-11-21T11:00:00Z", None),
        ("1s later", None),
        ("3 4", None),
        ("9d", None),
    ],
)
def test_durations_are_read_or_passed_over(text, seconds):
    assert duration(text) == (None if seconds is None else pytest.approx(seconds))
