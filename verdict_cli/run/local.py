"""The local engine: a part's rows streamed through the plan in one event loop, results written in input order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import ExitStack, suppress
from time import monotonic
from typing import Any, TypeVar

from verdict_cli.errors import VerdictError
from verdict_cli.llm.batches.parking import ParkedError
from verdict_cli.llm.middleware.chain import JournalOptions, StopSignal
from verdict_cli.messages import Ask, Output, Request, Row
from verdict_cli.run.attempts import Context, EntrySlots
from verdict_cli.run.batches.batched_run import BatchedRun, run_waves
from verdict_cli.run.event_loop import loop_factory
from verdict_cli.run.job import Halt, Partition, PartitionResult, RunJob, Stop, open_tables
from verdict_cli.run.model_client import ModelClient, has_alternative
from verdict_cli.run.progress import Progress, RunStats
from verdict_cli.run.result_columns import ResultRows
from verdict_cli.run.retry_failed import FailedCalls, RunJournal, was_attempted
from verdict_cli.run.row import run_pinned
from verdict_cli.run.row_writer import OnePart, PartTables, RowWriter, RunTables
from verdict_cli.run.scores import run_observed_row
from verdict_cli.storage.tables.writer import ParquetTable

BREATH_S = 0.005
"""How long rows whose calls never wait (built-in models) may keep the event loop."""
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
        waits = runner.batched is not None and runner.batched.outcome.waiting
        return PartitionResult(runner.stats, runner.pinned, runner.complete, runner.halt.error, columns, waits)

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
        self.forget: Callable[[Request], None] = lambda _: None
        self.reader: Iterator[tuple[int, Row]] = enumerate(part.rows)
        self.begun = 0
        self.yielded = 0.0
        self.pinned: dict[int, Output | None] = {}
        self.batched: BatchedRun | None = None
        self.tables: tuple[ParquetTable, ...] = ()

    async def go(self) -> None:
        """Open the journal and the tables, work, and close them whatever happened."""
        job, folder = self.job, self.part.folder
        self.root = folder.open_journal(job.start.nodes, fresh=job.fresh)
        self.journal: RunJournal = self.root
        self.halt = Halt(self.stop)
        job.warn_of_damage(self.journal.damaged, folder.journal)
        try:
            await self.claim()
            self.batched = await run_waves(
                self.job, self.root, self.client, self.halt, self.stats, self.show, self.all_rows
            )
            with ExitStack() as stack:
                tables = self.open_tables(stack)
                ahead = max(4 * job.concurrency, 1000)
                self.writer = RowWriter(self.journal, ResultRows(job.plan), tables, ahead)
                self.add_call = tables.add_call
                await self._work(self._middleware())
                self.writer.write_rest()
                for table in self.tables:
                    table.end()
            if self.batched is not None and self.batched.outcome.error is not None:
                self.halt.fail(self.batched.outcome.error)
            self.conclude()
        finally:
            self.stop.release()
            self.journal.close()

    async def claim(self) -> None:
        """Check that the folder, whose journal is locked, belongs to this run."""

    def all_rows(self) -> Iterable[Row]:
        """The rows, from the first."""
        return self.part.rows

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
        if self.batched is not None:
            return self.batched.calls.ask
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
        if self.batched is not None:
            again = self.batched.calls.again
        context = Context(
            ask,
            seed=self.job.start.seed,
            forget=self.forget,
            again=again,
            unit=self.job.observer.unit,
            paid=self.add_call,
            slots=EntrySlots(self.job.concurrency),
        )
        ticker = asyncio.create_task(self._tick())
        writing = asyncio.create_task(self._write())
        writing.add_done_callback(lambda _: self.halt.set())
        preloading = asyncio.create_task(self._preload())
        try:
            pinned = asyncio.create_task(self._pinned(context))
            if not await self.halt.wait_for({pinned}):
                return
            workers = range(min(self.job.concurrency, self.part.count))
            await self.halt.wait_for({asyncio.create_task(self._worker(context)) for _ in workers})
        finally:
            for task in (ticker, writing, preloading):
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
            await self.writer.flush()
            self.show(self.counted.progress(self.client.limiters))

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
            chosen = context if self.failed is None else await self.failed.context(None, context)
            context.pinned, calls = await run_pinned(self.job.plan, chosen)
            self.pinned = context.pinned
        except ParkedError:
            self.halt.set()
            return
        except VerdictError as error:
            self.halt.fail(error)
            return
        for call in calls:
            self.add_call(call)

    async def _worker(self, context: Context) -> None:
        """Run row after row until there is none, or the run is to stop."""
        writer = self.writer
        try:
            while not (self.halt.is_set() or self.stop.requested):
                if self.begun - writer.next_row >= writer.ahead:
                    writer.room.clear()
                    await writer.room.wait()
                    continue
                place, row = next(self.reader, (None, None))
                if place is None or row is None:
                    return
                self.begun = begun = self.begun + 1
                chosen = context if self.failed is None else await self.failed.context(row, context)
                try:
                    writer.add(place, await run_observed_row(self.job.plan, row, chosen, self.job.observer))
                except ParkedError:
                    writer.skip(place)
                # Where another row was begun meanwhile, this one waited for a call, and left the loop to others.
                if self.begun == begun and monotonic() - self.yielded > BREATH_S:
                    await asyncio.sleep(0)
                    self.yielded = monotonic()
        except VerdictError as error:
            self.halt.fail(error)
        except Exception:
            self.halt.set()
            raise

    async def _write(self) -> None:
        try:
            await self.writer.write_as_completed()
        except VerdictError as error:
            self.halt.fail(error)

    async def _tick(self) -> None:
        while True:
            self.show(self.counted.progress(self.client.limiters))
            await asyncio.sleep(TICK_S)
