"""A worker's model client: each call gets a permit from the coordinator of its run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Protocol

from verdict_cli.errors import ProviderError, ReplyError
from verdict_cli.llm.middleware.budget import Spending
from verdict_cli.llm.middleware.rate_limit import estimate_tokens, limited, wait_for_rate_limit
from verdict_cli.llm.model_families import is_local
from verdict_cli.llm.providers.worst_case import worst_case_usd
from verdict_cli.messages import Ask, Reply, Request
from verdict_cli.run.job import Stop
from verdict_cli.run.model_client import ModelClient
from verdict_cli.run.progress import Progress
from verdict_cli.run.ray.coordinator import CallOutcome, PermitGrant, PermitRequest


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
    def wave_spending(self) -> Spending:
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
