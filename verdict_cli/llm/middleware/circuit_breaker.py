"""A model that rejects every request in the same words is given up, before the rest of the rows is tried."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from verdict_cli.errors import Refused, Rejected, ReplyError
from verdict_cli.llm.model_families import is_local
from verdict_cli.messages import Ask, Reply, Request

MOST_REJECTIONS = 20
"""Rejections of one model in the same words, without a reply of it before or between them, that stop a run."""


@dataclass(slots=True)
class _Run:
    """Rejections one after the other in the same words."""

    words: str = ""
    count: int = 0
    answered: bool = False


def circuit_breaker(ask: Ask, spares: Callable[[Request], bool], most: int = MOST_REJECTIONS) -> Ask:
    """``ask``, which raises Refused in the place of a model's `most`-th rejection in a row with the same words.

    A model that has answered once is never given up. Until then its rejections are `passing`: a run that goes on asks
    again. Rejections of a row's own content (a filter, a prompt that is too long) do not count, nor those of built-in
    models and recordings, nor requests that ``spares`` names: those that no row is lost by.
    """
    runs: dict[tuple[str, str | None, str | None], _Run] = {}

    def ask_capped(request: Request) -> Awaitable[Reply]:
        model = request.model
        if is_local(model.name):
            return ask(request)
        where = (model.name, model.api_base, model.api_key_env)
        run = runs.get(where)
        if run is None:
            run = runs[where] = _Run()
        return ask(request) if run.answered else ask_counted(request, run)

    async def ask_counted(request: Request, run: _Run) -> Reply:
        try:
            reply = await ask(request)
        except Rejected as error:
            if error.failure == "rejected" and not run.answered and not spares(request):
                error.passing = True
                _count(run, error, most, request.model.name)
            raise
        except ReplyError:
            run.answered = True
            raise
        run.answered = True
        return reply

    return ask_capped


def _count(run: _Run, error: Rejected, most: int, name: str) -> None:
    same = run.words == error.message
    run.words, run.count = error.message, run.count + 1 if same else 1
    if run.count >= most:
        raise Refused(
            f"model {name} rejected {most} requests in a row in the same words, and answered none: {error.message}",
            hint=error.hint or "mend what it says; the rows are asked again when the run goes on",
            kind="rejected",
            status=error.status,
        ) from None
