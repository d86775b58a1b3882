"""The way to the models: providers, limits, spending and cache, of one run or of everything that a server does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from verdict_cli.calls import Gates, Spans, Store, cached, limited, proven
from verdict_cli.engines.guard import Spending, guarded
from verdict_cli.errors import VerdictError
from verdict_cli.providers import Heard, Providers, Recording
from verdict_cli.values import Ask, Request

Forget = Callable[[Request], None]


@dataclass
class Access:
    """What is shared by all calls. ``recorded``: they are answered from a recording, so that nothing else is asked."""

    providers: Providers
    gates: Gates = field(default_factory=Gates)
    spending: Spending = field(default_factory=Spending)
    store: Store | None = None
    recorded: bool = False

    @classmethod
    def open(
        cls,
        *,
        concurrency: int | None = None,
        recording: Recording | None = None,
        budget_usd: float | None = None,
        store: Store | None = None,
        heard: Heard | None = None,
    ) -> Access:
        """A way to the models; ``heard`` is told each piece of a streamed reply as it comes."""
        providers = Providers(recording, heard)
        return cls(providers, Gates(concurrency), Spending(budget_usd), store, recording is not None)

    def ring(
        self,
        spans: Spans,
        halted: Callable[[], bool] = lambda: False,
        halt: Callable[[VerdictError], None] = lambda _: None,
    ) -> tuple[Ask, Forget]:
        """What asks, and what takes a reply that could not be read out of the cache again.

        No call is made once ``halted``; ``halt`` is told what should stop a run: a refusal, a spent budget.
        """
        ask = self.within_limits(guarded(spans.calls(self.providers.ask), self.spending, halted, halt))
        if self.recorded:
            return ask, _nothing
        ask = proven(ask)
        return (ask, _nothing) if self.store is None else cached(ask, self.store)

    def within_limits(self, ask: Ask) -> Ask:
        """``ask``, waiting until the limits allow the call."""
        return limited(ask, self.gates)

    async def close(self) -> None:
        """Lets go of connections; the store is closed by who opened it."""
        await self.providers.close()


def _nothing(_: Request) -> None:
    """There is no cache to forget anything."""
