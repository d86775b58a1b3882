"""Map HTTP statuses and recorded failures to errors: one table for every provider."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from verdict_cli.errors import ProviderError, Refused, Rejected, ReplyError, Retryable
from verdict_cli.llm.providers.provider import Headers
from verdict_cli.llm.providers.secrets import redact, without
from verdict_cli.llm.providers.wire_values import loads
from verdict_cli.messages import Reply

_LONGEST = 500
_CONTEXT = re.compile(
    r"context[_ ]length|context window|maximum context|max(imum)? (input|prompt) (length|tokens)|"
    r"prompt is too long|input is too long|too many (input )?tokens",
    re.IGNORECASE,
)
_FILTER = re.compile(r"content[_ ]filter|content[_ ](management )?policy", re.IGNORECASE)
_INVALID = re.compile(r"validation error.*\bbody\b", re.DOTALL)
"""FastAPI's words for a body it does not take; llama-cpp-python's server sends them with status 500."""
_SECRET = re.compile(r"\b(sk|pk|key|xai|gsk|hf)[-_][\w*.-]{6,}|(?<=Bearer )\S+")
_PASSING = {408: "timeout", 409: "unavailable", 425: "unavailable", 429: "rate-limit", 504: "timeout"}


def error_of(
    status: int, detail: str, code: str, *, model: str, url: str, retry_after_s: float | None = None
) -> ProviderError:
    """The error of a reply with this status. ``detail`` is the provider's own message, ``code`` its error code."""
    said = f" ({status}): {clean(detail)}" if detail else f" ({status})"
    if status in {401, 403}:
        return Refused(
            f"{url} refused the request for model {model}{said}",
            hint="check the key in the environment, and that it may use this model",
            status=status,
        )
    if status == 404:
        hint = "check the model's name and api_base"
        return Refused(f"{url} knows no model {model}{said}", hint=hint, status=status)
    if 300 <= status < 400:
        hint = "give the address it leads to as api_base"
        return Refused(f"{url} answers with a redirect{said}", hint=hint, status=status)
    if status == 402 or (status == 429 and "insufficient_quota" in f"{code} {detail}"):
        hint = "this key has no credit left: add some, or use another key"
        return Refused(f"model {model} is out of quota{said}", hint=hint, status=status)
    if status in _PASSING or (status >= 500 and not _INVALID.search(detail)):
        kind = _PASSING.get(status, "unavailable")
        message = f"model {model}: {kind}{said}"
        return Retryable(message, kind=kind, status=status, retry_after_s=retry_after_s)
    return _rejected(status, detail, code, f"model {model} rejected the request{said}")


def _rejected(status: int, detail: str, code: str, message: str) -> Rejected:
    words = f"{code} {detail}"
    if _CONTEXT.search(words):
        hint = "shorten the prompt or the row, or use a model with a larger context window"
        return Rejected(message, hint=hint, kind="context-too-long", status=status)
    if _FILTER.search(words):
        return Rejected(message, kind="content-filter", status=status)
    if "response_format" in words:
        hint = "this server takes no JSON schema: set extract: {type: post_hoc}, or a regex"
        return Rejected(message, hint=hint, status=status)
    return Rejected(message, status=status)


def detail_of(body: bytes, hidden: tuple[str, ...] = ()) -> tuple[str, str]:
    """The message and the code in an error's body, whatever its shape, without what is ``hidden``."""
    try:
        return _said(redact(loads(body), hidden))
    except (ValueError, RecursionError):  # no JSON, or nested too deeply
        return without(body.decode("utf-8", "replace"), hidden)[: 4 * _LONGEST].strip(), ""


def _said(value: Any) -> tuple[str, str]:
    if isinstance(value, list) and len(value) == 1:
        (value,) = value
    error: Any = value.get("error", value) if isinstance(value, Mapping) else value
    if isinstance(error, Mapping):
        message = error.get("message") or error.get("detail") or error.get("type") or str(dict(error))
        return str(message)[: 4 * _LONGEST], str(error.get("code") or "")[:_LONGEST]
    return str(error)[: 4 * _LONGEST], ""


def retry_after(headers: Headers, now: datetime | None = None) -> float | None:
    """Seconds to wait, from ``Retry-After`` in seconds or as a date; None where it is absent or unreadable."""
    text = headers.get("Retry-After") or headers.get("retry-after")
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        try:
            moment = parsedate_to_datetime(text)
        except (ValueError, TypeError, OverflowError):
            return None
        seconds = (moment.replace(tzinfo=moment.tzinfo or UTC) - (now or datetime.now(UTC))).total_seconds()
    return max(0.0, seconds) if seconds < float("inf") else None


def clean(text: str) -> str:
    """A provider's words, cut at 500 characters, without anything that looks like a key."""
    text = _SECRET.sub("(key)", text[: 4 * _LONGEST])
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


_RETRYABLE_KINDS = frozenset({"rate-limit", "timeout", "unavailable"})
_OF_THE_REPLY = frozenset({"unreadable", "off-scale", "cut-off", "refused", "empty", "no-logprobs", "invalid"})


def failure_again(failure: str, message: str, reply: Reply | None = None) -> ProviderError | ReplyError:
    """The error of a kind (``timeout``, ``cut-off`` …). One that passes asks for no waiting: nothing will be sent.

    ``reply`` is what was paid for all the same.
    """
    if failure in _RETRYABLE_KINDS:
        passing = Retryable(message, kind=failure, retry_after_s=0)
        passing.reply = reply
        return passing
    if failure in _OF_THE_REPLY:
        return ReplyError(message, kind=failure, reply=reply)
    return Rejected(message, kind=failure, reply=reply)
