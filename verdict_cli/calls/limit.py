"""No more calls at once, and no more a minute, than the run and each model allow."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic

from verdict_cli.calls.window import Sent, Window
from verdict_cli.errors import Rejected
from verdict_cli.models import Model, RateLimit
from verdict_cli.values import Ask, Reply, Request

_REPLY_TOKENS = 256
"""What a reply is taken to need where ``max_tokens`` is not set."""
_CHARACTERS_A_TOKEN = 4


class Gates:
    """The limits of one run: ``concurrent`` calls in flight (None: any number), and each model's ``rate_limit``.

    ``waiting`` and ``running`` count calls, for progress. Calls of a model pass in the order in which they came.
    """

    def __init__(
        self,
        concurrent: int | None = None,
        *,
        clock: Callable[[], float] = monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self.waiting = 0
        self.running = 0
        self.places = None if concurrent is None else asyncio.Semaphore(concurrent)
        self.clock = clock
        self.sleep = sleep
        self._models: dict[tuple[str, str | None, RateLimit], ModelGate] = {}

    def of(self, model: Model) -> ModelGate | None:
        """The model's own gate, None where it has no limit. Presets of one model and limit share a gate."""
        limit = model.rate_limit
        if limit is None:
            return None
        key = (model.name, model.api_base, limit)
        gate = self._models.get(key)
        if gate is None:
            gate = self._models[key] = ModelGate(limit)
        return gate


class ModelGate:
    """One model's limits, and the line of calls before them."""

    def __init__(self, limit: RateLimit) -> None:
        self.places = None if limit.concurrent is None else asyncio.Semaphore(limit.concurrent)
        self.window = Window(limit.requests_per_minute, limit.tokens_per_minute)
        self.turn = asyncio.Lock()


def limited(ask: Ask, gates: Gates) -> Ask:
    """``ask``, waiting until the limits allow the call.

    Raises Rejected for a call that needs more tokens than its model's ``tokens_per_minute``: it would wait for ever.
    """

    async def ask_within(request: Request) -> Reply:
        gate = gates.of(request.model)
        if gate is None:
            return await _in_place(ask, request, gates)
        tokens = estimate(request)
        if gate.window.tokens is not None and tokens > gate.window.tokens:
            raise Rejected(
                f"model {request.model.name}: the call needs about {tokens} tokens, more than tokens_per_minute "
                f"({gate.window.tokens}) allows",
                hint="shorten the prompt or the row, lower max_tokens, or raise tokens_per_minute",
            )
        if gate.places is None:
            return await _in_turn(ask, request, gates, gate, tokens)
        await _taken(gate.places, gates)
        try:
            return await _in_turn(ask, request, gates, gate, tokens)
        finally:
            gate.places.release()

    return ask_within


def estimate(request: Request) -> int:
    """The tokens that a call is taken to need, prompt and reply together, before it is made."""
    characters = sum(len(message.content) for message in request.messages)
    return characters // _CHARACTERS_A_TOKEN + (request.model.max_tokens or _REPLY_TOKENS)


async def _in_place(ask: Ask, request: Request, gates: Gates) -> Reply:
    """Asks with one of the run's places."""
    if gates.places is None:
        return await _counted(ask, request, gates)
    await _taken(gates.places, gates)
    try:
        return await _counted(ask, request, gates)
    finally:
        gates.places.release()


async def _in_turn(ask: Ask, request: Request, gates: Gates, gate: ModelGate, tokens: int) -> Reply:
    """Asks when the model's window has room. Who waits for room keeps his turn, but none of the run's places."""
    sent = await _entered(gates, gate, tokens)
    try:
        reply = await _counted(ask, request, gates)
    finally:
        if gates.places is not None:
            gates.places.release()
    used = reply.usage.prompt_tokens + reply.usage.completion_tokens
    if used:
        gate.window.settle(sent, used)
    return reply


async def _entered(gates: Gates, gate: ModelGate, tokens: int) -> Sent:
    """Returns with one of the run's places taken."""
    gates.waiting += 1
    try:
        async with gate.turn:
            while True:
                if gates.places is not None:
                    await gates.places.acquire()
                now = gates.clock()
                wait_s = gate.window.wait_s(tokens, now)
                if wait_s <= 0:
                    return gate.window.enter(tokens, now)
                if gates.places is not None:
                    gates.places.release()
                await gates.sleep(wait_s)
    finally:
        gates.waiting -= 1


async def _taken(places: asyncio.Semaphore, gates: Gates) -> None:
    gates.waiting += 1
    try:
        await places.acquire()
    finally:
        gates.waiting -= 1


async def _counted(ask: Ask, request: Request, gates: Gates) -> Reply:
    gates.running += 1
    try:
        return await ask(request)
    finally:
        gates.running -= 1
