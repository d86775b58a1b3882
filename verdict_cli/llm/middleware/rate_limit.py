"""No more calls at once, and no more a minute, than the run and each model allow."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import TypeVar

from verdict_cli.errors import ProviderError, Rejected, ReplyError, Retryable, VerdictError
from verdict_cli.llm.middleware.adaptive_concurrency import AdaptiveConcurrency
from verdict_cli.llm.middleware.quota import Allowed, SentCounters
from verdict_cli.llm.middleware.semaphore import FifoSemaphore
from verdict_cli.llm.middleware.sliding_window import Sent, SlidingWindow
from verdict_cli.llm.model_families import is_local
from verdict_cli.llm.providers.provider import endpoint_address
from verdict_cli.messages import Ask, Reply, Request
from verdict_cli.model import Model, RateLimit

REPLY_TOKENS = 256
"""What a reply is taken to need where ``max_tokens`` is not set."""
CHARACTERS_A_TOKEN = 4
LOOK_AGAIN_S = 1.0
UNBOUND = 4096
"""Calls at once that an endpoint is given at most where the run sets no limit, once it has refused some."""

T = TypeVar("T")


@dataclass(slots=True)
class Flow:
    """The calls of one unit that reached the limits: those that wait, that are with the model, and that came back."""

    waiting: int = 0
    running: int = 0
    answered: int = 0
    failed: int = 0


class RateLimiters:
    """The limits of one run: ``concurrent`` calls in flight (None: any number), each model's ``rate_limit``, what its
    provider's headers say, and how many calls at once an endpoint has shown to take.

    ``flows`` counts calls by unit, ``waiting`` and ``running`` all of them, for progress. Calls of a model pass in the order in which they came.
    """

    def __init__(
        self,
        concurrent: int | None = None,
        *,
        clock: Callable[[], float] = monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self.flows: defaultdict[str, Flow] = defaultdict(Flow)
        self.most = concurrent or UNBOUND
        self.places = None if concurrent is None else FifoSemaphore(concurrent)
        self.clock = clock
        self.sleep = sleep
        self._models: dict[tuple[str, str | None, str | None, RateLimit | None], ModelLimiter | None] = {}
        self._shared: dict[tuple[str, str, str, RateLimit | None], ModelLimiter] = {}
        self._endpoints: dict[tuple[str, str], AdaptiveConcurrency] = {}

    @property
    def waiting(self) -> int:
        """Calls that wait for a limit."""
        return sum(flow.waiting for flow in self.flows.values())

    @property
    def running(self) -> int:
        """Calls that are with a model."""
        return sum(flow.running for flow in self.flows.values())

    def of(self, model: Model) -> ModelLimiter | None:
        """The model's gate, None for a built-in model or a recording. Presets of one model and limit share a gate,
        models of one endpoint and key the endpoint's places."""
        key = (model.name, model.api_base, model.api_key_env, model.rate_limit)
        if key not in self._models:
            self._models[key] = self._gate(model)
        return self._models[key]

    def _gate(self, model: Model) -> ModelLimiter | None:
        if is_local(model.name) and model.rate_limit is None:
            return None
        where = endpoint_address(model)
        key = (*where, model.name, model.rate_limit)
        gate = self._shared.get(key)
        if gate is None:
            endpoint = self._endpoints.setdefault(where, AdaptiveConcurrency(self.most))
            gate = self._shared[key] = ModelLimiter(model.rate_limit, endpoint)
        return gate


class ModelLimiter:
    """One model's limits, the line of calls before them, and its endpoint's places."""

    def __init__(self, limit: RateLimit | None, endpoint: AdaptiveConcurrency) -> None:
        limit = limit or RateLimit()
        self.places = None if limit.concurrent is None else FifoSemaphore(limit.concurrent)
        self.window = SlidingWindow(limit.requests_per_minute, limit.tokens_per_minute)
        self.allowed = Allowed()
        self.endpoint = endpoint
        self.turn = asyncio.Lock()

    @property
    def open(self) -> bool:
        """Whether nothing is known that a call would have to wait for."""
        return self.window.requests is None and self.window.tokens is None and not self.allowed.known

    def wait_s(self, tokens: int, now: float) -> float:
        """Seconds until a call of so many tokens should be looked at again; 0 where it may be sent now.

        What the headers say is looked at again every second: a later reply may say better.
        """
        return max(self.window.wait_s(tokens, now), min(LOOK_AGAIN_S, self.allowed.wait_s(tokens, now)))


def estimate_tokens(request: Request) -> int:
    """The tokens that a call is taken to need, prompt and reply together, before it is made."""
    characters = 0
    for message in request.messages:
        characters += len(message.content)
    return characters // CHARACTERS_A_TOKEN + (request.model.max_tokens or REPLY_TOKENS)


