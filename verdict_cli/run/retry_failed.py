"""`--retry-failed`: retry the failed calls of rows that failed."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from msgspec import structs

from verdict_cli.errors import PinnedError
from verdict_cli.llm.middleware.journal_replay import CallJournal, UnrecordedError, only_journalled, replay_journal
from verdict_cli.messages import Ask, Request, Row
from verdict_cli.plan.node import Plan
from verdict_cli.run.attempts import Context
from verdict_cli.run.observer import RunObserver
from verdict_cli.run.row import run_pinned, run_row


class RunJournal(CallJournal, Protocol):
    """The journal of a run, whatever its parts."""

    @property
    def resumed(self) -> bool:
        """Whether it has calls of earlier runs."""

    @property
    def damaged(self) -> int:
        """Lines that cannot be read."""

    def has(self, row: str, node: str, call: int = 0, attempt: int = 0, item: str = "") -> bool:
        """Whether earlier runs have an entry with that key."""

    async def flush(self) -> None:
        """Wait until everything appended before is on disk."""

    def close(self) -> None:
        """Flush and close the files."""


class FailedCalls:
    """Decides for each row, before it is run, which calls are retried.

    A row that succeeds from recorded calls alone stays as it is, with the units that it skipped. In any other row, a
    call whose recorded attempts all failed gets another round of attempts.
    """

    def __init__(self, plan: Plan, ask: Ask, journal: RunJournal) -> None:
        self._plan, self._journal = plan, journal
        self._ask = only_journalled(replay_journal(ask, journal, as_recorded=True), journal)

    async def context(self, row: Row | None, context: Context) -> Context:
        """The context in which the row is to be run; None for the pinned units."""
        recorded = replace(context, ask=self._ask, forget=lambda _: None, unit=RunObserver().unit)
        try:
            if row is None:
                await run_pinned(self._plan, recorded)
                return context
            if (await run_row(self._plan, row, recorded)).failure is None:
                return context
        except (PinnedError, UnrecordedError):
            pass
        return replace(context, again=self._again)

    def _again(self, request: Request) -> bool:
        """Whether an earlier run made that attempt or the one before it: then the call failed there."""
        return was_attempted(self._journal, request) or was_attempted(
            self._journal, structs.replace(request, attempt=request.attempt - 1)
        )


def was_attempted(journal: RunJournal, request: Request) -> bool:
    """Whether an earlier run made that attempt."""
    return journal.has(request.row.key, request.node, request.call, request.attempt, request.row.item)
