"""Send a second request behind a call that takes unusually long, and take whichever answer comes first.

A run is over when its slowest call is. Where one call in a hundred hangs until its timeout, a third of a run waits for
them (Dean and Barroso, 2013, "The tail at scale"). The longest-waiting calls are hedged first, once they are slower
than the model's 95th percentile, and at most `MOST_EXTRA` of all calls; a part of that is kept for the end of the run,
when nothing else is left to wait for.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import monotonic

from msgspec.structs import replace

from verdict_cli.errors import VerdictError
from verdict_cli.messages import Ask, Reply, Request

MOST_EXTRA = 0.02
"""The share of calls that may be sent twice."""
KEPT_FOR_THE_END = 0.25
"""The share of the extra calls that is spent only once calls are running out."""
QUANTILE = 0.95
FEWEST_SEEN = 50
"""Answers before a percentile means anything."""
_REMEMBERED = 1000
_LOOK_AGAIN_S = 0.1


class Hedger:
    """What is known of one model's latencies, and how many of its calls were sent twice."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self.clock = clock
        self.sent = 0
        self.hedged = 0
        self._latencies: deque[float] = deque(maxlen=_REMEMBERED)
        self._threshold = float("inf")
        self._waiting: dict[int, float] = {}
        self._most_waiting = 0
        self._counter = 0

    @property
    def threshold_s(self) -> float:
        """The age from which a call may be hedged; infinite until enough calls were answered."""
        return self._threshold

    def start(self) -> int:
        """Registers a call; returns its number."""
        self.sent += 1
        self._counter += 1
        self._waiting[self._counter] = self.clock()
        self._most_waiting = max(self._most_waiting, len(self._waiting))
        return self._counter

    def finish(self, number: int, latency_s: float | None) -> None:
        """A call is over. ``latency_s`` is None for one that failed."""
        self._waiting.pop(number, None)
        if latency_s is None:
            return
        self._latencies.append(latency_s)
        if len(self._latencies) >= FEWEST_SEEN and len(self._latencies) % 10 == 0:
            ranked = sorted(self._latencies)
            self._threshold = ranked[int(QUANTILE * (len(ranked) - 1))]

    def may_hedge(self, number: int) -> bool:
        """Whether this call is the one to send again now. It then counts as hedged."""
        started = self._waiting.get(number)
        if started is None or self.clock() - started < self._threshold:
            return False
        ending = len(self._waiting) <= self._most_waiting // 2
        allowed = MOST_EXTRA * self.sent * (1.0 if ending else 1.0 - KEPT_FOR_THE_END)
        if self.hedged + 1 > allowed or number != next(iter(self._waiting)):
            return False
        self.hedged += 1
        # The next longest-waiting call is the next candidate; this one is again when its second request is slow too.
        del self._waiting[number]
        self._waiting[number] = self.clock()
        return True


def hedge(ask: Ask, hedgers: Callable[[Request], Hedger | None]) -> Ask:
    """``ask``, with a second request behind calls that take unusually long. ``hedgers`` gives None for models that do
    not hedge.

    The reply that comes first counts; the cost of the other, which is charged all the same, is added to it.
    """

    async def hedged(request: Request) -> Reply:
        hedger = hedgers(request)
        if hedger is None:
            return await ask(request)
        number = hedger.start()
        started = hedger.clock()
        tasks = [_start(ask, request)]
        latency = None
        try:
            while (reply := _answer(tasks)) is None:
                age = hedger.clock() - started
                wait = max(_LOOK_AGAIN_S, hedger.threshold_s - age) if hedger.threshold_s < float("inf") else 1.0
                pending = [task for task in tasks if not task.done()]
                await asyncio.wait(pending, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
                if _answer(tasks) is None and hedger.may_hedge(number):
                    tasks.append(_start(ask, request))
            latency = hedger.clock() - started
        finally:
            hedger.finish(number, latency)
            for task in tasks:
                task.cancel()
        if len(tasks) > 1 and reply.cost_usd is not None:
            reply = replace(reply, cost_usd=len(tasks) * reply.cost_usd)
        return reply

    return hedged


def _answer(tasks: list[asyncio.Task[Reply]]) -> Reply | None:
    """The reply of a request that has one. Raises the first request's error where all of them failed."""
    for task in tasks:
        if task.done() and not isinstance(task.exception(), VerdictError):
            return task.result()
    return tasks[0].result() if all(task.done() for task in tasks) else None


def _start(ask: Ask, request: Request) -> asyncio.Task[Reply]:
    async def answered() -> Reply:
        return await ask(request)

    return asyncio.create_task(answered())
