"""The loop that takes rows through a plan, so many at a time. Every engine runs it: each row has a result, or is pending."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from time import monotonic
from typing import Protocol

from verdict_cli.errors import Pending, VerdictError
from verdict_cli.messages import Result, Row
from verdict_cli.run.job import Halt

BREATH_S = 0.005
"""How long rows whose calls never wait (built-in models) may keep the event loop."""


class RowSink(Protocol):
    """Takes what the loop gives."""

    async def wait_for_room(self) -> None:
        """Return once another row may be begun."""

    def add(self, result: Result) -> None:
        """Take a row's result."""


class WorkerLoop:
    """Runs rows until there are none, or the run is to stop. An error that stops the run is given to ``halt``.

    A row with a call that cannot be answered yet is dropped: no row waits in memory.
    """

    def __init__(
        self,
        rows: Iterator[Row],
        judge: Callable[[Row], Awaitable[Result]],
        sink: RowSink,
        halt: Halt,
    ) -> None:
        self._rows, self._judge, self._sink, self._halt = rows, judge, sink, halt
        self._begun = 0
        self._yielded = 0.0

    async def run(self, workers: int) -> None:
        """Run rows, so many at a time."""
        await self._halt.wait_for({asyncio.create_task(self._work()) for _ in range(workers)})

    async def _work(self) -> None:
        sink, halt, judge = self._sink, self._halt, self._judge
        try:
            # `requested` is set by a signal handler at once, the event only when the loop has its turn.
            while not (halt.is_set() or halt.stop.requested):
                row = next(self._rows, None)
                if row is None:
                    return
                self._begun = begun = self._begun + 1
                with suppress(Pending):
                    sink.add(await judge(row))
                # Where another row was begun meanwhile, this one waited for a call, and left the loop to others. Else no
                # row has waited: without a pause, timers and the writer would starve.
                if self._begun == begun and monotonic() - self._yielded > BREATH_S:
                    await sink.wait_for_room()
                    await asyncio.sleep(0)
                    self._yielded = monotonic()
        except VerdictError as error:
            halt.fail(error)
        except Exception:
            halt.set()
            raise
