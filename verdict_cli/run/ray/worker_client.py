"""A worker's way to the models: each call asks the desk of its run for a permit."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Protocol

from verdict_cli.errors import ProviderError, ReplyError
from verdict_cli.llm.middleware.rate_limit import estimate_tokens, rate_limited
from verdict_cli.llm.model_families import is_local
from verdict_cli.messages import Ask, Reply, Request
from verdict_cli.run.job import Stop
from verdict_cli.run.model_client import ModelClient
from verdict_cli.run.progress import Progress
from verdict_cli.run.ray.coordinator import CallOutcome, PermitGrant, PermitRequest


class CoordinatorClient(Protocol):
    """The way to a `Desk`, in whatever process it is."""

    async def post(
        self,
        wanted: Sequence[PermitRequest],
        ended: Sequence[tuple[int, CallOutcome | None]],
        progress: Progress | None,
    ) -> None: ...

    async def permits(self) -> PermitGrant: ...


@dataclass
class SharedModelClient(ModelClient):
    """As `Access`, with limits and spending at the desk: one bundle is on its way there at a time, and one back.

    Built-in models have no limits and pass without. ``stop`` is asked when the desk says so, or cannot be reached.
    """

    desk: CoordinatorClient | None = None
    stop: Stop = field(default_factory=Stop)
    progress: Progress | None = None
    _wanted: list[PermitRequest] = field(default_factory=list)
    _ended: list[tuple[int, CallOutcome | None]] = field(default_factory=list)
    _turns: dict[int, asyncio.Future[None]] = field(default_factory=dict)
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _tickets: Any = field(default_factory=count)
    _loops: tuple[asyncio.Task[None], ...] = ()

    def limit(self, ask: Ask) -> Ask:
        """``ask``, waiting for a permit."""
        here = rate_limited(ask, self.limiters)
        self._loops = tuple(asyncio.create_task(loop) for loop in (self._post(), self._listen()))
        for loop in self._loops:
            loop.add_done_callback(self._lost)

        async def ask_permitted(request: Request) -> Reply:
            if is_local(request.model.name) and request.model.rate_limit is None:
                return await here(request)
            ticket = next(self._tickets)
            await self._turn(ticket, request)
            heard = None
            try:
                reply = await ask(request)
                heard = CallOutcome.of(reply)
                return reply
            except (ProviderError, ReplyError) as problem:
                heard = CallOutcome.of(problem)
                raise
            finally:
                self._end(ticket, heard)

        return ask_permitted

    def report(self, progress: Progress) -> None:
        """Has the desk told how far the part is."""
        self.progress = progress
        self._news.set()

    async def close(self) -> None:
        """Says what has ended, and lets go of connections."""
        for loop in self._loops:
            loop.remove_done_callback(self._lost)
            loop.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        if self._loops:
            with suppress(Exception):  # a desk that is gone needs no news
                await self._send()
        await super().close()

    async def _turn(self, ticket: int, request: Request) -> None:
        turn = self._turns[ticket] = asyncio.get_running_loop().create_future()
        self._wanted.append(PermitRequest(ticket, request.node, request.model, estimate_tokens(request)))
        self._news.set()
        try:
            await turn
        except asyncio.CancelledError:
            self._turns.pop(ticket, None)
            self._end(ticket, None)
            raise

    def _end(self, ticket: int, heard: CallOutcome | None) -> None:
        self._ended.append((ticket, heard))
        self._news.set()

    async def _post(self) -> None:
        while True:
            await self._news.wait()
            await self._send()

    async def _send(self) -> None:
        self._news.clear()
        wanted, self._wanted = self._wanted, []
        ended, self._ended = self._ended, []
        assert self.desk is not None
        await self.desk.post(wanted, ended, self.progress)

    async def _listen(self) -> None:
        assert self.desk is not None
        while True:
            said = await self.desk.permits()
            for ticket in said.tickets:
                turn = self._turns.pop(ticket, None)
                if turn is not None and not turn.done():
                    turn.set_result(None)
            for ticket, error in said.refused.items():
                turn = self._turns.pop(ticket, None)
                if turn is not None and not turn.done():
                    turn.set_exception(error)
            if said.stop and not self.stop.asked:
                self.stop.ask()

    def _lost(self, _: asyncio.Task[None]) -> None:
        """The desk cannot be reached: nothing more may be asked."""
        self.stop.ask()
