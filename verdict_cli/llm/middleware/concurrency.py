"""Concurrency limits: a first-in-first-out semaphore, and one whose capacity is learned from an endpoint's 429 replies."""

from __future__ import annotations

import asyncio
from collections import deque


class FifoSemaphore:
    """A semaphore that is acquired in the order of the calls to `acquire`. ``capacity`` None: no limit.

    ``acquired`` counts the holders.
    """

    def __init__(self, capacity: float | None = None) -> None:
        self.capacity = capacity
        self.acquired = 0
        self._waiters: deque[asyncio.Future[None]] = deque()

    def try_acquire(self) -> bool:
        """Acquire without waiting. False where the semaphore is full or others wait for it."""
        if self._waiters or (self.capacity is not None and self.acquired >= int(self.capacity)):
            return False
        self.acquired += 1
        return True

    async def acquire(self) -> None:
        if self.try_acquire():
            return
        waiter = asyncio.get_running_loop().create_future()
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

    def _wake(self) -> None:
        while self._waiters and (self.capacity is None or self.acquired < int(self.capacity)):
            waiter = self._waiters.popleft()
            if not waiter.cancelled():
                self.acquired += 1
                waiter.set_result(None)


TOLERATED_REJECTIONS = 0.05
"""The share of rejected calls above which the capacity falls; below half of it the capacity rises."""
CERTAIN_OVERLOAD = 0.4
"""A share of rejections that always counts as a sign of too many concurrent calls."""
INCREASE_PER_ROUND = 2.0
"""How much the capacity rises in one round of answered calls."""
_SMOOTHING = 1 / 64


class AdaptiveConcurrency(FifoSemaphore):
    """An endpoint's concurrency limit: none until it rejects many calls (429), then lower and slowly rising.

    Additive increase, multiplicative decrease (Chiu and Jain, 1989), with the decrease in proportion to the rejected share,
    as in DCTCP (Alizadeh et al., 2010): while many calls are rejected each rejection takes 1 from the capacity, so that a
    round of w calls of which a share a is rejected leaves w(1 - a); while few are, each reply adds `INCREASE_PER_ROUND` / w.
    So the limit of an endpoint is found in one round. If half the concurrency does not make rejections rarer, they have
    another cause: the capacity is restored, and that share of rejections is tolerated from then on.

    ``limit`` is the run's own concurrency limit, which the capacity never exceeds again. ``in_flight`` counts the holders
    whose call has been sent and not answered.
    """

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.in_flight = 0
        self._limit = limit
        self._rejected_share = 0.0
        self._tolerated = TOLERATED_REJECTIONS
        self._before = 0.0

    def record_rejection(self) -> None:
        """Count a call that the endpoint rejected because of its rate limit."""
        self._rejected_share += (1.0 - self._rejected_share) * _SMOOTHING
        if self._rejected_share <= self._tolerated:
            return
        if self.capacity is None:
            self.capacity = self._before = float(self.in_flight)
        self.capacity = max(1.0, self.capacity - 1.0)
        if self.capacity <= self._before / 2:
            if self._rejected_share < CERTAIN_OVERLOAD:
                self._tolerated, self.capacity = 1.5 * self._rejected_share, self._before
                self._wake()
            self._before = self.capacity

    def record_success(self) -> None:
        """Count a call that was answered."""
        self._rejected_share -= self._rejected_share * _SMOOTHING
        if self.capacity is not None and self._rejected_share < self._tolerated / 2:
            self.capacity = min(float(self._limit), self.capacity + INCREASE_PER_ROUND / self.capacity)
            self._wake()
