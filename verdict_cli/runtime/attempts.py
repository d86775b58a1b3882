"""Asking until there is a readable reply: attempts, waits, corrections and fallback models, counted in one place.

An unreadable reply is found only after the provider has answered, so that asking again belongs here and not to a
ring around the provider; failed calls share the same count of attempts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from verdict_cli.calls.backoff import delay_s
from verdict_cli.errors import ProviderError, Refused, Rejected, ReplyError, Retryable, VerdictError
from verdict_cli.extractors import Reading
from verdict_cli.models import Model
from verdict_cli.runtime.context import Context
from verdict_cli.values import Call, Message, Reply, Request


@dataclass(frozen=True)
class Asking:
    """One call of a unit: what it asks, which models in turn, and how the reply is read."""

    request: Request
    models: tuple[Model, ...]
    reading: Reading
    accept: Callable[[dict[str, Any]], None]


async def answer(asking: Asking, context: Context, calls: list[Call]) -> tuple[dict[str, Any], Reply]:
    """The fields read from the first readable reply, and that reply; every call made is added to `calls`.

    Raises the last attempt's ReplyError, Retryable or Rejected when no attempt of any model succeeds, and Refused
    at once.
    """
    last: VerdictError | None = None
    attempt = 0
    for model in asking.models:
        corrections: tuple[Message, ...] = ()
        failures = 0
        for turn in range(1 + model.retries):
            request = replace(
                asking.request, model=model, attempt=attempt, messages=asking.request.messages + corrections
            )
            attempt += 1
            try:
                reply = await context.ask(request)
                response = _read(reply, request, asking)
            except Refused as error:
                calls.append(_failed(request, error))
                raise
            except Rejected as error:
                if error.failure == "not-recorded" and last is not None:
                    raise last from None
                calls.append(_failed(request, error))
                last = error
                break
            except Retryable as error:
                calls.append(_failed(request, error))
                last = error
                failures += 1
                if turn < model.retries:
                    await context.sleep(delay_s(failures, error.retry_after_s, context.jitter))
            except _Unread as unread:
                calls.append(Call(request, unread.reply, unread.error.failure, str(unread.error), unread.reply.latency_s))
                last = unread.error
                corrections = _correction(unread, asking.reading)
            except ReplyError as error:
                calls.append(_failed(request, error))
                last = error
            else:
                calls.append(Call(request, reply, latency_s=reply.latency_s))
                return response, reply
    assert last is not None
    raise last


class _Unread(Exception):
    """A reply, and why it cannot be read."""

    def __init__(self, reply: Reply, error: ReplyError) -> None:
        super().__init__(error.message)
        self.reply = reply
        self.error = error


def _read(reply: Reply, request: Request, asking: Asking) -> dict[str, Any]:
    cut = reply.finish_reason == "length"
    try:
        if cut and asking.reading.whole:
            raise ReplyError("the reply was cut off before its end", hint="raise `max_tokens`", kind="cut-off")
        response = asking.reading.read(reply, request)
        asking.accept(response)
    except ReplyError as error:
        if cut and error.failure == "unreadable":
            error = ReplyError(f"the reply was cut off: {error.message}", hint="raise `max_tokens`", kind="cut-off")
        raise _Unread(reply, error) from None
    return response


def _failed(request: Request, error: ProviderError | ReplyError) -> Call:
    return Call(request, None, error.failure, str(error))


def _correction(unread: _Unread, reading: Reading) -> tuple[Message, ...]:
    """Tells the model what was wrong with its reply, where the extractor wants that."""
    if not reading.corrects:
        return ()
    words = f"That reply cannot be used: {unread.error.message}. Answer again with a JSON object that follows the schema."
    return (Message("assistant", unread.reply.text), Message("user", words))


def suffixed(messages: Sequence[Message], suffix: str) -> tuple[Message, ...]:
    """The messages with the suffix below the last user message."""
    if not suffix:
        return tuple(messages)
    at = max((place for place, message in enumerate(messages) if message.role == "user"), default=None)
    if at is None:
        return (*messages, Message("user", suffix))
    content = f"{messages[at].content}\n\n{suffix}" if messages[at].content else suffix
    return (*messages[:at], Message("user", content), *messages[at + 1 :])
