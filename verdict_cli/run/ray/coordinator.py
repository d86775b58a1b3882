"""What workers in several processes share: limits, spending, progress, and the wish to stop."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from time import monotonic

from msgspec import structs

from verdict_cli.errors import ProviderError, ReplyError, Retryable, VerdictError
from verdict_cli.llm.middleware.budget import Spending
from verdict_cli.llm.middleware.rate_limit import Flow, RateLimiters, rate_limited
from verdict_cli.messages import Allowance, Reply, Request
from verdict_cli.model import Model
from verdict_cli.run.progress import Progress
from verdict_cli.run.row import PINNED_ROW

LISTEN_S = 0.25
"""How long a worker waits for permits before it is told that there are none, and whether to stop."""
LOST_S = 3.0
"""A worker that has not listened for so long is taken for lost: others get its permits. Should it come back, its calls
count late."""


@dataclass(frozen=True, slots=True)
class PermitRequest:
    """A call that waits for its permit; ``ticket`` is its number in the worker's part."""

    ticket: int
    node: str
    model: Model
    tokens: int


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """What limits and budget learn of a call. ``reply`` has no text, and is None where nothing was paid for."""

    reply: Reply | None
    failed: bool = False
    too_many: bool = False
    allowance: Allowance | None = None

    @classmethod
    def of(cls, came: Reply | ProviderError | ReplyError) -> CallOutcome:
        """Of a reply, or of why there is none."""
        if isinstance(came, Reply):
            return cls(_slim(came))
        too_many = isinstance(came, Retryable) and came.failure == "rate-limit"
        reply = None if came.reply is None else _slim(came.reply)
        return cls(reply, True, too_many, came.allowance if isinstance(came, ProviderError) else None)

    def again(self) -> Reply:
        """The reply; Retryable where the call failed."""
        if self.reply is not None and not self.failed:
            return self.reply
        failed = Retryable("the call failed", kind="rate-limit" if self.too_many else "unavailable")
        failed.reply, failed.allowance = self.reply, self.allowance
        raise failed


@dataclass(frozen=True, slots=True)
class PermitGrant:
    """The tickets of calls that may be sent, and of those that never may, each with the reason."""

    tickets: Sequence[int] = ()
    refused: Mapping[int, VerdictError] = field(default_factory=dict)
    stop: bool = False


@dataclass
class _Worker:
    part: int
    heard: float = field(default_factory=monotonic)
    asleep: bool = False
    wanted: dict[int, PermitRequest] = field(default_factory=dict)
    waiting: dict[int, asyncio.Task[None]] = field(default_factory=dict)
    ends: dict[int, asyncio.Future[CallOutcome]] = field(default_factory=dict)
    permitted: list[int] = field(default_factory=list)
    refused: dict[int, VerdictError] = field(default_factory=dict)
    news: asyncio.Event = field(default_factory=asyncio.Event)


