"""A model that returns no log-probabilities is found out by one call, before a second one is paid for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from verdict_cli.errors import Refused
from verdict_cli.llm.model_families import is_local
from verdict_cli.messages import Ask, Reply, Request


def require_logprobs(ask: Ask) -> Ask:
    """``ask``, where the first calls of a model that want log-probabilities go one by one until a reply has some.

    Raises Refused, with the reply that was paid for, when a reply has none. Built-in models and recordings are let
    through: what they lack is that row's failure.
    """
    known: set[tuple[str, str | None, str | None]] = set()
    without: set[tuple[str, str | None, str | None]] = set()
    turns: dict[tuple[str, str | None, str | None], asyncio.Lock] = {}

    def ask_checked(request: Request) -> Awaitable[Reply]:
        if not request.top_logprobs or is_local(request.model.name):
            return ask(request)
        return ask_in_turn(request)

    async def ask_in_turn(request: Request) -> Reply:
        where = (request.model.name, request.model.api_base, request.model.api_key_env)
        if where in known:
            return await ask(request)
        async with turns.setdefault(where, asyncio.Lock()):
            if where in without:
                raise _none(request, None)
            if where not in known:
                reply = await ask(request)
                if not reply.logprobs:
                    without.add(where)
                    raise _none(request, reply)
                known.add(where)
                return reply
        return await ask(request)

    return ask_checked


def _none(request: Request, reply: Reply | None) -> Refused:
    name = request.model.name
    return Refused(
        f"model {name} was asked for log-probabilities and returned none",
        hint=f"unit {request.node} needs a model that returns them, or an extractor such as structured or regex",
        kind="no-logprobs",
        reply=reply,
    )
