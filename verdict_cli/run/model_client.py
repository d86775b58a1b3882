"""The way to the models: providers, limits, spending and cache, of one run or of everything that a server does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from verdict_cli.errors import VerdictError
from verdict_cli.llm.middleware.cache import cached
from verdict_cli.llm.middleware.cache_store import CacheStore
from verdict_cli.llm.middleware.rate_limit import RateLimiters, rate_limited
from verdict_cli.llm.middleware.require_logprobs import require_logprobs
from verdict_cli.llm.providers import Providers
from verdict_cli.llm.providers.provider import TokenCallback
from verdict_cli.llm.providers.recording import Recording
from verdict_cli.llm.tracing import Spans
from verdict_cli.messages import Ask, Request
from verdict_cli.run.budget import Spending, check_budget

Forget = Callable[[Request], None]


@dataclass
class ModelClient:
    """What is shared by all calls. ``recorded``: they are answered from a recording, so that nothing else is asked."""

    providers: Providers
    gates: RateLimiters = field(default_factory=RateLimiters)
    spending: Spending = field(default_factory=Spending)
    store: CacheStore | None = None
    recorded: bool = False

    @classmethod
    def open(
        cls,
        *,
        concurrency: int | None = None,
        recording: Recording | None = None,
        budget_usd: float | None = None,
        store: CacheStore | None = None,
        heard: TokenCallback | None = None,
    ) -> ModelClient:
        """A way to the models; ``heard`` is told each piece of a streamed reply as it comes."""
        providers = Providers(recording, heard)
        return cls(providers, RateLimiters(concurrency), Spending(budget_usd), store, recording is not None)

    def ring(
        self,
        spans: Spans,
        halted: Callable[[], bool] = lambda: False,
        halt: Callable[[VerdictError], None] = lambda _: None,
    ) -> tuple[Ask, Forget]:
        """What asks, and what takes a reply that could not be read out of the cache again.

        No call is made once ``halted``; ``halt`` is told what should stop a run: a refusal, a spent budget.
        """
        ask = self.within_limits(check_budget(spans.calls(self.providers.ask), self.spending, halted, halt))
        if self.recorded:
            return ask, _nothing
        ask = require_logprobs(ask)
        return (ask, _nothing) if self.store is None else cached(ask, self.store)

    def within_limits(self, ask: Ask) -> Ask:
        """``ask``, waiting until the limits allow the call."""
        return rate_limited(ask, self.gates)

    async def close(self) -> None:
        """Lets go of connections; the store is closed by who opened it."""
        await self.providers.close()


def _nothing(_: Request) -> None:
    """There is no cache to forget anything."""
