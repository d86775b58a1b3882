"""Rate limiting: caps concurrency, paces calls, and waits where a provider refuses one because of its rate limit."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import TypeVar

from verdict_cli.errors import ProviderError, Rejected, ReplyError, Retryable, VerdictError
from verdict_cli.llm.middleware.concurrency import FifoSemaphore
from verdict_cli.llm.middleware.pacer import Pacer
from verdict_cli.llm.middleware.quota import ProviderQuota, SentCounters
from verdict_cli.llm.middleware.wait_for_rate_limit import PatientSend, wait_for_rate_limit
from verdict_cli.llm.model_families import is_local
from verdict_cli.llm.providers.endpoint import endpoint_address
from verdict_cli.messages import Ask, Reply, Request
from verdict_cli.model import Model, RateLimit

REPLY_TOKENS = 256
"""The estimate of a reply's tokens where ``max_tokens`` is not set."""
CHARACTERS_A_TOKEN = 4
RECHECK_S = 1.0

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
    provider's headers, and the rate that it has been seen to accept.

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
        self._by_model: dict[tuple[str, str | None, str | None, RateLimit | None], ModelLimiter | None] = {}
        self._shared: dict[tuple[str, str, str, RateLimit | None], ModelLimiter] = {}
        self._last: tuple[Model | None, ModelLimiter | None] = None, None

    @property
    def waiting(self) -> int:
        """Calls that wait for a limit."""
        return sum(flow.waiting for flow in self.flows.values())

    @property
    def running(self) -> int:
        """Calls in flight."""
        return sum(flow.running for flow in self.flows.values())

    def get(self, model: Model) -> ModelLimiter | None:
        """The model's limiter, None for a built-in model or a recording. Presets of one model, key and limit share a
        limiter."""
        last, limiter = self._last
        if model is last:
            return limiter
        key = (model.name, model.api_base, model.api_key_env, model.rate_limit)
        if key not in self._by_model:
            self._by_model[key] = self._create(model)
        self._last = model, self._by_model[key]
        return self._by_model[key]

    def _create(self, model: Model) -> ModelLimiter | None:
        if is_local(model.name) and model.rate_limit is None:
            return None
        key = (*endpoint_address(model), model.name, model.rate_limit)
        if key not in self._shared:
            self._shared[key] = ModelLimiter(model.rate_limit)
        return self._shared[key]


class ModelLimiter:
    """One model's limits: its concurrency, its configured or learned rate, and its provider's quota."""

    def __init__(self, limit: RateLimit | None) -> None:
        limit = limit or RateLimit()
        self.semaphore = None if limit.concurrent is None else FifoSemaphore(limit.concurrent)
        self.pacer = Pacer(limit.requests_per_minute, limit.tokens_per_minute)
        self.quota = ProviderQuota()
        self.turn = FifoSemaphore(1)

    def is_limited(self) -> bool:
        """Whether a call may have to wait for a rate or a quota."""
        return self.quota.is_known or not self.pacer.is_open or self.pacer.concurrency.is_known

    def wait_s(self, tokens: int, now: float) -> float:
        """Seconds until a call of so many tokens should check again; 0 if it may be sent now.

        It is checked again every second, because a later reply may raise the quota or state fewer tokens.
        """
        return min(RECHECK_S, max(self.pacer.wait_s(tokens, now), self.quota.wait_s(tokens, now)))


def estimate_tokens(request: Request) -> int:
    """The tokens that a call is expected to use, prompt and reply together."""
    characters = 0
    for message in request.messages:
        characters += len(message.content)
    return characters // CHARACTERS_A_TOKEN + (request.model.max_tokens or REPLY_TOKENS)


def rate_limited(ask: Ask, limiters: RateLimiters, estimate: Callable[[Request], int] = estimate_tokens) -> Ask:
    """``ask``, waiting until the limits allow the call, whose tokens ``estimate`` predicts.

    A call that the provider refuses because of its rate limit waits and is made again, for up to ``max_wait`` seconds.
    Raises Rejected for a call that needs more tokens than its model's ``tokens_per_minute``: it would wait forever.
    """
    return wait_for_rate_limit(limited(ask, limiters, estimate), limiters.clock)


