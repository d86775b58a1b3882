"""Read the usual chat completion in one step: a text that is complete, and a usage without special prices.

Anything else is left to `read_body`, which reads every form that servers send.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, MsgspecError, Struct
from msgspec.json import Decoder

from verdict_cli.llm.providers.price_book import cost_usd
from verdict_cli.llm.providers.usage import MOST_TOKENS
from verdict_cli.messages import Reply, Request, Usage

_Name = Annotated[str, Meta(max_length=500)]
_Tokens = Annotated[int, Meta(ge=0, le=MOST_TOKENS)]
_NoTokens = Literal[0] | None
"""Tokens that have a price of their own: there are none."""


class _Message(Struct):
    content: Annotated[str, Meta(min_length=1)]
    refusal: None = None
    tool_calls: None = None
    function_call: None = None
    reasoning: None = None
    reasoning_content: None = None
    thinking: None = None


class _Choice(Struct):
    message: _Message
    finish_reason: _Name
    logprobs: None = None


class _PromptDetails(Struct):
    cached_tokens: _NoTokens = None
    cache_creation_tokens: _NoTokens = None


class _CompletionDetails(Struct):
    reasoning_tokens: _NoTokens = None


class _Usage(Struct):
    prompt_tokens: _Tokens
    completion_tokens: _Tokens
    completion_tokens_details: _CompletionDetails | None = None
    prompt_tokens_details: _PromptDetails | None = None
    cost: None = None
    estimated_cost: None = None
    cost_in_usd_ticks: None = None
    prompt_cache_hit_tokens: None = None
    cached_tokens: None = None


class _Body(Struct):
    choices: Annotated[tuple[_Choice, ...], Meta(min_length=1)]
    usage: _Usage
    model: Annotated[_Name, Meta(min_length=1)]
    service_tier: _Name | None = None
    system_fingerprint: _Name | None = None
    reasoning: None = None


_DECODER = Decoder(_Body)


def read_plain_reply(content: bytes, request: Request, latency_s: float, sent: str) -> Reply | None:
    """The reply in a chat completion's body; None where `read_body` must look at it."""
    try:
        body = _DECODER.decode(content)
    except (MsgspecError, ValueError, RecursionError):
        return None
    choice, tier = body.choices[0], body.service_tier or ""
    text, finish_reason = choice.message.content, choice.finish_reason
    if text.isspace() or finish_reason == "content_filter":
        return None
    used = Usage(body.usage.prompt_tokens, body.usage.completion_tokens)
    return Reply(
        text,
        finish_reason or "stop",
        None,
        used,
        cost_usd(request.model, used, tier),
        body.model,
        latency_s,
        sent=sent,
        system_fingerprint=body.system_fingerprint or "",
        service_tier=tier,
    )
