"""The local engine: rows streamed through the plan in one event loop, results written in input order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, suppress
from time import monotonic
from typing import Any, TypeVar

from msgspec.structs import replace

from verdict_cli.errors import VerdictError
from verdict_cli.llm.middleware.circuit_breaker import circuit_breaker
from verdict_cli.llm.middleware.journal_replay import replay_journal
from verdict_cli.llm.middleware.rate_limit import RateLimiters
from verdict_cli.llm.providers import Providers
from verdict_cli.messages import Ask, Call, Output, Request, Result, Row, RunFacts
from verdict_cli.plan.node import LLMNode, Plan
from verdict_cli.run.attempts import Context
from verdict_cli.run.budget import HaltedError, Spending, count_recalled_cost
from verdict_cli.run.job import Partition, PartitionResult, RunJob, Stop
from verdict_cli.run.model_client import ModelClient
from verdict_cli.run.progress import Progress, RunStats
from verdict_cli.run.ray.partition import recover_partitions
from verdict_cli.run.result_columns import CALL_COLUMNS, ResultRows, call_row, declared_columns, result_columns
from verdict_cli.run.retry_failed import FailedCalls, went_on
from verdict_cli.run.row import run_pinned, run_row
from verdict_cli.run.run_metadata import finish_run, start_run
from verdict_cli.storage.datasets.read import stream_rows
from verdict_cli.storage.journal.digest_index import number_duplicates
from verdict_cli.storage.tables.writer import ParquetTable

GRACE_S = 5.0
"""How long calls in flight may still take once a run is to stop."""
GATHER_S = 0.2
"""How long what came back is gathered, at most, before it is brought to the disk and its rows are written."""
PAUSE_S = 0.02
"""When nothing came back for so long, what did is written: nobody waits for the processor."""
BREATH_S = 0.005
"""How long rows whose calls never wait (built-in models) may keep the event loop."""
STARTING_S = 0.0004
"""What starting one call takes, about: the preparations for what follows wait for the first of them."""
TICK_S = 0.25
"""Seconds between two looks at the progress."""

T = TypeVar("T")


def run_locally(job: RunJob, stop: Stop, watch: Callable[[Progress], None]) -> RunFacts:
    """Runs the job and returns its facts; `status` is `finished` or `interrupted`.

    The tables hold what is done whatever stopped the run, unless the disk refuses. Raises what stops a run: Refused,
    BudgetError, PinnedError, OutputError, DataError, JournalError.
    """
    with job.spans.run(job.start.name) as ended, asyncio.Runner(loop_factory=loop_factory()) as runner:
        facts = runner.run(_alone(job, lambda access: run_within(job, stop, watch, access)))
        ended(facts)
        return facts


async def run_within(job: RunJob, stop: Stop, watch: Callable[[Progress], None], access: ModelClient) -> RunFacts:
    """As `run`, in the running event loop and with calls that share their limits and spending with others."""
    everything = number_duplicates(stream_rows(job.dataset, job.data.selection))
    if job.changed is not None:
        everything = map(job.changed, everything)
    whole = _FullRun(job, Partition(everything, job.data.rows, job.directory), stop, watch, access)
    await whole.go()
    if whole.trouble is not None:
        raise whole.trouble
    return whole.facts


def run_part(
    job: RunJob, part: Partition, stop: Stop, watch: Callable[[Progress], None], access: ModelClient | None = None
) -> PartitionResult:
    """Runs a part of the job's rows; its journal and its tables are then in its folder, whatever stopped it.

    Whoever runs the job has put its name on the run's directory. ``access`` is a way to the models that shares its
    limits and spending with other parts, else the part has its own. What stopped the part is in its result; a folder
    that cannot be used is raised, as by `run`.
    """

    async def work(access: ModelClient) -> PartitionResult:
        one = _LocalRunner(job, part, stop, watch, access)
        await one.go()
        return PartitionResult(one.tally, one.pinned, one.complete, one.trouble)

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_alone(job, work, access))


async def _alone(
    job: RunJob, work: Callable[[ModelClient], Coroutine[Any, Any, T]], access: ModelClient | None = None
) -> T:
    """The work's result, with the way to the models, which is then closed; one of the job's own where none is given."""
    access = access or ModelClient(
        Providers(job.recording),
        RateLimiters(job.concurrency),
        Spending(job.budget_usd),
        job.store,
        job.recording is not None,
    )
    try:
        return await work(access)
    finally:
        await access.close()


def _under(take: Callable[[Request], T], renamed: Callable[[str], str]) -> Callable[[Request], T]:
    """``take``, which is told other names of the units."""
    return lambda request: take(replace(request, node=renamed(request.node)))


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's event loop, which does the same in less time; asyncio's own where uvloop does not run (Windows)."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _sparing(plan: Plan) -> Callable[[Request], bool]:
    """Whether a request's rejection loses no row: another model is asked next, or the unit may fail."""
    lasting = {
        (node.id, models[-1].name)
        for node in plan.nodes
        if isinstance(node.work, LLMNode) and not node.skips
        for models in (*node.stages, node.work.follow_up)
        if models
    }
    return lambda request: (request.node, request.model.name) not in lasting


