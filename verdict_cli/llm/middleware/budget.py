"""Budget: start no call once the run is stopping or its budget is spent.

It is inside the rate limits, so that a call that waited for them is checked when its turn comes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from verdict_cli.errors import BudgetError, Refused, Rejected, ReplyError, Retryable, VerdictError
from verdict_cli.messages import Ask, Reply, Request


class HaltedError(VerdictError):
    """The run is stopping: the call was not made, and its row is left to the resumed run."""

    kind = "halted"


@dataclass
class Spending:
    """The cost of the calls so far. Those of the run that this one resumes count when they are recalled."""

    budget_usd: float | None = None
    spent_usd: float = 0.0
    unknown: str = ""

    def add(self, reply: Reply | None) -> None:
        """Count a reply that was paid for, readable or not; None: there was none."""
        if reply is None:
            return
        if reply.cost_usd is None:
            self.unknown = reply.model
        else:
            self.spent_usd += reply.cost_usd

    def check(self) -> None:
        """Raises BudgetError if no further call may be made."""
        if self.budget_usd is None:
            return
        if self.unknown:
            raise BudgetError(
                f"a call of model {self.unknown} has no known cost, so the budget cannot be kept",
                hint="give the model its `cost:`, or run without --budget",
            )
        if self.spent_usd >= self.budget_usd:
            raise BudgetError(
                f"the budget of {self.budget_usd:g} USD is spent",
                hint="the same command with a larger --budget resumes the run",
            )


def check_budget(ask: Ask, spending: Spending, halted: Callable[[], bool], halt: Callable[[VerdictError], None]) -> Ask:
    """``ask``, which raises HaltedError once ``halted`` is true. ``halt`` receives the error that stops the run."""

    async def ask_unless_halted(request: Request) -> Reply:
        if halted():
            raise HaltedError("the run is stopping")
        try:
            spending.check()
            reply = await ask(request)
        except (ReplyError, Rejected, Retryable) as error:
            spending.add(error.reply)
            raise
        except (Refused, BudgetError) as error:
            halt(error)
            raise
        spending.add(reply)
        return reply

    return ask_unless_halted


def count_recalled_cost(ask: Ask, spending: Spending) -> Ask:
    """``ask``, which counts what an interrupted run paid for the calls that are recalled."""

    async def ask_and_count(request: Request) -> Reply:
        try:
            reply = await ask(request)
        except (ReplyError, Rejected, Retryable) as error:
            if error.reply is not None and error.reply.recalled:
                spending.add(error.reply)
            raise
        if reply.recalled:
            spending.add(reply)
        return reply

    return ask_and_count
