"""The local engine: a part's rows streamed through the plan in one event loop, results written in input order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from msgspec import structs

from verdict_cli.errors import Pending, PinnedError, VerdictError
from verdict_cli.llm.middleware.chain import JournalOptions, StopSignal
from verdict_cli.messages import Ask, Output, Request, Result, Row
from verdict_cli.run.attempts import Context, EntrySlots
from verdict_cli.run.event_loop import loop_factory
from verdict_cli.run.hooks import DeferredCalls
from verdict_cli.run.job import Halt, Partition, PartitionResult, RunJob, Stop, open_tables
from verdict_cli.run.model_client import ModelClient, has_alternative
from verdict_cli.run.progress import Progress, RunStats
from verdict_cli.run.result_columns import ResultRows
from verdict_cli.run.retry_failed import FailedCalls, RunJournal, was_attempted
from verdict_cli.run.row import run_pinned, run_row
from verdict_cli.run.row_writer import OnePart, PartTables, RowWriter, RunTables
from verdict_cli.run.scores import run_observed_row
from verdict_cli.run.worker_loop import BREATH_S, WorkerLoop
from verdict_cli.storage.tables.writer import ParquetTable

STARTING_S = 0.0004
"""About what starting one call takes (measured): `preload` waits for the first calls, so that it delays none."""
TICK_S = 0.25
"""Seconds between two reports of the progress."""
T = TypeVar("T")


def run_part(
    job: RunJob, part: Partition, stop: Stop, show: Callable[[Progress], None], client: ModelClient | None = None
) -> PartitionResult:
    """Run a partition of the job's rows; its journal and tables are then in its folder, whatever stopped it.

    The caller has written the run's facts. ``client`` shares its limits and budget with other partitions; without it the
    partition has its own. What stopped it is in its result; an unusable folder is raised.
    """

    async def work(client: ModelClient) -> PartitionResult:
        runner = LocalRunner(job, part, stop, show, client)
        await runner.go()
        columns = {table.name: table.columns for table in runner.tables}
        return PartitionResult(runner.stats, runner.pinned, runner.complete, runner.halt.error, columns, runner.waiting)

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(with_client(job, work, client))


async def with_client(
    job: RunJob, work: Callable[[ModelClient], Coroutine[Any, Any, T]], client: ModelClient | None = None
) -> T:
    """The work's result, with the client, which is then closed; one of the job's own where none is given."""
    client = client or ModelClient.open(
        concurrency=job.concurrency, recording=job.recording, budget_usd=job.budget_usd, store=job.store
    )
    try:
        return await work(client)
    finally:
        await client.close()


class LocalRunner:
    """A partition of the rows through the plan."""

    def __init__(
        self, job: RunJob, part: Partition, stop: Stop, show: Callable[[Progress], None], client: ModelClient
    ) -> None:
        self.job = job
        self.part = part
        self.stop = stop
        self.show = show
        self.client = client
        self.stats = RunStats(part.count)
        self.failed: FailedCalls | None = None
        """With `--retry-failed`: which calls of a row are retried."""
        self.forget: Callable[[Request], None] = lambda _: None
        self.reader: Iterator[tuple[int, Row]] = enumerate(part.rows)
        self.pinned: dict[int, Output | None] = {}
        self.deferred: DeferredCalls | None = None
        self.tables: tuple[ParquetTable, ...] = ()

    async def go(self) -> None:
        """Open the journal and the tables, work, and close them whatever happened."""
        job, folder = self.job, self.part.folder
        self.root = folder.open_journal(job.start.nodes, fresh=job.fresh)
        self.journal: RunJournal = self.root
        self.halt = Halt(self.stop)
        job.warn_of_damage(self.journal.damaged, folder.journal)
        try:
            # Only now: the journal's lock keeps other processes of this machine out of the folder.
            await self.claim()
            await self._answer_deferred()
            with ExitStack() as stack:
                tables = self.open_tables(stack)
                ahead = max(4 * job.concurrency, 1000)
                self.writer = RowWriter(self.journal, ResultRows(job.plan), tables, ahead)
                self.add_call = tables.add_call
                await self._work(self._middleware())
                # A stopped run leaves rows that are done behind one that is not; the table has them, too.
                self.writer.write_rest()
                for table in self.tables:
                    table.end()
            self.conclude()
        finally:
            self.stop.release()
            self.journal.close()

    async def claim(self) -> None:
        """Check that the folder, whose journal is locked, belongs to this run."""

    def all_rows(self) -> Iterable[Row]:
        """The rows, from the first."""
        return self.part.rows

    @property
    def waiting(self) -> bool:
        """Whether the run ends although calls are still to be answered."""
        return self.deferred is not None and self.deferred.waiting

    async def _answer_deferred(self) -> None:
        """Where the run's calls are answered later than they are made: have all of them answered, as far as that can be done now.

        Each pass over the rows runs those that are not done, as far as recorded replies allow. No row waits in memory for its
        calls. Results are dropped, and made again from the journal when the tables are written, whatever stopped the passes.
        """
        deferring = None if self.client.recorded else self.job.deferring
        if deferring is None:
            return
        calls = self.deferred = deferring.deferred_calls(self.job, self.root, self.client, self.halt)
        done = _DoneRows()

        def show() -> None:
            progress = self.stats.progress(self.client.limiters)
            self.show(structs.replace(progress, done=done.count, pending=calls.pending))

        ticker = asyncio.create_task(self._tick(show))
        try:
            await calls.start()
            while not self.halt.is_set():
                calls.begin_pass()
                await self._run_pass(calls, done)
                if self.halt.is_set() or not await calls.answer():
                    break
        except VerdictError as error:
            self.halt.fail(error)
        finally:
            await calls.close()
            ticker.cancel()
            with suppress(asyncio.CancelledError):
                await ticker
        if self.halt.is_set():  # the error, if any, is kept: it ends the run once its tables are written
            self.halt.continue_after_stop()

    async def _run_pass(self, calls: DeferredCalls, done: _DoneRows) -> None:
        """Run the rows that are not done."""
        context = Context(
            calls.ask,
            seed=self.job.start.seed,
            forget=calls.forget,
            again=calls.again,
            slots=EntrySlots(self.job.concurrency),
        )
        retried = None if calls.retry is None else replace(context, again=calls.retry)

        async def judge(row: Row) -> Result:
            result = await run_row(self.job.plan, row, context)
            if result.failure is None or retried is None:
                return result
            return await run_row(self.job.plan, row, retried)

        try:
            if self.part.pinned is not None:
                context.pinned = dict(self.part.pinned)
            else:
                context.pinned = await self._deferred_pinned(context, retried)
        except Pending:
            return
        if retried is not None:
            retried.pinned = context.pinned
        rows = ((number, row) for number, row in enumerate(self.all_rows()) if not done.has(number))
        await WorkerLoop(rows, judge, done, self.halt).run(min(self.job.concurrency, self.part.count))

    async def _deferred_pinned(self, context: Context, retried: Context | None) -> dict[int, Output | None]:
        try:
            return (await run_pinned(self.job.plan, context))[0]
        except PinnedError:
            if retried is None:
                raise
        return (await run_pinned(self.job.plan, retried))[0]

    def open_tables(self, stack: ExitStack) -> RunTables:
        """Open the tables, which are closed with the stack."""
        self.tables = open_tables(self.job, self.part.folder.results, self.part.folder.calls)
        for table in self.tables:
            stack.enter_context(table)
        return OnePart(PartTables(self.stats, *self.tables))

    def conclude(self) -> None:
        """Record the outcome, once the tables are written."""

    @property
    def counted(self) -> RunStats:
        """The counts of all rows that are done."""
        return self.stats

    @property
    def complete(self) -> bool:
        """Whether each row has a result, and nothing stopped the run."""
        return self.counted.done == self.part.count and self.halt.error is None

    def _middleware(self) -> Ask:
        if self.deferred is not None:
            self.forget = self.deferred.forget
            return self.deferred.ask
        journal = JournalOptions(
            self.journal,
            resumed=self.journal.resumed,
            as_recorded=self.job.retry_failed,
            is_spared=has_alternative(self.job.plan),
            on_append=self.writer.notify,
            updated=self.job.update,
        )
        stop = StopSignal(self.halt.is_set, self.halt.fail, self.part.folder.confirm_lease)
        chain = self.client.chain(self.job.observer, stop, journal, self.job.rename_unit)
        self.forget = chain.forget
        if self.job.retry_failed and not self.client.recorded:
            self.failed = FailedCalls(self.job.plan, chain.ask_models, self.journal)
        return chain.ask

    async def _work(self, ask: Ask) -> None:
        again = self._again if self.client.recorded or self.journal.resumed else None
        if self.deferred is not None:
            again = self.deferred.again
        context = Context(
            ask,
            seed=self.job.start.seed,
            forget=self.forget,
            again=again,
            unit=self.job.observer.unit,
            paid=self.add_call,
            slots=EntrySlots(self.job.concurrency),
        )
        ticker = asyncio.create_task(self._tick(self._show_counted))
        writing = asyncio.create_task(self._write())
        writing.add_done_callback(lambda _: self.halt.set())  # a disk that refuses stops the rows
        preloading = asyncio.create_task(self._preload())
        try:
            if await self.halt.wait_for({asyncio.create_task(self._pinned(context))}):
                loop = WorkerLoop(self.reader, partial(self._judge, context), self.writer, self.halt)
                await loop.run(min(self.job.concurrency, self.part.count))
        finally:
            for task in (ticker, writing, preloading):
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
            # The writer was cancelled in its pause: rows that were completed since are in no table yet.
            await self.writer.flush()
            self._show_counted()

    async def _preload(self) -> None:
        """Call `preload` when as many calls are in flight as may be, or after about the time that this takes."""
        slots = min(self.job.concurrency, self.job.data.rows)
        for _ in range(1 + round(STARTING_S * slots / BREATH_S)):
            await asyncio.sleep(BREATH_S)
            if self.client.limiters.running >= slots:
                break
        await asyncio.to_thread(self.job.preload)

    def _again(self, request: Request) -> bool:
        """Whether a call that failed was retried by an earlier run with `--retry-failed`.

        A recording is read until it has no further attempt.
        """
        return self.client.recorded or was_attempted(self.journal, request)

    async def _pinned(self, context: Context) -> None:
        if self.part.pinned is not None:
            self.pinned = context.pinned = dict(self.part.pinned)
            return
        try:
            # Pinned units run before any row, because every row reads their outputs.
            chosen = context if self.failed is None else await self.failed.context(None, context)
            context.pinned, calls = await run_pinned(self.job.plan, chosen)
            self.pinned = context.pinned
        except Pending:
            self.halt.set()
            return
        except VerdictError as error:
            self.halt.fail(error)
            return
        for call in calls:
            self.add_call(call)

    async def _judge(self, context: Context, row: Row) -> Result:
        chosen = context if self.failed is None else await self.failed.context(row, context)
        return await run_observed_row(self.job.plan, row, chosen, self.job.observer)

    async def _write(self) -> None:
        try:
            await self.writer.write_as_completed()
        except VerdictError as error:
            self.halt.fail(error)

    async def _tick(self, show: Callable[[], None]) -> None:
        while True:
            show()
            await asyncio.sleep(TICK_S)

    def _show_counted(self) -> None:
        self.show(self.counted.progress(self.client.limiters))


class _DoneRows:
    """The rows of which all calls are answered: a byte for each."""

    def __init__(self) -> None:
        self._is_done = bytearray()
        self.count = 0

    def has(self, number: int) -> bool:
        return number < len(self._is_done) and self._is_done[number] == 1

    def is_full(self, begun: int) -> bool:
        return False

    async def wait_for_room(self) -> None:
        """There is always room."""

    def add(self, number: int, result: Result) -> None:
        if number >= len(self._is_done):
            self._is_done.extend(bytes(1024 + number - len(self._is_done)))
        self._is_done[number] = 1
        self.count += 1

    def put_back(self, number: int) -> None:
        """It is run again in the next pass."""