class _LocalRunner:
    """A part of the rows through the plan."""

    def __init__(
        self, job: RunJob, part: Partition, stop: Stop, watch: Callable[[Progress], None], access: ModelClient
    ) -> None:
        self.job = job
        self.part = part
        self.stop = stop
        self.watch = watch
        self.tally = RunStats(part.count)
        self.access = access
        self.failed: FailedCalls | None = None
        self.forget: Callable[[Request], None] = lambda _: None
        self.reader: Iterator[tuple[int, Row]] = enumerate(part.rows)
        self.ahead = max(4 * job.concurrency, 1000)  # rows begun before an earlier one is done, at most
        self.begun = 0
        self.room = asyncio.Event()
        self.finished: list[tuple[int, Result]] = []
        self.news = asyncio.Event()
        self.came = 0
        self.waiting_rows: dict[int, Result] = {}
        self.next_row = 0
        self.trouble: VerdictError | None = None
        self.breathed = 0.0
        self.pinned: dict[int, Output | None] = {}

    async def go(self) -> None:
        """Opens everything, works, and closes everything whatever happened."""
        job = self.job
        self.journal = self.part.folder.open_journal(job.start.nodes, fresh=job.fresh)
        self.halt = self.stop.bind()
        try:
            await self.claim()
            with ExitStack() as stack:
                self.rows = ResultRows(job.plan)
                columns = result_columns(job.plan, job.data.columns)
                self.results = stack.enter_context(
                    ParquetTable(self.part.folder.results, columns, declared=declared_columns(job.plan))
                )
                self.calls = stack.enter_context(ParquetTable(self.part.folder.calls, CALL_COLUMNS))
                await self._work(self._ring())
                self._write_rest()
                for table in (self.results, self.calls):
                    table.end()
            self.conclude()
        finally:
            self.stop.release()
            self.journal.close()

    async def claim(self) -> None:
        """Makes sure that the folder, which the journal's lock has made this process's alone, is this run's."""

    def conclude(self) -> None:
        """Says what came of the rows, whose tables are written."""

    @property
    def complete(self) -> bool:
        """Whether each row has a result, and nothing stopped the run."""
        return self.tally.done == self.part.count and self.trouble is None

    def _ring(self) -> Ask:
        ask, self.forget = self.access.ring(self.job.spans, self.halt.is_set, self._halt)
        if self.job.renamed is not None:
            ask, self.forget = _under(ask, self.job.renamed), _under(self.forget, self.job.renamed)
        if self.access.recorded:
            return ask
        if self.job.retry_failed:
            self.failed = FailedCalls(self.job.plan, ask, self.journal)
        resumed = len(self.journal) > 0
        ask = circuit_breaker(ask, _sparing(self.job.plan))
        ask = replay_journal(ask, self.journal, as_recorded=self.job.retry_failed, appended=self._comes)
        return count_recalled_cost(ask, self.access.spending) if resumed else ask

    async def _work(self, ask: Ask) -> None:
        seed, unit = self.job.start.seed, self.job.spans.unit
        again = self._again if self.access.recorded or len(self.journal) else None
        context = Context(ask, seed=seed, forget=self.forget, again=again, unit=unit, paid=self._paid)
        ticker = asyncio.create_task(self._tick())
        settler = asyncio.create_task(self._settler())
        settler.add_done_callback(lambda _: self.halt.set())
        meanwhile = asyncio.create_task(self._meanwhile())
        try:
            pinned = asyncio.create_task(self._pinned(context))
            if not await self._until_done({pinned}):
                return
            workers = {
                asyncio.create_task(self._worker(context)) for _ in range(min(self.job.concurrency, self.part.count))
            }
            await self._until_done(workers)
        finally:
            for task in (ticker, settler, meanwhile):
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
            await self._settle()
            self.watch(self.tally.progress(self.access.gates))

    async def _meanwhile(self) -> None:
        """Lets the preparations begin when as many calls are on their way as may be, or after about that time."""
        places = min(self.job.concurrency, self.job.data.rows)
        for _ in range(1 + round(STARTING_S * places / BREATH_S)):
            await asyncio.sleep(BREATH_S)
            if self.access.gates.running >= places:
                break
        await asyncio.to_thread(self.job.meanwhile)

    async def _until_done(self, tasks: set[asyncio.Task[None]]) -> bool:
        """Waits for the tasks; once the run is to stop, for `GRACE_S` at most. True when none was cut short."""
        halt = asyncio.create_task(self.halt.wait())
        pending: set[asyncio.Task[None]] = set(tasks)
        while pending and not self.halt.is_set():
            done, rest = await asyncio.wait({*pending, halt}, return_when=asyncio.FIRST_COMPLETED)
            pending &= rest
            if any(task.exception() for task in done):
                self.halt.set()
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

    def _again(self, request: Request) -> bool:
        """Whether a call that failed was asked again by an earlier run with `--retry-failed`.

        A recording is asked for more until it has none.
        """
        return self.access.recorded or went_on(self.journal, request)

    async def _pinned(self, context: Context) -> None:
        if self.part.pinned is not None:
            self.pinned = context.pinned = dict(self.part.pinned)
            return
        try:
            chosen = context if self.failed is None else await self.failed.context(None, context)
            context.pinned, calls = await run_pinned(self.job.plan, chosen)
            self.pinned = context.pinned
        except VerdictError as error:
            self._halt(error)
            return
        for call in calls:
            self._paid(call)

    def _paid(self, call: Call) -> None:
        """Counts a call that belongs to no row's result."""
        self.tally.count(call)
        self.calls.add(*call_row(call))

    async def _worker(self, context: Context) -> None:
        """Takes row after row until there is none, or the run is to stop."""
        try:
            while not (self.halt.is_set() or self.stop.asked):
                if self.begun - self.next_row >= self.ahead:
                    self.room.clear()
                    await self.room.wait()
                    continue
                place, row = next(self.reader, (None, None))
                if place is None or row is None:
                    return
                self.begun += 1
                chosen = context if self.failed is None else await self.failed.context(row, context)
                with self.job.spans.row(row) as ended:
                    result = await run_row(self.job.plan, row, chosen)
                    ended(result.failure)
                self.finished.append((place, result))
                self._comes()
                if monotonic() - self.breathed > BREATH_S:
                    await asyncio.sleep(0)
                    self.breathed = monotonic()
        except VerdictError as error:
            self._halt(error)
        except Exception:
            self.halt.set()
            raise

    async def _settler(self) -> None:
        """Rows count as done once their calls are on disk; one write serves all calls that ended meanwhile."""
        try:
            while True:
                await self.news.wait()
                await self._pause()
                await self._settle()
        except VerdictError as error:
            self._halt(error)

    def _comes(self) -> None:
        """A call came back, or a row ended."""
        self.came += 1
        self.news.set()

    async def _pause(self) -> None:
        """Returns once what came back together is on its way again, or many rows wait to be written."""
        until = monotonic() + GATHER_S
        came = 0
        while came < self.came and len(self.finished) < self.ahead // 4 and monotonic() < until:
            came = self.came
            await asyncio.sleep(PAUSE_S)

    async def _settle(self) -> None:
        self.news.clear()
        done, self.finished = self.finished, []
        try:
            await self.journal.settle()
        except BaseException:
            self.finished = done + self.finished
            raise
        for place, result in done:
            self.tally.add(result)
            self._in_order(place, result)

    def _halt(self, error: VerdictError) -> None:
        """Remembers the first error that stops the run; calls in flight may still end."""
        if self.trouble is None and not isinstance(error, HaltedError):
            self.trouble = error
        self.halt.set()

    def _in_order(self, place: int, result: Result) -> None:
        self.waiting_rows[place] = result
        while self.next_row in self.waiting_rows:
            self._write(self.waiting_rows.pop(self.next_row))
            self.next_row += 1
        self.room.set()

    def _write_rest(self) -> None:
        """Rows that are done although an earlier one is not: a stopped run's partial table has them too."""
        for place in sorted(self.waiting_rows):
            self._write(self.waiting_rows.pop(place))

    def _write(self, result: Result) -> None:
        self.results.add(*self.rows.row(result))
        for call in result.calls:
            self.calls.add(*call_row(call))

    async def _tick(self) -> None:
        while True:
            self.watch(self.tally.progress(self.access.gates))
            await asyncio.sleep(TICK_S)


class _FullRun(_LocalRunner):
    """All rows, in the run's own directory, which is told of the run."""

    facts: RunFacts

    async def claim(self) -> None:
        """Puts the run's name on its directory. JournalError when it is another run's."""
        start_run(self.job)
        await recover_partitions(self.job, self.journal)

    def conclude(self) -> None:
        """Writes `run.json`."""
        recorded = self.access.recorded
        self.facts = finish_run(self.job, self.tally, complete=self.complete, recorded=recorded)
