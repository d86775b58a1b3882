"""Circuit breaker: stop the run when a model rejects every request with the same message."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from verdict_cli.errors import Refused, Rejected, ReplyError
from verdict_cli.llm.middleware.model_state import with_model_state
from verdict_cli.messages import Ask, Reply, Request

MAX_REJECTIONS = 20
"""Consecutive rejections with the same message, from a model that has never replied, that stop a run."""


@dataclass(slots=True)
class _Rejections:
    """Consecutive rejections with the same message."""

    message: str = ""
    count: int = 0
    answered: bool = False


def circuit_breaker(ask: Ask, is_spared: Callable[[Request], bool], limit: int = MAX_REJECTIONS) -> Ask:
    """``ask``, which raises Refused instead of a model's ``limit``-th consecutive rejection with the same message.

    A model that has replied once is never given up. Until then its rejections are ``passing``: a resumed run retries them.
    Rejections because of a row's content (a filter, a prompt that is too long) do not count, nor those of built-in models
    and recordings, nor those of requests that ``is_spared`` selects, whose rejection costs no row.
    """

    def ask_unless_rejected(request: Request, run: _Rejections) -> Awaitable[Reply]:
        return ask(request) if run.answered else ask_counted(request, run)

    async def ask_counted(request: Request, run: _Rejections) -> Reply:
        try:
            reply = await ask(request)
        except Rejected as error:
            if error.failure == "rejected" and not run.answered and not is_spared(request):
                error.passing = True
                _count(run, error, limit, request.model.name)
            raise
        except ReplyError:
            run.answered = True
            raise
        run.answered = True
        return reply

    return with_model_state(ask, ask_unless_rejected, _Rejections)


def _count(run: _Rejections, error: Rejected, limit: int, name: str) -> None:
    run.count = run.count + 1 if run.message == error.message else 1
    run.message = error.message
    if run.count >= limit:
        raise Refused(
            f"model {name} rejected {limit} consecutive requests with the same message and answered none: {error.message}",
            hint=error.hint or "fix the cause; the resumed run retries these rows",
            kind="rejected",
            status=error.status,
        ) from None
