"""Log-probability check: one call finds a model that returns none, before a second one is paid for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from verdict_cli.errors import Refused
from verdict_cli.llm.model_families import is_local
from verdict_cli.messages import Ask, Reply, Request


def require_logprobs(ask: Ask) -> Ask:
    """``ask``, key a model's calls for log-probabilities are made one at a time until a reply has some.

    Raises Refused, with the reply that was paid for, if a reply has none. Built-in models and recordings are not checked:
    missing log-probabilities are a failure of that row.
    """
    proven: set[tuple[str, str | None, str | None]] = set()
    failed: set[tuple[str, str | None, str | None]] = set()
    turns: dict[tuple[str, str | None, str | None], asyncio.Lock] = {}

    def ask_checked(request: Request) -> Awaitable[Reply]:
        if not request.top_logprobs or is_local(request.model.name):
            return ask(request)
        return ask_in_turn(request)

    async def ask_in_turn(request: Request) -> Reply:
        key = (request.model.name, request.model.api_base, request.model.api_key_env)
        if key in proven:
            return await ask(request)
        async with turns.setdefault(key, asyncio.Lock()):
            if key in failed:
                raise _missing_logprobs(request, None)
            if key not in proven:
                reply = await ask(request)
                if not reply.logprobs:
                    failed.add(key)
                    raise _missing_logprobs(request, reply)
                proven.add(key)
                return reply
        return await ask(request)

    return ask_checked


def _missing_logprobs(request: Request, reply: Reply | None) -> Refused:
    name = request.model.name
    return Refused(
        f"model {name} returned no log-probabilities, although they were requested",
        hint=f"unit {request.node} needs a model that returns them, or an extractor such as structured or regex",
        kind="no-logprobs",
        reply=reply,
    )
