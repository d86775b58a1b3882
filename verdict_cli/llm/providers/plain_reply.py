"""Read the usual chat completion in one step: a text that is complete, and a usage without special prices.

Anything else is left to `read_body`, which reads every form that servers send.
"""

from __future__ import annotations

from typing import Any

from msgspec import MsgspecError, Struct
from msgspec.json import Decoder

from verdict_cli.llm.providers.price_book import cost_usd
from verdict_cli.llm.providers.usage import MOST_TOKENS
from verdict_cli.messages import Reply, Request, Usage

_LONGEST_NAME = 500


class _Message(Struct):
    content: str
    refusal: None = None
    tool_calls: None = None
    function_call: None = None
    reasoning: None = None
    reasoning_content: None = None
    thinking: None = None


class _Choice(Struct):
    message: _Message
    finish_reason: str
    logprobs: None = None


class _Details(Struct):
    cached_tokens: int | None = None
    cache_creation_tokens: int | None = None


class _CompletionDetails(Struct):
    reasoning_tokens: int | None = None


class _Usage(Struct):
    prompt_tokens: int
    completion_tokens: int
    completion_tokens_details: _CompletionDetails | None = None
    prompt_tokens_details: _Details | None = None
    cost: Any = None
    estimated_cost: Any = None
    cost_in_usd_ticks: Any = None
    prompt_cache_hit_tokens: Any = None
    cached_tokens: Any = None

    def is_plain(self) -> bool:
        """Whether its two numbers are all that counts for the price."""
        details, reasoning = self.prompt_tokens_details, self.completion_tokens_details
        return (
            0 <= self.prompt_tokens <= MOST_TOKENS
            and 0 <= self.completion_tokens <= MOST_TOKENS
            and self.cost is self.estimated_cost is self.cost_in_usd_ticks is None
            and self.prompt_cache_hit_tokens is self.cached_tokens is None
            and (reasoning is None or not reasoning.reasoning_tokens)
            and (details is None or not (details.cached_tokens or details.cache_creation_tokens))
        )


class _Body(Struct):
    choices: tuple[_Choice, ...]
    usage: _Usage
    model: str
    service_tier: str | None = None
    system_fingerprint: str | None = None
    reasoning: None = None


_DECODER = Decoder(_Body)


def read_plain_reply(content: bytes, request: Request, latency_s: float, sent: str) -> Reply | None:
    """The reply in a chat completion's body; None where `read_body` must look at it."""
    if request.copies != 1:
        return None
    try:
        body = _DECODER.decode(content)
    except (MsgspecError, ValueError, RecursionError):
        return None
    if not body.choices or not body.usage.is_plain():
        return None
    choice, name, tier = body.choices[0], body.model, body.service_tier or ""
    fingerprint = body.system_fingerprint or ""
    text, finish_reason = choice.message.content, choice.finish_reason
    if not text or text.isspace() or finish_reason == "content_filter":
        return None
    if (
        not name
        or len(name) > _LONGEST_NAME
        or len(finish_reason) > _LONGEST_NAME
        or len(tier) > _LONGEST_NAME
        or len(fingerprint) > _LONGEST_NAME
    ):
        return None
    used = Usage(body.usage.prompt_tokens, body.usage.completion_tokens)
    cost = cost_usd(request.model, used, tier)
    return Reply(
        text,
        finish_reason or "stop",
        None,
        used,
        cost,
        name,
        latency_s,
        sent=sent,
        system_fingerprint=fingerprint,
        service_tier=tier,
    )
