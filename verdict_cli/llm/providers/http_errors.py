"""Errors by HTTP status, wherever they stand, and rate-limit headers: one table for every provider.

Statuses differ from provider to provider and often say only "bad request", so words decide where a prompt is too long, an
account is used up, or there is no status. The wordings are those of OpenAI, Azure, Anthropic, Gemini, Vertex, Mistral, Cohere,
Groq, Together, Fireworks, DeepSeek, xAI, Cerebras, OpenRouter, vLLM, llama.cpp, Ollama, TGI and SGLang. An error in a body with a status of success, in a choice or in a stream is read as if its code were the status.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from html import unescape
from typing import Any

from msgspec import Struct, field

from verdict_cli.errors import ProviderError, Refused, Rejected, Retryable
from verdict_cli.llm.providers.retry_hints import (
    HeaderLookup,
    duration,
    inner_error,
    retry_hint,
    seconds_until,
)
from verdict_cli.llm.providers.secrets import redact, redact_text
from verdict_cli.llm.providers.wire_values import loads, object_at
from verdict_cli.messages import Allowance
from verdict_cli.regex import regex

_CONTEXT = regex(
    r"context[_ ](length|window|size)|maximum context|available context|"
    r"max(imum)?[_ ]?(model|input|prompt|sequence|allowed)?[_ ]?(length|len|tokens) |longer than the (maximum|model)|"
    r"(prompt|input|request|query|message)s? (is|are|was) too (long|large)|too many (input |prompt )?tokens|"
    r"(input|prompt) token(s| count)[^.]{0,40}exceed|exceeds? the (maximum|available|model'?s?|limit)[^.]{0,40}(token|context|length)|"
    r"reduce the length|tokens? in (the )?(request|prompt)[^.]{0,30}exceed|string_above_max_length",
    re.IGNORECASE,
)
_NO_CREDIT = regex(
    r"insufficient[_ ](quota|balance|credits?|funds)|credit balance is too low|payment required|out of credits?|"
    r"spending limit|account.{0,20}(suspended|deactivated)",
    re.IGNORECASE,
)
_DAILY = regex(
    r"(per[ _]?day|daily)[^.]{0,40}(limit|quota|allocation)|(limit|quota)[^.]{0,40}(per[ _]?day|daily)|PerDay",
    re.IGNORECASE,
)
_BILLING = regex(r"billing|exceeded your current quota", re.IGNORECASE)
"""OpenAI's words for an account without credit, and Gemini's for any quota: its delay tells them apart."""


_FILTER = regex(
    r"content[_ ]filter|content[_ ](management )?policy|moderation|\bflagged\b|data_inspection_failed|content[_ ]violation",
    re.IGNORECASE,
)
_BAD_KEY = regex(
    r"\bapi[ _-]?key\b.{0,40}\b(not valid|invalid|incorrect|expired)|\b(invalid|incorrect|expired)\W+api[ _-]?key",
    re.IGNORECASE,
)
_STATUS_OF_WORDS = tuple(
    (status, regex(words, re.IGNORECASE))
    for status, words in (
        (
            401,
            r"(invalid|incorrect|missing|no|valid)[_ ](api[_ ])?(key|token|auth)|unauthori[sz]ed|(un)?authenticat",
        ),
        (
            429,
            r"rate[_ -]?limit|too[_ ]many[_ ]requests|resource[_ ]exhausted|throttl|slow down|quota|concurrency limit",
        ),
        (529, r"overloaded_error"),
        (403, r"permission[_ ]?(denied|error)|\bforbidden\b|access denied"),
        (
            404,
            r"not[_ ]found|(no such|unknown) model|unexpected endpoint|model\b.{0,80}\b(does not|doesn't) exist",
        ),
        (504, r"deadline|tim(ed?|e)[_ -]?out"),
        (503, r"unavailable|overloaded|capacity|\bloading\b"),
        (400, r"invalid[_ ](request|argument|parameter)|bad[_ ]?request|unsupported|not supported"),
        (500, r"internal|server[_ ]error"),
    )
)
"""The status that an error's words stand for, the first that matches."""


