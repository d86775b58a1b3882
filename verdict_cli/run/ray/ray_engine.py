"""The Ray engine: partitions of the dataset as Ray tasks, on this machine or a cluster, whose tables are joined."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any

from verdict_cli.errors import UsageError, VerdictError, WorkerError
from verdict_cli.messages import Output, Row
from verdict_cli.plan.node import Plan
from verdict_cli.run.event_loop import loop_factory
from verdict_cli.run.job import GRACE_S, Partition, RunJob, Stop, join_partitions
from verdict_cli.run.local import TICK_S
from verdict_cli.run.progress import Progress, RunStats
from verdict_cli.run.ray.coordinator import Coordinator
from verdict_cli.run.ray.partition import (
    PARTITION_FOLDER,
    PINNED,
    clear_partitions,
    merge_partitions,
    partition_journal,
    partition_name,
    recover_partitions,
)
from verdict_cli.run.ray.worker import WorkerOptions, WorkerResult, fetch_tables, judge_partition, pipeline_files
from verdict_cli.run.run_directory import RunDirectory
from verdict_cli.run.run_metadata import changed_dataset, finish_run, start_run
from verdict_cli.run_facts import RunFacts
from verdict_cli.storage.datasets.read import stream_rows
from verdict_cli.storage.journal.digest_index import number_duplicates

MOST_ROWS_A_PARTITION = 5000
"""A row group of the tables."""
FEWEST_ROWS_A_PARTITION = 32
PARTITIONS_A_WORKER = 4
"""At least so many, where there are enough rows, so that all workers end at about the same time."""
AHEAD = 2
"""Partitions a worker that Ray has at a time: only their rows are held in memory."""
TRIES = 20
"""How often Ray retries a partition whose worker died."""
MOST_WORKERS = 10_000


def check_ray(plan: Plan, directory: RunDirectory) -> None:
    """UsageError where Ray cannot run the plan."""
    if any(node.code for node in plan.nodes):
        raise UsageError(
            "a pipeline with Python functions or unit types of --allow-code cannot be sent to Ray's workers",
            hint="run it with --engine local",
        )
    if directory.display_name.startswith("memory:"):
        raise UsageError(
            f"{directory.display_name} is this process's memory, which Ray's workers cannot reach",
            hint="give --out a path, or the URL of a store",
        )
    try:
        import ray  # noqa: F401
    except ImportError:
        raise UsageError("--engine ray needs Ray", hint="in a checkout of verdict: pip install '.[ray]'") from None


def run_on_ray(job: RunJob, stop: Stop, show: Callable[[Progress], None], *, address: str | None = None) -> RunFacts:
    """As `run_locally`, on the Ray at the address, else on one on this machine that ends with the run.

    The workers must reach the run's directory by the same path. Raises what `run_locally` raises, and WorkerError.
    """
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_RayRun(job, stop, show).go(address))


class _RayRun:
    def __init__(self, job: RunJob, stop: Stop, show: Callable[[Progress], None]) -> None:
        self.job, self.stop, self.show = job, stop, show
        self.parts = job.directory.path.resolve() / PARTITION_FOLDER
        self.stats = RunStats(job.data.rows)
        self.error: VerdictError | None = None
        self.started: list[str] = []
        self.pinned: dict[int, Output | None] = {}

    async def go(self, address: str | None) -> RunFacts:
        """Open the journal, work, and close it whatever happened."""
        job = self.job
        self.halt = self.stop.bind()
        journal = job.directory.open_journal(job.start.nodes, fresh=job.fresh)
        try:
            start_run(job)
            await recover_partitions(job, journal)
            try:
                with connected(address) as workers:
                    await self._work(workers, resumed=len(journal) > 0)
            finally:
                await merge_partitions(job.directory, journal)
            folders = [RunDirectory(self.parts / name) for name in self.started]
            ended = [Partition((), 0, folder) for folder in folders if folder.results.exists()]
            join_partitions(ended, job.directory, job.plan, job.data.columns)
            if self.stats.done == job.data.rows and self.error is None:
                self.error = changed_dataset(job)
            complete = self.stats.done == job.data.rows and self.error is None
            facts = finish_run(job, self.stats, complete=complete)
            clear_partitions(job.directory)
        finally:
            self.stop.release()
            journal.close()
        if self.error is not None:
            raise self.error
        return facts

    def _rows(self) -> Iterator[Row]:
        return number_duplicates(stream_rows(self.job.dataset, self.job.data.selection))

    async def _work(self, workers: int, *, resumed: bool) -> None:
        import ray
        from ray.exceptions import RayError
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        job = self.job
        size = min(
            MOST_ROWS_A_PARTITION, max(FEWEST_ROWS_A_PARTITION, -(-job.data.rows // (workers * PARTITIONS_A_WORKER)))
        )
        spent = 0.0
        if resumed:
            nodes = job.start.nodes
            spent = await asyncio.to_thread(
                partition_journal, job.directory.journal, self.parts, self._rows(), size, nodes
            )
        coordinator: Any = ray.remote(Coordinator)
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        self.coordinator = coordinator.options(
            num_cpus=0, max_concurrency=MOST_WORKERS, scheduling_strategy=here
        ).remote(job.concurrency, job.budget_usd, spent)
        options = ray.put(
            WorkerOptions(
                pipeline_files(job.plan),
                job.start,
                tuple(job.data.columns),
                job.concurrency,
                job.recording,
                job.store is not None,
                job.retry_failed,
                job.budget_usd is not None,
            )
        )
        judge: Any = ray.remote(judge_partition).options(max_retries=TRIES)

        def start(number: int, name: str, rows: list[Row]) -> Any:
            self.started.append(name)
            pinned = None if name == PINNED else self.pinned
            return judge.remote(options, self.coordinator, number, rows, self._worker_folder(name), pinned)

        try:
            if any(node.pinned for node in job.plan.nodes):
                await self._run(iter([start(-1, PINNED, [])]), 1)
            rows = self._rows()
            batches = iter(lambda: list(islice(rows, size)), [])
            if not self.halt.is_set():
                tasks = (start(number, partition_name(number), batch) for number, batch in enumerate(batches))
                await self._run(tasks, AHEAD * workers)
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
        folder = remote.folder.below(f"{PARTITION_FOLDER}/{name}")
        if journal.exists():
            folder.send(journal, journal.name)
        return folder.url

    async def _run(self, tasks: Iterator[Any], ahead: int) -> None:
        """Give the tasks to Ray, ``ahead`` at a time, until there are none or the run is to stop."""
        import ray

        running: set[Any] = set()
        stopping = False
        left_s = GRACE_S + 20 * TICK_S
        while True:
            while len(running) < ahead and not self.halt.is_set():
                task = next(tasks, None)
                if task is None:
                    break
                running.add(task)
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
            self.stats.include(result.done.stats)
            self.pinned.update(result.done.pinned)

    def _halt(self, error: VerdictError) -> None:
        self.error = self.error or error
        self.halt.set()

    async def _progress(self) -> Progress:
        from verdict_cli.llm.middleware.rate_limit import RateLimiters

        progress: Progress = await self.coordinator.progress.remote(self.stats.progress(RateLimiters()))
        return progress


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
