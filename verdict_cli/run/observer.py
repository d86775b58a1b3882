"""What watches a run: its rows and their units, for a display or for tracing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext

from verdict_cli.messages import Failure, Output, Row
from verdict_cli.run.score import JudgedSpan, Score
from verdict_cli.run_facts import RunFacts

_NOTHING: AbstractContextManager[Callable[[object], None]] = nullcontext(lambda _: None)
_NO_ROW: AbstractContextManager[Callable[[object, object], None]] = nullcontext(lambda _, __: None)


class RunObserver:
    """Context managers around what happens in a run, each of which yields a function that receives the outcome.

    These do nothing. Calls are watched by middleware (`verdict_cli.llm.middleware.chain`), which gets the run's observer.
    """

    def run(self, name: str) -> AbstractContextManager[Callable[[RunFacts], None]]:
        """The whole run."""
        return _NOTHING

    def row(
        self, row: Row, judged: JudgedSpan | None = None
    ) -> AbstractContextManager[Callable[[Failure | None, Iterable[Score]], None]]:
        """One row, and the span that it judges. Units that all rows share belong to the run."""
        return _NO_ROW

    def unit(self, node: str) -> AbstractContextManager[Callable[[Output | None], None]]:
        """One unit at one row; an exception marks it as failed."""
        return _NOTHING
