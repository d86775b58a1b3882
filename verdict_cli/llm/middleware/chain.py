"""The path of a request to a model: all middleware, in order, and the door for more of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from verdict_cli.errors import VerdictError
from verdict_cli.llm.middleware.budget import HaltedError, Spending, check_budget, count_recalled_cost
from verdict_cli.llm.middleware.cache import cached
from verdict_cli.llm.middleware.cache_store import CacheStore
from verdict_cli.llm.middleware.circuit_breaker import circuit_breaker
from verdict_cli.llm.middleware.journal_replay import CallJournal, replay_journal
from verdict_cli.llm.middleware.pack_questions import pack_questions
from verdict_cli.llm.middleware.prefix_leader import PrefixLeaders
from verdict_cli.llm.middleware.require_logprobs import require_logprobs
from verdict_cli.llm.model_families import is_local
from verdict_cli.messages import Ask, Reply, Request
from verdict_cli.registry import Registry

Forget = Callable[[Request], None]
T = TypeVar("T")


class StopSignal(Struct, frozen=True):
    """``is_set``: whether the run is stopping, so that no call may be made; ``stop`` receives an error that stops it.

    ``confirm`` is awaited before each call, and raises an error where another process has the run.
    """

    is_set: Callable[[], bool] = lambda: False
    stop: Callable[[VerdictError], None] = lambda _: None
    confirm: Callable[[], Awaitable[None]] | None = None


class JournalOptions(Struct, frozen=True):
    """How a run uses its journal. ``resumed``: it has calls of an earlier run; the rest is passed on to the middleware."""

    journal: CallJournal
    resumed: bool
    as_recorded: bool
    is_spared: Callable[[Request], bool]
    on_append: Callable[[], None]
    updated: bool = False


class RunCalls(Struct, frozen=True):
    """What the calls of a run share: what its middleware is made from."""

    limit: Callable[[Ask], Ask]
    """The rate limiting."""
    spending: Spending = field(default_factory=Spending)
    leaders: PrefixLeaders = field(default_factory=PrefixLeaders)
    stop: StopSignal = StopSignal()
    store: CacheStore | None = None
    """The cache of replies."""
    recorded: bool = False
    """All replies come from a recording, so nothing is cached or journalled."""
    journal: JournalOptions | None = None
    renamed: Callable[[str], str] | None = None
    """The units' names in the cache and for the provider, where they differ from those in the journal."""
    observer: object = None
    """The run's `RunObserver`."""
    forgetting: list[Forget] = field(default_factory=list)
    """What removes a reply that cannot be read: the cache adds it."""


class Chain(Struct, frozen=True):
    """``ask`` makes a call; ``ask_models`` makes it without the journal. ``forget`` removes an unreadable reply from the
    cache."""

    ask: Ask
    ask_models: Ask
    forget: Forget


Middleware = Callable[[Ask, RunCalls], Ask]
"""``ask`` with one concern around it; ``ask`` itself in a run that it does not concern."""


def _journal(ask: Ask, calls: RunCalls) -> Ask:
    options = calls.journal
    if options is None:
        return ask
    return replay_journal(
        ask,
        options.journal,
        as_recorded=options.as_recorded,
        on_append=options.on_append,
        updated=options.updated,
        resumed=options.resumed,
    )


def _unit_names(ask: Ask, calls: RunCalls) -> Ask:
    return ask if calls.renamed is None else with_renamed_units(ask, calls.renamed)


def _cache(ask: Ask, calls: RunCalls) -> Ask:
    if calls.store is None:
        return ask
    ask, forget = cached(ask, calls.store)
    calls.forgetting.append(forget if calls.renamed is None else with_renamed_units(forget, calls.renamed))
    return ask


def _confirm(ask: Ask, calls: RunCalls) -> Ask:
    confirm = calls.stop.confirm
    if confirm is None:
        return ask

    async def ask_confirmed(request: Request) -> Reply:
        try:
            await confirm()
        except VerdictError as error:
            calls.stop.stop(error)
            raise HaltedError("the run is stopping") from error
        return await ask(request)

    return ask_confirmed


