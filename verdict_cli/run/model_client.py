"""The model client: providers, limits, budget and cache of one run, or of a server."""

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
    """What all calls share. ``recorded``: a recording answers them, and no model is called."""

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
        on_token: TokenCallback | None = None,
    ) -> ModelClient:
        """A new client; ``on_token`` gets each piece of a streamed reply as it arrives."""
        providers = Providers(recording, on_token)
        return cls(providers, RateLimiters(concurrency), Spending(budget_usd), store, recording is not None)

    def middleware(
        self,
        spans: Spans,
        halted: Callable[[], bool] = lambda: False,
        halt: Callable[[VerdictError], None] = lambda _: None,
    ) -> tuple[Ask, Forget]:
        """The function that calls a model, and the one that removes an unreadable reply from the cache.

        No call is made once ``halted``. ``halt`` gets the errors that stop a run: Refused and BudgetError.
        """
        ask = self.within_limits(check_budget(spans.calls(self.providers.ask), self.spending, halted, halt))
        if self.recorded:
            return ask, _keep
        ask = require_logprobs(ask)
        return (ask, _keep) if self.store is None else cached(ask, self.store)

    def within_limits(self, ask: Ask) -> Ask:
        """``ask``, which waits until the limits allow the call."""
        return rate_limited(ask, self.gates)

    async def close(self) -> None:
        """Close connections; whoever opened the store closes it."""
        await self.providers.close()


def _keep(_: Request) -> None:
    """Without a cache there is nothing to remove."""
