"""Stopping a run in order: remember why, start nothing more, and give calls in flight a few seconds."""

from __future__ import annotations

import asyncio

from verdict_cli.errors import VerdictError
from verdict_cli.run.budget import HaltedError
from verdict_cli.run.job import Stop

GRACE_S = 5.0
"""How long calls in flight may still take once a run is to stop: most replies take less, and they are paid for."""


class Halt:
    """Whether a run is to stop, in the running event loop: by `Stop`, or by an error."""

    def __init__(self, stop: Stop) -> None:
        self.event = stop.bind()
        self.is_set = self.event.is_set
        self.set = self.event.set
        self.error: VerdictError | None = None

    def fail(self, error: VerdictError) -> None:
        """Stop because of the error, the first of which is kept. Calls in flight may still end."""
        if self.error is None and not isinstance(error, HaltedError):
            self.error = error
        self.set()

    async def wait_for(self, tasks: set[asyncio.Task[None]]) -> bool:
        """Wait for the tasks; once the run is to stop, for `GRACE_S` at most. True when none was cut short."""
        halted = asyncio.create_task(self.event.wait())
        pending: set[asyncio.Task[None]] = set(tasks)
        while pending and not self.is_set():
            done, rest = await asyncio.wait({*pending, halted}, return_when=asyncio.FIRST_COMPLETED)
            pending &= rest
            if any(task.exception() for task in done):
                self.set()
        halted.cancel()
        if pending:
            _, pending = await asyncio.wait(pending, timeout=GRACE_S)
        for task in pending:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException) and not isinstance(outcome, asyncio.CancelledError):
                raise outcome
        return not self.is_set()
