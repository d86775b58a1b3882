"""A Ray worker: runs one partition of the rows, by a plan that it builds from the pipeline's files. Each call gets a permit from the
coordinator of the run.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Any

import msgspec
from msgspec import Struct, structs

from verdict_cli.errors import ProviderError, ReplyError, VerdictError
from verdict_cli.llm.middleware.budget import Spending
from verdict_cli.llm.middleware.rate_limit import Flow, RateLimiters, estimate_tokens, limited, wait_for_rate_limit
from verdict_cli.llm.model_families import is_local
from verdict_cli.llm.providers import Providers
from verdict_cli.llm.providers.price_book import worst_case_usd
from verdict_cli.llm.providers.recording import Recording
from verdict_cli.messages import Ask, Output, Reply, Request, Row
from verdict_cli.model import Model
from verdict_cli.plan.node import Plan
from verdict_cli.run.hooks import RunHooks
from verdict_cli.run.job import Partition, PartitionResult, RunJob, Stop
from verdict_cli.run.local import run_part
from verdict_cli.run.model_client import ModelClient
from verdict_cli.run.preflight import open_cache
from verdict_cli.run.progress import Progress
from verdict_cli.run.row import PINNED_ROW
from verdict_cli.run.run_directory import RunDirectory
from verdict_cli.run_facts import RunFacts
from verdict_cli.storage.datasets.dataset import Dataset, DatasetFacts, Selection
from verdict_cli.storage.paths import is_remote_url
from verdict_cli.storage.stores import StoreFolder

LISTEN_S = 0.25
"""How long `permits` waits where there are none: its answer also says whether to stop."""
LOST_S = 3.0
"""A worker that has not called `permits` for so long is presumed lost, and others get its permits. Should it come back,
its calls count late."""


class PermitRequest(Struct, frozen=True):
    """A call that waits for its permit; ``ticket`` is its number in the worker's partition.

    ``worst_usd`` is the most that it is expected to cost, None if its price is unknown. ``again``: the provider has
    refused it before because of its rate limit.
    """

    ticket: int
    node: str
    model: Model
    tokens: int
    worst_usd: float | None = 0.0
    again: bool = False


CallOutcome = Reply | ProviderError | ReplyError
"""How a call has ended, without the reply's text: what limits and budget need of it."""


class PermitGrant(Struct, frozen=True):
    """The tickets of calls that may be sent (None), and of those that are refused, with the error."""

    answers: Mapping[int, VerdictError | None] = msgspec.field(default_factory=dict)
    stop: bool = False


@dataclass
class _Worker:
    part: int
    last_contact: float = field(default_factory=monotonic)
    asleep: bool = False
    requests: dict[int, PermitRequest] = field(default_factory=dict)
    waiting: dict[int, tuple[asyncio.Task[None], asyncio.Future[CallOutcome]]] = field(default_factory=dict)
    """The task that holds the permit of a call, and the call's end."""
    answers: dict[int, VerdictError | None] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)


