"""What a trace of a run is told, and the trace that is none."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from verdict_cli.messages import Ask, Failure, Output, Row, RunFacts

_UNHEARD: AbstractContextManager[Callable[[object], None]] = nullcontext(lambda _: None)


class Spans:
    """Spans run → row → unit → call. These do nothing and cost nothing; `Trace` records them.

    Each but ``calls`` is a context that lasts as long as what it names, and gives a function that is told the outcome.
    """

    def run(self, name: str) -> AbstractContextManager[Callable[[RunFacts], None]]:
        """The whole run."""
        return _UNHEARD

    def row(self, row: Row) -> AbstractContextManager[Callable[[Failure | None], None]]:
        """One row. Units that all rows share belong to the run."""
        return _UNHEARD

    def unit(self, node: str) -> AbstractContextManager[Callable[[Output | None], None]]:
        """One unit at one row; what it raises is why it failed."""
        return _UNHEARD

    def calls(self, ask: Ask) -> Ask:
        """``ask``, each call of which is a span."""
        return ask
