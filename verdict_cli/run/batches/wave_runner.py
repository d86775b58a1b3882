"""Waves: run every row as far as recorded replies allow, send what is missing as batches, and repeat with their results.

No row waits in memory. A row whose call is not answered is given up, and run again from the journal once the batch has ended,
so a run needs as many waves as its graph is deep, and memory does not grow with the rows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from time import monotonic

from verdict_cli.errors import PinnedError, VerdictError
from verdict_cli.llm.batches import batch_settings
from verdict_cli.llm.batches.batch_ledger import REQUESTS
from verdict_cli.llm.batches.parking import CallParker, ParkedError
from verdict_cli.messages import Call, Output, Row
from verdict_cli.plan.node import Plan
from verdict_cli.run.attempts import Context
from verdict_cli.run.batches.batch_calls import BatchCalls
from verdict_cli.run.batches.flights import Flights, sleep_unless
from verdict_cli.run.batches.wave_halt import WaveHalt, WaveOutcome
from verdict_cli.run.row import run_pinned, run_row

_BREATH_S = 0.005
"""How long rows whose calls are all recorded may keep the event loop."""


class WaveRunner:
    """Sends the calls of rows in waves until all are answered.

    ``rows`` gives all rows, each time from the first. ``nodes`` is node -> fingerprint. With ``detach``, it ends as soon as
    what is ready is sent.
    """

    def __init__(
        self,
        plan: Plan,
        rows: Callable[[], Iterable[Row]],
        nodes: dict[str, str],
        calls: BatchCalls,
        context: Context,
        flights: Flights,
        halt: WaveHalt,
        *,
        concurrency: int,
        detach: bool = False,
    ) -> None:
        self._plan, self._rows, self._nodes, self._calls, self._context = plan, rows, nodes, calls, context
        self._flights, self._halt, self._concurrency, self._detach = flights, halt, concurrency, detach
        self._is_done = bytearray()
        self.done = 0

    async def run(self) -> WaveOutcome:
        """Run the waves. Batches stay in flight when the run is stopped."""
        outcome = WaveOutcome()
        sleep = partial(sleep_unless, self._halt.run.event)
        try:
            await self._flights.resume()
            while not self._halt.is_set():
                if self._flights.rest:
                    await self._flights.send_rest()
                else:
                    await self._run_wave()
                if not self._flights.any or self._halt.is_set():
                    break
                if self._detach:
                    outcome.waiting = True
                    break
                await self._flights.wait(sleep)
        except VerdictError as error:
            self._halt.fail(error)
        finally:
            await self._flights.close()
        outcome.error = self._halt.error
        outcome.interrupted = self._halt.run.is_set()
        return outcome

    async def _run_wave(self) -> None:
        """Run the rows, and send what they wait for; a small wave waits while more can become ready."""
        flights = self._flights
        folder = flights.ledger.folder / REQUESTS
        parker = CallParker(folder, self._nodes, flights.api, flights.ledger.modes, flights.custom_ids())
        self._calls.parker = parker
        try:
            await self._run_rows()
            files = list(parker.close())
            least = min((batch_settings(model).min for model, _ in files), default=0)
            if files and not self._halt.is_set() and (parker.count >= least or not flights.any):
                await flights.send_wave(files)
        finally:
            self._calls.parker = None
            parker.discard()

    async def _run_rows(self) -> None:
        """Run every row that is not done, as far as recorded replies allow."""
        context = self._context
        try:
            context.pinned, _ = await self._run_pinned(context)
        except ParkedError:
            return
        places = enumerate(self._rows())
        async with asyncio.TaskGroup() as group:
            for _ in range(self._concurrency):
                group.create_task(self._work(places, context))

    async def _run_pinned(self, context: Context) -> tuple[dict[int, Output | None], tuple[Call, ...]]:
        try:
            return await run_pinned(self._plan, context)
        except PinnedError:
            if self._calls.retry is None:
                raise
        return await run_pinned(self._plan, replace(context, again=self._calls.retry))

    async def _run_row(self, row: Row, context: Context) -> None:
        """Run a row; with `--retry-failed` again with the failed calls, if it failed. Raises ParkedError."""
        result = await run_row(self._plan, row, context)
        if result.failure is not None and self._calls.retry is not None:
            await run_row(self._plan, row, replace(context, again=self._calls.retry))

    async def _work(self, places: Iterable[tuple[int, Row]], context: Context) -> None:
        yielded = monotonic()
        for place, row in places:
            if self._halt.is_set():
                return
            if place >= len(self._is_done):
                self._is_done.extend(bytes(1024 + place))
            if not self._is_done[place]:
                try:
                    await self._run_row(row, context)
                    self._is_done[place] = 1
                    self.done += 1
                except ParkedError:
                    pass
                except VerdictError as error:
                    self._halt.fail(error)
                    return
            if monotonic() - yielded > _BREATH_S:
                await asyncio.sleep(0)
                yielded = monotonic()
