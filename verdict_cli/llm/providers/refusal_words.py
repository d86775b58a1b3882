"""What providers write when a prompt is too long, an account is used up, or an argument is not taken.

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
_EXHAUSTED = re.compile(
    r"insufficient[_ ](quota|balance|credits?|funds)|credit balance is too low|billing|payment required|"
    r"exceeded your current quota|(per[ _]?day|daily)[^.]{0,40}(limit|quota)|(limit|quota)[^.]{0,40}(per[ _]?day|daily)|"
    r"PerDay|out of credits?|spending limit|account.{0,20}(suspended|deactivated)",
    re.IGNORECASE,
)
_MOST_LOGPROBS = re.compile(
    r"top_logprobs?\D{0,60}?(?:less than or equal to|at most|between 0 and|<=|maximum (?:value )?(?:of|is)|no more than|up to)\s*(\d+)",
    re.IGNORECASE,
)
_ARGUMENT = re.compile(
    r"(?:unsupported|unknown|unrecognized|unexpected|extra)[ _](?:parameter|argument|field|keyword|inputs?)\S*[^'\"`]{0,40}['\"`]([\w.]+)['\"`]"
    r"|['\"`]([\w.]+)['\"`] (?:is not supported|does not support|is unsupported|not permitted)",
    re.IGNORECASE,
)


def is_context_overflow(words: str) -> bool:
    """Whether the words say that the prompt is longer than the model takes."""
    return _CONTEXT.search(f"{words} ") is not None


def is_exhausted(words: str) -> bool:
    """Whether the words say that the account, not the minute, is used up: no waiting helps within a run."""
    return _EXHAUSTED.search(words) is not None


def most_logprobs(words: str) -> int | None:
    """How many alternatives a server says that it gives; None where it does not say."""
    found = _MOST_LOGPROBS.search(words)
    return int(found[1]) if found else None


def refused_argument(words: str) -> str | None:
    """The argument that a server says it does not take; None where it names none."""
    found = _ARGUMENT.search(words)
    return (found[1] or found[2]) if found else None