def rate_limited(ask: Ask, gates: RateLimiters, needs: Callable[[Request], int] = estimate_tokens) -> Ask:
    """``ask``, waiting until the limits allow the call, which ``needs`` about so many tokens.

    Raises Rejected for a call that needs more tokens than its model's ``tokens_per_minute``: it would wait for ever.
    """

    def ask_within(request: Request) -> Awaitable[Reply]:
        gate = gates.of(request.model)
        flow = gates.flows[request.node]
        if gate is None:
            places = gates.places
            if places is None:
                return _counted(ask, request, flow)
            return _in_place(places, flow, partial(_counted, ask, request, flow))
        tokens = needs(request)
        if gate.window.tokens is not None and tokens > gate.window.tokens:
            return _too_large(request.model.name, tokens, gate.window.tokens)
        if gate.places is None:
            return _in_turn(ask, request, gates, gate, flow, tokens)
        return _in_place(gate.places, flow, partial(_in_turn, ask, request, gates, gate, flow, tokens))

    return ask_within


async def _too_large(name: str, tokens: int, most: int) -> Reply:
    raise Rejected(
        f"model {name}: the call needs about {tokens} tokens, more than tokens_per_minute ({most}) allows",
        hint="shorten the prompt or the row, lower max_tokens, or raise tokens_per_minute",
    )


async def _in_place(places: FifoSemaphore, flow: Flow, asking: Callable[[], Awaitable[Reply]]) -> Reply:
    """Asks with one of the places."""
    await _waited(places.enter(), flow)
    try:
        return await asking()
    finally:
        places.leave()


async def _in_turn(
    ask: Ask, request: Request, gates: RateLimiters, gate: ModelLimiter, flow: Flow, tokens: int
) -> Reply:
    """Asks when the model's window has room. Who waits for room keeps his turn, but none of the run's places."""
    sent = None
    if not gate.open:
        sent = await _waited(_entered(gates, gate, tokens), flow)
    elif not _taken(gates, gate):
        await _waited(_placed(gates, gate), flow)
    passed = gate.allowed.enter(tokens)
    gate.endpoint.flying += 1
    flow.running += 1
    try:
        reply = await ask(request)
    except VerdictError as problem:
        flow.failed += 1
        _refused(gates, gate, sent, passed, problem)
        raise
    finally:
        flow.running -= 1
        gate.endpoint.flying -= 1
        _given_back(gates, gate)
    flow.answered += 1
    gate.endpoint.answered()
    _learn(gates, gate, sent, passed, reply)
    return reply


def _refused(
    gates: RateLimiters, gate: ModelLimiter, sent: Sent | None, passed: SentCounters, problem: VerdictError
) -> None:
    """Settles what a call that failed used, and learns from what it says about limits."""
    if isinstance(problem, ProviderError | ReplyError):
        _learn(gates, gate, sent, passed, problem.reply)
    if isinstance(problem, ProviderError) and problem.allowance is not None:
        gate.allowed.learn(problem.allowance, passed, gates.clock())
    if isinstance(problem, Retryable) and problem.failure == "rate-limit":
        gate.endpoint.refused()


def _learn(
    gates: RateLimiters, gate: ModelLimiter, sent: Sent | None, passed: SentCounters, reply: Reply | None
) -> None:
    """Settles what a reply used, and takes over what its headers say."""
    if reply is None:
        return
    used = reply.usage.prompt_tokens + reply.usage.completion_tokens
    if used and sent is not None:
        gate.window.settle(sent, used)
    if reply.allowance is not None:
        gate.allowed.learn(reply.allowance, passed, gates.clock())


async def _entered(gates: RateLimiters, gate: ModelLimiter, tokens: int) -> Sent:
    """Returns with one of the run's places and one of the endpoint's taken."""
    async with gate.turn:
        while True:
            if not _taken(gates, gate):
                await _placed(gates, gate)
            now = gates.clock()
            wait_s = gate.wait_s(tokens, now)
            if wait_s <= 0:
                return gate.window.enter(tokens, now)
            _given_back(gates, gate)
            await gates.sleep(wait_s)


def _taken(gates: RateLimiters, gate: ModelLimiter) -> bool:
    """Whether one of the run's places and one of the endpoint's were free; then they are taken."""
    if not gate.endpoint.take():
        return False
    if gates.places is None or gates.places.take():
        return True
    gate.endpoint.leave()
    return False


async def _placed(gates: RateLimiters, gate: ModelLimiter) -> None:
    """Waits for one of the run's places and one of the endpoint's. Who waits for the endpoint holds none of the run's."""
    endpoint = gate.endpoint
    if gates.places is None:
        await endpoint.enter()
        return
    await gates.places.enter()
    if endpoint.take():
        return
    gates.places.leave()
    await endpoint.enter()
    try:
        await gates.places.enter()
    except asyncio.CancelledError:
        endpoint.leave()
        raise


def _given_back(gates: RateLimiters, gate: ModelLimiter) -> None:
    gate.endpoint.leave()
    if gates.places is not None:
        gates.places.leave()


async def _waited(entering: Awaitable[T], flow: Flow) -> T:
    flow.waiting += 1
    try:
        return await entering
    finally:
        flow.waiting -= 1


async def _counted(ask: Ask, request: Request, flow: Flow) -> Reply:
    flow.running += 1
    try:
        reply = await ask(request)
    except VerdictError:
        flow.failed += 1
        raise
    finally:
        flow.running -= 1
    flow.answered += 1
    return reply
