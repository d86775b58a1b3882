"""The Ray engine: partitions of the dataset as Ray tasks, on this machine or a cluster, whose tables are joined."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from itertools import islice
from typing import Any

from verdict_cli.errors import UsageError, VerdictError, WorkerError
from verdict_cli.features.ray.run_hooks import RayOptions
from verdict_cli.features.ray.worker import (
    Coordinator,
    WorkerOptions,
    WorkerResult,
    fetch_tables,
    judge_partition,
    pipeline_files,
)
from verdict_cli.messages import Output, Row
from verdict_cli.run.event_loop import loop_factory
from verdict_cli.run.job import GRACE_S, Partition, PartitionResult, RunJob, RunOptions, Stop, join_partitions
from verdict_cli.run.local import TICK_S
from verdict_cli.run.open_parts import (
    PartColumns,
    finish_part,
    hold_same_rows,
    publish_parts,
    unfinished_parts,
    widest_columns,
)
from verdict_cli.run.part_files import PART_TABLES, PartLayout, PartMark, RowRange
from verdict_cli.run.progress import Counts, Progress, RunStats
from verdict_cli.run.run_directory import RunDirectory
from verdict_cli.run.run_metadata import changed_dataset, finish_run, start_run
from verdict_cli.run.whole_run import claim_parts, recover_partitions
from verdict_cli.run_facts import RunFacts
from verdict_cli.storage.datasets.read import stream_rows
from verdict_cli.storage.journal.digest_index import number_duplicates
from verdict_cli.storage.journal.entry import PINNED
from verdict_cli.storage.journal.partition import (
    PARTS,
    clear_partition,
    clear_partitions,
    merge_partitions,
    paid_usd,
    part_name,
    partition_journal,
)
from verdict_cli.storage.paths import output_errors
from verdict_cli.storage.tables.reader import concatenate_tables

MOST_ROWS_A_PARTITION = 5000
"""A row group of the tables."""
FEWEST_ROWS_A_PARTITION = 32
PARTITIONS_A_WORKER = 4
"""At least so many, where there are enough rows, so that all workers end at about the same time."""
BATCHED_AT_ONCE = 4
"""Partitions a processor that send batches: they wait most of the time."""
AHEAD = 2
"""Partitions a worker that Ray has at a time: only their rows are held in memory."""
TRIES = 20
"""How often Ray retries a partition whose worker died."""
MOST_WORKERS = 10_000


class RayEngine:
    """Judges rows on the Ray of `--ray-address`, else on one on this machine that ends with the run.

    The workers must reach the run's directory by the same path.
    """

    def check(self, options: RunOptions, directory: RunDirectory) -> None:
        if any(node.code for node in options.plan.nodes):
            raise UsageError(
                "a pipeline with Python functions or unit types of --allow-code cannot be sent to Ray's workers",
                hint="run it with --engine local",
            )
        if directory.display_name.startswith("memory:"):
            raise UsageError(
                f"{directory.display_name} is this process's memory, which Ray's workers cannot reach",
                hint="give --out a path, or the URL of a store",
            )
        ray = find_spec("ray")
        if ray is None or ray.origin is None:  # any folder named "ray" on the path is a package without an origin
            raise UsageError("--engine ray needs Ray", hint="in a checkout of verdict: pip install '.[ray]'")

    def run(self, job: RunJob, stop: Stop, show: Callable[[Progress], None]) -> RunFacts:
        """As `Engine.run`; also raises WorkerError."""
        run = (RayPartsRun if job.start.part_rows else RayRun)(job, stop, show)
        address = job.hooks["ray"].address if isinstance(job.hooks["ray"], RayOptions) else None
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            return runner.run(run.go(address))


class RayRun:
    """A run whose rows are in partitions that are joined at its end."""

    def __init__(self, job: RunJob, stop: Stop, show: Callable[[Progress], None]) -> None:
        self.job = job
        self.stop = stop
        self.show = show
        self.parts = job.directory.path.resolve() / PARTS
        self.stats = RunStats(job.data.rows)
        self.error: VerdictError | None = None
        self.started: list[str] = []
        self.pinned: dict[int, Output | None] = {}
        self.waiting = False
        """Whether batches of a partition are in flight."""

    async def go(self, address: str | None) -> RunFacts:
        """Open the journal, work, and close it whatever happened."""
        self.halt = self.stop.bind()
        self.journal = self.job.directory.open_journal(self.job.start.nodes, fresh=self.job.fresh)
        try:
            await self.claim()
            try:
                with connected(address) as workers:
                    await self._work(workers)
            finally:
                await self.gather()
            facts = self.conclude()
        finally:
            self.stop.release()
            self.journal.close()
        if self.error is not None:
            raise self.error
        return facts

    async def claim(self) -> None:
        """Write the run's facts into its directory. JournalError when it belongs to another run."""
        start_run(self.job)
        await recover_partitions(self.job, self.journal)

    async def deal(self, workers: int) -> float:
        """Prepare the partitions for so many workers; return what their calls have cost in USD."""
        rows = self.job.data.rows
        self.size = min(
            MOST_ROWS_A_PARTITION, max(FEWEST_ROWS_A_PARTITION, -(-rows // (workers * PARTITIONS_A_WORKER)))
        )
        if not self.journal.resumed:
            return 0.0
        journal, nodes = self.job.directory.journal, self.job.start.nodes
        return await asyncio.to_thread(partition_journal, journal, self.parts, self._rows(), self.size, nodes)

    def partitions(self) -> Iterator[tuple[int, list[Row]]]:
        """The number and the rows of each partition."""
        rows = self._rows()
        return enumerate(iter(lambda: list(islice(rows, self.size)), []))

    async def ended(self, name: str, done: PartitionResult) -> None:
        """Take the result of a partition, whose tables are in its folder on this machine."""
        self.stats.include(done.stats)

    async def gather(self) -> None:
        """Collect the calls of the partitions, which have ended."""
        directory = self.job.directory
        await merge_partitions(directory.path, directory.store_folder, self.journal)

    def conclude(self) -> RunFacts:
        """Write the tables and the facts of the run."""
        job = self.job
        folders = [RunDirectory(self.parts / name) for name in self.started]
        partitions = [Partition((), 0, folder) for folder in folders if folder.results.exists()]
        join_partitions(partitions, job)
        if self.complete:
            self.error = changed_dataset(job)
        facts = finish_run(job, self.stats, complete=self.complete)
        clear_partitions(job.directory.path, job.directory.store_folder, PART_TABLES)
        return facts

    @property
    def complete(self) -> bool:
        """Whether each row has a result, and nothing stopped the run."""
        return self.stats.done == self.job.data.rows and self.error is None

    def _rows(self) -> Iterator[Row]:
        return number_duplicates(stream_rows(self.job.dataset, self.job.data.selection))

    async def _work(self, workers: int) -> None:
        import ray
        from ray.exceptions import RayError
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        job = self.job
        spent = await self.deal(workers)
        coordinator: Any = ray.remote(Coordinator)
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        self.coordinator = coordinator.options(
            num_cpus=0, max_concurrency=MOST_WORKERS, scheduling_strategy=here
        ).remote(job.concurrency, job.budget_usd, spent)
        waits = job.deferring is not None
        options = ray.put(
            WorkerOptions(
                pipeline_files(job.plan),
                job.start,
                tuple(job.data.columns),
                job.concurrency,
                job.recording,
                job.store is not None,
                job.retry_failed,
                job.budget_usd,
                job.chosen_hooks,
                waits,
            )
        )
        judge: Any = ray.remote(judge_partition).options(
            max_retries=TRIES, num_cpus=1 / BATCHED_AT_ONCE if waits else 1
        )
        ahead = AHEAD * workers * (BATCHED_AT_ONCE if waits else 1)

        def start(number: int, name: str, rows: list[Row]) -> Any:
            self.started.append(name)
            pinned = None if name == PINNED else self.pinned
            return judge.remote(options, self.coordinator, number, rows, self._worker_folder(name), pinned)

        try:
            if any(node.pinned for node in job.plan.nodes):
                await self._run(iter([start(-1, PINNED, [])]), 1)
            if not (self.halt.is_set() or self.waiting):
                tasks = (start(number, part_name(number), rows) for number, rows in self.partitions())
                await self._run(tasks, ahead)
        except RayError as error:
            self._halt(
                WorkerError(
                    f"Ray has lost the coordinator of the run: {str(error).strip().splitlines()[-1]}",
                    hint="see Ray's logs; the same command resumes the run",
                )
            )
        finally:
            with suppress(RayError):
                ray.kill(self.coordinator)

    def _worker_folder(self, name: str) -> str:
        """The path or URL of the partition's folder, as its worker reaches it, with the calls of earlier runs in it."""
        remote, journal = self.job.directory.remote, RunDirectory(self.parts / name).journal
        if remote is None:
            return str(self.parts / name)
        folder = remote.folder.below(f"{PARTS}/{name}")
        if journal.exists():
            folder.put(journal, journal.name)
        return folder.url

    async def _run(self, tasks: Iterator[Any], ahead: int) -> None:
        """Give the tasks to Ray, ``ahead`` at a time, until there are none or the run is to stop."""
        import ray

        running: set[Any] = set()
        stopping = False
        left_s = GRACE_S + 20 * TICK_S
        while True:
            if not self.halt.is_set():
                running.update(islice(tasks, ahead - len(running)))
            if not running:
                return
            if self.halt.is_set():
                if not stopping:
                    self.coordinator.stop.remote()
                    stopping = True
                left_s -= TICK_S
                if left_s <= 0:
                    return
            ended, _ = await asyncio.to_thread(ray.wait, list(running), num_returns=1, timeout=TICK_S)
            for task in ended:
                running.remove(task)
                await self._count(task)
            self.show(await self._progress())

    async def _count(self, task: Any) -> None:
        from ray.exceptions import RayActorError, RayError

        try:
            result: WorkerResult = await task
        except RayActorError:  # the only actor is the coordinator: without it the run cannot continue
            raise
        except RayError as error:
            self._halt(
                WorkerError(
                    f"a partition of the rows could not be run by any worker: {str(error).strip().splitlines()[-1]}",
                    hint="see Ray's logs; the same command resumes the run",
                )
            )
            return
        if result.error is not None:
            self._halt(result.error)
        if result.done is not None:
            if self.job.directory.remote:
                await asyncio.to_thread(fetch_tables, result, self.job.directory.remote.folder, self.parts)
            self.pinned.update(result.done.pinned)
            self.waiting = self.waiting or result.done.waits
            await self.ended(result.name, result.done)

    def _halt(self, error: VerdictError) -> None:
        self.error = self.error or error
        self.halt.set()

    async def _progress(self) -> Progress:
        from verdict_cli.llm.middleware.rate_limit import RateLimiters

        progress: Progress = await self.coordinator.progress.remote(self.stats.progress(RateLimiters()))
        return progress


class RayPartsRun(RayRun):
    """The parts of a run that are not finished, each a partition."""

    async def claim(self) -> None:
        job = self.job
        if not job.fresh:
            await self.gather()
        self.marks: dict[int, PartMark] = await claim_parts(job, self.journal)
        self.layout = PartLayout(job.directory, job.start.part_rows, job.data.rows)
        for mark in self.marks.values():
            self.stats.include(mark.counts)
        self.stats.kept = self.stats.done
        self.columns: dict[int, PartColumns] = {number: mark.columns for number, mark in self.marks.items()}
        self.digests = {number: mark.rows_digest for number, mark in self.marks.items()}
        self.unfinished: list[int] = []
        self.of_pinned: PartitionResult | None = None

    async def deal(self, workers: int) -> float:
        nodes, spent = self.job.start.nodes, self.stats.cost_usd or 0.0
        pinned = await asyncio.to_thread(partition_journal, self.job.directory.journal, self.parts, (), 1, nodes)
        if self.job.budget_usd is None:
            return spent
        left = self.layout.journals() - self.marks.keys()
        lines = (line for number in sorted(left) for line in self.layout.lines(number))
        spent += await asyncio.to_thread(paid_usd, lines, nodes)
        return spent if 0 in self.marks else spent + pinned

    def partitions(self) -> Iterator[tuple[int, list[Row]]]:
        self.ranges: dict[int, RowRange] = {}
        for number, part, rows in unfinished_parts(self.job, self.layout, self.marks):
            self.ranges[number] = part
            yield number, list(rows)

    async def ended(self, name: str, done: PartitionResult) -> None:
        if name == PINNED:
            if 0 not in self.marks:  # else the first part has its calls
                self.of_pinned = done
                self.stats.include(done.stats)
            return
        await asyncio.to_thread(self._end, int(name), done)
        self.stats.include(done.stats)

    def _end(self, number: int, done: PartitionResult) -> None:
        """Take a part's tables, and write its mark where it is finished."""
        folder = self.parts / part_name(number)
        stats = Counts(0)
        stats.include(done.stats)
        columns = dict(done.columns)
        with output_errors(folder):
            for name, path in self.layout.tables(number).items():
                path.parent.mkdir(parents=True, exist_ok=True)
                (folder / name).replace(path)
        if number == 0 and self.of_pinned is not None:
            stats.include(self.of_pinned.stats)
            calls = PART_TABLES[1]
            columns[calls] = widest_columns([self.of_pinned.columns[calls], columns[calls]])
            whole = self.layout.tables(number)[calls]
            kinds = {name: kind for name, (kind, _) in columns[calls].items()}
            concatenate_tables([self.parts / PINNED / calls, whole], whole, kinds)
        self.columns[number] = columns
        if not done.complete:
            self.unfinished.append(number)
            return
        if self.job.directory.remote:
            self.layout.open_journal(number, {}).close()  # which fetches it from the store, to vouch for it
        rows = self.ranges.pop(number)
        self.digests[number] = rows.digest
        finish_part(self.job, self.layout, number, rows, stats, columns)
        self.layout.remove_strays(number)

    async def gather(self) -> None:
        """Collect the calls of pinned units. Those of a part stay in its journal."""
        directory = self.job.directory
        await merge_partitions(directory.path, directory.store_folder, self.journal, only=PINNED)
        folder = directory.below(f"{PARTS}/{PINNED}")
        if not any(hooks.awaits(folder) for hooks in self.job.hooks.values()):
            clear_partition(directory.path, directory.store_folder, PINNED)

    def conclude(self) -> RunFacts:
        job = self.job
        publish_parts(job, self.layout, self.columns, self.unfinished)
        if self.complete:
            self.error = changed_dataset(job, lambda: hold_same_rows(job, self.layout, self.digests))
        deferring = job.deferring
        return finish_run(
            job,
            self.stats,
            complete=self.complete,
            waiting=self.waiting,
            add_facts=None if deferring is None else partial(deferring.add_facts, job.directory),
        )


@contextmanager
def connected(address: str | None) -> Iterator[int]:
    """The number of workers of the Ray at the address, else of one on this machine: one a processor."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    import ray
    from ray.exceptions import RayError

    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        ray.init(
            address=address or "local",
            include_dashboard=None if address else False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            namespace="verdict",
        )
    except (ConnectionError, ValueError, RuntimeError, RayError) as error:
        raise UsageError(
            f"Ray cannot be reached{f' at {address}' if address else ''}: {error}",
            hint="start it with `ray start --head`, or leave --ray-address out; set RAY_AUTH_MODE=token and "
            "RAY_AUTH_TOKEN for a Ray that needs a token",
        ) from None
    for number, handler in handlers.items():
        signal.signal(number, handler)
    try:
        resources: Any = ray.cluster_resources  # it has no types
        yield max(1, int(resources().get("CPU", 1)))
    finally:
        ray.shutdown()
