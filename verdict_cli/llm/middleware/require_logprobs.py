"""Log-probability check: one call finds a model that returns none, before a second one is paid for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from msgspec import Struct, field

from verdict_cli.errors import Refused
from verdict_cli.messages import Ask, Reply, Request
from verdict_cli.model import EndpointKey


def require_logprobs(ask: Ask) -> Ask:
    """``ask``, except that a model's calls for log-probabilities are made one at a time until a reply has some.

    Raises Refused, with the reply that was paid for, if a reply has none.
    """

    proofs: dict[EndpointKey, _Proof] = {}

    def ask_checked(request: Request) -> Awaitable[Reply]:
        if not request.top_logprobs:
            return ask(request)
        proof = proofs.setdefault(request.model.endpoint_key, _Proof())
        return ask(request) if proof.has_some else ask_in_turn(request, proof)

    async def ask_in_turn(request: Request, proof: _Proof) -> Reply:
        async with proof.turn:
            if proof.missing:
                raise missing_logprobs(request, None)
            if not proof.has_some:
                reply = await ask(request)
                if not reply.logprobs:
                    proof.missing = True
                    raise missing_logprobs(request, reply)
                proof.has_some = True
                return reply
        return await ask(request)

    return ask_checked


class _Proof(Struct):
    """Whether a model has returned log-probabilities (``has_some``) or none (``missing``); one call has the turn."""

    has_some: bool = False
    missing: bool = False
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


def missing_logprobs(request: Request, reply: Reply | None) -> Refused:
    """The error of a model that returned none although they were requested."""
    name = request.model.name
    return Refused(
        f"model {name} returned no log-probabilities, although they were requested",
        hint=f"unit {request.node} needs a model that returns them, or an extractor such as structured or regex",
        kind="no-logprobs",
        reply=reply,
    )
