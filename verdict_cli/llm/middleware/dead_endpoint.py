"""Dead endpoint: stop the run when no connection to a model's endpoint can be made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from verdict_cli.errors import Refused, Rejected, ReplyError, Retryable
from verdict_cli.llm.middleware.model_state import with_model_state
from verdict_cli.messages import Ask, Reply, Request

FIRST_FAILURES = 3
"""Failed connections, with none that succeeded, after which a call without attempts left stops the run."""
LATER_FAILURES = 50
"""Consecutive failed connections that stop a run whose endpoint has answered before…"""
LATER_S = 30.0
"""…if they lasted this many seconds: an endpoint that restarts is not given up."""


@dataclass(slots=True)
class _Failures:
    """Consecutive failed connections to an endpoint."""

    count: int = 0
    since: float = 0.0
    answered: bool = False


def dead_endpoint(ask: Ask, is_spared: Callable[[Request], bool], clock: Callable[[], float] = monotonic) -> Ask:
    """``ask``, which raises Refused where every row would fail because nothing accepts a connection.

    An endpoint that has never answered is given up when a call has used up its attempts; one that has answered, after
    ``LATER_FAILURES`` consecutive failed connections over ``LATER_S`` seconds. Any response counts as an answer, an
    error by status too, but not a cached reply. Built-in models and requests that ``is_spared`` selects do not count.
    The failed calls are retryable, so that the resumed run makes them again.
    """

    async def ask_counted(request: Request, failures: _Failures) -> Reply:
        try:
            reply = await ask(request)
        except Retryable as error:
            if not error.unreachable:
                failures.count = 0
                failures.answered |= error.status > 0
            elif not is_spared(request):
                _count(failures, request, error, clock())
            raise
        except (Rejected, ReplyError):
            failures.count, failures.answered = 0, True
            raise
        if not reply.cached:
            failures.count, failures.answered = 0, True
        return reply

    return with_model_state(ask, ask_counted, _Failures)


def _count(failures: _Failures, request: Request, error: Retryable, now: float) -> None:
    if not failures.count:
        failures.since = now
    failures.count += 1
    if failures.answered:
        if failures.count < LATER_FAILURES or now - failures.since < LATER_S:
            return
        what = f"its endpoint stopped answering: the last {failures.count} attempts did not connect"
    elif failures.count < FIRST_FAILURES or request.attempt < request.model.retries:
        return
    else:
        what = f"its endpoint does not answer: none of {failures.count} attempts connected"
    raise Refused(
        f"model {request.model.name}: {what}: {error.message.removeprefix(f'model {request.model.name}: ')}",
        hint="check that the server is running, its address (`api_base`, or a variable such as OPENAI_BASE_URL), and the"
        " network or proxy",
        kind="unreachable",
    ) from None
