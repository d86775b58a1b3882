"""The Ray engine: parts of the dataset as Ray tasks, on this machine or on a cluster, with one table in the end."""

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
from verdict_cli.messages import Output, Row, RunFacts
from verdict_cli.run.job import Partition, RunJob, Stop, join
from verdict_cli.run.local import GRACE_S, TICK_S, loop_factory
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
from verdict_cli.run.ray.worker import Came, WorkerSetting, fetch_tables, files_of, judge_partition
from verdict_cli.run.run_directory import RunDirectory
from verdict_cli.run.run_metadata import finish_run, start_run
from verdict_cli.storage.datasets.read import stream_rows
from verdict_cli.storage.journal.digest_index import number_duplicates

MOST_ROWS_A_PARTITION = 5000
"""Rows of a part at most: a row group of the tables."""
FEWEST_ROWS = 32
PARTS_A_WORKER = 4
"""Parts that each worker gets at least, where there are rows enough, so that all end at about the same time."""
AHEAD = 2
"""Parts a worker that are given to Ray at a time: their rows are all that is held in memory."""
TRIES = 20
"""How often Ray starts a part again whose worker died."""
MOST_WORKERS = 10_000


def check_ray(job: RunJob) -> None:
    """UsageError where the run cannot be given to Ray."""
    if any(node.code for node in job.plan.nodes):
        raise UsageError(
            "a pipeline with Python functions or unit types of --allow-code cannot be sent to Ray's workers",
            hint="run it with --engine local",
        )
    if job.directory.shown.startswith("memory:"):
        raise UsageError(
            f"{job.directory.shown} is this process's memory, which Ray's workers cannot reach",
            hint="give --out a path, or the URL of a store",
        )
    try:
        import ray  # noqa: F401
    except ImportError:
        raise UsageError("--engine ray needs Ray", hint="in a checkout of verdict: pip install '.[ray]'") from None


def run_on_ray(job: RunJob, stop: Stop, watch: Callable[[Progress], None], *, address: str | None = None) -> RunFacts:
    """As `engines.run`, on Ray: that of the address, else one on this machine that ends with the run.

    The workers must reach the run's directory by the same path. Raises what `engines.run` raises, and WorkerError.
    """
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_RayRun(job, stop, watch).go(address))


