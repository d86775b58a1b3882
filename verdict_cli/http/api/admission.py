"""How much work is taken on at once: a bounded number of rows is judged, a bounded number waits, the rest is turned away."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from time import perf_counter

_LONGEST_S = 60
_WEIGHT = 0.1
"""How much the latest row counts in the mean time of a row."""


class Overloaded(Exception):
    """The work was not taken on: ``status`` 429 for a full queue, 413 for what never fits, 503 for a server that stops."""

    def __init__(self, status: int, message: str, retry_after_s: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry_after_s = retry_after_s


class Admission:
    """Counts rows: ``admitted`` in all, ``judging`` of them with a place."""

    def __init__(self, in_flight: int, queue: int) -> None:
        self.admitted = 0
        self.judging = 0
        self.closed = False
        self._most = in_flight + queue
        self._in_flight = in_flight
        self._places = asyncio.Semaphore(in_flight)
        self._mean_s = 0.0
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def waiting(self) -> int:
        """Rows that were taken on and have no place yet."""
        return self.admitted - self.judging

    @contextmanager
    def entered(self, rows: int) -> Iterator[None]:
        """While the rows are the server's work. Shed when they are too many."""
        if self.closed:
            raise Overloaded(503, "the server is stopping", 1)
        if rows > self._most:
            raise Overloaded(413, f"{rows} rows are more than the {self._most} that the server ever takes on at once")
        if self.admitted + rows > self._most:
            raise Overloaded(429, f"{self.admitted} rows are in work, {self._most} is the most", self._again_s())
        self.admitted += rows
        self._idle.clear()
        try:
            yield
        finally:
            self.admitted -= rows
            if not self.admitted:
                self._idle.set()

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """While a row is judged; waited for in the order of arrival."""
        async with self._places:
            self.judging += 1
            started = perf_counter()
            try:
                yield
            finally:
                self.judging -= 1
                self._mean_s += _WEIGHT * (perf_counter() - started - self._mean_s)

    async def drained(self) -> None:
        """Takes on nothing more, and returns when nothing is left."""
        self.closed = True
        await self._idle.wait()

    def _again_s(self) -> int:
        """Seconds in which the line should have moved on by what is in it."""
        return max(1, min(_LONGEST_S, math.ceil(self._mean_s * self.waiting / self._in_flight)))
