"""What workers in several processes share: limits, budget, progress, and the request to stop."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from time import monotonic

from msgspec import structs

from verdict_cli.errors import ProviderError, ReplyError, Retryable, VerdictError
from verdict_cli.llm.middleware.budget import Spending
from verdict_cli.llm.middleware.rate_limit import Flow, RateLimiters, limited
from verdict_cli.messages import Allowance, Reply, Request
from verdict_cli.model import Model
from verdict_cli.run.progress import Progress
from verdict_cli.run.row import PINNED_ROW

LISTEN_S = 0.25
"""How long `permits` waits where there are none: its answer also says whether to stop."""
LOST_S = 3.0
"""A worker that has not called `permits` for so long is presumed lost, and others get its permits. Should it come back,
its calls count late."""


@dataclass(frozen=True, slots=True)
class PermitRequest:
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


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """What limits and budget need of a call. ``reply`` has no text, and is None where nothing was paid for."""

    reply: Reply | None
    failed: bool = False
    too_many: bool = False
    allowance: Allowance | None = None
    retry_after_s: float | None = None

    @classmethod
    def of(cls, result: Reply | ProviderError | ReplyError) -> CallOutcome:
        """The outcome of a call that returned or raised ``result``."""
        if isinstance(result, Reply):
            return cls(_without_text(result))
        too_many = isinstance(result, Retryable) and result.failure == "rate-limit"
        reply = None if result.reply is None else _without_text(result.reply)
        allowance = result.allowance if isinstance(result, ProviderError) else None
        return cls(reply, True, too_many, allowance, result.retry_after_s if isinstance(result, Retryable) else None)

    def result(self) -> Reply:
        """The reply. Raises Retryable where the call failed."""
        if self.reply is not None and not self.failed:
            return self.reply
        kind = "rate-limit" if self.too_many else "unavailable"
        failed = Retryable("the call failed", kind=kind, retry_after_s=self.retry_after_s)
        failed.reply, failed.allowance = self.reply, self.allowance
        raise failed


@dataclass(frozen=True, slots=True)
class PermitGrant:
    """The tickets of calls that may be sent, and of those that are refused, each with the error."""

    tickets: Sequence[int] = ()
    refused: Mapping[int, VerdictError] = field(default_factory=dict)
    stop: bool = False


@dataclass
class _Worker:
    part: int
    last_contact: float = field(default_factory=monotonic)
    asleep: bool = False
    requests: dict[int, PermitRequest] = field(default_factory=dict)
    waiting: dict[int, asyncio.Task[None]] = field(default_factory=dict)
    ends: dict[int, asyncio.Future[CallOutcome]] = field(default_factory=dict)
    permitted: list[int] = field(default_factory=list)
    refused: dict[int, VerdictError] = field(default_factory=dict)
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
            task, end = worker.waiting.pop(ticket, None), worker.ends.pop(ticket, None)
            if task is None or end is None or end.done():  # refused meanwhile, or its permit was taken away
                model = None if request is None else request.model
                self._spending.add(None if outcome is None else outcome.reply, model)
            elif outcome is None:
                task.cancel()
            else:
                end.set_result(outcome)

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
        tickets, worker.permitted = worker.permitted, []
        refused, worker.refused = worker.refused, {}
        for ticket in refused:
            for by_ticket in (worker.requests, worker.waiting, worker.ends):
                by_ticket.pop(ticket, None)
        return PermitGrant(tickets, refused, self._stopped)

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
        """Have all workers stop."""
        self._stopped = True
        for worker in self._workers.values():
            worker.changed.set()

    async def progress(self, counted: Progress) -> Progress:
        """``counted``, the progress of partitions that have ended, plus what the running ones report."""
        self._release_lost()
        whole = replace(counted, waiting=self._gates.waiting, running=self._gates.running)
        units: dict[str, Flow] = {}
        _add(units, self._gates.flows)
        _add(units, self._units)
        for part in self._running.values():
            whole = replace(
                whole,
                done=whole.done + part.done,
                failed=whole.failed + part.failed,
                calls=whole.calls + part.calls,
                recalled=whole.recalled + part.recalled,
                cached=whole.cached + part.cached,
                running=whole.running + part.running,
                waiting=whole.waiting + part.waiting,
                cost_usd=None if whole.cost_usd is None or part.cost_usd is None else whole.cost_usd + part.cost_usd,
            )
            _add(units, part.units)
            if part.pending is not None:
                whole = replace(whole, pending=part.pending.plus(whole.pending))
        return replace(whole, units=units)

    def _admit(self, worker: _Worker, requests: Sequence[PermitRequest]) -> None:
        if worker.asleep:
            return
        for request in requests:
            worker.ends[request.ticket] = asyncio.get_running_loop().create_future()
            worker.waiting[request.ticket] = asyncio.create_task(self._permit(worker, request))

    def _release_lost(self) -> None:
        """Take back the permits of workers that were presumed lost, which other workers wait for."""
        for worker in self._workers.values():
            if not worker.asleep and monotonic() - worker.last_contact > LOST_S:
                worker.asleep = True
                for task in worker.waiting.values():
                    task.cancel()
                worker.waiting.clear()
                worker.ends.clear()

    def _drop(self, name: str) -> None:
        for task in self._workers.pop(name).waiting.values():
            task.cancel()

    async def _permit(self, worker: _Worker, request: PermitRequest) -> None:
        end = worker.ends[request.ticket]
        permitted = False

        async def sent_elsewhere(_: Request) -> Reply:
            nonlocal permitted
            reserved = await self._spending.reserve(request.worst_usd)
            try:
                permitted = True
                del worker.requests[request.ticket]
                worker.permitted.append(request.ticket)
                worker.changed.set()
                outcome = await end
                self._spending.add(outcome.reply, request.model)
                return outcome.result()
            finally:
                self._spending.settle(reserved)

        send = limited(sent_elsewhere, self._gates, lambda _: request.tokens)
        try:
            await send(Request(PINNED_ROW, request.node, request.model, ()), request.again)
        except VerdictError as error:
            if not permitted:
                worker.refused[request.ticket] = error
                worker.changed.set()


def _add(units: dict[str, Flow], others: Mapping[str, Flow]) -> None:
    for name, flow in others.items():
        known = units.setdefault(name, Flow())
        known.waiting += flow.waiting
        known.running += flow.running
        known.answered += flow.answered
        known.failed += flow.failed


def _without_text(reply: Reply) -> Reply:
    return structs.replace(reply, text="", logprobs=None, sent="")
