"""Body → reply, whatever the protocol: what servers answer becomes a chat completion or the answers of a decision model."""

from __future__ import annotations

from typing import Any

from verdict_cli.errors import ProviderError
from verdict_cli.llm.providers.chat_completions import CHAT, check_reply, name_in, read_chat
from verdict_cli.llm.providers.decision_answers import read_answers
from verdict_cli.llm.providers.http_errors import (
    UNKNOWN_SOURCE,
    Source,
    body_fault,
    broken_reply,
)
from verdict_cli.llm.providers.secrets import redact
from verdict_cli.llm.providers.sse import events, has_events
from verdict_cli.llm.providers.usage import charged_cost, paid_reply, read_usage, usage_in_text
from verdict_cli.llm.providers.wire_protocol import WireProtocol
from verdict_cli.llm.providers.wire_values import loads
from verdict_cli.messages import Reply, Request, Usage


def read_body(
    content: bytes,
    request: Request,
    latency_s: float,
    sent: str = "",
    hidden: tuple[str, ...] = (),
    protocol: WireProtocol = CHAT,
    source: Source = UNKNOWN_SOURCE,
) -> Reply:
    """The reply in a body, without the ``hidden`` texts that the server may have repeated.

    Raises Retryable for a body that is not one of the protocol (the message says why), ReplyError for a refusal or an empty
    or cut-off reply, Rejected if the provider's filter withheld it or the server cut the prompt, and what `stated_error` gives
    for an error in the body. The errors carry the reply that was paid for, if the body states its usage.
    """
    streamed = has_events(content)  # some servers stream whatever is asked for, and some never do
    try:
        whole = redact(protocol.assemble(events(content)) if streamed else loads(content), hidden)
        envelope = protocol.to_chat(whole) if isinstance(whole, dict) else whole
    except ValueError as fault:
        problem, hint = body_fault(content, streamed, fault, hidden, source)
        error = broken_reply(request.model.name, problem, hint, source)
        error.reply = paid_reply(usage_in_text(content), request, latency_s, sent)
        raise error from None
    return read_envelope(envelope, request, latency_s, sent, source)


def read_envelope(
    envelope: Any,
    request: Request,
    latency_s: float,
    sent: str = "",
    source: Source = UNKNOWN_SOURCE,
) -> Reply:
    """The reply in a decoded body; raises as `read_body` does."""
    error: ProviderError
    try:
        return _reply(envelope, request, latency_s, sent, source)
    except RecursionError:
        error = broken_reply(request.model.name, "it is nested too deeply", "", source)
    except ProviderError as fault:
        error = fault
    if error.reply is None and isinstance(envelope, dict):
        error.reply = paid_reply(envelope.get("usage"), request, latency_s, sent)
    raise error from None


def _reply(envelope: Any, request: Request, latency_s: float, sent: str, source: Source) -> Reply:
    name = request.model.name
    answers = read_answers(envelope, request, source) if request.questions else ()
    chat = None if request.questions else read_chat(envelope, name, source)
    stated = envelope.get("usage")
    usage = read_usage(stated)
    served = name_in(envelope, "model")
    tier = name_in(envelope, "service_tier") if chat else ""
    reply = Reply(
        "" if chat is None else chat.text,
        finish_reason="stop" if chat is None else chat.finish_reason,
        logprobs=None if chat is None else chat.logprobs,
        usage=usage or Usage(),
        cost_usd=charged_cost(request.model, stated, usage, tier, served),
        model=served or name,
        latency_s=latency_s,
        sent=sent,
        system_fingerprint=name_in(envelope, "system_fingerprint"),
        reasoning="" if chat is None else chat.reasoning,
        service_tier=tier,
        answers=answers,
    )
    if chat is not None:
        check_reply(reply, name, chat.refusal)
    return reply
