"""The middleware of `--trace`. It is the last one, so that a span is a call that is made, not one that waits or is recalled."""

from __future__ import annotations

from verdict_cli.llm.middleware.chain import RunCalls
from verdict_cli.messages import Ask
from verdict_cli.run.observer import RunObserver


class CallObserver(RunObserver):
    """An observer that also watches calls."""

    def calls(self, ask: Ask) -> Ask:
        """``ask``, watched."""
        raise NotImplementedError


def trace_calls(ask: Ask, calls: RunCalls) -> Ask:
    """``ask`` with a span for each call, where the run is traced."""
    return calls.observer.calls(ask) if isinstance(calls.observer, CallObserver) else ask