class Coordinator:
    """The limits and the budget of one run, for one event loop.

    Workers send requests and outcomes in bundles, and get permits in bundles. ``spent_usd`` is what the run has cost
    before. A worker that begins a partition replaces one that was lost with it: the permits of the lost one are free
    again.
    """

    def __init__(self, concurrent: int, budget_usd: float | None = None, spent_usd: float = 0.0) -> None:
        self._gates = RateLimiters(concurrent)
        self._spending = Spending(budget_usd, spent_usd)
        self._workers: dict[str, _Worker] = {}
        self._running: dict[int, Progress] = {}
        self._units: dict[str, Flow] = {}
        self._stopped = False

    async def begin(self, name: str, part: int) -> bool:
        """Whether the worker of that name is to run the partition: not once the run is to stop."""
        for other, worker in list(self._workers.items()):
            if worker.part == part:
                self._drop(other)
        if not self._stopped:
            self._workers[name] = _Worker(part)
        return not self._stopped

    async def post(
        self,
        name: str,
        requests: Sequence[PermitRequest],
        ended: Sequence[tuple[int, CallOutcome | None]],
        progress: Progress | None,
    ) -> None:
        """Take calls that need a permit, and calls that have ended, with None for one that was cancelled."""
        worker = self._workers.get(name)
        if worker is None:
            return
        if progress is not None:
            self._running[worker.part] = progress
        worker.requests |= {request.ticket: request for request in requests}
        self._admit(worker, requests)
        for ticket, outcome in ended:
            request = worker.requests.pop(ticket, None)
            waiting = worker.waiting.pop(ticket, None)
            if waiting is None or waiting[1].done():  # refused meanwhile, or its permit was taken away
                self._spending.add(_paid(outcome), None if request is None else request.model)
            elif outcome is None:
                waiting[0].cancel()
            else:
                waiting[1].set_result(outcome)

    async def permits(self, name: str) -> PermitGrant:
        """The new permits, after `LISTEN_S` where there are none."""
        worker = self._workers.get(name)
        if worker is None:
            return PermitGrant(stop=True)
        worker.last_contact = monotonic()
        if worker.asleep:
            worker.asleep = False
            self._admit(worker, list(worker.requests.values()))
        with suppress(TimeoutError):
            await asyncio.wait_for(worker.changed.wait(), LISTEN_S)
        worker.last_contact = monotonic()
        worker.changed.clear()
        answers, worker.answers = worker.answers, {}
        for ticket, error in answers.items():
            if error is not None:
                worker.requests.pop(ticket, None)
                worker.waiting.pop(ticket, None)
        return PermitGrant(answers, self._stopped)

    async def end(self, name: str) -> None:
        """Forget the worker, whose partition has ended: the engine counts its rows."""
        part = self._workers[name].part
        self._drop(name)
        ended = self._running.pop(part, None)
        if ended is not None:
            _add(self._units, ended.units)

    async def spend(self, usd: float) -> float:
        """Count what a worker spends on batches; return what the run has spent."""
        self._spending.spend(usd)
        return self._spending.spent_usd

    async def stop(self) -> None:
        self._stopped = True
        for worker in self._workers.values():
            worker.changed.set()

    async def progress(self, counted: Progress) -> Progress:
        """``counted``, the progress of partitions that have ended, plus what the running ones report."""
        self._release_lost()
        whole = structs.replace(counted, waiting=self._gates.waiting, running=self._gates.running)
        units: dict[str, Flow] = {}
        _add(units, self._gates.flows)
        _add(units, self._units)
        for part in self._running.values():
            sums = {name: getattr(whole, name) + getattr(part, name) for name in _SUMS}
            cost = None if whole.cost_usd is None or part.cost_usd is None else whole.cost_usd + part.cost_usd
            whole = structs.replace(whole, **sums, cost_usd=cost)
            _add(units, part.units)
            if part.pending is not None:
                whole = structs.replace(whole, pending=part.pending.plus(whole.pending))
        return structs.replace(whole, units=units)

    def _admit(self, worker: _Worker, requests: Sequence[PermitRequest]) -> None:
        if worker.asleep:
            return
        for request in requests:
            end: asyncio.Future[CallOutcome] = asyncio.get_running_loop().create_future()
            worker.waiting[request.ticket] = asyncio.create_task(self._permit(worker, request, end)), end

    def _release_lost(self) -> None:
        """Take back the permits of workers that were presumed lost, which other workers wait for."""
        for worker in self._workers.values():
            if not worker.asleep and monotonic() - worker.last_contact > LOST_S:
                worker.asleep = True
                for task, _ in worker.waiting.values():
                    task.cancel()
                worker.waiting.clear()

    def _drop(self, name: str) -> None:
        for task, _ in self._workers.pop(name).waiting.values():
            task.cancel()

    async def _permit(self, worker: _Worker, request: PermitRequest, end: asyncio.Future[CallOutcome]) -> None:
        permitted = False

        async def sent_elsewhere(_: Request) -> Reply:
            nonlocal permitted
            reserved = await self._spending.reserve(request.worst_usd)
            try:
                permitted = True
                del worker.requests[request.ticket]
                worker.answers[request.ticket] = None
                worker.changed.set()
                outcome = await end
                self._spending.add(_paid(outcome), request.model)
                if isinstance(outcome, Reply):
                    return outcome
                raise outcome
            finally:
                self._spending.settle(reserved)

        send = limited(sent_elsewhere, self._gates, lambda _: request.tokens)
        try:
            await send(Request(PINNED_ROW, request.node, request.model, ()), request.again)
        except VerdictError as error:
            if not permitted:
                worker.answers[request.ticket] = error
                worker.changed.set()


_SUMS = ("done", "failed", "calls", "recalled", "cached", "running", "waiting")
"""The counts of a run's progress that are those of its partitions together."""


def _add(units: dict[str, Flow], others: Mapping[str, Flow]) -> None:
    for name, flow in others.items():
        known = units.setdefault(name, Flow())
        for part in ("waiting", "running", "answered", "failed"):
            setattr(known, part, getattr(known, part) + getattr(flow, part))


