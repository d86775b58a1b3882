"""The path of a request to a model: all middleware, in order."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from msgspec.structs import replace

from verdict_cli.errors import VerdictError
from verdict_cli.llm.middleware.budget import HaltedError, Spending, check_budget, count_recalled_cost
from verdict_cli.llm.middleware.cache import cached
from verdict_cli.llm.middleware.cache_store import CacheStore
from verdict_cli.llm.middleware.circuit_breaker import circuit_breaker
from verdict_cli.llm.middleware.journal_replay import CallJournal, replay_journal
from verdict_cli.llm.middleware.prefix_leader import PrefixLeaders
from verdict_cli.llm.middleware.require_logprobs import require_logprobs
from verdict_cli.llm.model_families import is_local
from verdict_cli.llm.tracing import Spans
from verdict_cli.messages import Ask, Reply, Request

Forget = Callable[[Request], None]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StopSignal:
    """``is_set``: whether the run is stopping, so that no call may be made; ``stop`` receives an error that stops it.

    ``confirm`` is awaited before each call, and raises an error where another process has the run.
    """

    is_set: Callable[[], bool] = lambda: False
    stop: Callable[[VerdictError], None] = lambda _: None
    confirm: Callable[[], Awaitable[None]] | None = None


@dataclass(frozen=True, slots=True)
class JournalOptions:
    """How a run uses its journal. ``resumed``: it has calls of an earlier run; the rest is passed on to the middleware."""

    journal: CallJournal
    resumed: bool
    as_recorded: bool
    is_spared: Callable[[Request], bool]
    on_append: Callable[[], None]
    updated: bool = False


@dataclass(frozen=True, slots=True)
class Chain:
    """``ask`` makes a call; ``ask_models`` makes it without the journal. ``forget`` removes an unreadable reply from the
    cache."""

    ask: Ask
    ask_models: Ask
    forget: Forget


def build_chain(
    provider: Ask,
    limit: Callable[[Ask], Ask],
    spending: Spending,
    leaders: PrefixLeaders,
    *,
    spans: Spans,
    stop: StopSignal,
    store: CacheStore | None,
    recorded: bool,
    journal: JournalOptions | None = None,
    renamed: Callable[[str], str] | None = None,
) -> Chain:
    """All middleware around ``provider``; `verdict_cli.llm.middleware` lists it.

    ``limit`` is the rate limiting. ``recorded``: all replies come from a recording, so nothing is cached or journalled.
    ``renamed`` gives the units' names in the cache and for the provider, where they differ from those in the journal.
    """
    if stop.confirm is not None:
        provider = _confirmed(provider, stop.confirm, stop.stop)
    ask = ask_local = limit(check_budget(spans.calls(provider), spending, stop.is_set, stop.stop))
    forget: Forget = _forget_nothing
    if not recorded:
        ask = leaders.around(require_logprobs(ask))
        if store is not None:
            ask, forget = cached(ask, store)
    if renamed is not None:
        ask, forget = _with_renamed_units(ask, renamed), _with_renamed_units(forget, renamed)
        ask_local = _with_renamed_units(ask_local, renamed)
    ask_models = _unless_local(ask_local, ask)
    if journal is None or recorded:
        ask = ask_models
    else:
        ask = circuit_breaker(ask, journal.is_spared)
        ask = replay_journal(
            ask,
            journal.journal,
            as_recorded=journal.as_recorded,
            on_append=journal.on_append,
            updated=journal.updated,
            resumed=journal.resumed,
        )
        if journal.resumed:
            ask = count_recalled_cost(ask, spending)
        ask = _unless_local(ask_local, ask)
    return Chain(ask, ask_models, forget)


def _with_renamed_units(take: Callable[[Request], T], renamed: Callable[[str], str]) -> Callable[[Request], T]:
    return lambda request: take(
        replace(request, node=renamed(request.node), written=request.written and renamed(request.written))
    )


def _unless_local(ask_local: Ask, ask: Ask) -> Ask:
    """``ask``, but ``ask_local`` for built-in models and recordings, which the middleware between the two leaves alone."""

    def ask_either(request: Request) -> Awaitable[Reply]:
        return ask_local(request) if is_local(request.model.name) else ask(request)

    return ask_either


def _confirmed(ask: Ask, confirm: Callable[[], Awaitable[None]], stop: Callable[[VerdictError], None]) -> Ask:
    async def ask_confirmed(request: Request) -> Reply:
        try:
            await confirm()
        except VerdictError as error:
            stop(error)
            raise HaltedError("the run is stopping") from error
        return await ask(request)

    return ask_confirmed


def _forget_nothing(_: Request) -> None:
    """There is no cache."""
