"""Circuit breaker: stop the run when a model's endpoint accepts no connection, or fails every request for one reason."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from time import monotonic

from msgspec import Struct

from verdict_cli.errors import Refused, Rejected, ReplyError, Retryable
from verdict_cli.messages import Ask, Reply, Request
from verdict_cli.model import EndpointKey

MAX_REJECTIONS = 20
"""Consecutive failures for the same reason, of a model that has never replied, that stop a run."""
FIRST_FAILURES = 3
"""Failed connections, with none that succeeded, after which a call without attempts left stops the run."""
LATER_FAILURES = 50
"""Consecutive failed connections that stop a run whose endpoint has answered before…"""
LATER_S = 30.0
"""…if they lasted this many seconds: an endpoint that restarts is not given up."""


class _Health(Struct):
    """What is known of a model's endpoint. Any response is an answer, an error by status too; only a reply is a reply."""

    has_answered: bool = False
    has_replied: bool = False
    failures: int = 0
    """Consecutive failed connections."""
    failing_since: float = 0.0
    rejections: int = 0
    """Consecutive failures for the same ``reason``, other than failed connections."""
    reason: str = ""


def circuit_breaker(
    ask: Ask, is_spared: Callable[[Request], bool], clock: Callable[[], float] = monotonic
) -> Ask:
    """``ask``, which raises Refused where every row would fail.

    An endpoint that has never answered is given up when a call has used up its attempts without a connection; one that has
    answered, after ``LATER_FAILURES`` consecutive failed connections over ``LATER_S`` seconds. A model that has never replied
    is given up at its ``MAX_REJECTIONS``-th consecutive failure for the same reason: a rejection with the same message, a reply
    without any text, a body that is not a reply. Until then its rejections are ``passing``: a resumed run retries them.

    Rejections because of a row's content (a filter, a prompt that is too long) do not count, nor do cached replies, and
    requests that ``is_spared`` selects, whose failure costs no row.
    """
    healths: defaultdict[EndpointKey, _Health] = defaultdict(_Health)

    async def ask_counted(request: Request) -> Reply:
        health = healths[request.model.endpoint_key]
        try:
            reply = await ask(request)
        except (Retryable, Rejected, ReplyError) as error:
            if not isinstance(error, Retryable) or not error.unreachable:
                health.failures = 0
                health.has_answered |= not isinstance(error, Retryable) or error.status > 0
                _count_rejection(health, request, error, counts=not is_spared(request))
            elif not is_spared(request):
                _count_failure(health, request, error, clock())
            raise
        health.has_replied = True
        if not reply.cached:
            health.failures, health.has_answered = 0, True
        return reply

    return ask_counted


def _count_failure(health: _Health, request: Request, error: Retryable, now: float) -> None:
    if not health.failures:
        health.failing_since = now
    health.failures += 1
    if health.has_answered:
        if health.failures < LATER_FAILURES or now - health.failing_since < LATER_S:
            return
        reason = (
            f"its endpoint stopped answering: the last {health.failures} attempts did not connect"
        )
    elif health.failures < FIRST_FAILURES or request.attempt < request.model.retries:
        return
    else:
        reason = f"its endpoint does not answer: none of {health.failures} attempts connected"
    raise Refused(
        f"model {request.model.name}: {reason}: {error.message.removeprefix(f'model {request.model.name}: ')}",
        hint="check that the server is running, its address (`api_base`, or a variable such as OPENAI_BASE_URL), and the"
        " network or proxy",
        kind="unreachable",
    ) from None


def _reason(error: Rejected | Retryable | ReplyError) -> str:
    """What equal failures have in common; "" for one that does not count."""
    match error:
        case Rejected(failure="rejected"):
            return error.message
        case ReplyError(failure="empty"):
            return error.failure  # the messages differ by the length of the reasoning
        case Retryable(failure="unavailable", status=status) if 200 <= status < 300:
            return error.message
    return ""


def _count_rejection(
    health: _Health, request: Request, error: Rejected | Retryable | ReplyError, *, counts: bool
) -> None:
    reason = _reason(error)
    health.has_replied |= not reason and isinstance(error, ReplyError)
    if not reason or health.has_replied or not counts:
        return
    if isinstance(error, Rejected):
        error.passing = True
    health.rejections = health.rejections + 1 if health.reason == reason else 1
    health.reason = reason
    if health.rejections >= MAX_REJECTIONS:
        verb = "rejected" if isinstance(error, Rejected) else "did not answer"
        words = "with the same message" if reason == error.message else "for the same reason"
        raise Refused(
            f"model {request.model.name} {verb} {MAX_REJECTIONS} consecutive requests {words} and answered none: "
            f"{error.message}",
            hint=error.hint or "fix the cause; the resumed run retries these rows",
            kind="rejected",
            status=0 if isinstance(error, ReplyError) else error.status,
            reply=error.reply,
        ) from None
