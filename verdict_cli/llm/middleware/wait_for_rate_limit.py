"""A rate limit is a wait, not an attempt: make a refused call again until it is accepted or `max_wait` has passed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from time import monotonic

from verdict_cli.errors import Retryable
from verdict_cli.llm.model_families import is_local
from verdict_cli.messages import Ask, Reply, Request
from verdict_cli.model import Model

PatientSend = Callable[[Request, bool], Awaitable[Reply]]
"""One attempt at a call. True: it was refused before, and goes ahead of the calls that wait for their first attempt."""


def wait_for_rate_limit(send: PatientSend, clock: Callable[[], float] = monotonic) -> Ask:
    """Attempts of ``send`` until the provider does not refuse the call because of its rate limit. ``send`` does the waiting.

    Raises Retryable, marked ``waited``, where that took ``max_wait`` seconds, or the provider states a longer delay.
    """

    def ask(request: Request) -> Awaitable[Reply]:
        return send(request, False) if is_local(request.model.name) else ask_until_accepted(request)

    async def ask_until_accepted(request: Request) -> Reply:
        deadline = None
        while True:
            try:
                return await send(request, deadline is not None)
            except Retryable as error:
                if error.failure != "rate-limit":
                    raise
                now = clock()
                deadline = now + request.model.max_wait if deadline is None else deadline
                if now + (error.retry_after_s or 0.0) >= deadline:
                    raise _gave_up(error, request.model) from None

    return ask


def _gave_up(error: Retryable, model: Model) -> Retryable:
    delay_s = error.retry_after_s
    if delay_s:
        why = f"the provider accepts the next call in {delay_s:g} s, later than max_wait ({model.max_wait:g} s) allows"
    else:
        why = f"the rate limit did not accept the call within max_wait ({model.max_wait:g} s)"
    final = Retryable(
        f"{error.message}: {why}",
        hint="run the same command with --retry-failed later, or raise the max_wait of the model",
        kind=error.failure,
        status=error.status,
        retry_after_s=delay_s,
    )
    final.reply, final.allowance, final.waited = error.reply, error.allowance, True
    return final
