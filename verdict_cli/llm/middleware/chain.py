"""The path of a request to a model: all middleware, in order."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from verdict_cli.errors import VerdictError
from verdict_cli.llm.middleware.budget import HaltedError, Spending, check_budget
from verdict_cli.llm.middleware.circuit_breaker import circuit_breaker
from verdict_cli.llm.middleware.pack_questions import pack_questions
from verdict_cli.llm.middleware.prefix_leader import PrefixLeaders
from verdict_cli.llm.middleware.rate_limit import RateLimiters, rate_limited
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


class Chain(Struct, frozen=True):
    """``ask`` makes a call; ``forget`` takes a request whose reply cannot be read."""

    ask: Ask
    forget: Forget


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


def build_chain(
    provider: Ask,
    limiters: RateLimiters,
    spending: Spending,
    leaders: PrefixLeaders,
    sources: ReplySources,
    stop: StopSignal,
    *,
    recorded: bool = False,
    is_spared: Callable[[Request], bool] | None = None,
    renamed: Callable[[str], str] | None = None,
    watch: Callable[[Ask], Ask] = lambda ask: ask,
) -> Chain:
    """All middleware around ``provider``, from the inside out. Retries are outside of all, in `run/attempts.py`, because a
    reply is found to be unreadable only after it has returned.

    Args:
        sources: Where replies are looked for before a model is called.
        recorded: All replies come from a recording, so nothing is looked for.
        is_spared: Whether a request's rejection loses no row; None where no circuit breaker is wanted.
        renamed: The units' names for the provider, where they differ from those in the run.
        watch: What follows each call, such as a trace.
    """
    # A span is a call that is made, not one that waits or is recalled.
    ask = watch(provider)
    if stop.confirm is not None:
        # The last thing before a call is made: another process may have taken the run over meanwhile.
        ask = _confirmed(ask, stop.confirm, stop.stop)
    # Inside of the rate limit, so that a call that waited for it is checked when its turn comes.
    ask = check_budget(ask, spending, stop.is_set, stop.stop)
    ask = rate_limited(ask, limiters)
    # Built-in models and recordings cost nothing, and no server limits them.
    ask_local = ask if renamed is None else with_renamed_units(ask, renamed)
    if recorded:
        return Chain(ask_local, _forget_nothing)
    # Below the cache, which has an answer to each question, and outside of the limits, which count requests.
    ask = require_logprobs(pack_questions(ask))
    # Outside of the rate limit: a call that waits for its prefix to be cached holds no slot.
    ask = leaders.around(ask)
    if renamed is not None:
        ask = with_renamed_units(ask, renamed)
        sources = replace(sources, rename=with_renamed_units(lambda request: request, renamed))
    # Inside of the sources of replies, so that what it refuses is not stored: the resumed run makes these calls again.
    if is_spared is not None:
        ask = circuit_breaker(ask, is_spared)
    # Outside of all that a call waits for: a reply that is there is neither limited nor paid.
    forget: Forget = _forget_nothing
    if sources.own is not None or sources.store is not None or sources.reuse:
        ask, forget = answer_from(ask, sources)

    def ask_either(request: Request) -> Awaitable[Reply]:
        return ask_local(request) if is_local(request.model.name) else ask(request)

    return Chain(ask_either, forget)


def _confirmed(
    ask: Ask, confirm: Callable[[], Awaitable[None]], stop: Callable[[VerdictError], None]
) -> Ask:
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
