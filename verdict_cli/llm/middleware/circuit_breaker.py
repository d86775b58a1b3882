"""Circuit breaker: stop the run when a model fails every request for the same reason."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from verdict_cli.errors import Refused, Rejected, ReplyError, Retryable
from verdict_cli.llm.middleware.model_state import with_model_state
from verdict_cli.messages import Ask, Reply, Request

MAX_REJECTIONS = 20
"""Consecutive failures for the same reason, of a model that has never replied, that stop a run."""


@dataclass(slots=True)
class _Failures:
    """Consecutive failures for the same reason."""

    reason: str = ""
    count: int = 0
    answered: bool = False


def circuit_breaker(ask: Ask, is_spared: Callable[[Request], bool], limit: int = MAX_REJECTIONS) -> Ask:
    """``ask``, which raises Refused instead of a model's ``limit``-th consecutive failure for the same reason: a rejection with
    the same message, a reply without any text, a body that is not a reply.

    A model that has replied once is never given up. Until then its rejections are ``passing``: a resumed run retries them.
    Rejections because of a row's content (a filter, a prompt that is too long) do not count, nor failures of built-in models
    and recordings, nor those of requests that ``is_spared`` selects, which cost no row.
    """

    def ask_unless_failing(request: Request, failures: _Failures) -> Awaitable[Reply]:
        return ask(request) if failures.answered else ask_counted(request, failures)

    async def ask_counted(request: Request, failures: _Failures) -> Reply:
        try:
            reply = await ask(request)
        except (Rejected, Retryable, ReplyError) as error:
            reason = _reason(error)
            failures.answered |= not reason and isinstance(error, ReplyError)
            if reason and not failures.answered and not is_spared(request):
                if isinstance(error, Rejected):
                    error.passing = True
                _count(failures, error, reason, limit, request.model.name)
            raise
        failures.answered = True
        return reply

    return with_model_state(ask, ask_unless_failing, _Failures)


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


def _count(failures: _Failures, error: Rejected | Retryable | ReplyError, reason: str, limit: int, name: str) -> None:
    failures.count = failures.count + 1 if failures.reason == reason else 1
    failures.reason = reason
    if failures.count >= limit:
        what = "rejected" if isinstance(error, Rejected) else "did not answer"
        words = "with the same message" if reason == error.message else "for the same reason"
        raise Refused(
            f"model {name} {what} {limit} consecutive requests {words} and answered none: {error.message}",
            hint=error.hint or "fix the cause; the resumed run retries these rows",
            kind="rejected",
            status=0 if isinstance(error, ReplyError) else error.status,
            reply=error.reply,
        ) from None
