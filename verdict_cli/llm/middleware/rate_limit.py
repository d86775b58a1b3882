"""Rate limiting: caps concurrency, and requests and tokens per minute, per run and per model."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import TypeVar

from verdict_cli.errors import ProviderError, Rejected, ReplyError, Retryable, VerdictError
from verdict_cli.llm.middleware.concurrency import AdaptiveConcurrency, FifoSemaphore
from verdict_cli.llm.middleware.quota import ProviderQuota, SentCall, SentCounters, SlidingWindow
from verdict_cli.llm.model_families import is_local
from verdict_cli.llm.providers.endpoint import endpoint_address
from verdict_cli.messages import Ask, Reply, Request
from verdict_cli.model import Model, RateLimit

REPLY_TOKENS = 256
"""The estimate of a reply's tokens where ``max_tokens`` is not set."""
CHARACTERS_A_TOKEN = 4
RECHECK_S = 1.0
MAX_CONCURRENCY = 4096
"""The largest concurrency of an endpoint that has rejected calls, where the run sets no limit."""

T = TypeVar("T")


@dataclass(slots=True)
class Flow:
    """Counts of one unit's calls at the limits: waiting, in flight, answered and failed."""

    waiting: int = 0
    running: int = 0
    answered: int = 0
    failed: int = 0