def limited(ask: Ask, limiters: RateLimiters, estimate: Callable[[Request], int] = estimate_tokens) -> PatientSend:
    """One attempt of ``ask``, made when the limits allow it."""

    def send(request: Request, again: bool) -> Awaitable[Reply]:
        limiter = limiters.get(request.model)
        flow = limiters.flows[request.node]
        if limiter is None:
            if limiters.semaphore is None:
                return _send_counted(ask, request, flow)
            return _send_holding(limiters.semaphore, flow, partial(_send_counted, ask, request, flow))
        tokens = estimate(request)
        most = limiter.pacer.tokens_per_minute
        if most is not None and tokens > most:
            return _reject_too_large(request.model.name, tokens, most)
        if limiter.semaphore is None:
            return _send_limited(ask, request, limiters, limiter, flow, tokens, again)
        attempt = partial(_send_limited, ask, request, limiters, limiter, flow, tokens, again)
        return _send_holding(limiter.semaphore, flow, attempt)

    return send


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
    ask: Ask, request: Request, limiters: RateLimiters, limiter: ModelLimiter, flow: Flow, tokens: int, again: bool
) -> Reply:
    """Send the call when the model's rate has room. A call that waits for it keeps its turn, but holds no slot of the
    run."""
    if limiter.is_limited() or not (limiters.semaphore is None or limiters.semaphore.try_acquire()):
        await _count_waiting(_acquire(limiters, limiter, tokens, again), flow)
    else:
        limiter.pacer.concurrency.slots.acquired += 1
    sent_at = limiters.clock()
    limiter.pacer.send(tokens, sent_at)
    slots = limiter.pacer.concurrency.slots
    others = slots.acquired - 1
    counters = limiter.quota.spend(tokens, sent_at)
    flow.running += 1
    try:
        reply = await ask(request)
    except VerdictError as error:
        _learn_from_error(limiters, limiter, request, tokens, counters, error, others)
        if not (isinstance(error, Retryable) and error.failure == "rate-limit"):
            flow.failed += 1
        raise
    finally:
        flow.running -= 1
        slots.release()
        if limiters.semaphore is not None:
            limiters.semaphore.release()
    flow.answered += 1
    limiter.pacer.accept(sent_at)
    _learn(limiters, limiter, tokens, counters, reply)
    return reply


def _learn_from_error(
    limiters: RateLimiters,
    limiter: ModelLimiter,
    request: Request,
    tokens: int,
    counters: SentCounters,
    error: VerdictError,
    others: int,
) -> None:
    if isinstance(error, ProviderError | ReplyError):
        _learn(limiters, limiter, tokens, counters, error.reply)
    if isinstance(error, ProviderError) and error.allowance is not None:
        limiter.quota.update(error.allowance, counters, limiters.clock())
    if isinstance(error, Retryable) and error.failure == "rate-limit":
        delay_s = error.retry_after_s or None
        if delay_s is not None and delay_s > request.model.max_wait:
            delay_s = None  # this call fails at once; the others find out for themselves
        limiter.pacer.settle(tokens, 0)
        learns = not limiter.quota.is_rate
        if limiter.pacer.refuse(counters.sent_at, limiters.clock(), delay_s, others=others, learns=learns):
            limiter.quota.refuse(counters.sent_at)


def _learn(
    limiters: RateLimiters, limiter: ModelLimiter, tokens: int, counters: SentCounters, reply: Reply | None
) -> None:
    """Correct the estimate by the reply's usage, and take over its rate-limit headers."""
    if reply is None:
        return
    if limiter.pacer.tokens is not None:
        used = reply.usage.prompt_tokens + reply.usage.completion_tokens
        if used:
            limiter.pacer.settle(tokens, used)
    if reply.allowance is not None:
        limiter.quota.update(reply.allowance, counters, limiters.clock())


async def _acquire(limiters: RateLimiters, limiter: ModelLimiter, tokens: int, again: bool) -> None:
    """Acquire a slot of the run, at a time at which the model's limits have room."""
    slots = limiter.pacer.concurrency.slots
    if not limiter.is_limited() and limiters.semaphore is not None:
        await limiters.semaphore.acquire()
        if not limiter.is_limited():
            slots.acquired += 1
            return
        limiters.semaphore.release()  # a limit was found while this call waited for its slot
    await limiter.turn.acquire(first=again)
    try:
        while True:
            await slots.acquire()
            try:
                if limiters.semaphore is not None:
                    await limiters.semaphore.acquire()
            except asyncio.CancelledError:
                slots.release()
                raise
            wait_s = limiter.wait_s(tokens, limiters.clock())
            if wait_s <= 0:
                return
            slots.release()
            if limiters.semaphore is not None:
                limiters.semaphore.release()
            await limiters.sleep(wait_s)
    finally:
        limiter.turn.release()


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