class _RayRun:
    def __init__(self, job: RunJob, stop: Stop, watch: Callable[[Progress], None]) -> None:
        self.job, self.stop, self.watch = job, stop, watch
        self.parts = job.directory.path.resolve() / PARTITION_FOLDER
        self.tally = RunStats(job.data.rows)
        self.trouble: VerdictError | None = None
        self.started: list[str] = []
        self.pinned: dict[int, Output | None] = {}

    async def go(self, address: str | None) -> RunFacts:
        """Opens everything, works, and closes everything whatever happened."""
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
            join(ended, job.directory, job.plan, job.data.columns)
            complete = self.tally.done == job.data.rows and self.trouble is None
            facts = finish_run(job, self.tally, complete=complete, recorded=job.recording is not None)
            clear_partitions(job.directory)
        finally:
            self.stop.release()
            journal.close()
        if self.trouble is not None:
            raise self.trouble
        return facts

    def _rows(self) -> Iterator[Row]:
        return number_duplicates(stream_rows(self.job.dataset, self.job.data.selection))

    async def _work(self, workers: int, *, resumed: bool) -> None:
        import ray
        from ray.exceptions import RayError
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        job = self.job
        size = min(MOST_ROWS_A_PARTITION, max(FEWEST_ROWS, -(-job.data.rows // (workers * PARTS_A_WORKER))))
        spent = 0.0
        if resumed:
            nodes = job.start.nodes
            spent = await asyncio.to_thread(
                partition_journal, job.directory.journal, self.parts, self._rows(), size, nodes
            )
        desk: Any = ray.remote(Coordinator)
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        self.desk = desk.options(num_cpus=0, max_concurrency=MOST_WORKERS, scheduling_strategy=here).remote(
            job.concurrency, job.budget_usd, spent
        )
        setting = ray.put(
            WorkerSetting(
                files_of(job.plan),
                job.start,
                tuple(job.data.columns),
                job.concurrency,
                job.recording,
                job.store is not None,
                job.retry_failed,
            )
        )
        judge: Any = ray.remote(judge_partition).options(max_retries=TRIES)

        def given(number: int, name: str, share: list[Row]) -> Any:
            self.started.append(name)
            pinned = None if name == PINNED else self.pinned
            return judge.remote(setting, self.desk, number, share, self._handed(name), pinned)

        try:
            if any(node.pinned for node in job.plan.nodes):
                await self._run(iter([given(-1, PINNED, [])]), 1)
            every = self._rows()
            shares = iter(lambda: list(islice(every, size)), [])
            if not self.halt.is_set():
                tasks = (given(number, partition_name(number), share) for number, share in enumerate(shares))
                await self._run(tasks, AHEAD * workers)
        except RayError as error:
            self._halt(
                WorkerError(
                    f"Ray has lost what holds the run together: {str(error).strip().splitlines()[-1]}",
                    hint="see Ray's logs; the same command goes on with what is missing",
                )
            )
        finally:
            with suppress(RayError):
                ray.kill(self.desk)

    def _handed(self, name: str) -> str:
        """The part's folder as its worker is to reach it, with what was dealt to the part."""
        away, dealt_to_it = self.job.directory.away, RunDirectory(self.parts / name).journal
        if away is None:
            return str(self.parts / name)
        place = away.place.below(f"{PARTITION_FOLDER}/{name}")
        if dealt_to_it.exists():
            place.send(dealt_to_it, dealt_to_it.name)
        return place.url

    async def _run(self, tasks: Iterator[Any], ahead: int) -> None:
        """Has the tasks done, so many at Ray at a time, until there are none or the run is to stop."""
        import ray

        going: set[Any] = set()
        told = False
        left_s = GRACE_S + 20 * TICK_S
        while True:
            while len(going) < ahead and not self.halt.is_set():
                task = next(tasks, None)
                if task is None:
                    break
                going.add(task)
            if not going:
                return
            if self.halt.is_set():
                if not told:
                    self.desk.stop.remote()
                    told = True
                left_s -= TICK_S
                if left_s <= 0:
                    return
            ended, _ = await asyncio.to_thread(ray.wait, list(going), num_returns=1, timeout=TICK_S)
            for task in ended:
                going.remove(task)
                await self._count(task)
            self.watch(await self._progress())

    async def _count(self, task: Any) -> None:
        from ray.exceptions import RayActorError, RayError

        try:
            came: Came = await task
        except RayActorError:  # the worker has met the end of the one actor, the desk
            raise
        except RayError as error:
            self._halt(
                WorkerError(
                    f"a part of the rows could not be run by any worker: {str(error).strip().splitlines()[-1]}",
                    hint="see Ray's logs; the same command goes on with what is missing",
                )
            )
            return
        if came.trouble is not None:
            self._halt(came.trouble)
        if came.done is not None:
            if self.job.directory.away:
                await asyncio.to_thread(fetch_tables, came, self.job.directory.away.place, self.parts)
            self.tally.include(came.done.tally)
            self.pinned.update(came.done.pinned)

    def _halt(self, error: VerdictError) -> None:
        self.trouble = self.trouble or error
        self.halt.set()

    async def _progress(self) -> Progress:
        from verdict_cli.llm.middleware.rate_limit import RateLimiters

        progress: Progress = await self.desk.progress.remote(self.tally.progress(RateLimiters()))
        return progress


@contextmanager
def connected(address: str | None) -> Iterator[int]:
    """The number of workers of the Ray at the address, else of one on this machine, as many as it has processors."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    import ray
    from ray.exceptions import RayError

    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
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
            hint="start it with `ray start --head`, or leave --ray-address out; a Ray that wants a token gets it by "
            "RAY_AUTH_MODE=token and RAY_AUTH_TOKEN",
        ) from None
    for number, handler in kept.items():
        signal.signal(number, handler)
    try:
        resources: Any = ray.cluster_resources  # it has no types
        yield max(1, int(resources().get("CPU", 1)))
    finally:
        ray.shutdown()