def with_renamed_units(take: Callable[[Request], T], renamed: Callable[[str], str]) -> Callable[[Request], T]:
    """``take``, which gets requests with the units' other names."""
    return lambda request: take(
        replace(request, node=renamed(request.node), written=request.written and renamed(request.written))
    )


_CORE: dict[str, Middleware] = {
    # The journal's part: a recalled call reaches nothing below it, so it is neither limited nor paid.
    "recalled_cost": lambda ask, calls: (
        count_recalled_cost(ask, calls.spending) if calls.journal is not None and calls.journal.resumed else ask
    ),
    "journal": _journal,
    # Inside the journal, which records no refusal: the resumed run makes these calls again.
    "circuit_breaker": lambda ask, calls: (
        ask if calls.journal is None else circuit_breaker(ask, calls.journal.is_spared)
    ),
    # Between the journal, which has the names of the run, and the cache, which all runs share.
    "unit_names": _unit_names,
    # Outside of all that a call waits for: a reply from the cache must not queue behind the rate limit.
    "cache": _cache,
    # Outside of the rate limit: a call that waits for its prefix to be cached holds no slot.
    "prefix_leader": lambda ask, calls: calls.leaders.around(ask),
    "logprobs": lambda ask, _: require_logprobs(ask),
    # Below the cache, which has an answer to each question, and outside of the limits, which count requests.
    "pack_questions": lambda ask, _: pack_questions(ask),
    "rate_limit": lambda ask, calls: calls.limit(ask),
    # Inside of the rate limit, so that a call that waited for it is checked when its turn comes.
    "budget": lambda ask, calls: check_budget(ask, calls.spending, calls.stop.is_set, calls.stop.stop),
    # The last thing before a call is made: another process may have taken the run over meanwhile.
    "confirm": _confirm,
}
MIDDLEWARE: Registry[Middleware] = Registry("verdict_cli.llm.middleware", _CORE, "verdict_cli.middleware")
"""All middleware, outermost first. That of features and packages comes last, next to the provider, unless it says `before`: in
its `PartSpec`, or as an attribute of what an entry point gives. Retries are outside of all, in `run/attempts.py`, because a
reply is found to be unreadable only after it has returned."""

_UNTIL_JOURNALLED = "unit_names"
_FOR_ALL_MODELS = "rate_limit"


def middleware_order() -> list[str]:
    """The names of all middleware, outermost first."""
    names = list(MIDDLEWARE.names())
    for name in [name for name in names if name not in MIDDLEWARE]:
        before = getattr(MIDDLEWARE[name], "before", "")
        if before in names:
            names.remove(name)
            names.insert(names.index(before), name)
    return names


def build_chain(provider: Ask, calls: RunCalls) -> Chain:
    """All middleware around ``provider``."""
    names = middleware_order()
    shared, journalled = names.index(_FOR_ALL_MODELS), names.index(_UNTIL_JOURNALLED)
    ask_local = ask = _wrapped(provider, names[shared:], calls)
    if calls.recorded:
        ask = ask_local = _unit_names(ask, calls)
        return Chain(ask, ask, _forget_nothing)
    ask = _wrapped(ask, names[journalled:shared], calls)
    ask_local = _unit_names(ask_local, calls)
    ask_models = _unless_local(ask_local, ask)
    ask = _unless_local(ask_local, _wrapped(ask, names[:journalled], calls))
    return Chain(ask, ask_models, next(iter(calls.forgetting), _forget_nothing))


def _wrapped(ask: Ask, names: list[str], calls: RunCalls) -> Ask:
    for name in reversed(names):
        ask = MIDDLEWARE[name](ask, calls)
    return ask


def _unless_local(ask_local: Ask, ask: Ask) -> Ask:
    """``ask``, but ``ask_local`` for built-in models and recordings, which cost nothing and have no limit."""

    def ask_either(request: Request) -> Awaitable[Reply]:
        return ask_local(request) if is_local(request.model.name) else ask(request)

    return ask_either


def _forget_nothing(_: Request) -> None:
    """There is no cache."""
