"""Errors by HTTP status, Retry-After and rate-limit headers: one table for every provider."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from verdict_cli.errors import ProviderError, Refused, Rejected, Retryable
from verdict_cli.llm.providers.refusal_words import is_context_overflow, is_exhausted
from verdict_cli.llm.providers.retry_hints import HeaderLookup, duration, seconds_until
from verdict_cli.llm.providers.secrets import redact, redact_text
from verdict_cli.llm.providers.wire_values import loads
from verdict_cli.messages import Allowance

_MAX_LENGTH = 500
_FILTER = re.compile(r"content[_ ]filter|content[_ ](management )?policy", re.IGNORECASE)
_INVALID = re.compile(r"validation error.*\bbody\b", re.DOTALL)
"""FastAPI's message for an invalid body; llama-cpp-python's server sends it with status 500."""
_SECRET = re.compile(r"\b(sk|pk|key|xai|gsk|hf)[-_][\w*.-]{6,}|(?<=Bearer )\S+")
_RETRYABLE = {
    408: "timeout",
    409: "unavailable",
    425: "unavailable",
    429: "rate-limit",
    504: "timeout",
    529: "rate-limit",
}
"""529 is Anthropic's "overloaded"."""


def error_of(
    status: int, detail: str, code: str, *, model: str, url: str, retry_after_s: float | None = None, body: str = ""
) -> ProviderError:
    """The error for a response with this status. ``detail`` is the provider's own message, ``code`` its error code, and
    ``body`` the whole text, in which Google names the quota."""
    reason = f" ({status}): {clean(detail)}" if detail else f" ({status})"
    words = f"{code} {detail} {body}"
    if status == 402 or (status in {400, 403, 429} and is_exhausted(words, status, retry_after_s)):
        hint = "this key has no credit or daily quota left: add some, or use another key"
        return Refused(f"model {model} is out of quota{reason}", hint=hint, status=status)
    if status in {401, 403}:
        return Refused(
            f"{url} refused the request for model {model}{reason}",
            hint="check the key in the environment, and that it may use this model",
            status=status,
        )
    if status == 404:
        hint = "check the model's name and api_base"
        return Refused(f"{url} knows no model {model}{reason}", hint=hint, status=status)
    if 300 <= status < 400:
        hint = "set api_base to the address that it leads to"
        return Refused(f"{url} responds with a redirect{reason}", hint=hint, status=status)
    if status in _RETRYABLE or (status >= 500 and not _INVALID.search(detail)):
        kind = _RETRYABLE.get(status, "unavailable")
        if status == 503 and retry_after_s is not None:
            kind = "rate-limit"  # a server that says when it is free again is busy, not down
        message = f"model {model}: {kind}{reason}"
        return Retryable(message, kind=kind, status=status, retry_after_s=retry_after_s)
    return _rejected(status, detail, code, f"model {model} rejected the request{reason}")


def _rejected(status: int, detail: str, code: str, message: str) -> Rejected:
    words = f"{code} {detail}"
    if is_context_overflow(words):
        hint = "shorten the prompt or the row, or use a model with a larger context window"
        return Rejected(message, hint=hint, kind="context-too-long", status=status)
    if _FILTER.search(words):
        return Rejected(message, kind="content-filter", status=status)
    if "response_format" in words:
        hint = "this server takes no JSON schema: set extract: {type: post_hoc}, or a regex"
        return Rejected(message, hint=hint, status=status)
    return Rejected(message, status=status)


def error_detail(body: bytes, hidden: tuple[str, ...] = ()) -> tuple[str, str]:
    """The message and the code in an error's body of any shape, without the ``hidden`` texts."""
    try:
        return _message_and_code(redact(loads(body), hidden))
    except (ValueError, RecursionError):  # not JSON, or nested too deeply
        return redact_text(body.decode("utf-8", "replace"), hidden)[: 4 * _MAX_LENGTH].strip(), ""


def _message_and_code(value: Any) -> tuple[str, str]:
    if isinstance(value, list) and len(value) == 1:
        (value,) = value
    error: Any = value.get("error", value) if isinstance(value, Mapping) else value
    if isinstance(error, Mapping):
        message = error.get("message") or error.get("detail") or error.get("type") or str(dict(error))
        return str(message)[: 4 * _MAX_LENGTH], str(error.get("code") or "")[:_MAX_LENGTH]
    return str(error)[: 4 * _MAX_LENGTH], ""


def error_body(body: bytes) -> Any:
    """The JSON of an error's body, or its text."""
    try:
        return loads(body)
    except (ValueError, RecursionError):  # not JSON, or nested too deeply
        return body.decode("utf-8", "replace")


def clean(text: str) -> str:
    """A provider's message, cut at 500 characters, without anything that looks like a key."""
    text = _SECRET.sub("(key)", text[: 4 * _MAX_LENGTH])
    return text if len(text) <= _MAX_LENGTH else f"{text[:_MAX_LENGTH]}…"


def allowance_of(headers: HeaderLookup, *, is_chat: bool = False) -> Allowance | None:
    """The ``x-ratelimit-…`` headers of OpenAI and of those who copied them, or Anthropic's; None if there are none that
    can be read. ``is_chat``: a reply of chat completions, which has none of Anthropic's."""
    requests_left = headers.get("x-ratelimit-remaining-requests")
    tokens_left = headers.get("x-ratelimit-remaining-tokens")
    if requests_left is None and tokens_left is None:
        return None if is_chat else _anthropic_allowance(headers)
    return Allowance(
        requests=_count(headers.get("x-ratelimit-limit-requests")),
        requests_left=_count(requests_left),
        requests_reset_s=duration(headers.get("x-ratelimit-reset-requests")),
        tokens=_count(headers.get("x-ratelimit-limit-tokens")),
        tokens_left=_count(tokens_left),
        tokens_reset_s=duration(headers.get("x-ratelimit-reset-tokens")),
    )


def _anthropic_allowance(headers: HeaderLookup) -> Allowance | None:
    """Anthropic's headers, whose resets are RFC 3339 times.

    The ``tokens`` headers state the most restrictive of the limits of tokens; where they are absent, that of input or
    output tokens counts.
    """
    requests_left = headers.get("anthropic-ratelimit-requests-remaining")
    kinds = ("tokens", "input-tokens", "output-tokens")
    kind = next((kind for kind in kinds if headers.get(f"anthropic-ratelimit-{kind}-remaining") is not None), None)
    if requests_left is None and kind is None:
        return None
    return Allowance(
        requests=_count(headers.get("anthropic-ratelimit-requests-limit")),
        requests_left=_count(requests_left),
        requests_reset_s=seconds_until(headers.get("anthropic-ratelimit-requests-reset")),
        tokens=_count(headers.get(f"anthropic-ratelimit-{kind}-limit")),
        tokens_left=_count(headers.get(f"anthropic-ratelimit-{kind}-remaining")),
        tokens_reset_s=seconds_until(headers.get(f"anthropic-ratelimit-{kind}-reset")),
    )


def _count(text: str | None) -> int | None:
    try:
        count = float(text or "")
    except ValueError:
        return None
    return int(count) if math.isfinite(count) and count >= 0 else None
