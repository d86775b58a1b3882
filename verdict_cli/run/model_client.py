"""The client of the models, with its providers, limits, budget and cache, for one run or for all requests of a server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec import Struct, field

from verdict_cli.llm.middleware.budget import Spending
from verdict_cli.llm.middleware.cache_store import CacheStore
from verdict_cli.llm.middleware.chain import Chain, StopSignal, build_chain
from verdict_cli.llm.middleware.prefix_leader import PrefixLeaders
from verdict_cli.llm.middleware.rate_limit import RateLimiters
from verdict_cli.llm.middleware.replies import OwnCalls, ReplySources
from verdict_cli.llm.providers import Providers, TokenCallback
from verdict_cli.llm.providers.recording import Recording
from verdict_cli.messages import Reply, Request
from verdict_cli.plan.node import Plan
from verdict_cli.run.observer import RunObserver
from verdict_cli.run.process import calls_at_once
from verdict_cli.storage.database.database import Database


class ModelClient(Struct):
    """What all calls share. ``recorded``: a recording answers them, and no model is called."""

    providers: Providers
    limiters: RateLimiters = field(default_factory=RateLimiters)
    spending: Spending = field(default_factory=Spending)
    store: CacheStore | None = None
    recorded: bool = False
    leaders: PrefixLeaders = field(default_factory=PrefixLeaders)

    @classmethod
    def open(
        cls,
        *,
        concurrency: int | None = None,
        recording: Recording | None = None,
        budget_usd: float | None = None,
        shards: int = 1,
        store: CacheStore | None = None,
        on_token: TokenCallback | None = None,
    ) -> ModelClient:
        """A client; ``on_token`` receives the text of streamed replies."""
        providers = Providers(recording, on_token)
        at_once = None if concurrency is None else calls_at_once(concurrency)
        return cls(
            providers,
            RateLimiters(at_once, shards=shards, recorded=recording is not None),
            Spending(budget_usd),
            store,
            recording is not None,
        )

    def chain(
        self,
        observer: RunObserver,
        stop: StopSignal | None = None,
        own: OwnCalls | None = None,
        reuse: tuple[Database, ...] = (),
        is_spared: Callable[[Request], bool] | None = None,
        renamed: Callable[[str], str] | None = None,
        defer: Callable[[Request, bytes], Awaitable[Reply | None]] | None = None,
    ) -> Chain:
        """The middleware around the providers; see `build_chain` and `ReplySources`."""
        return build_chain(
            self.providers.ask,
            self.limiters,
            self.spending,
            self.leaders,
            ReplySources(own, reuse, self.store, defer=defer),
            stop or StopSignal(),
            recorded=self.recorded,
            is_spared=is_spared,
            renamed=renamed,
            watch=observer.calls,
        )

    async def close(self) -> None:
        """Close connections. The store is closed by whoever opened it."""
        await self.providers.close()


def has_alternative(plan: Plan) -> Callable[[Request], bool]:
    """Whether a request's rejection loses no row: another model is called next, or the unit may fail."""
    last_models = {
        (node.id, models[-1].name)
        for node, work in plan.llm_nodes
        for models in (*node.stages, work.follow_up)
        if models and not node.skips
    }
    return lambda request: (request.node, request.model.name) not in last_models
