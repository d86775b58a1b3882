"""Hedge: send a second request behind a call that takes unusually long, and use whichever reply comes first.

A run lasts as long as its slowest call. The calls that have waited longest are hedged first, once they are slower than
the model's 95th percentile, and at most `MAX_EXTRA` of all calls (Dean and Barroso, "The Tail at Scale", 2013). A part
of the extra requests is kept for the end of the run, when nothing else is left to wait for.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Awaitable
from dataclasses import dataclass
from functools import reduce
from typing import Any

from msgspec.structs import replace

from verdict_cli.errors import ProviderError, ReplyError, Retryable, VerdictError
from verdict_cli.llm.model_families import is_local
from verdict_cli.messages import Ask, Reply, Request, Usage
from verdict_cli.model import EndpointKey

MAX_EXTRA = 0.02
"""The extra requests, as a share of the calls."""
KEPT_FOR_THE_END = 0.25
"""The share of the extra requests that is sent only at the end of the run."""
END_OF_RUN = 0.75
"""A run is taken to end while fewer requests are in flight than this share of the most so far."""
QUANTILE = 0.95
MIN_ANSWERS = 50
"""Answers below which a percentile means nothing."""
SCARCE = 2.0
"""While there are fewer extra requests left than calls in flight, a call is hedged after so many times the percentile."""
MAX_REQUESTS = 3
"""Requests for one call: the second may hang as well."""
_REMEMBERED = 1000
_REFRESH = 20


@dataclass(eq=False, slots=True)
class Attempt:
    """One request of a call, which ``task`` makes.

    ``sent_at`` is None while it is not with the provider, ``charged`` what was paid for it. ``lost``: it was cancelled
    because another request was answered first. ``over``: it is too late for that.
    """

    race: Race
    request: Request
    task: asyncio.Task[Any]
    cancelling: int = 0
    was_sent: bool = False
    sent_at: float | None = None
    charged: Reply | None = None
    lost: bool = False
    over: bool = False

    def absorb_cancellation(self) -> bool:
        """Whether the request lost and nothing else has cancelled its task, which then runs on."""
        if not self.lost:
            return False
        self.lost, self.over = False, True
        return self.task.uncancel() <= self.cancelling


class Hedger:
    """The latencies of one model's calls, and which of its calls in flight to hedge next."""

    def __init__(self) -> None:
        self.calls = 0
        self.extra = 0
        self.threshold_s = float("inf")
        self._latencies: deque[float] = deque(maxlen=_REMEMBERED)
        self._answers = 0
        self._candidates: dict[int, Attempt] = {}  # in the order in which they were sent
        self._in_flight = self._most_in_flight = 0
        self._timer: asyncio.TimerHandle | None = None

    def start(self, attempt: Attempt) -> None:
        """Count a request that is sent now."""
        self.calls += attempt is attempt.race.first and not attempt.was_sent
        attempt.sent_at, attempt.was_sent = asyncio.get_running_loop().time(), True
        self._in_flight += 1
        self._most_in_flight = max(self._most_in_flight, self._in_flight)
        if 1 + len(attempt.race.others) < MAX_REQUESTS:
            self._candidates[id(attempt)] = attempt
        self.hedge_slowest()

    def finish(self, attempt: Attempt) -> None:
        """Count a request that has ended."""
        attempt.sent_at = None
        self._in_flight -= 1
        self._candidates.pop(id(attempt), None)

    def observe(self, latency_s: float) -> None:
        """Count a call that was answered this long after its first request was sent."""
        self._latencies.append(latency_s)
        self._answers += 1
        if self._answers >= MIN_ANSWERS and self._answers % _REFRESH == 0:
            ranked = sorted(self._latencies)
            self.threshold_s = ranked[int(QUANTILE * (len(ranked) - 1))]

    def hedge_slowest(self) -> None:
        """Send another request for each call whose turn it is, and look again when the next one is slow enough."""
        loop = asyncio.get_running_loop()
        while self._candidates and (left := self._extra_left()) >= 1:
            key, attempt = next(iter(self._candidates.items()))
            assert attempt.sent_at is not None
            due = attempt.sent_at + self.threshold_s * (SCARCE if left < len(self._candidates) else 1.0)
            if due > loop.time():
                if self._timer is None and due < float("inf"):
                    self._timer = loop.call_at(due, self._look_again)
                return
            del self._candidates[key]
            self.extra += 1
            attempt.race.send_another()

    def _look_again(self) -> None:
        self._timer = None
        self.hedge_slowest()

    def _extra_left(self) -> float:
        ending = self._in_flight < END_OF_RUN * self._most_in_flight
        return self.calls * MAX_EXTRA * (1.0 if ending else 1.0 - KEPT_FOR_THE_END) - self.extra


