"""A run in this process: rows go through the plan in one event loop, their results go to the run's database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from time import monotonic, perf_counter

from msgspec import structs

from verdict_cli.errors import Pending, VerdictError
from verdict_cli.llm.middleware.cache_store import CacheStore
from verdict_cli.llm.middleware.chain import StopSignal
from verdict_cli.messages import Call, Result, Row, sum_usd
from verdict_cli.run.attempts import Context, EntrySlots
from verdict_cli.run.event_loop import loop_factory
from verdict_cli.run.hooks import CallPool
from verdict_cli.run.job import Halt, RunJob, RunOptions, Stop
from verdict_cli.run.model_client import ModelClient, has_alternative
from verdict_cli.run.progress import Progress
from verdict_cli.run.row import run_observed_row, run_pinned
from verdict_cli.run.run_directory import reused_database
from verdict_cli.run.run_metadata import changed_dataset, finish_run, start_run
from verdict_cli.run.run_state import FinishedRows, RunState
from verdict_cli.run.tables import write_tables
from verdict_cli.run_facts import Counts, RunFacts, tell
from verdict_cli.storage.database.database import Database
from verdict_cli.storage.datasets.read import stream_rows

BREATH_S = 0.005
"""How long rows whose calls never wait (built-in models) may keep the event loop."""
STARTING_S = 0.0004
"""About what starting one call takes (measured): `preload` waits for the first calls, so that it delays none."""
TICK_S = 0.25
"""Seconds between two reports of the progress."""
MOST_ROWS_AT_STOP = 5_000
"""Rows whose tables are written when a signal stops a run: within a second. `verdict report` writes those of more."""


def run_alone(job: RunJob, stop: Stop, show: Callable[[Progress], None]) -> RunFacts:
    """Run the job and return its facts; `status` is `finished`, `waiting` or `interrupted`.

    The tables hold what is done whatever stopped the run, unless the disk refuses. Raises what stops a run: Refused,
    BudgetError, PinnedError, OutputError, DataError, JournalError.
    """
    with (
        job.observer.run(job.start.name) as ended,
        asyncio.Runner(loop_factory=loop_factory()) as runner,
    ):
        facts = runner.run(_run_alone(job, stop, show))
        ended(facts)
        return facts


async def _run_alone(job: RunJob, stop: Stop, show: Callable[[Progress], None]) -> RunFacts:
    async with run_client(job, job.store) as client:
        return await run_within(job, stop, show, client)


@asynccontextmanager
async def run_client(options: RunOptions, store: CacheStore | None) -> AsyncIterator[ModelClient]:
    """A client for the calls of a run, or of several with the same options."""
    client = ModelClient.open(
        concurrency=options.concurrency,
        recording=options.recording,
        budget_usd=options.budget_usd,
        shards=options.data.selection.shards,
        store=store,
    )
    try:
        yield client
    finally:
        await client.close()


async def run_within(
    job: RunJob, stop: Stop, show: Callable[[Progress], None], client: ModelClient
) -> RunFacts:
    """As `run_alone`, in the running event loop and with a client whose limits and budget others share."""
    with job.directory.writing():
        # Another process may have run there since the run was opened.
        earlier = None if job.fresh else job.directory.earlier_run(job.start)
        job = replace(job, earlier=earlier)
        state = RunState.open(job)
        start = job.start
        for warning in state.warnings:
            start = tell(start, warning, job.warn)
        job = replace(job, start=start)
        run = LocalRun(job, stop, show, client, state)
        try:
            await run.go()
        finally:
            stop.release()
            state.close()
        facts = run.conclude()
    if run.halt.error is not None:
        raise run.halt.error
    return facts


class LocalRun:
    """The rows of a run that have no result yet, through the plan."""

    def __init__(
        self,
        job: RunJob,
        stop: Stop,
        show: Callable[[Progress], None],
        client: ModelClient,
        state: RunState,
    ) -> None:
        self.job = job
        self.stop = stop
        self.show = show
        self.client = client
        self.state = state
        self.counts = Counts(job.data.rows)
        self.started = perf_counter()
        self.halt = Halt(stop)
        self.earlier = 0
        """The rows that earlier processes have finished."""
        self.read = 0
        """A digest of the rows that were read."""
        self.done = FinishedRows()
        """The rows that this process has finished."""
        self.start = job.start
        self.other_prompts = 0 if job.recording is None else job.recording.other_prompts
        """What the recording had counted before."""
        self._uncounted: list[Call] = []
        """Calls that are counted together, which takes less than one by one."""
        self._begun = 0
        """The rows that were begun."""
        self._paused = 0.0
        """When a worker last left the loop to others."""
        self.is_pinned = False
        """Whether the units that all rows share have run."""
        self.pool = None if client.recorded else self._open_pool()

    def _open_pool(self) -> CallPool | None:
        pools = (
            hooks.pool(self.job, self.state.own, self.client, self.halt)
            for hooks in self.job.hooks.values()
        )
        return next((pool for pool in pools if pool is not None), None)

    async def go(self) -> None:
        """Run the rows, whatever stops them; their results are then on the disk."""
        job, state = self.job, self.state
        loop = asyncio.get_running_loop()
        state.database.writer.on_failure = lambda error: _in_loop(loop, self.halt.fail, error)
        start_run(job, state.database)
        self._count_earlier()
        with suppress(VerdictError):
            await self._work()
        if state.database.damaged:
            job.warn(
                f"{state.database.path}: {state.database.damaged:,} damaged calls were called again"
            )
        try:
            await state.database.writer.flush()
        except VerdictError as error:
            self.halt.fail(error)
        for hooks in job.hooks.values():
            self.start = hooks.with_facts(self.start, state.database)

    def _count_earlier(self) -> None:
        """Count what earlier processes have done and paid."""
        finished = self.state.finished
        self.counts.done = self.earlier = finished.count
        self.counts.failed = self.state.failed
        for spent in self.state.database.spent() if self.state.own.resumed else ():
            self.client.spending.charge(spent.cost_usd, spent.model)
            self.counts.cost_usd = sum_usd(self.counts.cost_usd, spent.cost_usd)

    def rows(self) -> Iterator[Row]:
        """The rows that have no result."""
        job, finished = self.job, self.state.finished
        rows = self._noted(stream_rows(job.dataset, job.data.selection, finished=finished))
        if self.done.count:
            rows = (row for row in rows if row.index not in self.done)
        return rows if job.transform_row is None else map(job.transform_row, rows)

    def _noted(self, rows: Iterator[Row]) -> Iterator[Row]:
        """The rows, each of which is noted in `read`."""
        self.read = 0
        for row in rows:
            self.read ^= hash((row.index, row.key))
            yield row

    def _are_same_rows(self) -> bool:
        """Whether the dataset still has the rows that were read: a rewrite may have been undone."""
        before, job = self.read, self.job
        for _ in self._noted(
            stream_rows(job.dataset, job.data.selection, finished=self.state.finished)
        ):
            pass
        return self.read == before

    @property
    def is_complete(self) -> bool:
        """Whether each row has a result, and nothing stopped the run."""
        return self.counts.done >= self.job.data.rows and self.halt.error is None

    def conclude(self) -> RunFacts:
        """Write the tables and `run.json`, and return the facts."""
        job = replace(self.job, start=self._told_of_prompts(self.start))
        if self.is_complete and (error := changed_dataset(job, self._are_same_rows)):
            self.halt.fail(error)
        status = "finished" if self.is_complete else self._unfinished_status()
        is_late = self.stop.requested and self.counts.done > MOST_ROWS_AT_STOP
        counts = self.counts
        if status == "finished" or not is_late:
            counts = write_tables(
                job.directory.path, job.directory.database, self.job.table_columns, job.data.rows
            )
        return finish_run(job, counts, status, job.start.wall_s + perf_counter() - self.started)

    def _told_of_prompts(self, facts: RunFacts) -> RunFacts:
        """The facts, which say how many calls the recording answered with replies to other prompts."""
        recording = self.job.recording
        if recording is not None:
            others = facts.other_prompts + recording.other_prompts - self.other_prompts
            facts = structs.replace(facts, other_prompts=others)
        if not facts.recording_mismatch:
            return facts
        warning = f"{facts.recording_mismatch}: its replies may not fit the prompts of this run"
        return tell(facts, warning, self.job.warn)

    def _unfinished_status(self) -> str:
        waits = self.pool is not None and self.pool.waiting and not self.halt.is_set()
        return "waiting" if waits else "interrupted"

    async def _work(self) -> None:
        job, state, pool = self.job, self.state, self.pool
        state.own.passes = pool is not None
        signal = StopSignal(self.halt.is_set, self.halt.fail, job.directory.confirm_lease)
        reuse = tuple(Database.open_foreign(reused_database(run)) for run in job.reuse)
        chain = self.client.chain(
            job.observer,
            signal,
            own=state.own,
            reuse=reuse,
            is_spared=has_alternative(job.plan),
            renamed=job.rename_unit,
            defer=None if pool is None else pool.defer,
        )
        context = Context(
            chain.ask,
            seed=job.start.seed,
            forget=chain.forget,
            recorded=self.client.recorded,
            unit=job.observer.unit,
            paid=self._add_extra,
            slots=EntrySlots(job.concurrency),
        )
        ticker = asyncio.create_task(self._tick())
        preloading = asyncio.create_task(self._preload())
        try:
            await self._passes(context)
        finally:
            if pool is not None:
                await pool.close()
            for task in (ticker, preloading):
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
            for database in reuse:
                database.close()
            self._show()

    async def _passes(self, context: Context) -> None:
        """Run the rows; again and again where calls are answered later than they are made, until no more can be answered."""
        pool = self.pool
        try:
            if pool is not None:
                await pool.start()
            await self._pass(context)
            while pool is not None and not self.halt.is_set() and await pool.answer():
                await self._pass(context)
        except VerdictError as error:
            self.halt.fail(error)

    async def _pass(self, context: Context) -> None:
        """Run the rows that have no result."""
        job = self.job
        if not self.is_pinned and not await self.halt.wait_for(
            {asyncio.create_task(self._pinned(context))}
        ):
            return
        if self.is_pinned:
            rows = self.rows()
            workers = range(min(job.concurrency, job.data.rows))
            await self.halt.wait_for(
                {asyncio.create_task(self._judge(rows, context)) for _ in workers}
            )

    async def _preload(self) -> None:
        """Call `preload` when as many calls are in flight as may be, or after about the time that this takes."""
        slots = min(self.job.concurrency, self.job.data.rows)
        for _ in range(1 + round(STARTING_S * slots / BREATH_S)):
            await asyncio.sleep(BREATH_S)
            if self.client.limiters.running >= slots:
                break
        await asyncio.to_thread(self.job.preload)

    async def _pinned(self, context: Context) -> None:
        try:
            # Pinned units run before any row, because every row reads their outputs.
            context.pinned, calls = await run_pinned(self.job.plan, context)
            self.state.add_pinned(calls)
        except Pending:
            return
        except VerdictError as error:
            self.halt.fail(error)
            return
        self.is_pinned = True
        self._uncounted += calls

    async def _judge(self, rows: Iterator[Row], context: Context) -> None:
        """Judge one row after the other until there are none, or the run is to stop.

        A row with a call that cannot be answered yet is dropped: no row waits in memory.
        """
        plan, observer, halt = self.job.plan, self.job.observer, self.halt
        try:
            # `requested` is set by a signal handler at once, the event only when the loop has its turn.
            while not (halt.is_set() or halt.stop.requested):
                row = next(rows, None)
                if row is None:
                    return
                self._begun = begun = self._begun + 1
                try:
                    result = await run_observed_row(plan, row, context, observer)
                except Pending:
                    self.state.own.drop(row.index)
                else:
                    self._add(result)
                # Where another row was begun meanwhile, this one waited for a call, and left the loop to others. Else no
                # row has waited: without a pause, timers and the writer would starve.
                if self._begun == begun and monotonic() - self._paused > BREATH_S:
                    await self.state.database.writer.wait_for_room()
                    await asyncio.sleep(0)
                    self._paused = monotonic()
        except VerdictError as error:
            halt.fail(error)
        except Exception:
            halt.set()
            raise

    def _add(self, result: Result) -> None:
        """Take a row's result."""
        self.state.add(result)
        if self.pool is not None:
            self.done.add(result.row.index)
        self.counts.add_row(result.status, result.failure, result.saved, result.stages)
        self._uncounted += result.calls

    def _add_extra(self, call: Call) -> None:
        self.state.add_extra(call)
        self._uncounted.append(call)

    async def _tick(self) -> None:
        while True:
            self._show()
            await asyncio.sleep(TICK_S)

    def _show(self) -> None:
        calls = [(call.request.model.name, call.reply) for call in self._uncounted]
        self.counts.add_calls(calls)
        self._uncounted.clear()
        self.show(Progress.since(self.started, self.counts, self.client.limiters, self.earlier))


def _in_loop(
    loop: asyncio.AbstractEventLoop, call: Callable[[VerdictError], None], error: VerdictError
) -> None:
    """Call a function in the event loop, unless that was closed."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(call, error)
