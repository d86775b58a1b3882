"""Rate limiting: caps concurrency, paces calls, and waits where a provider refuses one because of its rate limit.

`pacing` says when the next call may be sent; here calls wait for that, in the order in which they came.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable
from math import inf
from time import monotonic
from typing import TypeGuard

from msgspec import Struct

from verdict_cli.errors import ProviderError, Rejected, ReplyError, Retryable, VerdictError
from verdict_cli.llm.identity_cache import IdentityCache
from verdict_cli.llm.middleware.pacing import Pacer
from verdict_cli.llm.middleware.pacing_parts import SentCall
from verdict_cli.llm.model_families import is_local
from verdict_cli.llm.providers.endpoint import endpoint_address
from verdict_cli.messages import Ask, Reply, Request
from verdict_cli.model import Model, RateLimit

REPLY_TOKENS = 256
"""The estimate of a reply's tokens where ``max_tokens`` is not set."""
CHARACTERS_A_TOKEN = 4
RECHECK_S = 1.0
"""A waiting call checks again after at most this time, because a reply may have raised the quota or stated fewer tokens."""


class Flow(Struct):
    """Counts of one unit's calls at the limits: waiting, in flight, answered and failed."""

    waiting: int = 0
    running: int = 0
    answered: int = 0
    failed: int = 0


