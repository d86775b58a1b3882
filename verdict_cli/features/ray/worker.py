"""A Ray worker: runs one partition of the rows, by a plan that it builds from the pipeline's files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from verdict_cli.errors import VerdictError
from verdict_cli.features.ray.coordinator import CallOutcome, PermitGrant, PermitRequest
from verdict_cli.features.ray.worker_client import SharedModelClient
from verdict_cli.llm.middleware.rate_limit import RateLimiters
from verdict_cli.llm.providers import Providers
from verdict_cli.llm.providers.recording import Recording
from verdict_cli.messages import Output, Row
from verdict_cli.plan.node import Plan
from verdict_cli.run.hooks import RunHooks
from verdict_cli.run.job import Partition, PartitionResult, RunJob, Stop
from verdict_cli.run.local import run_part
from verdict_cli.run.preflight import open_cache
from verdict_cli.run.progress import Progress
from verdict_cli.run.run_directory import RunDirectory
from verdict_cli.run_facts import RunFacts
from verdict_cli.storage.datasets.dataset import Dataset, DatasetFacts, Selection
from verdict_cli.storage.paths import is_remote_url
from verdict_cli.storage.stores import RunStore, StoreFolder

Files = tuple[tuple[str, bytes], ...]
"""Names and contents of a pipeline's files; a plan cannot be pickled."""


@dataclass(frozen=True)
class WorkerOptions:
    """What is the same for every partition of a run."""

    files: Files
    start: RunFacts
    columns: tuple[str, ...]
    concurrency: int
    recording: Recording | None
    cached: bool
    retry_failed: bool
    budget_usd: float | None = None
    chosen_hooks: Mapping[str, RunHooks] = field(default_factory=dict)
    is_deferred: bool = False
    """Whether calls are answered later than they are made."""


@dataclass(frozen=True)
class WorkerResult:
    """A partition's result, None where the run was to stop before it began, and the error that stopped it.

    ``name`` is that of its folder, ``worker`` the worker's, under which its tables are in a store: another worker that was
    presumed lost may write there too.
    """

    done: PartitionResult | None = None
    error: VerdictError | None = None
    name: str = ""
    worker: str = ""


@dataclass(frozen=True)
class _RayCoordinator:
    """The coordinator, which is an actor."""

    actor: Any
    name: str

    async def post(
        self,
        requests: Sequence[PermitRequest],
        ended: Sequence[tuple[int, CallOutcome | None]],
        progress: Progress | None,
    ) -> None:
        await self.actor.post.remote(self.name, requests, ended, progress)

    async def permits(self) -> PermitGrant:
        grant: PermitGrant = await self.actor.permits.remote(self.name)
        return grant

    def spend(self, usd: float) -> float:
        import ray

        spent: float = ray.get(self.actor.spend.remote(usd))
        return spent


def judge_partition(
    options: WorkerOptions,
    actor: Any,
    number: int,
    rows: Sequence[Row],
    folder: str,
    pinned: Mapping[int, Output | None] | None,
) -> WorkerResult:
    """Run the partition; its journal and tables are then in the folder, a path or a URL. A journal there is resumed."""
    import ray

    name = f"{number}-{os.getpid()}-{os.urandom(4).hex()}"
    if not ray.get(actor.begin.remote(name, number)):
        return WorkerResult()
    try:
        directory = RunDirectory.open_url(folder) if is_remote_url(folder) else RunDirectory(Path(folder))
        if directory.remote is not None and options.is_deferred:
            directory.prepare()
            directory.remote.refresh()  # calls of an earlier worker, which may be on another machine
        result = _run(options, _RayCoordinator(actor, name), rows, directory, pinned)
        if directory.remote is not None:
            _send_tables(directory, directory.remote, name)
        return replace(result, name=folder.rpartition("/")[2], worker=name)
    except VerdictError as error:
        return WorkerResult(error=error)
    finally:
        ray.get(actor.end.remote(name))


def _send_tables(directory: RunDirectory, remote: RunStore, worker: str) -> None:
    """Put the partition's tables into the store under the worker's name, and remove the copy."""
    for table in (directory.results, directory.calls):
        remote.folder.put(table, f"{worker}/{table.name}")
    remote.clear()


def fetch_tables(result: WorkerResult, run: StoreFolder, parts: Path) -> None:
    """Fetch the tables that a worker has put into the store to the partition's folder in ``parts``."""
    folder = RunDirectory(parts / result.name)
    folder.prepare()
    for table in (folder.results, folder.calls):
        run.get(f"{parts.name}/{result.name}/{result.worker}/{table.name}", table)


def _run(
    options: WorkerOptions,
    coordinator: _RayCoordinator,
    rows: Sequence[Row],
    folder: RunDirectory,
    pinned: Mapping[int, Output | None] | None,
) -> WorkerResult:
    folder.prepare()
    plan = _plan(options.files)
    store = open_cache(plan) if options.cached else None
    stop = Stop()
    client = SharedModelClient(
        Providers(options.recording),
        RateLimiters(options.concurrency),
        store=store,
        recorded=options.recording is not None,
        coordinator=coordinator,
        stop=stop,
        shared_budget_usd=options.budget_usd,
    )
    job = RunJob(
        plan=plan,
        dataset=Dataset(()),  # the rows come with the partition
        data=DatasetFacts(len(rows), len(rows), 0, options.columns, "", Selection()),
        seed=options.start.seed,
        recording=options.recording,
        concurrency=options.concurrency,
        retry_failed=options.retry_failed,
        chosen_hooks=options.chosen_hooks,
        directory=folder,
        start=options.start,
    )
    try:
        done = run_part(job, Partition(rows, len(rows), folder, pinned), stop, client.report, client)
        return WorkerResult(done, done.error)
    finally:
        if store is not None:
            store.close()


def pipeline_files(plan: Plan) -> Files:
    """The files from which a worker builds an equal plan."""
    with tempfile.TemporaryDirectory(prefix="verdict-") as name:
        RunDirectory(Path(name)).write_spec(plan)
        paths = [path for path in Path(name).rglob("*") if path.is_file()]
        return tuple((str(path.relative_to(name)), path.read_bytes()) for path in paths)


@lru_cache(1)
def _plan(files: Files) -> Plan:
    """The plan of the files. A process builds it once for all of its partitions."""
    from verdict_cli.language.load import load
    from verdict_cli.plan.build import build_plan

    with tempfile.TemporaryDirectory(prefix="verdict-") as name:
        for file, content in files:
            RunDirectory(Path(name)).write(file, content)
        return build_plan(load(Path(name) / "spec.yaml")).plan
