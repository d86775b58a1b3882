"""When to come back after a refusal for a rate limit: every place in which providers say it.

Headers: ``retry-after-ms``, ``Retry-After`` (seconds or a date), ``x-ratelimit-reset-…`` and Anthropic's
``anthropic-ratelimit-…-reset`` (RFC 3339). Body: Google's ``RetryInfo.retryDelay``, and OpenAI's and Groq's words
"try again in 1.2s".
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Protocol

from verdict_cli.llm.providers.wire_values import objects
from verdict_cli.regex import regex

DAY_S = 86_400.0
_PART = regex(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)?")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": DAY_S, "": 1.0}
_WORDS = regex(
    r"(?:try again|retry)\s+(?:in|after)\s+((?:\d+(?:\.\d+)?\s*(?:ms|s|m|h|d|seconds?|minutes?|hours?)\s*)+)",
    re.IGNORECASE,
)
_LONG_UNITS = {"second": "s", "minute": "m", "hour": "h"}


class HeaderLookup(Protocol):
    """A reply's headers; a name in any case."""

    def get(self, name: str, /) -> str | None: ...


def retry_hint(headers: HeaderLookup, body: Any, now: datetime | None = None) -> float | None:
    """Seconds until the provider takes the next call, None where it does not say. The body is decoded JSON, or text."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    for delay_s in (
        _seconds_or_date(headers.get("retry-after"), now),
        _delay_of(body),
        _in_words(_text_of(body)),
        _next_reset(headers, now),
    ):
        if delay_s is not None:
            return delay_s
    return None


def duration(text: str | None) -> float | None:
    """The seconds that ``6m0s``, ``120ms`` or ``7.66`` mean; None for anything else, and for a day or more."""
    text = (text or "").strip()
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    if any(not unit for _, unit in parts) and len(parts) > 1:
        return None
    total = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    return total if math.isfinite(total) and total < DAY_S else None


def seconds_until(text: str | None, now: datetime | None = None) -> float | None:
    """The seconds until an RFC 3339 time, at least 0; None for anything else."""
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return _seconds_from(now, moment)


def _seconds_from(now: datetime | None, moment: datetime) -> float:
    moment = moment.replace(tzinfo=moment.tzinfo or UTC)
    return max(0.0, (moment - (now or datetime.now(UTC))).total_seconds())


def _seconds_or_date(text: str | None, now: datetime | None) -> float | None:
    number = _number(text)
    if number is not None or not text:
        return number
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return duration(text)
    return _seconds_from(now, moment)


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return max(0.0, value) if math.isfinite(value) else None


def _next_reset(headers: HeaderLookup, now: datetime | None) -> float | None:
    """When the limit that has nothing left is refilled: the latest of those, as the call needs all of them."""
    waits = []
    for kind in ("requests", "tokens"):
        if _number(headers.get(f"x-ratelimit-remaining-{kind}")) == 0:
            waits.append(duration(headers.get(f"x-ratelimit-reset-{kind}")))
    for kind in ("requests", "tokens", "input-tokens", "output-tokens"):
        if _number(headers.get(f"anthropic-ratelimit-{kind}-remaining")) == 0:
            waits.append(seconds_until(headers.get(f"anthropic-ratelimit-{kind}-reset"), now))
    durations = [wait for wait in waits if wait is not None]
    return max(durations, default=None)


def inner_error(body: Any) -> Any:
    """The error in a decoded body of any shape; the whole body where none is named."""
    if isinstance(body, list) and len(body) == 1:
        (body,) = body
    return body.get("error", body) if isinstance(body, Mapping) else body


def _delay_of(body: Any) -> float | None:
    """Google's ``RetryInfo`` among the details of an error."""
    error = inner_error(body)
    for detail in objects(error.get("details")) if isinstance(error, Mapping) else ():
        if str(detail.get("@type", "")).endswith("RetryInfo"):
            return duration(str(detail.get("retryDelay")))
    return None


def _text_of(body: Any) -> str:
    error = inner_error(body)
    return str(error.get("message") or "") if isinstance(error, Mapping) else str(error)


def _in_words(text: str) -> float | None:
    match = _WORDS.search(text[:4000])
    if match is None:
        return None
    spelling = re.sub(r"\s+", "", match[1]).lower()
    for long, short in _LONG_UNITS.items():
        spelling = re.sub(rf"{long}s?", short, spelling)
    return duration(spelling)
