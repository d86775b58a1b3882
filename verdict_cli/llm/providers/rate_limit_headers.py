"""What a provider says about its limits: the ``x-ratelimit-…`` headers of OpenAI and of those who copied them."""

from __future__ import annotations

import math
import re

from verdict_cli.llm.providers.provider import Headers
from verdict_cli.messages import Allowance

_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)?")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "": 1.0}


def allowance_of(headers: Headers) -> Allowance | None:
    """The limits in a reply's headers, None where it has none (or none that can be read)."""
    requests_left = headers.get("x-ratelimit-remaining-requests")
    tokens_left = headers.get("x-ratelimit-remaining-tokens")
    if requests_left is None and tokens_left is None:
        return None
    return Allowance(
        requests=_count(headers.get("x-ratelimit-limit-requests")),
        requests_left=_count(requests_left),
        requests_reset_s=seconds(headers.get("x-ratelimit-reset-requests")),
        tokens=_count(headers.get("x-ratelimit-limit-tokens")),
        tokens_left=_count(tokens_left),
        tokens_reset_s=seconds(headers.get("x-ratelimit-reset-tokens")),
    )


def seconds(text: str | None) -> float | None:
    """The duration that ``6m0s``, ``120ms`` or ``7.66`` (seconds) means; None for anything else, such as a date."""
    text = (text or "").strip()
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    if any(not unit for _, unit in parts) and len(parts) > 1:
        return None
    total = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    return total if math.isfinite(total) and total < 86400.0 else None


def _count(text: str | None) -> int | None:
    try:
        count = float(text or "")
    except ValueError:
        return None
    return int(count) if math.isfinite(count) and count >= 0 else None