class Race:
    """The requests of one call. ``winner`` is the one that was answered first, by a reply or an error for good."""

    def __init__(self, another: Ask, request: Request, hedger: Hedger, attempts: dict[int, Attempt]) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._another = another
        self._attempts = attempts
        self.hedger = hedger
        self.first = attempts[id(request)] = Attempt(self, request, task, task.cancelling())
        self.others: list[Attempt] = []
        self.winner: Attempt | None = None
        self._started = 0.0
        self._latency_s = 0.0

    async def send(self, provider: Ask, attempt: Attempt) -> Reply:
        """The provider's reply to one of the requests."""
        now = asyncio.get_running_loop().time
        self.hedger.start(attempt)
        if attempt is self.first:
            self._started = now()
        try:
            try:
                reply = await provider(attempt.request)
            finally:
                self.hedger.finish(attempt)
        except asyncio.CancelledError:
            winner = self.winner
            if winner is None or winner.charged is None or not attempt.absorb_cancellation():
                raise
            attempt.charged = replace(winner.charged, text="", logprobs=None, allowance=None)
            return attempt.charged
        except Retryable as error:
            attempt.charged = error.reply
            raise
        except (ProviderError, ReplyError) as error:
            self._end(attempt, error.reply)
            raise
        else:
            self._latency_s = now() - self._started
            self.hedger.observe(self._latency_s)
            self._end(attempt, reply)
            return reply
        finally:
            self.hedger.hedge_slowest()

    def send_another(self) -> None:
        """Send one more request as soon as the limits allow it."""
        request = replace(self.first.request)
        attempt = Attempt(self, request, asyncio.create_task(_run(self._another, request)))
        self._attempts[id(request)] = attempt
        self.others.append(attempt)

    def _end(self, attempt: Attempt, charged: Reply | None) -> None:
        """Take over the outcome of a request; the first one ends the others."""
        attempt.charged, attempt.over = charged, True
        if self.winner is not None:
            return
        self.winner = attempt
        for other in (self.first, *self.others):
            if not other.over and not other.task.done():
                other.lost = True
                other.task.cancel()

    async def finish(self) -> None:
        """Wait for the end of all requests: once one is answered, the others end at once."""
        while pending := [other.task for other in self.others if not other.task.done()]:
            await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        for other in self.others:
            if not other.task.cancelled() and not isinstance(other.task.exception(), VerdictError | None):
                other.task.result()  # raises what is no failure of a call

    def close(self) -> None:
        """Cancel what is left. A request that was never sent does not count as an extra one."""
        del self._attempts[id(self.first.request)]
        for other in self.others:
            del self._attempts[id(other.request)]
            self.hedger.extra -= not other.was_sent
            if not other.task.done():
                other.task.cancel()
            elif not other.task.cancelled():
                other.task.exception()  # asyncio warns of an exception that nobody has looked at

    def total(self, reply: Reply | None) -> Reply | None:
        """``reply`` with the tokens and the cost of all requests, and the seconds since the first."""
        charged = [one.charged for one in (self.first, *self.others) if one.charged is not None]
        if reply is None or len(charged) < 2:
            return reply or next(iter(charged), None)
        costs = [one.cost_usd for one in charged if one.cost_usd is not None]
        usage = reduce(Usage.plus, (one.usage for one in charged))
        cost = sum(costs) if len(costs) == len(charged) else None
        return replace(reply, usage=usage, cost_usd=cost, latency_s=self._latency_s)


class Hedging:
    """The hedges of a run: `around` a path of middleware whose innermost part is `sent`.

    An extra request takes the same path as the first one, so that limits, budget and traces count both.
    """

    def __init__(self) -> None:
        self._hedgers: defaultdict[EndpointKey, Hedger] = defaultdict(Hedger)
        self._attempts: dict[int, Attempt] = {}

    def sent(self, provider: Ask) -> Ask:
        """``provider``. A request in flight is cancelled when another one of its call is answered, and then returns a
        reply without text that has the other's cost: a provider charges for what it has begun."""

        def send(request: Request) -> Awaitable[Reply]:
            attempt = self._attempts.get(id(request)) if self._attempts else None
            return provider(request) if attempt is None else attempt.race.send(provider, attempt)

        return send

    def around(self, first: Ask, another: Ask) -> Ask:
        """``first``, with ``another`` for the extra requests of models with `hedge: auto`."""

        def ask(request: Request) -> Awaitable[Reply]:
            model = request.model
            if model.hedge == "off" or request.stream or is_local(model.name):
                return first(request)
            return self._ask_hedged(first, another, request)

        return ask

    async def _ask_hedged(self, first: Ask, another: Ask, request: Request) -> Reply:
        hedger = self._hedgers[request.model.endpoint_key]
        race = Race(another, request, hedger, self._attempts)
        reply: Reply | None = None
        failure: VerdictError | None = None
        try:
            try:
                reply = await first(request)
            except asyncio.CancelledError:
                if not race.first.absorb_cancellation():
                    raise
            except VerdictError as error:
                failure = error
            race.first.absorb_cancellation()  # where it came too late
            race.first.over = True
            if race.winner is not None or isinstance(failure, Retryable):
                await race.finish()
            if race.winner is not None and race.winner is not race.first:
                failure = None
                try:
                    reply = race.winner.task.result()
                except VerdictError as error:
                    failure = error
        finally:
            race.close()
        if isinstance(failure, ProviderError | ReplyError):
            failure.reply = race.total(failure.reply)
        if failure is not None:
            raise failure
        total = race.total(reply)
        assert total is not None
        return total


async def _run(ask: Ask, request: Request) -> Reply:
    return await ask(request)