def status_of_words(words: str) -> int:
    """The status that an error without one would have had by its words; 0 where they do not tell."""
    if is_exhausted(words):
        return 402
    if not _STATUS_OF_WORDS[1][1].search(words) and (
        is_context_overflow(words) or is_filtered(words)
    ):
        return 400
    return next((status for status, form in _STATUS_OF_WORDS if form.search(words)), 0)


def is_filtered(words: str) -> bool:
    """Whether the words say that a provider's filter of content refused the prompt."""
    return _FILTER.search(words) is not None


def is_context_overflow(words: str) -> bool:
    """Whether the words say that the prompt is longer than the model takes."""
    return _CONTEXT.search(f"{words} ") is not None


def is_exhausted(words: str, status: int = 429, retry_after_s: float | None = None) -> bool:
    """Whether the words of a reply with this status say that the account, not the minute, is used up: no waiting helps
    within a run."""
    if _NO_CREDIT.search(words):
        return True
    return status == 429 and (
        _DAILY.search(words) is not None
        or (retry_after_s is None and _BILLING.search(words) is not None)
    )


_MAX_LENGTH = 500
_INVALID = regex(r"validation error.*\bbody\b", re.DOTALL)
"""FastAPI's message for an invalid body; llama-cpp-python's server sends it with status 500."""
_SECRET = regex(r"\b(sk|pk|key|xai|gsk|hf)[-_][\w*.-]{6,}|(?<=Bearer )\S+")
_RETRYABLE = {
    408: "timeout",
    409: "unavailable",
    425: "unavailable",
    429: "rate-limit",
    504: "timeout",
    529: "rate-limit",
}
"""529 is Anthropic's "overloaded"."""


class Source(Struct, frozen=True):
    """Where a body came from: the model that was called, the address without its secrets, the headers, texts to hide in errors,
    how long the call took, and the parameters that were sent, as JSON."""

    model: str
    address: str = "the server"
    headers: HeaderLookup = field(default_factory=dict[str, str])
    hidden: tuple[str, ...] = ()
    latency_s: float = 0.0
    sent: str = ""


def response_error(status: int, content: bytes, source: Source) -> ProviderError:
    """The error of a response without success."""
    detail, code = error_detail(content, source.hidden)
    location = source.headers.get("location")
    if 300 <= status < 400 and location:
        detail = f"to {redact_text(location, source.hidden)}"
    return error_of(status, detail, code, source, error_body(content))


def stated_error(value: Any, source: Source) -> ProviderError | None:
    """The error that a decoded body with a status of success states; None where it states none."""
    error = error_in(value)
    if error is None:
        return None
    detail, code = (redact_text(text, source.hidden) for text in _message_and_code(error))
    status = _status_in(error) or status_of_words(f"{code} {detail}")
    if not status:
        message = f"model {source.model}: {source.address} answered with an error: {clean(detail)}"
        return Retryable(message, kind="unavailable", status=200)
    return error_of(status, detail, code, source, {"error": error})


def error_in(value: Any) -> Any:
    """The error in a decoded reply or event: under its own key, in the first choice, or the whole; None where there is
    none."""
    if isinstance(value, list) and len(value) == 1:
        (value,) = value
    if isinstance(value, str):
        return value.strip() or None
    if not isinstance(value, dict):
        return None
    if error := value.get("error"):
        return error
    choices = value.get("choices")
    if isinstance(choices, list) and choices:
        return (choices[0].get("error") or None) if isinstance(choices[0], dict) else None
    return (
        value
        if any(isinstance(value.get(key), str | list) and value[key] for key in _MESSAGE_KEYS)
        else None
    )


