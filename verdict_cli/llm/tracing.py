"""Tracing hooks for a run. The base class does nothing; `OpenTelemetrySpans` sends spans."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from verdict_cli.messages import Ask, Failure, Output, Row, RunFacts

_NO_SPAN: AbstractContextManager[Callable[[object], None]] = nullcontext(lambda _: None)


class Spans:
    """Spans of a run, its rows, their units and calls. These do nothing.

    All but ``calls`` are context managers around what they trace, and yield a function that receives the outcome.
    """

    def run(self, name: str) -> AbstractContextManager[Callable[[RunFacts], None]]:
        """The whole run."""
        return _NO_SPAN

    def row(self, row: Row) -> AbstractContextManager[Callable[[Failure | None], None]]:
        """One row. Units that all rows share belong to the run."""
        return _NO_SPAN

    def unit(self, node: str) -> AbstractContextManager[Callable[[Output | None], None]]:
        """One unit at one row; an exception marks it as failed."""
        return _NO_SPAN

    def calls(self, ask: Ask) -> Ask:
        """``ask``, with a span for each call."""
        return ask
