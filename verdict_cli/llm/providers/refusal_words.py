"""What providers write when a prompt is too long, an account is used up, or an error comes without a status.

Statuses differ from provider to provider and often say only "bad request", so their words decide. The wordings are
those of OpenAI, Azure, Anthropic, Gemini, Vertex, Mistral, Cohere, Groq, Together, Fireworks, DeepSeek, xAI, Cerebras,
OpenRouter, vLLM, llama.cpp, Ollama, TGI and SGLang.
"""

from __future__ import annotations

import re

_CONTEXT = re.compile(
    r"context[_ ](length|window|size)|maximum context|available context|"
    r"max(imum)?[_ ]?(model|input|prompt|sequence|allowed)?[_ ]?(length|len|tokens) |longer than the (maximum|model)|"
    r"(prompt|input|request|query|message)s? (is|are|was) too (long|large)|too many (input |prompt )?tokens|"
    r"(input|prompt) token(s| count)[^.]{0,40}exceed|exceeds? the (maximum|available|model'?s?|limit)[^.]{0,40}(token|context|length)|"
    r"reduce the length|tokens? in (the )?(request|prompt)[^.]{0,30}exceed|string_above_max_length",
    re.IGNORECASE,
)
_NO_CREDIT = re.compile(
    r"insufficient[_ ](quota|balance|credits?|funds)|credit balance is too low|payment required|out of credits?|"
    r"spending limit|account.{0,20}(suspended|deactivated)",
    re.IGNORECASE,
)
_DAILY = re.compile(
    r"(per[ _]?day|daily)[^.]{0,40}(limit|quota)|(limit|quota)[^.]{0,40}(per[ _]?day|daily)|PerDay", re.IGNORECASE
)
_BILLING = re.compile(r"billing|exceeded your current quota", re.IGNORECASE)
"""OpenAI's words for an account without credit, and Gemini's for any quota: its delay tells them apart."""


_FILTER = re.compile(
    r"content[_ ]filter|content[_ ](management )?policy|moderation|\bflagged\b|data_inspection_failed|content[_ ]violation",
    re.IGNORECASE,
)
_STATUS_OF_WORDS = tuple(
    (status, re.compile(words, re.IGNORECASE))
    for status, words in (
        (401, r"(invalid|incorrect|missing|no|valid)[_ ](api[_ ])?(key|token|auth)|unauthori[sz]ed|(un)?authenticat"),
        (
            429,
            r"rate[_ -]?limit|too[_ ]many[_ ]requests|resource[_ ]exhausted|throttl|slow down|quota|concurrency limit",
        ),
        (529, r"overloaded_error"),
        (403, r"permission[_ ]?(denied|error)|\bforbidden\b|access denied"),
        (404, r"not[_ ]found|(no such|unknown) model|unexpected endpoint|model\b.{0,80}\b(does not|doesn't) exist"),
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
    if not _STATUS_OF_WORDS[1][1].search(words) and (is_context_overflow(words) or is_filtered(words)):
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
        _DAILY.search(words) is not None or (retry_after_s is None and _BILLING.search(words) is not None)
    )
