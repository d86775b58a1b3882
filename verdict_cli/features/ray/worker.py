"""A Ray worker: runs one partition of the rows, by a plan that it builds from the pipeline's files. Each call gets a permit from the
coordinator of the run.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Any, Protocol

from verdict_cli.errors import ProviderError, ReplyError, VerdictError
from verdict_cli.features.ray.coordinator import CallOutcome, PermitGrant, PermitRequest
from verdict_cli.llm.middleware.budget import Spending
from verdict_cli.llm.middleware.rate_limit import RateLimiters, estimate_tokens, limited, wait_for_rate_limit
from verdict_cli.llm.model_families import is_local
from verdict_cli.llm.providers import Providers
from verdict_cli.llm.providers.price_book import worst_case_usd
from verdict_cli.llm.providers.recording import Recording
from verdict_cli.messages import Ask, Output, Reply, Request, Row
from verdict_cli.plan.node import Plan
from verdict_cli.run.hooks import RunHooks
from verdict_cli.run.job import Partition, PartitionResult, RunJob, Stop
from verdict_cli.run.local import run_part
from verdict_cli.run.model_client import ModelClient
from verdict_cli.run.preflight import open_cache
from verdict_cli.run.progress import Progress
from verdict_cli.run.run_directory import RunDirectory
from verdict_cli.run_facts import RunFacts
from verdict_cli.storage.datasets.dataset import Dataset, DatasetFacts, Selection
from verdict_cli.storage.paths import is_remote_url
from verdict_cli.storage.stores import RunStore, StoreFolder


class SharedSpending(Spending):
    """The spending of all workers, for batches. Two that send a wave at the same moment can both find room for it."""

    def __init__(self, budget_usd: float, spend: Callable[[float], float]) -> None:
        super().__init__(budget_usd)
        self._spend = spend

    def spend(self, usd: float) -> None:
        self.spent_usd = self._spend(usd)


class CoordinatorClient(Protocol):
    """A `Coordinator`, in this or another process."""

    async def post(
        self,
        requests: Sequence[PermitRequest],
        ended: Sequence[tuple[int, CallOutcome | None]],
        progress: Progress | None,
    ) -> None: ...

    async def permits(self) -> PermitGrant: ...

    def spend(self, usd: float) -> float: ...


@dataclass
class SharedModelClient(ModelClient):
    """A client whose limits and budget are the coordinator's. Messages are bundled: one is in flight in each direction.

    Built-in models have no limits and need no permit. ``stop`` is requested when the coordinator says so, or cannot be
    reached.
    """

    coordinator: CoordinatorClient | None = None
    stop: Stop = field(default_factory=Stop)
    progress: Progress | None = None
    shared_budget_usd: float | None = None
    _requests: list[PermitRequest] = field(default_factory=list)
    _ended: list[tuple[int, CallOutcome | None]] = field(default_factory=list)
    _permits: dict[int, asyncio.Future[None]] = field(default_factory=dict)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _tickets: Any = field(default_factory=count)
    _loops: tuple[asyncio.Task[None], ...] = ()

    @property
    def deferred_spending(self) -> Spending:
        if self.shared_budget_usd is None:
            return self.spending
        assert self.coordinator is not None
        return SharedSpending(self.shared_budget_usd, self.coordinator.spend)

    def limit(self, ask: Ask) -> Ask:
        """``ask``, which waits for a permit."""
        send_locally = limited(ask, self.limiters)
        if not self._loops:
            self._loops = tuple(asyncio.create_task(loop) for loop in (self._post(), self._listen()))
            for loop in self._loops:
                loop.add_done_callback(self._lost)

        async def send_permitted(request: Request, again: bool) -> Reply:
            if is_local(request.model.name) and request.model.rate_limit is None:
                return await send_locally(request, again)
            ticket = next(self._tickets)
            await self._permit(ticket, request, again)
            outcome = None
            try:
                reply = await ask(request)
                outcome = CallOutcome.of(reply)
                return reply
            except (ProviderError, ReplyError) as error:
                outcome = CallOutcome.of(error)
                raise
            finally:
                self._end(ticket, outcome)

        return wait_for_rate_limit(send_permitted)

    def report(self, progress: Progress) -> None:
        """Send the partition's progress to the coordinator."""
        self.progress = progress
        self._changed.set()

    async def close(self) -> None:
        """Report the calls that have ended, and close connections."""
        for loop in self._loops:
            loop.remove_done_callback(self._lost)
            loop.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        if self._loops:
            with suppress(Exception):  # the coordinator may have ended with its run
                await self._send()
        await super().close()

    async def _permit(self, ticket: int, request: Request, again: bool) -> None:
        permit = self._permits[ticket] = asyncio.get_running_loop().create_future()
        tokens, worst = estimate_tokens(request), 0.0 if self.shared_budget_usd is None else worst_case_usd(request)
        self._requests.append(PermitRequest(ticket, request.node, request.model, tokens, worst, again))
        self._changed.set()
        try:
            await permit
        except asyncio.CancelledError:
            self._permits.pop(ticket, None)
            self._end(ticket, None)
            raise

    def _end(self, ticket: int, outcome: CallOutcome | None) -> None:
        self._ended.append((ticket, outcome))
        self._changed.set()

    async def _post(self) -> None:
        while True:
            await self._changed.wait()
            await self._send()

    async def _send(self) -> None:
        self._changed.clear()
        requests, self._requests = self._requests, []
        ended, self._ended = self._ended, []
        assert self.coordinator is not None
        await self.coordinator.post(requests, ended, self.progress)

    async def _listen(self) -> None:
        assert self.coordinator is not None
        while True:
            grant = await self.coordinator.permits()
            for ticket in grant.tickets:
                permit = self._permits.pop(ticket, None)
                if permit is not None and not permit.done():
                    permit.set_result(None)
            for ticket, error in grant.refused.items():
                permit = self._permits.pop(ticket, None)
                if permit is not None and not permit.done():
                    permit.set_exception(error)
            if grant.stop and not self.stop.requested:
                self.stop.request()

    def _lost(self, _: asyncio.Task[None]) -> None:
        """The coordinator cannot be reached: no call is permitted any more."""
        self.stop.request()


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
