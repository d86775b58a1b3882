"""Budget: reserve each call's worst case, and start no call once the run is stopping or its budget is spent.

It is inside the rate limits, so that a call that waited for them is checked when its turn comes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from math import inf

from msgspec import Struct, field

from verdict_cli.errors import BudgetError, Refused, Rejected, ReplyError, Retryable, VerdictError
from verdict_cli.llm.providers.price_book import charged_usd, worst_case_usd
from verdict_cli.messages import Ask, Reply, Request
from verdict_cli.model import Model


class HaltedError(VerdictError):
    """The run is stopping: the call was not made, and its row is left to the resumed run."""

    kind = "halted"


class Spending(Struct):
    """The cost of the calls so far, and with a budget what is reserved for the calls in flight.

    The calls of the run that this one resumes count from the start.
    """

    budget_usd: float | None = None
    spent_usd: float = 0.0
    unknown: str = ""
    reserved_usd: float = 0.0
    in_flight: int = 0
    _settled: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, reply: Reply | None, model: Model | None = None) -> None:
        """Count a reply of ``model`` that was paid for, readable or not; None: there was none."""
        if reply is None:
            return
        cost = reply.cost_usd
        if self.budget_usd is not None and model is not None:
            cost = charged_usd(model, cost, reply.usage)
        self.charge(cost, reply.model)

    def charge(self, cost_usd: float | None, models: str = "") -> None:
        """Count what calls have cost; None: the price of one of the ``models`` is not known."""
        if cost_usd is None:
            self.unknown = models
        else:
            self.spent_usd += cost_usd

    @property
    def room_usd(self) -> float:
        """What is neither spent nor reserved. The sums are rounded."""
        if self.budget_usd is None:
            return inf
        return self.budget_usd * (1 + 1e-9) - self.spent_usd - self.reserved_usd

    async def reserve(
        self, worst_usd: float | None, halted: Callable[[], bool] = lambda: False
    ) -> float:
        """Reserve the worst case of a call (None: unknown), waiting for calls in flight where the budget has no room.

        A call that does not fit even alone is made alone, so that the budget is exceeded by one call at most. Returns
        the reserved dollars. Raises BudgetError as `check` does, HaltedError once ``halted`` is true.
        """
        if self.budget_usd is None:
            return 0.0
        worst = self.budget_usd if worst_usd is None else worst_usd
        while True:
            if halted():
                raise HaltedError("the run is stopping")
            self.check()
            if not self.in_flight or worst <= self.room_usd:
                break
            self._settled.clear()
            await self._settled.wait()
        self.in_flight += 1
        self.reserved_usd += worst
        return worst

    def settle(self, reserved_usd: float) -> None:
        """Release what `reserve` returned, once the call has ended and its reply was added."""
        if self.budget_usd is None or not self.in_flight:
            return
        self.in_flight -= 1
        self.reserved_usd = self.reserved_usd - reserved_usd if self.in_flight else 0.0
        self._settled.set()

    def check(self) -> None:
        """Raises BudgetError if no further call may be made."""
        if self.budget_usd is None:
            return
        if self.unknown:
            raise BudgetError(
                f"a call of model {self.unknown} has no known cost, so the budget cannot be kept",
                hint="give the model its `cost:`; where its server states no token counts, run without --budget",
            )
        if self.spent_usd >= self.budget_usd:
            raise BudgetError(
                f"the budget of {self.budget_usd:g} USD is spent",
                hint="the same command with a larger --budget resumes the run",
            )


def check_budget(
    ask: Ask, spending: Spending, halted: Callable[[], bool], halt: Callable[[VerdictError], None]
) -> Ask:
    """``ask``, which raises HaltedError once ``halted`` is true. ``halt`` receives the error that stops the run."""

    def ask_unless_halted(request: Request) -> Awaitable[Reply]:
        if halted():
            raise HaltedError("the run is stopping")
        return ask_counted(request) if spending.budget_usd is None else ask_reserved(request)

    async def ask_reserved(request: Request) -> Reply:
        try:
            reserved = await spending.reserve(worst_case_usd(request), halted)
        except BudgetError as error:
            halt(error)
            raise
        try:
            return await ask_counted(request)
        finally:
            spending.settle(reserved)

    async def ask_counted(request: Request) -> Reply:
        try:
            reply = await ask(request)
        except (ReplyError, Rejected, Retryable) as error:
            spending.add(error.reply, request.model)
            raise
        except (Refused, BudgetError) as error:
            halt(error)
            raise
        spending.add(reply, request.model)
        return reply

    return ask_unless_halted
