"""Retry until there is a readable reply: attempts, waits, corrections and fallback models, counted in one place."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager

from msgspec import Struct, field
from msgspec.structs import replace

from verdict_cli.errors import (
    ProviderError,
    Refused,
    Rejected,
    ReplyError,
    Retryable,
    RowError,
    VerdictError,
)
from verdict_cli.language.extractors.bound_extractor import MASS_FIELD, BoundExtractor
from verdict_cli.llm.backoff import delay_s
from verdict_cli.messages import Ask, Call, JsonObject, Message, Output, Reply, Request
from verdict_cli.model import Model
from verdict_cli.run.observer import RunObserver

ENTRY_SLOTS = 64
"""How many entries beyond one of each list run at a time where nothing else is said."""


class EntrySlots:
    """How many more entries may be run at a time by all rows together.

    Each list always runs one entry, also without a slot: a list inside an entry can then not wait for its own end.
    """

    def __init__(self, free: int = ENTRY_SLOTS) -> None:
        self.free = free


class Context(Struct):
    """What is the same for all rows of a run.

    - ``forget(request)``: drop a cached reply that could not be read.
    - ``recorded``: a recording answers; a call whose attempts have all failed gets another round of them, as long as the
      recording has one.
    - ``unit(id)``: a context around a unit at a row, which gives a function that takes the unit's output.
    - ``paid(call)``: count a call that was paid for and stops the run, so that no row's result has it.
    - ``pinned``: the outputs of pinned nodes by their index in the plan.
    - ``slots``: how many more entries of `each` may be run at a time.
    """

    ask: Ask
    seed: int = 0
    forget: Callable[[Request], None] = lambda _: None
    recorded: bool = False
    unit: Callable[[str], AbstractContextManager[Callable[[Output | None], None]]] = (
        RunObserver().unit
    )
    paid: Callable[[Call], None] = lambda _: None
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    jitter: random.Random = field(default_factory=random.Random)
    pinned: dict[int, Output | None] = {}
    slots: EntrySlots = field(default_factory=EntrySlots)


def draw(seed: int, draw_id: str | int, node: str) -> int:
    """A seed of 64 bits that depends on these three alone, on every machine and in every process."""
    return int.from_bytes(
        hashlib.blake2b(f"{seed}|{draw_id}|{node}".encode(), digest_size=8).digest()
    )


MOST_TOKENS_FACTOR = 4
"""How many times its own `max_tokens` a model gets at most, once its replies were cut off."""


class CallSpec(Struct, frozen=True):
    """One call of a unit: the request, the models to try in turn, and how the reply is read."""

    request: Request
    models: tuple[Model, ...]
    reading: BoundExtractor
    accept: Callable[[JsonObject], None]


async def answer(spec: CallSpec, context: Context, calls: list[Call]) -> JsonObject:
    """The fields read from the first readable reply; every call made is added to `calls`.

    Raises the last attempt's ReplyError, Retryable or Rejected when no attempt of any model succeeds. Refused is raised
    immediately, as is RowError for a `validate` rule that cannot be computed. A model at temperature 0 that gave the
    same unreadable text, or none, twice in succession is not called a third time. A failure other than Refused gets another round
    of attempts where ``context.recorded`` says so; attempts are numbered on.
    """
    last: VerdictError | None = None
    attempt = 0
    while True:
        before = len(calls)
        try:
            return await _round(spec, context, calls, attempt, last)
        except Refused:
            raise
        except (ProviderError, ReplyError, RowError) as error:
            last = error
        attempts = len(calls) - before
        attempt += attempts
        if not attempts or not context.recorded:
            raise last


async def _round(
    spec: CallSpec, context: Context, calls: list[Call], attempt: int, last: VerdictError | None
) -> JsonObject:
    """As `answer`, from attempt ``attempt``; ``last`` is the error of an earlier round."""
    for model in spec.models:
        turns = _Turns(spec, context, model)
        for turn in range(1 + model.retries):
            request = turns.request(attempt)
            attempt += 1
            try:
                return await _attempt(request, spec, context, calls)
            except Rejected as error:
                if error.failure == "not-recorded" and last is not None:
                    return _default(last, spec)
                calls.append(_failed(request, error))
                last = error
                break
            except (Retryable, ReplyError) as error:
                last = error
                if not turns.may_repeat(request, error):
                    break
                if isinstance(error, Retryable) and turn < model.retries:
                    await turns.wait(error)
    assert last is not None
    return _default(last, spec)


async def _attempt(
    request: Request, spec: CallSpec, context: Context, calls: list[Call]
) -> JsonObject:
    """The fields of the reply to one call, which is added to `calls` unless it was rejected."""
    try:
        reply = await context.ask(request)
    except Rejected:
        raise
    except (ProviderError, ReplyError) as error:
        calls.append(_failed(request, error))
        if isinstance(error, Refused) and error.reply is not None:
            context.paid(calls[-1])
        raise
    latency_s = reply.latency_s
    try:
        response = _read(reply, spec, request)
    except (ReplyError, RowError) as error:
        mass = error.mass if isinstance(error, ReplyError) else None
        calls.append(Call(request, reply, error.failure, str(error), latency_s, mass=mass))
        if isinstance(error, ReplyError):
            context.forget(request)
        raise
    repaired, mass = spec.reading.repaired(reply.text), _mass(spec, response)
    calls.append(Call(request, reply, latency_s=latency_s, repaired=repaired, mass=mass))
    return response


class _Turns:
    """The attempts at one model: what those before say of the next one."""

    def __init__(self, spec: CallSpec, context: Context, model: Model) -> None:
        self._spec, self._context, self._model = spec, context, model
        self._used = model
        self._corrections: tuple[Message, ...] = ()
        self._failures = 0
        self._last_text = self._last_failure = ""

    def request(self, attempt: int) -> Request:
        """The request of the next attempt."""
        request = self._spec.request
        if not attempt and self._used is request.model:
            return request
        messages = request.messages + self._corrections
        return replace(request, model=self._used, attempt=attempt, messages=messages)

    def may_repeat(self, request: Request, error: Retryable | ReplyError) -> bool:
        """Whether another attempt may end otherwise than this one."""
        if isinstance(error, Retryable):
            self._failures += 1
            return not error.waited
        self._used = _with_more_tokens(self._used, self._model, error)
        is_final = self._used is request.model and _is_deterministic(self._model)
        if error.is_read:
            text = "" if error.reply is None else error.reply.text
            is_repeated, self._last_text = text == self._last_text, text
            self._corrections = _correction(text, error, self._spec.reading)
            return not (is_final and is_repeated)
        if error.failure == "refused" and request.questions:
            return False
        is_empty_again = error.failure == self._last_failure == "empty"
        self._last_failure = error.failure
        return not (is_final and is_empty_again)

    async def wait(self, error: Retryable) -> None:
        """Wait before the next attempt, as long as the provider says, otherwise ever longer."""
        await self._context.sleep(
            delay_s(self._failures, error.retry_after_s, self._context.jitter)
        )


def _default(last: VerdictError, spec: CallSpec) -> JsonObject:
    """The response to use in place of the last attempt's reply; raises its error where there is none."""
    if not isinstance(last, ReplyError) or last.default is None:
        raise last from None
    spec.accept(last.default)
    return last.default