_MESSAGE_KEYS = ("message", "detail", "errors", "error_message", "error_msg", "msg")
_STATUS_KEYS = ("code", "status", "status_code", "http_status")
_MAX_BODY = 16 * 2**10
"""The length of an error's body in which a used-up quota is looked for."""


def _status_in(error: Any) -> int:
    """The status of failure in an error's code; 0 where it has none."""
    for key in _STATUS_KEYS if isinstance(error, Mapping) else ():
        text = str(error.get(key))
        if len(text) == 3 and text.isascii() and text.isdecimal() and 400 <= int(text) < 600:
            return int(text)
    return 0


def error_of(status: int, detail: str, code: str, source: Source, body: Any = "") -> ProviderError:
    """The error for a response with this status, and what its headers say of limits. ``detail`` is the provider's own message,
    ``code`` its error code, and ``body`` the whole, decoded, in which Google names the quota."""
    words = f"{code} {detail} {str(body)[:_MAX_BODY]}"
    retry_after_s = retry_hint(source.headers, body)
    error = _error_of_status(status, detail, code, words, retry_after_s, source)
    error.allowance = allowance_of(source.headers)
    return error


def _error_of_status(
    status: int, detail: str, code: str, words: str, retry_after_s: float | None, source: Source
) -> ProviderError:
    model = source.model
    reason = f" ({status}): {clean(detail)}" if detail else f" ({status})"
    if status == 402 or (status in {400, 403, 429} and is_exhausted(words, status, retry_after_s)):
        hint = "this key has no credit or daily quota left: add some, or use another key"
        return Refused(f"model {model} is out of quota{reason}", hint=hint, status=status)
    is_about_content = status == 403 and (is_filtered(words) or is_context_overflow(words))
    has_bad_key = status == 400 and _BAD_KEY.search(detail)  # Gemini's status for one
    if has_bad_key or (status in {401, 403} and not is_about_content):
        return Refused(
            f"{source.address} refused the request for model {model}{reason}",
            hint="check the key in the environment (without quotes around it), and that it may use this model",
            status=status,
        )
    wrong_address = _wrong_address(status, model)
    if wrong_address is not None:
        message, hint = wrong_address
        return Refused(f"{source.address} {message}{reason}", hint=hint, status=status)
    if status in _RETRYABLE or (status >= 500 and not _INVALID.search(detail)):
        kind = _RETRYABLE.get(status, "unavailable")
        if status == 503 and retry_after_s is not None:
            kind = "rate-limit"  # a server that says when it is free again is busy, not down
        message = f"model {model}: {kind}{reason}"
        return Retryable(message, kind=kind, status=status, retry_after_s=retry_after_s)
    return _rejected(status, detail, code, f"model {model} rejected the request{reason}")


def _wrong_address(status: int, model: str) -> tuple[str, str] | None:
    """(what the server says, what to check) for a status that tells of a wrong address."""
    if status == 404:
        return f"knows no model {model}", "check the model's name and api_base"
    if status == 405:
        hint = "check api_base: the API may be at another path, such as /v1"
        return "takes no calls of a model", hint
    if 300 <= status < 400:
        return "responds with a redirect", "set api_base to the address that it leads to"
    return None


def _rejected(status: int, detail: str, code: str, message: str) -> Rejected:
    words = f"{code} {detail}"
    if is_context_overflow(words):
        hint = "shorten the prompt or the row, or use a model with a larger context window"
        return Rejected(message, hint=hint, kind="context-too-long", status=status)
    if is_filtered(words):
        return Rejected(message, kind="content-filter", status=status)
    if "response_format" in words:
        hint = "this server takes no JSON schema: set extract: {type: post_hoc}, or a regex"
        return Rejected(message, hint=hint, status=status)
    return Rejected(message, status=status)


