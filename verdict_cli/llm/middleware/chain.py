"""The path of a request to a model: all middleware, in order."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from verdict_cli.errors import VerdictError
from verdict_cli.llm.middleware.budget import HaltedError, Spending, check_budget
from verdict_cli.llm.middleware.circuit_breaker import circuit_breaker
from verdict_cli.llm.middleware.pack_questions import pack_questions
from verdict_cli.llm.middleware.prefix_leader import PrefixLeaders
from verdict_cli.llm.middleware.replies import ReplySources, answer_from
from verdict_cli.llm.middleware.require_logprobs import require_logprobs
from verdict_cli.llm.model_families import is_local
from verdict_cli.messages import Ask, Reply, Request

Forget = Callable[[Request], None]
T = TypeVar("T")


class StopSignal(Struct, frozen=True):
    """``is_set``: whether the run is stopping, so that no call may be made; ``stop`` receives an error that stops it.

    ``confirm`` is awaited before each call, and raises an error where another process has the run.
    """

    is_set: Callable[[], bool] = lambda: False
    stop: Callable[[VerdictError], None] = lambda _: None
    confirm: Callable[[], Awaitable[None]] | None = None


class RunCalls(Struct, frozen=True):
    """What the calls of a run share: what its middleware is made from."""

    limit: Callable[[Ask], Ask]
    """The rate limiting."""
    spending: Spending = field(default_factory=Spending)
    leaders: PrefixLeaders = field(default_factory=PrefixLeaders)
    stop: StopSignal = StopSignal()
    replies: ReplySources = ReplySources()
    """Where replies are looked for before a model is called."""
    recorded: bool = False
    """All replies come from a recording, so nothing is looked for."""
    is_spared: Callable[[Request], bool] | None = None
    """Whether a request's rejection loses no row; None where no circuit breaker is wanted."""
    renamed: Callable[[str], str] | None = None
    """The units' names for the provider, where they differ from those in the run."""
    watch: Callable[[Ask], Ask] = lambda ask: ask
    """What follows each call, such as a trace."""
    forgetting: list[Forget] = field(default_factory=list)
    """What marks a reply that cannot be read: the sources of replies add it."""


class Chain(Struct, frozen=True):
    """``ask`` makes a call; ``forget`` takes a request whose reply cannot be read."""

    ask: Ask
    forget: Forget


Middleware = Callable[[Ask, RunCalls], Ask]
"""``ask`` with one concern around it; ``ask`` itself in a run that it does not concern."""


def _replies(ask: Ask, calls: RunCalls) -> Ask:
    sources = calls.replies
    if sources.own is None and sources.store is None and not sources.reuse:
        return ask
    renamed = calls.renamed
    if renamed is not None:
        sources = replace(sources, rename=with_renamed_units(lambda request: request, renamed))
    ask, forget = answer_from(ask, sources)
    calls.forgetting.append(forget)
    return ask


def _unit_names(ask: Ask, calls: RunCalls) -> Ask:
    return ask if calls.renamed is None else with_renamed_units(ask, calls.renamed)


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


def with_renamed_units(
    take: Callable[[Request], T], renamed: Callable[[str], str]
) -> Callable[[Request], T]:
    """``take``, which gets requests with the units' other names."""
    return lambda request: take(
        replace(
            request,
            node=renamed(request.node),
            written=request.written and renamed(request.written),
        )
    )


MIDDLEWARE: dict[str, Middleware] = {
    # Outside of all that a call waits for: a reply that is there is neither limited nor paid.
    "replies": _replies,
    # Inside, so that what it refuses is not stored: the resumed run makes these calls again.
    "circuit_breaker": lambda ask, calls: (
        ask if calls.is_spared is None else circuit_breaker(ask, calls.is_spared)
    ),
    "unit_names": _unit_names,
    # Outside of the rate limit: a call that waits for its prefix to be cached holds no slot.
    "prefix_leader": lambda ask, calls: calls.leaders.around(ask),
    "logprobs": lambda ask, _: require_logprobs(ask),
    # Below the cache, which has an answer to each question, and outside of the limits, which count requests.
    "pack_questions": lambda ask, _: pack_questions(ask),
    "rate_limit": lambda ask, calls: calls.limit(ask),
    # Inside of the rate limit, so that a call that waited for it is checked when its turn comes.
    "budget": lambda ask, calls: check_budget(
        ask, calls.spending, calls.stop.is_set, calls.stop.stop
    ),
    # The last thing before a call is made: another process may have taken the run over meanwhile.
    "confirm": _confirm,
    # A span is a call that is made, not one that waits or is recalled.
    "watch": lambda ask, calls: calls.watch(ask),
}
"""All middleware, outermost first. Retries are outside of all, in `run/attempts.py`, because a reply is found to be
unreadable only after it has returned."""
_FOR_ALL_MODELS = "rate_limit"


def build_chain(provider: Ask, calls: RunCalls) -> Chain:
    """All middleware around ``provider``."""
    names = list(MIDDLEWARE)
    shared = names.index(_FOR_ALL_MODELS)
    ask = _wrapped(provider, names[shared:], calls)
    ask_local = _unit_names(ask, calls)
    if calls.recorded:
        return Chain(ask_local, _forget_nothing)
    ask = _unless_local(ask_local, _wrapped(ask, names[:shared], calls))
    return Chain(ask, next(iter(calls.forgetting), _forget_nothing))


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