def _read(reply: Reply, spec: CallSpec, request: Request) -> JsonObject:
    """The fields of a reply. ReplyError, with `is_read`, for one that cannot be used."""
    cut = reply.finish_reason == "length"
    try:
        if cut and spec.reading.whole:
            raise ReplyError(
                "the reply was cut off before its end", hint="raise `max_tokens`", kind="cut-off"
            )
        response = spec.reading.read(reply, request)
        spec.accept(response)
    except ReplyError as error:
        # A reply that ran into the extractor's own cap was not the value alone; more tokens would not help.
        if cut and error.failure == "unreadable" and not spec.reading.token_cap:
            error = ReplyError(
                f"the reply was cut off: {error.message}", hint="raise `max_tokens`", kind="cut-off"
            )
        error.reply, error.is_read = reply, True
        raise error from None
    return response


def _mass(spec: CallSpec, response: JsonObject) -> float | None:
    """The response's `mass`, where the extractor gives one."""
    return response.get(MASS_FIELD) if spec.reading.top_logprobs else None


def _failed(request: Request, error: ProviderError | ReplyError) -> Call:
    """The call as it is recorded, with the reply where one was paid for."""
    reply: Reply | None = error.reply
    return Call(
        request, reply, error.failure, str(error), 0.0 if reply is None else reply.latency_s
    )


def _with_more_tokens(used: Model, model: Model, error: ReplyError) -> Model:
    """The model for the next attempt, with twice the `max_tokens` after a reply that was cut off."""
    if error.failure != "cut-off" or used.max_tokens is None or model.max_tokens is None:
        return used
    return used.model_copy(
        update={"max_tokens": min(2 * used.max_tokens, MOST_TOKENS_FACTOR * model.max_tokens)}
    )


def _is_deterministic(model: Model) -> bool:
    """Whether the model draws nothing at random, so that a repeated reply would be repeated again."""
    return model.sampling().get("temperature") == 0


def _correction(text: str, error: ReplyError, reading: BoundExtractor) -> tuple[Message, ...]:
    """Messages that tell the model what was wrong with its reply, where the extractor asks for that."""
    if not reading.corrects:
        return ()
    correction = f"That reply cannot be used: {error.message}. Answer again with a JSON object that follows the schema."
    return (Message("assistant", text), Message("user", correction))
