"""What `--retry-failed` asks again: the failed calls of rows that failed."""

from __future__ import annotations

from dataclasses import replace

from msgspec import structs

from verdict_cli.errors import PinnedError
from verdict_cli.llm.middleware.journal_replay import UnrecordedError, only_journalled, replay_journal
from verdict_cli.llm.tracing import Spans
from verdict_cli.messages import Ask, Request, Row
from verdict_cli.plan.node import Plan
from verdict_cli.run.attempts import Context
from verdict_cli.run.row import run_pinned, run_row
from verdict_cli.storage.journal.journal import Journal


class FailedCalls:
    """Looks at a row as it stands in the journal, before it is run.

    A row that succeeds from recorded calls alone is left as it is, with the units that it skipped. In any other row a
    call whose recorded attempts all failed gets another round of them.
    """

    def __init__(self, plan: Plan, ask: Ask, journal: Journal) -> None:
        self._plan, self._journal = plan, journal
        self._ask = only_journalled(replay_journal(ask, journal, as_recorded=True), journal)

    async def context(self, row: Row | None, context: Context) -> Context:
        """The context in which the row is to be run; None stands for the pinned units."""
        as_it_stands = replace(context, ask=self._ask, forget=lambda _: None, unit=Spans().unit)
        try:
            if row is None:
                await run_pinned(self._plan, as_it_stands)
                return context
            if (await run_row(self._plan, row, as_it_stands)).failure is None:
                return context
        except (PinnedError, UnrecordedError):
            pass
        return replace(context, again=self._again)

    def _again(self, request: Request) -> bool:
        """Whether that attempt was made by an earlier run, or the last one before it was: then the call failed there."""
        return went_on(self._journal, request) or went_on(
            self._journal, structs.replace(request, attempt=request.attempt - 1)
        )


def went_on(journal: Journal, request: Request) -> bool:
    """Whether an earlier run made that attempt."""
    return journal.earlier(request.row.key, request.node, request.call, request.attempt)