class RateLimiters:
    """The limits of one run: ``concurrent`` calls in flight (None: no limit), each model's ``rate_limit``, the quota in its
    provider's headers, and the concurrency that an endpoint has been seen to accept.

    ``flows`` counts calls by unit, ``waiting`` and ``running`` all of them, for progress. Calls of a model are sent in the
    order in which they arrive here.
    """

    def __init__(
        self,
        concurrent: int | None = None,
        *,
        clock: Callable[[], float] = monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self.flows: defaultdict[str, Flow] = defaultdict(Flow)
        self.semaphore = None if concurrent is None else FifoSemaphore(concurrent)
        self.clock = clock
        self.sleep = sleep
        self._max_concurrency = concurrent or MAX_CONCURRENCY
        self._by_model: dict[tuple[str, str | None, str | None, RateLimit | None], ModelLimiter | None] = {}
        self._shared: dict[tuple[str, str, str, RateLimit | None], ModelLimiter] = {}
        self._endpoints: dict[tuple[str, str], AdaptiveConcurrency] = {}

    @property
    def waiting(self) -> int:
        """Calls that wait for a limit."""
        return sum(flow.waiting for flow in self.flows.values())

    @property
    def running(self) -> int:
        """Calls in flight."""
        return sum(flow.running for flow in self.flows.values())

    def get(self, model: Model) -> ModelLimiter | None:
        """The model's limiter, None for a built-in model or a recording. Presets of one model and limit share a limiter,
        models of one endpoint and key its concurrency."""
        key = (model.name, model.api_base, model.api_key_env, model.rate_limit)
        if key not in self._by_model:
            self._by_model[key] = self._create(model)
        return self._by_model[key]

    def _create(self, model: Model) -> ModelLimiter | None:
        if is_local(model.name) and model.rate_limit is None:
            return None
        address = endpoint_address(model)
        key = (*address, model.name, model.rate_limit)
        limiter = self._shared.get(key)
        if limiter is None:
            endpoint = self._endpoints.setdefault(address, AdaptiveConcurrency(self._max_concurrency))
            limiter = self._shared[key] = ModelLimiter(model.rate_limit, endpoint)
        return limiter


class ModelLimiter:
    """One model's limits: its own concurrency, its quotas, and its endpoint's concurrency."""

    def __init__(self, limit: RateLimit | None, endpoint: AdaptiveConcurrency) -> None:
        limit = limit or RateLimit()
        self.semaphore = None if limit.concurrent is None else FifoSemaphore(limit.concurrent)
        self.window = SlidingWindow(limit.requests_per_minute, limit.tokens_per_minute)
        self.quota = ProviderQuota()
        self.endpoint = endpoint
        self.turn = asyncio.Lock()

    @property
    def has_quota(self) -> bool:
        """Whether a call may have to wait for a quota per minute."""
        return self.window.requests is not None or self.window.tokens is not None or self.quota.is_known

    def wait_s(self, tokens: int, now: float) -> float:
        """Seconds until a call of so many tokens should check again; 0 if it may be sent now.

        The provider's quota is checked again every second, because a later reply may raise it.
        """
        return max(self.window.wait_s(tokens, now), min(RECHECK_S, self.quota.wait_s(tokens, now)))


def estimate_tokens(request: Request) -> int:
    """The tokens that a call is expected to use, prompt and reply together."""
    characters = 0
    for message in request.messages:
        characters += len(message.content)
    return characters // CHARACTERS_A_TOKEN + (request.model.max_tokens or REPLY_TOKENS)


def rate_limited(ask: Ask, limiters: RateLimiters, estimate: Callable[[Request], int] = estimate_tokens) -> Ask:
    """``ask``, waiting until the limits allow the call, whose tokens ``estimate`` predicts.

    Raises Rejected for a call that needs more tokens than its model's ``tokens_per_minute``: it would wait forever.
    """

    def ask_limited(request: Request) -> Awaitable[Reply]:
        limiter = limiters.get(request.model)
        flow = limiters.flows[request.node]
        if limiter is None:
            if limiters.semaphore is None:
                return _send_counted(ask, request, flow)
            return _send_holding(limiters.semaphore, flow, partial(_send_counted, ask, request, flow))
        tokens = estimate(request)
        if limiter.window.tokens is not None and tokens > limiter.window.tokens:
            return _reject_too_large(request.model.name, tokens, limiter.window.tokens)
        if limiter.semaphore is None:
            return _send_limited(ask, request, limiters, limiter, flow, tokens)
        send = partial(_send_limited, ask, request, limiters, limiter, flow, tokens)
        return _send_holding(limiter.semaphore, flow, send)

    return ask_limited


async def _reject_too_large(name: str, tokens: int, limit: int) -> Reply:
    raise Rejected(
        f"model {name}: the call needs about {tokens} tokens, more than tokens_per_minute ({limit}) allows",
        hint="shorten the prompt or the row, lower max_tokens, or raise tokens_per_minute",
    )


async def _send_holding(semaphore: FifoSemaphore, flow: Flow, send: Callable[[], Awaitable[Reply]]) -> Reply:
    await _count_waiting(semaphore.acquire(), flow)
    try:
        return await send()
    finally:
        semaphore.release()


async def _send_limited(
    ask: Ask, request: Request, limiters: RateLimiters, limiter: ModelLimiter, flow: Flow, tokens: int
) -> Reply:
    """Send the call when the model's quotas have room. A call that waits for them keeps its turn, but holds no slot of
    the run."""
    sent = None
    if limiter.has_quota:
        sent = await _count_waiting(_acquire_with_quota(limiters, limiter, tokens), flow)
    elif not _try_acquire(limiters, limiter):
        await _count_waiting(_acquire(limiters, limiter), flow)
    counters = limiter.quota.spend(tokens)
    limiter.endpoint.in_flight += 1
    flow.running += 1
    try:
        reply = await ask(request)
    except VerdictError as error:
        flow.failed += 1
        _learn_from_error(limiters, limiter, sent, counters, error)
        raise
    finally:
        flow.running -= 1
        limiter.endpoint.in_flight -= 1
        _release(limiters, limiter)
    flow.answered += 1
    limiter.endpoint.record_success()
    _learn(limiters, limiter, sent, counters, reply)
    return reply


def _learn_from_error(
    limiters: RateLimiters, limiter: ModelLimiter, sent: SentCall | None, counters: SentCounters, error: VerdictError
) -> None:
    if isinstance(error, ProviderError | ReplyError):
        _learn(limiters, limiter, sent, counters, error.reply)
    if isinstance(error, ProviderError) and error.allowance is not None:
        limiter.quota.update(error.allowance, counters, limiters.clock())
    if isinstance(error, Retryable) and error.failure == "rate-limit":
        limiter.endpoint.record_rejection()


def _learn(
    limiters: RateLimiters, limiter: ModelLimiter, sent: SentCall | None, counters: SentCounters, reply: Reply | None
) -> None:
    """Correct the estimate by the reply's usage, and take over its rate-limit headers."""
    if reply is None:
        return
    used = reply.usage.prompt_tokens + reply.usage.completion_tokens
    if used and sent is not None:
        limiter.window.correct(sent, used)
    if reply.allowance is not None:
        limiter.quota.update(reply.allowance, counters, limiters.clock())


async def _acquire_with_quota(limiters: RateLimiters, limiter: ModelLimiter, tokens: int) -> SentCall:
    async with limiter.turn:
        while True:
            if not _try_acquire(limiters, limiter):
                await _acquire(limiters, limiter)
            now = limiters.clock()
            wait_s = limiter.wait_s(tokens, now)
            if wait_s <= 0:
                return limiter.window.add(tokens, now)
            _release(limiters, limiter)
            await limiters.sleep(wait_s)


def _try_acquire(limiters: RateLimiters, limiter: ModelLimiter) -> bool:
    """Acquire a slot of the run and one of the endpoint, both or neither."""
    if not limiter.endpoint.try_acquire():
        return False
    if limiters.semaphore is None or limiters.semaphore.try_acquire():
        return True
    limiter.endpoint.release()
    return False


async def _acquire(limiters: RateLimiters, limiter: ModelLimiter) -> None:
    """Wait for a slot of the run and one of the endpoint. A call that waits for the endpoint holds no slot of the run."""
    endpoint = limiter.endpoint
    if limiters.semaphore is None:
        await endpoint.acquire()
        return
    await limiters.semaphore.acquire()
    if endpoint.try_acquire():
        return
    limiters.semaphore.release()
    await endpoint.acquire()
    try:
        await limiters.semaphore.acquire()
    except asyncio.CancelledError:
        endpoint.release()
        raise


def _release(limiters: RateLimiters, limiter: ModelLimiter) -> None:
    limiter.endpoint.release()
    if limiters.semaphore is not None:
        limiters.semaphore.release()


async def _count_waiting(acquiring: Awaitable[T], flow: Flow) -> T:
    flow.waiting += 1
    try:
        return await acquiring
    finally:
        flow.waiting -= 1


async def _send_counted(ask: Ask, request: Request, flow: Flow) -> Reply:
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
