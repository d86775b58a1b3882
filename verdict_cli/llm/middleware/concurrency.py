"""A first-in-first-out semaphore."""

from __future__ import annotations

import asyncio
from collections import deque


class FifoSemaphore:
    """A semaphore that is acquired in the order of the calls to `acquire`. ``acquired`` counts the holders."""

    def __init__(self, capacity: int) -> None:
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

    def _wake(self) -> None:
        while self._waiters and self.acquired < self.capacity:
            waiter = self._waiters.popleft()
            if not waiter.cancelled():
                self.acquired += 1
                waiter.set_result(None)
