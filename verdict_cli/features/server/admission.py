"""Admission control: a limited number of rows is judged, a limited number waits, and further ones are rejected."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from time import perf_counter

_MOST_RETRY_AFTER_S = 60
_NEWEST_WEIGHT = 0.1
"""The weight of the latest row in the moving average of the time per row."""


class Overloaded(Exception):
    """Work is rejected. ``status``: 429 for a full queue, 413 for more rows than ever fit, 503 for a server that stops."""

    def __init__(self, status: int, message: str, retry_after_s: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry_after_s = retry_after_s


class Admission:
    """Counts ``admitted`` rows, and those being judged (``judging``)."""

    def __init__(self, in_flight: int, queue: int) -> None:
        self.admitted = 0
        self.judging = 0
        self.closed = False
        self._capacity = in_flight + queue
        self._in_flight = in_flight
        self._slots = asyncio.Semaphore(in_flight)
        self._mean_s = 0.0
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def waiting(self) -> int:
        """Admitted rows that wait for a slot."""
        return self.admitted - self.judging

    @contextmanager
    def admit(self, rows: int) -> Iterator[None]:
        """Admit the rows for the duration of the context. Raises Overloaded."""
        if self.closed:
            raise Overloaded(503, "the server is stopping", 1)
        if rows > self._capacity:
            raise Overloaded(413, f"{rows} rows exceed the {self._capacity} that the server admits")
        if self.admitted + rows > self._capacity:
            raise Overloaded(
                429, f"{self.admitted} of at most {self._capacity} rows are in progress", self._retry_after_s()
            )
        self.admitted += rows
        self._idle.clear()
        try:
            yield
        finally:
            self.admitted -= rows
            if not self.admitted:
                self._idle.set()

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait for a slot, in order of arrival, and hold it while a row is judged."""
        async with self._slots:
            self.judging += 1
            started = perf_counter()
            try:
                yield
            finally:
                self.judging -= 1
                self._mean_s += _NEWEST_WEIGHT * (perf_counter() - started - self._mean_s)

    async def drain(self) -> None:
        """Admit nothing more, and return when all admitted rows are done."""
        self.closed = True
        await self._idle.wait()

    def _retry_after_s(self) -> int:
        """Estimated seconds until the rows that wait now are judged."""
        return max(1, min(_MOST_RETRY_AFTER_S, math.ceil(self._mean_s * self.waiting / self._in_flight)))
