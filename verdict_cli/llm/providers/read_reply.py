"""Body → reply, whatever the protocol: what servers answer becomes a chat completion or the answers of a decision model."""

from __future__ import annotations

from typing import Any

from verdict_cli.errors import ProviderError
from verdict_cli.llm.providers.chat_completions import (
    CHAT,
    NO_TEXT,
    check_reply,
    name_in,
    read_chat,
)
from verdict_cli.llm.providers.decision_answers import read_answers
from verdict_cli.llm.providers.http_errors import Source, allowance_of, broken_body, broken_reply
from verdict_cli.llm.providers.secrets import redact
from verdict_cli.llm.providers.sse import events, has_events
from verdict_cli.llm.providers.usage import call_cost, read_usage, usage_in_text
from verdict_cli.llm.providers.wire_protocol import WireProtocol
from verdict_cli.llm.providers.wire_values import loads
from verdict_cli.messages import Reply, Request, Usage


def read_body(
    content: bytes,
    request: Request,
    source: Source,
    hidden: tuple[str, ...] = (),
    protocol: WireProtocol = CHAT,
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
        error = broken_body(content, streamed, fault, source)
        raise _paid(error, usage_in_text(content), request, source) from None
    return read_envelope(envelope, request, source)


def read_envelope(envelope: Any, request: Request, source: Source) -> Reply:
    """The reply in a decoded body; raises as `read_body` does."""
    error: ProviderError
    try:
        return _reply(envelope, request, source)
    except RecursionError:
        error = broken_reply("it is nested too deeply", source)
    except ValueError as fault:
        error = broken_reply(str(fault), source)
    except ProviderError as stated:
        error = stated
    usage = envelope.get("usage") if isinstance(envelope, dict) else None
    raise _paid(error, usage, request, source) from None


def _paid(error: ProviderError, stated: Any, request: Request, source: Source) -> ProviderError:
    """The error with the cost of its reply, if the server states its usage, and with the limits that the headers state."""
    usage = read_usage(stated)
    if error.reply is None and usage is not None:
        error.reply = Reply(
            "",
            "error",
            usage=usage,
            cost_usd=call_cost(request, source.headers, stated, usage),
            model=source.model,
            latency_s=source.latency_s,
            sent=source.sent,
        )
    error.allowance = allowance_of(source.headers)
    return error


def _reply(envelope: Any, request: Request, source: Source) -> Reply:
    answers = read_answers(envelope, request, source) if request.questions else ()
    chat = NO_TEXT if request.questions else read_chat(envelope, source)
    stated = envelope.get("usage")
    usage = read_usage(stated)
    served = name_in(envelope, "model")
    tier = "" if request.questions else name_in(envelope, "service_tier")
    reply = Reply(
        chat.text,
        finish_reason=chat.finish_reason,
        logprobs=chat.logprobs,
        usage=usage or Usage(),
        cost_usd=call_cost(request, source.headers, stated, usage, tier, served),
        model=served or source.model,
        latency_s=source.latency_s,
        sent=source.sent,
        allowance=allowance_of(source.headers),
        system_fingerprint=name_in(envelope, "system_fingerprint"),
        reasoning=chat.reasoning,
        service_tier=tier,
        answers=answers,
    )
    if not request.questions:
        check_reply(reply, source.model, chat.refusal)
    return reply