def error_detail(body: bytes, hidden: tuple[str, ...] = ()) -> tuple[str, str]:
    """The message and the code in an error's body of any shape, without the ``hidden`` texts."""
    try:
        return _message_and_code(redact(loads(body), hidden))
    except ValueError:  # not JSON, or nested too deeply
        return redact_text(first_words(body, 4 * _MAX_LENGTH), hidden), ""


def _message_and_code(value: Any) -> tuple[str, str]:
    error = inner_error(value)
    if not isinstance(error, Mapping):
        return str(error)[: 4 * _MAX_LENGTH], ""
    message = next(filter(None, map(error.get, (*_MESSAGE_KEYS, "type"))), str(dict(error)))
    if isinstance(message, list) and len(message) == 1 and isinstance(message[0], Mapping):
        message = message[0].get("message") or message[0].get("msg") or message
    # OpenRouter's own message is "Provider returned error"; the provider's words stand beside it.
    raw = object_at(error, "metadata").get("raw")
    message = f"{message}: {raw}" if raw else str(message)
    codes = filter(None, map(error.get, ("code", "type", "status")))
    return message[: 4 * _MAX_LENGTH], " ".join(map(str, codes))[:_MAX_LENGTH]


def first_words(body: bytes, most: int = 200) -> str:
    """The beginning of a body as text; of a web page, what it shows."""
    text = body[:_MAX_BODY].decode("utf-8", "replace")
    if _PAGE.match(text):
        text = " ".join(unescape(_TAGS.sub(" ", text)).split()) or "an empty page"
    return clean(text.strip())[:most]


_PAGE = regex(r"\s*<(!doctype|html|head|body|\?xml)\b", re.IGNORECASE)
_TAGS = regex(r"<(script|style)\b.*?</\1\s*>|<!--.*?-->|<[^>]*>", re.IGNORECASE | re.DOTALL)


OTHER_API = "check api_base: another page or API than chat completions answers there (theirs mostly ends in /v1)"


def broken_reply(fault: str, source: Source, hint: str = "") -> Retryable:
    """The error of a body with a status of success that is no reply."""
    message = f"model {source.model}: the reply of {source.address} cannot be used: {fault}"
    return Retryable(message, hint=hint, kind="unavailable", status=200)


def broken_body(content: bytes, streamed: bool, fault: Exception, source: Source) -> Retryable:
    """The error of a body that cannot be decoded, with its first words."""
    if not content.strip():
        return broken_reply("the body is empty", source, OTHER_API)
    if streamed:
        return broken_reply(f"the stream is not a reply: {fault}", source)
    words = redact_text(first_words(content), source.hidden)
    if content.lstrip().startswith((b"{", b"[")):
        return broken_reply(f"the body is not JSON: {fault}: {words}", source)
    kind = (source.headers.get("content-type") or "").partition(";")[0].strip() or "text"
    return broken_reply(f"it is {kind}, not JSON: {words}", source, OTHER_API)


def error_body(body: bytes) -> Any:
    """The JSON of an error's body, or its text."""
    try:
        return loads(body)
    except ValueError:  # not JSON, or nested too deeply
        return body.decode("utf-8", "replace")


def clean(text: str) -> str:
    """A provider's message, cut at 500 characters, without anything that looks like a key."""
    text = _SECRET.sub("(key)", text[: 4 * _MAX_LENGTH])
    return text if len(text) <= _MAX_LENGTH else f"{text[:_MAX_LENGTH]}…"


def allowance_of(headers: HeaderLookup) -> Allowance | None:
    """The ``x-ratelimit-…`` headers of OpenAI and of those who copied them, or Anthropic's; None if there are none that
    can be read."""
    requests_left = headers.get("x-ratelimit-remaining-requests")
    tokens_left = headers.get("x-ratelimit-remaining-tokens")
    if requests_left is None and tokens_left is None:
        return _anthropic_allowance(headers)
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
    kind = next(
        (
            kind
            for kind in kinds
            if headers.get(f"anthropic-ratelimit-{kind}-remaining") is not None
        ),
        None,
    )
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
