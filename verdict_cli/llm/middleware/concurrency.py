"""A first-in-first-out semaphore, and a limit of concurrent calls that is learned from refusals."""

from __future__ import annotations

import asyncio
from collections import deque


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


MIN_CONCURRENCY = 3
"""Calls in flight below which refusals say nothing about a limit of them."""
SAME_REFUSALS = 4
"""Refusals in succession, each with as many other calls in flight, from which a limit is taken to be one of those."""
STRIKES = 3
"""Refusals with fewer calls in flight, after which it was none."""
PROBE_AFTER = 5
"""The limit is raised after so many answers for each call that it allows: then one call in fifty is a probe."""


class LearnedConcurrency:
    """How many calls an endpoint accepts at once, if that is what it limits: ``slots`` has that capacity, else infinite.

    It is raised step by step while nothing is refused, and set back to what was refused last. A limit of the rate also
    refuses calls while fewer are in flight; that shows the difference.
    """

    def __init__(self) -> None:
        self.slots = FifoSemaphore(float("inf"))
        self._refused_beside: deque[int] = deque(maxlen=SAME_REFUSALS)
        self._refused_at = 0
        self._strikes = self._answers = 0
        self._step = 1
        self._needed = SAME_REFUSALS
        self.is_known = False
        """Whether a limit was learned."""

    def accept(self) -> None:
        """Count an answer, once a limit is known."""
        self._answers += 1
        if self._answers >= PROBE_AFTER * self.slots.capacity:
            self.slots.resize(self.slots.capacity + self._step)
            self._answers, self._strikes, self._step = 0, 0, 2 * self._step

    def refuse(self, others: int) -> bool:
        """Whether a refusal, with so many other calls in flight, is one for too many calls at once."""
        self._answers, self._step = 0, 1
        if self.is_known:
            self._strikes += others < self._refused_at
            if self._strikes >= STRIKES or others < MIN_CONCURRENCY:
                self._forget()
                return False
            self._refused_at = min(others, self._refused_at) if self._strikes else others
            self.slots.resize(self._refused_at)
            return True
        self._refused_beside.append(others)
        least, most = min(self._refused_beside), max(self._refused_beside)
        if len(self._refused_beside) < self._needed or least < MIN_CONCURRENCY or least < 0.9 * most - 1:
            return False
        self._refused_at, self._strikes, self.is_known = most, 0, True
        self.slots.resize(most)
        return True

    def _forget(self) -> None:
        """It was the rate that was limited: next time, it takes more refusals to believe otherwise."""
        self._needed *= 2
        self._refused_beside = deque(maxlen=self._needed)
        self.is_known = False
        self.slots.resize(float("inf"))