class RateLimiters:
    """The limits of one run: ``concurrent`` calls in flight (None: no limit), each model's ``rate_limit``, the quota in its
    provider's headers, and the rate that it has been seen to accept. Of each ``rate_limit``, a run that is one of several
    ``shards`` has its share. ``recorded``: a recording answers for all models, so that nothing but ``concurrent`` limits a call.

    ``flows`` counts calls by unit, ``waiting`` and ``running`` all of them, for progress. Calls of a model are sent in the
    order in which they arrive here.
    """

    def __init__(
        self,
        concurrent: int | None = None,
        *,
        shards: int = 1,
        recorded: bool = False,
        clock: Callable[[], float] = monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self.flows: defaultdict[str, Flow] = defaultdict(Flow)
        self.slots = FifoSemaphore(inf if concurrent is None else concurrent)
        self.shards = shards
        self.recorded = recorded
        self.clock = clock
        self.sleep = sleep
        self._by_model: IdentityCache[ModelLimiter] = IdentityCache()
        self._shared: dict[tuple[str, str, str, RateLimit | None], ModelLimiter] = {}

    @property
    def waiting(self) -> int:
        """Calls that wait for a limit."""
        return sum(flow.waiting for flow in self.flows.values())

    @property
    def running(self) -> int:
        """Calls in flight."""
        return sum(flow.running for flow in self.flows.values())

    def get(self, model: Model) -> ModelLimiter:
        """The model's limiter. Presets of one model, key and limit share a limiter."""
        return self._by_model.get((model,), None, self._create, model)

    def _create(self, model: Model) -> ModelLimiter:
        if self.recorded:
            return ModelLimiter(None, is_local=True)
        if is_local(model.name):
            return ModelLimiter(share_of(model.rate_limit, self.shards), is_local=True)
        key = (*endpoint_address(model), model.name, model.rate_limit)
        if key not in self._shared:
            self._shared[key] = ModelLimiter(share_of(model.rate_limit, self.shards))
        return self._shared[key]

    def try_enter(self, limiter: ModelLimiter) -> bool:
        """Take a slot of the run and one of the model, without waiting. False where a call has to wait."""
        if not limiter.is_open() or not self.slots.try_acquire():
            return False
        limiter.slots.acquired += 1
        return True

    async def enter(self, limiter: ModelLimiter, tokens: int, *, again: bool) -> None:
        """Wait for a slot of the model and one of the run, at a time at which the model's rate has room; ``again``: ahead of the
        calls that wait already."""
        if limiter.is_open():
            await self.slots.acquire()
            if limiter.is_open():
                limiter.slots.acquired += 1
                return
            self.slots.release()  # a limit was found while this call waited for its slot
        await limiter.turn.acquire(first=again)
        try:
            while True:
                await limiter.slots.acquire()
                try:
                    await self.slots.acquire()
                except asyncio.CancelledError:
                    limiter.slots.release()
                    raise
                wait_s = limiter.pacer.wait_s(tokens, self.clock())
                if wait_s <= 0:
                    return
                self.leave(limiter)
                await self.sleep(min(RECHECK_S, wait_s))
        finally:
            limiter.turn.release()

    def leave(self, limiter: ModelLimiter) -> None:
        """Release the slots."""
        limiter.slots.release()
        self.slots.release()


def share_of(limit: RateLimit | None, shards: int) -> RateLimit | None:
    """The limit of one of so many shards."""
    if limit is None or shards == 1:
        return limit
    amounts = {name: max(1, amount // shards) for name, amount in limit if amount is not None}
    return RateLimit(**amounts)


class ModelLimiter:
    """One model's limits: ``pacer`` says when a call may be sent, ``slots`` how many at once, ``turn`` keeps the order.
    ``is_local``: no server limits it, and what is recorded fails alike each time."""

    def __init__(self, limit: RateLimit | None, *, is_local: bool = False) -> None:
        self.is_local = is_local
        self.pacer = Pacer(limit, is_known=is_local)
        self.slots = FifoSemaphore(self.pacer.most_at_once)
        self.turn = FifoSemaphore(1)

    def is_open(self) -> bool:
        """Whether no call has to wait for the model's limits."""
        return self.pacer.is_open

    def check_tokens(self, request: Request) -> int:
        """The tokens that the request is expected to use. Raises Rejected where they are more than the limit."""
        tokens, most = estimate_tokens(request), self.pacer.tokens_per_minute
        if most is not None and tokens > most:
            raise Rejected(
                f"model {request.model.name}: the call needs about {tokens} tokens, more than tokens_per_minute ({most}) allows",
                hint="shorten the prompt or the row, lower max_tokens, or raise tokens_per_minute",
            )
        return tokens

    def learn(self, call: SentCall, estimated: int, reply: Reply, now: float) -> None:
        """Learn from a reply: its usage corrects the estimate."""
        if used := reply.usage.prompt_tokens + reply.usage.completion_tokens:
            self.pacer.settle(estimated, used)
        if reply.allowance is not None:
            self.pacer.update(reply.allowance, call, now)
        if self.slots.capacity != self.pacer.most_at_once:
            self.slots.resize(self.pacer.most_at_once)

    def fail(
        self, call: SentCall, estimated: int, error: VerdictError, now: float, max_wait: float
    ) -> None:
        """Learn from a call that failed."""
        if isinstance(error, ProviderError | ReplyError) and error.reply is not None:
            self.learn(call, estimated, error.reply, now)
        if isinstance(error, ProviderError) and error.allowance is not None:
            self.pacer.update(error.allowance, call, now)
        if _is_refusal(error):
            self.pacer.settle(estimated, 0)
            # With a delay beyond max_wait this call fails at once; the others find out for themselves.
            delay_s = error.retry_after_s if (error.retry_after_s or 0.0) <= max_wait else None
            self.pacer.refuse(call, now, delay_s or None)
            self.slots.resize(self.pacer.most_at_once)


def _is_refusal(error: VerdictError) -> TypeGuard[Retryable]:
    """Whether a provider refused the call because of its rate limit."""
    return isinstance(error, Retryable) and error.failure == "rate-limit"


class FifoSemaphore:
    """A semaphore that is acquired in the order of the calls to `acquire`. ``acquired`` counts the holders."""

    def __init__(self, capacity: float) -> None:
        self.capacity = capacity
        self.acquired = 0
        self._waiters: deque[asyncio.Future[None]] = deque()

    def try_acquire(self) -> bool:
        """Acquire without waiting. False where the semaphore is full or others wait for it."""
        if self._waiters or self.acquired >= self.capacity:
            return False
        self.acquired += 1
        return True

    async def acquire(self, *, first: bool = False) -> None:
        """Wait for a slot; ``first``: ahead of those that wait already."""
        if self.try_acquire():
            return
        waiter = asyncio.get_running_loop().create_future()
        if first:
            self._waiters.appendleft(waiter)
        else:
            self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self.release()  # acquired and cancelled in the same step of the loop
            elif waiter in self._waiters:  # `release` may have dropped the cancelled future already
                self._waiters.remove(waiter)
            raise

    def release(self) -> None:
        self.acquired -= 1
        if self._waiters:
            self._wake()

    def resize(self, capacity: float) -> None:
        """Change the capacity. Holders beyond a smaller one keep their slots."""
        self.capacity = capacity
        self._wake()

    def _wake(self) -> None:
        while self._waiters and self.acquired < self.capacity:
            waiter = self._waiters.popleft()
            if not waiter.cancelled():
                self.acquired += 1
                waiter.set_result(None)


def estimate_tokens(request: Request) -> int:
    """The tokens that a call is expected to use, prompt and reply together."""
    characters = 0
    for message in request.messages:
        characters += len(message.content)
    return characters // CHARACTERS_A_TOKEN + (request.model.max_tokens or REPLY_TOKENS)


def rate_limited(ask: Ask, limiters: RateLimiters) -> Ask:
    """``ask``, waiting until the limits allow the call.

    A call that the provider refuses because of its rate limit waits and is made again. That is a wait, not an attempt, so it
    uses up no ``retries``. Raises Retryable, marked ``waited``, where the wait took ``max_wait`` seconds, or the provider states
    a longer delay; and Rejected for a call that needs more tokens than its model's ``tokens_per_minute``: it would wait
    forever.
    """

    async def ask_limited(request: Request) -> Reply:
        limiter, max_wait = limiters.get(request.model), request.model.max_wait
        tokens = limiter.check_tokens(request)
        flow = limiters.flows[request.node]
        deadline: float | None = None
        while True:
            if not limiters.try_enter(limiter):
                flow.waiting += 1
                try:
                    await limiters.enter(limiter, tokens, again=deadline is not None)
                finally:
                    flow.waiting -= 1
            call = limiter.pacer.send(tokens, limiters.clock(), limiter.slots.acquired - 1)
            flow.running += 1
            try:
                reply = await ask(request)
            except VerdictError as error:
                now = limiters.clock()
                if not limiter.is_local:
                    limiter.fail(call, tokens, error, now, max_wait)
                if limiter.is_local or not _is_refusal(error):
                    flow.failed += 1
                    raise
                deadline = now + max_wait if deadline is None else deadline
                if now + (error.retry_after_s or 0.0) >= deadline:
                    raise _gave_up(error, request.model) from None
                continue
            finally:
                flow.running -= 1
                limiters.leave(limiter)
            flow.answered += 1
            limiter.pacer.accept()
            limiter.learn(call, tokens, reply, limiters.clock())
            return reply

    return ask_limited


def _gave_up(error: Retryable, model: Model) -> Retryable:
    delay_s = error.retry_after_s
    if delay_s:
        why = f"the provider accepts the next call in {delay_s:g} s, later than max_wait ({model.max_wait:g} s) allows"
    else:
        why = f"the rate limit did not accept the call within max_wait ({model.max_wait:g} s)"
    final = Retryable(
        f"{error.message}: {why}",
        hint="run the same command with --retry-failed later, or raise the max_wait of the model",
        kind=error.failure,
        status=error.status,
        retry_after_s=delay_s,
        reply=error.reply,
    )
    final.allowance, final.waited = error.allowance, True
    return final