def _paid(outcome: CallOutcome | None) -> Reply | None:
    """The reply of a call, readable or not."""
    return outcome if outcome is None or isinstance(outcome, Reply) else outcome.reply


def _without_text(outcome: CallOutcome) -> CallOutcome:
    if isinstance(outcome, Reply):
        return structs.replace(outcome, text="", logprobs=None, sent="")
    error = copy(outcome)
    error.reply = error.reply and structs.replace(error.reply, text="", logprobs=None, sent="")
    return error


class SharedSpending(Spending):
    """The spending of all workers, for batches. Two that send a wave at the same moment can both find room for it."""

    def __init__(self, budget_usd: float, spend: Callable[[float], float]) -> None:
        super().__init__(budget_usd)
        self._spend = spend

    def spend(self, usd: float) -> None:
        self.spent_usd = self._spend(usd)


@dataclass
class SharedModelClient(ModelClient):
    """A client of the worker ``name`` whose limits and budget are those of the ``coordinator``, an actor. Messages are
    bundled: one is in flight in each direction.

    Built-in models have no limits and need no permit. ``stop`` is requested when the coordinator says so, or cannot be
    reached.
    """

    coordinator: Any = None
    name: str = ""
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
        import ray

        return SharedSpending(self.shared_budget_usd, lambda usd: ray.get(self.coordinator.spend.remote(usd)))

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
            outcome: CallOutcome | None = None
            try:
                outcome = await ask(request)
                return outcome
            except (ProviderError, ReplyError) as error:
                outcome = error
                raise
            finally:
                self._end(ticket, outcome and _without_text(outcome))

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
        await self.coordinator.post.remote(self.name, requests, ended, self.progress)

    async def _listen(self) -> None:
        while True:
            grant: PermitGrant = await self.coordinator.permits.remote(self.name)
            for ticket, error in grant.answers.items():
                permit = self._permits.pop(ticket, None)
                if permit is None or permit.done():
                    continue
                if error is None:
                    permit.set_result(None)
                else:
                    permit.set_exception(error)
            if grant.stop and not self.stop.requested:
                self.stop.request()

    def _lost(self, _: asyncio.Task[None]) -> None:
        """The coordinator cannot be reached: no call is permitted any more."""
        self.stop.request()


Files = tuple[tuple[str, bytes], ...]
"""Names and contents of a pipeline's files; a plan cannot be pickled."""


class WorkerOptions(Struct, frozen=True):
    """What is the same for every partition of a run."""

    files: Files
    start: RunFacts
    columns: tuple[str, ...]
    concurrency: int
    recording: Recording | None
    cached: bool
    retry_failed: bool
    budget_usd: float | None = None
    chosen_hooks: Mapping[str, RunHooks] = msgspec.field(default_factory=dict)
    is_deferred: bool = False
    """Whether calls are answered later than they are made."""


class WorkerResult(Struct, frozen=True):
    """A partition's result, None where the run was to stop before it began, and the error that stopped it.

    ``name`` is that of its folder, ``worker`` the worker's, under which its tables are in a store: another worker that was
    presumed lost may write there too.
    """

    done: PartitionResult | None = None
    error: VerdictError | None = None
    name: str = ""
    worker: str = ""


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
        done = _run(options, actor, name, rows, directory, pinned)
        if directory.remote is not None:
            for table in (directory.results, directory.calls):
                directory.remote.folder.put(table, f"{name}/{table.name}")
            directory.remote.clear()
        return WorkerResult(done, done.error, folder.rpartition("/")[2], name)
    except VerdictError as error:
        return WorkerResult(error=error)
    finally:
        ray.get(actor.end.remote(name))


def fetch_tables(result: WorkerResult, run: StoreFolder, parts: Path) -> None:
    """Fetch the tables that a worker has put into the store to the partition's folder in ``parts``."""
    folder = RunDirectory(parts / result.name)
    folder.prepare()
    for table in (folder.results, folder.calls):
        run.get(f"{parts.name}/{result.name}/{result.worker}/{table.name}", table)


def _run(
    options: WorkerOptions,
    actor: Any,
    name: str,
    rows: Sequence[Row],
    folder: RunDirectory,
    pinned: Mapping[int, Output | None] | None,
) -> PartitionResult:
    folder.prepare()
    plan = _plan(options.files)
    store = open_cache(plan) if options.cached else None
    stop = Stop()
    client = SharedModelClient(
        Providers(options.recording),
        RateLimiters(options.concurrency),
        store=store,
        recorded=options.recording is not None,
        coordinator=actor,
        name=name,
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
        return run_part(job, Partition(rows, len(rows), folder, pinned), stop, client.report, client)
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
