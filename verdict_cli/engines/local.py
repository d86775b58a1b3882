"""The local engine: rows streamed through the plan in one event loop, results written in input order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass

from verdict_cli.calls import Gates, journalled, limited
from verdict_cli.data import Dataset, Facts, ParquetTable, rows
from verdict_cli.engines.columns import CALL_COLUMNS, call_row, result_columns, result_row
from verdict_cli.engines.directory import RunDirectory
from verdict_cli.engines.tally import Progress, Tally
from verdict_cli.errors import BudgetError, VerdictError
from verdict_cli.journal import Journal
from verdict_cli.plan import Plan
from verdict_cli.providers import Providers, Recording
from verdict_cli.runtime import Context, run_pinned, run_row
from verdict_cli.values import Ask, Reply, Request, Result, Row, RunFacts

GRACE_S = 5.0
"""How long calls in flight may still take once a run is to stop."""
TICK_S = 0.25
"""Seconds between two looks at the progress."""


@dataclass(frozen=True)
class Job:
    """Everything that a run needs."""

    plan: Plan
    dataset: Dataset
    data: Facts
    directory: RunDirectory
    start: RunFacts
    concurrency: int = 64
    recording: Recording | None = None
    budget_usd: float | None = None
    fresh: bool = False


@dataclass
class Stop:
    """Asks a run to stop: nothing new is started, what is in flight has `GRACE_S` to finish."""

    event: asyncio.Event | None = None
    loop: asyncio.AbstractEventLoop | None = None
    asked: bool = False

    def ask(self) -> None:
        """May be called from a signal handler."""
        self.asked = True
        if self.loop is not None and self.event is not None:
            self.loop.call_soon_threadsafe(self.event.set)

    def bind(self) -> asyncio.Event:
        """The event in the running loop."""
        self.loop, self.event = asyncio.get_running_loop(), asyncio.Event()
        if self.asked:
            self.event.set()
        return self.event


def run(job: Job, stop: Stop, watch: Callable[[Progress], None]) -> RunFacts:
    """Runs the job and returns its facts; `status` is `finished` or `interrupted`.

    The tables are written in every case. Raises what stops a run: Refused, BudgetError, PinnedError, OutputError,
    DataError, JournalError.
    """
    return asyncio.run(_Run(job, stop, watch).go())


class _Run:
    def __init__(self, job: Job, stop: Stop, watch: Callable[[Progress], None]) -> None:
        self.job = job
        self.stop = stop
        self.watch = watch
        self.tally = Tally(job.data.rows)
        self.gates = Gates(job.concurrency)
        self.reader: Iterator[tuple[int, Row]] = enumerate(rows(job.dataset, job.data.selection))
        self.window = asyncio.Semaphore(max(4 * job.concurrency, 1000))
        self.waiting_rows: dict[int, Result] = {}
        self.next_row = 0
        self.trouble: VerdictError | None = None

    async def go(self) -> RunFacts:
        """Opens everything, works, and closes everything whatever happened."""
        job = self.job
        self.halt = self.stop.bind()
        providers = Providers(job.recording)
        self.journal = Journal.open(job.directory.journal, fresh=job.fresh)
        try:
            job.directory.write_facts(job.start)
            with ExitStack() as stack:
                columns = result_columns(job.plan, job.data.columns)
                self.results = stack.enter_context(ParquetTable(job.directory.results, columns))
                self.calls = stack.enter_context(ParquetTable(job.directory.calls, CALL_COLUMNS))
                await self._work(self._ring(providers))
                self._write_rest()
            facts = self.tally.facts(job.start, self._status(), floors=self._floors())
            job.directory.write_facts(facts)
        finally:
            self.journal.close()
            await providers.close()
        if self.trouble is not None:
            raise self.trouble
        return facts

    def _ring(self, providers: Providers) -> Ask:
        ask: Ask = limited(providers.ask, self.gates)
        if self.job.budget_usd is not None:
            ask = self._budgeted(ask, self.job.budget_usd)
        return ask if self.job.recording is not None else journalled(ask, self.journal)

    def _budgeted(self, ask: Ask, budget_usd: float) -> Ask:
        """Starts no call once the calls that are done have cost the budget."""
        spent = 0.0

        async def within(request: Request) -> Reply:
            nonlocal spent
            if spent >= budget_usd:
                raise BudgetError(f"the budget of {budget_usd:g} USD is spent", hint="the same command with a larger --budget goes on")
            reply = await ask(request)
            spent += reply.cost_usd or 0.0
            return reply

        return within

    async def _work(self, ask: Ask) -> None:
        context = Context(ask, seed=self.job.start.seed)
        ticker = asyncio.create_task(self._tick())
        try:
            pinned = asyncio.create_task(self._pinned(context))
            if not await self._until_done({pinned}):
                return
            workers = {asyncio.create_task(self._worker(context)) for _ in range(min(self.job.concurrency, self.job.data.rows))}
            await self._until_done(workers)
        finally:
            ticker.cancel()
            with suppress(asyncio.CancelledError):
                await ticker
            self.watch(self.tally.progress(self.gates.waiting, self.gates.running))

    async def _until_done(self, tasks: set[asyncio.Task[None]]) -> bool:
        """Waits for the tasks; once the run is to stop, for `GRACE_S` at most. True when none was cut short."""
        halt = asyncio.create_task(self.halt.wait())
        pending: set[asyncio.Task[None]] = set(tasks)
        while pending and not self.halt.is_set():
            _, rest = await asyncio.wait({*pending, halt}, return_when=asyncio.FIRST_COMPLETED)
            pending = {task for task in pending if task in rest}
        halt.cancel()
        if pending:
            _, pending = await asyncio.wait(pending, timeout=GRACE_S)
        for task in pending:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException) and not isinstance(outcome, asyncio.CancelledError):
                raise outcome
        return not self.halt.is_set()

    async def _pinned(self, context: Context) -> None:
        try:
            context.pinned, calls = await run_pinned(self.job.plan, context)
            await self.journal.settle()
        except VerdictError as error:
            self._halt(error)
            return
        for call in calls:
            self.tally.count(call)
            self.calls.write(call_row(call))

    async def _worker(self, context: Context) -> None:
        """Takes row after row until there is none, or the run is to stop."""
        try:
            while not self.halt.is_set():
                await self.window.acquire()
                if self.halt.is_set():
                    return
                place, row = next(self.reader, (None, None))
                if place is None or row is None:
                    self.window.release()
                    return
                result = await run_row(self.job.plan, row, context)
                await self.journal.settle()
                self.tally.add(result)
                self._finished(place, result)
                await asyncio.sleep(0)
        except VerdictError as error:
            self._halt(error)

    def _halt(self, error: VerdictError) -> None:
        """Remembers the first error that stops the run, and lets the other rows finish."""
        self.trouble = self.trouble or error
        self.halt.set()

    def _finished(self, place: int, result: Result) -> None:
        self.waiting_rows[place] = result
        while self.next_row in self.waiting_rows:
            self._write(self.waiting_rows.pop(self.next_row))
            self.next_row += 1
            self.window.release()

    def _write_rest(self) -> None:
        """Rows that are done although an earlier one is not: a stopped run's partial table has them too."""
        for place in sorted(self.waiting_rows):
            self._write(self.waiting_rows.pop(place))

    def _write(self, result: Result) -> None:
        self.results.write(result_row(self.job.plan, result))
        for call in result.calls:
            self.calls.write(call_row(call))

    def _status(self) -> str:
        return "finished" if self.tally.done == self.job.data.rows and self.trouble is None else "interrupted"

    def _floors(self) -> tuple[str, ...]:
        """The baselines that answered: none where a recording did."""
        if self.job.recording is not None:
            return ()
        return tuple(sorted(name for name in self.tally.models if name.startswith("baseline/")))

    async def _tick(self) -> None:
        while True:
            self.watch(self.tally.progress(self.gates.waiting, self.gates.running))
            await asyncio.sleep(TICK_S)