class Coordinator:
    """The limits and the budget of one run, for one event loop: workers send what they want and what has ended in
    bundles, and are told in bundles which calls may be sent.

    ``spent_usd`` is what the run has paid before. A worker that begins a part which another one had lost takes
    its place: the permits of the lost one are free again.
    """

    def __init__(self, concurrent: int, budget_usd: float | None = None, spent_usd: float = 0.0) -> None:
        self._gates = RateLimiters(concurrent)
        self._spending = Spending(budget_usd, spent_usd)
        self._workers: dict[str, _Worker] = {}
        self._going: dict[int, Progress] = {}
        self._units: dict[str, Flow] = {}
        self._stopped = False

    async def begin(self, name: str, part: int) -> bool:
        """Whether the worker of that name is to run the part: not once the run is to stop."""
        for other, worker in list(self._workers.items()):
            if worker.part == part:
                self._drop(other)
        if not self._stopped:
            self._workers[name] = _Worker(part)
        return not self._stopped

    async def post(
        self,
        name: str,
        wanted: Sequence[PermitRequest],
        ended: Sequence[tuple[int, CallOutcome | None]],
        progress: Progress | None,
    ) -> None:
        """Takes in calls that want a permit, and calls that have ended; None of one that was given up."""
        worker = self._workers.get(name)
        if worker is None:
            return
        if progress is not None:
            self._going[worker.part] = progress
        worker.wanted |= {one.ticket: one for one in wanted}
        self._admit(worker, wanted)
        for ticket, heard in ended:
            worker.wanted.pop(ticket, None)
            task, end = worker.waiting.pop(ticket, None), worker.ends.pop(ticket, None)
            if task is None or end is None or end.done():  # refused meanwhile, or its permit was taken away
                self._spending.add(None if heard is None else heard.reply)
            elif heard is None:
                task.cancel()
            else:
                end.set_result(heard)

    async def permits(self, name: str) -> PermitGrant:
        """The permits that are new, after a moment where there are none."""
        worker = self._workers.get(name)
        if worker is None:
            return PermitGrant(stop=True)
        worker.heard = monotonic()
        if worker.asleep:
            worker.asleep = False
            self._admit(worker, list(worker.wanted.values()))
        with suppress(TimeoutError):
            await asyncio.wait_for(worker.news.wait(), LISTEN_S)
        worker.heard = monotonic()
        worker.news.clear()
        tickets, worker.permitted = worker.permitted, []
        refused, worker.refused = worker.refused, {}
        for ticket in refused:
            for kept in (worker.wanted, worker.waiting, worker.ends):
                kept.pop(ticket, None)
        return PermitGrant(tickets, refused, self._stopped)

    async def end(self, name: str) -> None:
        """The worker has ended its part: whoever gave it counts what it did."""
        part = self._workers[name].part
        self._drop(name)
        ended = self._going.pop(part, None)
        if ended is not None:
            _add(self._units, ended.units)

    async def stop(self) -> None:
        """Tells all workers to stop."""
        self._stopped = True
        for worker in self._workers.values():
            worker.news.set()

    async def progress(self, counted: Progress) -> Progress:
        """``counted``, which has the parts that have ended, with what the others report."""
        self._release_lost()
        whole = replace(counted, waiting=self._gates.waiting, running=self._gates.running)
        units: dict[str, Flow] = {}
        _add(units, self._gates.flows)
        _add(units, self._units)
        for one in self._going.values():
            whole = replace(
                whole,
                done=whole.done + one.done,
                failed=whole.failed + one.failed,
                calls=whole.calls + one.calls,
                recalled=whole.recalled + one.recalled,
                cached=whole.cached + one.cached,
                running=whole.running + one.running,
                waiting=whole.waiting + one.waiting,
                cost_usd=None if whole.cost_usd is None or one.cost_usd is None else whole.cost_usd + one.cost_usd,
            )
            _add(units, one.units)
        return replace(whole, units=units)

    def _admit(self, worker: _Worker, wanted: Sequence[PermitRequest]) -> None:
        if worker.asleep:
            return
        for one in wanted:
            worker.ends[one.ticket] = asyncio.get_running_loop().create_future()
            worker.waiting[one.ticket] = asyncio.create_task(self._permit(worker, one))

    def _release_lost(self) -> None:
        """Takes the permits of workers that are not heard of any more: who takes over their parts may have to wait for
        a processor, and others for the permits."""
        for worker in self._workers.values():
            if not worker.asleep and monotonic() - worker.heard > LOST_S:
                worker.asleep = True
                for task in worker.waiting.values():
                    task.cancel()
                worker.waiting.clear()
                worker.ends.clear()

    def _drop(self, name: str) -> None:
        for task in self._workers.pop(name).waiting.values():
            task.cancel()

    async def _permit(self, worker: _Worker, wanted: PermitRequest) -> None:
        end = worker.ends[wanted.ticket]
        permitted = False

        async def sent_elsewhere(_: Request) -> Reply:
            nonlocal permitted
            self._spending.check()
            permitted = True
            del worker.wanted[wanted.ticket]
            worker.permitted.append(wanted.ticket)
            worker.news.set()
            heard = await end
            self._spending.add(heard.reply)
            return heard.again()

        ask = rate_limited(sent_elsewhere, self._gates, lambda _: wanted.tokens)
        try:
            await ask(Request(PINNED_ROW, wanted.node, wanted.model, ()))
        except VerdictError as error:
            if not permitted:
                worker.refused[wanted.ticket] = error
                worker.news.set()


def _add(units: dict[str, Flow], others: Mapping[str, Flow]) -> None:
    for name, flow in others.items():
        known = units.setdefault(name, Flow())
        known.waiting += flow.waiting
        known.running += flow.running
        known.answered += flow.answered
        known.failed += flow.failed


def _slim(reply: Reply) -> Reply:
    return structs.replace(reply, text="", logprobs=None, sent="")
