"""Answer a call from what is there already: the run's own calls, another run's, the shared cache, or a call in flight."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from hashlib import blake2b
from time import perf_counter
from typing import Any

import orjson
from msgspec import Struct, field
from msgspec.structs import astuple, replace

from verdict_cli.errors import (
    ProviderError,
    Refused,
    Rejected,
    ReplyError,
    Retryable,
    recorded_error,
)
from verdict_cli.llm.identity_cache import IdentityCache
from verdict_cli.llm.middleware.cache_store import CacheStore
from verdict_cli.llm.providers.endpoint import endpoint_address
from verdict_cli.llm.providers.price_book import cache_saved_usd
from verdict_cli.messages import Ask, JsonObject, Reply, Request
from verdict_cli.model import EndpointKey, Model
from verdict_cli.storage.database.database import Database
from verdict_cli.storage.database.records import CallContent, StoredCall

Place = tuple[int, str, str, int, int]
"""Which call of a run it is: row, unit, entry, call and attempt."""


def place_of(request: Request) -> Place:
    """Which call of a run the request is."""
    return request.row.index, request.node, request.row.item, request.call, request.attempt


class Answered(Struct, frozen=True):
    """The record of an answered call. ``shared``: it is another row's; ``recalled``: an earlier process paid for it."""

    number: int
    shared: bool = False
    recalled: bool = False


class OwnCalls(Struct):
    """The calls of a run, in its database.

    ``first`` is the number of the first call of this process. ``attempts`` has the last attempt of calls of unfinished rows
    that were made more than once. ``answered`` has the calls of rows that are being run. ``passes``: rows are run several
    times, until each of their calls has an answer. ``on_stored`` gets the request of a call that has been added to the database, and its
    digest.
    """

    database: Database
    first: int = 0
    attempts: dict[tuple[int, str, str, int], int] = field(default_factory=dict)
    answered: dict[Place, Answered] = field(default_factory=dict)
    passes: bool = False
    on_stored: Callable[[Request, bytes | None], None] = lambda *_: None

    @property
    def resumed(self) -> bool:
        """Whether an earlier process has left calls, or an earlier pass."""
        return self.passes or self.first > 1

    def add(
        self, request: Request, digest: bytes | None, content: CallContent, failure: str = ""
    ) -> StoredCall:
        """Store a call."""
        reply = content.reply
        usable = not failure and reply is not None and is_storable(reply, request.top_logprobs)
        place = place_of(request)
        call = self.database.add_call(
            digest,
            place,
            request.model.name,
            content,
            failure=failure,
            usable=usable,
            messages=request.messages,
        )
        self.on_stored(request, digest)
        self.answered[place] = Answered(call.number)
        if self.passes and request.attempt:
            self.attempts[place[:4]] = request.attempt
        return call

    def drop(self, row: int) -> None:
        """Forget a row that is run again later: its calls are in the database."""
        for place in [place for place in self.answered if place[0] == row]:
            del self.answered[place]

    def is_last_attempt(self, call: StoredCall) -> bool:
        """Whether no later attempt was made at the call."""
        return self.attempts.get((call.row, call.unit, call.item, call.call), 0) <= call.attempt


class ReplySources(Struct, frozen=True):
    """Where replies are looked for, in this order; and the unit's name in digests, which another arm of a study may share.

    ``defer`` gets a call that has no reply yet: it gives the reply, None for a call that is made at once, and raises Pending for
    one that is answered later.
    """

    own: OwnCalls | None = None
    reuse: tuple[Database, ...] = ()
    store: CacheStore | None = None
    rename: Callable[[Request], Request] = lambda request: request
    defer: Callable[[Request, bytes], Awaitable[Reply | None]] | None = None


def answer_from(ask: Ask, sources: ReplySources) -> tuple[Ask, Callable[[Request], None]]:
    """``ask`` where no source has the reply, and a function that marks a reply that cannot be read.

    What is asked is stored before it is returned or raised. A call of the run itself is not made again: its reply is
    ``recalled``, its failure is raised. Two kinds are made again: temporary failures that cost nothing, and refusals,
    which are not stored, because the user fixes their cause first. Replies to equal requests are ``cached`` and cost
    nothing; ``shared`` where the request was of this run. A failed, unreadable or cut reply answers its own row alone.
    """
    answers = _Answers(ask, sources)
    return answers.ask, answers.forget


class _Answers:
    """The calls of a run, of which those in flight are shared."""

    def __init__(self, ask: Ask, sources: ReplySources) -> None:
        self._ask, self._sources = ask, sources
        self._own, self._store = sources.own, sources.store
        self._digests = RequestDigests()
        self._in_flight: dict[bytes, asyncio.Future[Reply | None]] = {}

    async def ask(self, request: Request) -> Reply:
        """The reply of a source, else of the model."""
        shares = self._store is not None and request.model.cache
        digest = self._digests.get(self._sources.rename(request), of_row=not shares)
        if digest is None:
            return await self._ask_and_store(request, None)
        if shares:
            while (pending := self._in_flight.get(digest)) is not None:
                shared = await asyncio.shield(pending)
                if shared is not None:
                    self._note_shared(request, digest)
                    return free_reply(shared, shared=True)
        reply = self._own_reply(request, digest, shares) or self._other_reply(
            request, digest, shares
        )
        if reply is not None:
            return reply
        return await (
            self._ask_shared(request, digest) if shares else self._ask_and_store(request, digest)
        )

    async def _ask_shared(self, request: Request, digest: bytes) -> Reply:
        """Ask, with the reply for equal requests that come meanwhile and later."""
        future = self._in_flight[digest] = asyncio.get_running_loop().create_future()
        reply: Reply | None = None
        try:
            reply = await self._ask_and_store(request, digest)
        finally:
            del self._in_flight[digest]
            future.set_result(reply)
        if self._store is not None and is_storable(reply, request.top_logprobs):
            key = self._digests.with_address(digest, request.model)
            self._store.put(key, request.model.name, reply)
        return reply

    def _note_shared(self, request: Request, digest: bytes) -> None:
        if self._own is not None and (calls := self._own.database.find(digest)):
            latest = calls[0]
            answered = Answered(latest.number, shared=not latest.content.reused)
            self._own.answered[place_of(request)] = answered

    def _own_reply(self, request: Request, digest: bytes, shares: bool) -> Reply | None:
        """The reply of the run itself: of this very call, or to an equal request. Raises the failure of this call."""
        run_calls = self._own
        if run_calls is None or not (shares or run_calls.resumed):
            return None
        place = place_of(request)
        calls = run_calls.database.find(digest)
        for call in calls:
            if (call.row, call.unit, call.item, call.call, call.attempt) == place:
                return _recalled(run_calls, call, place)
        for call in calls:
            if call.usable and call.content.reply is not None:
                shared = not call.content.reused
                run_calls.answered[place] = Answered(call.number, shared=shared)
                return free_reply(call.content.reply, shared=shared)
        return None

    def _other_reply(self, request: Request, digest: bytes, shares: bool) -> Reply | None:
        """The reply of other runs, or of the shared cache."""
        matches = (call for run in self._sources.reuse for call in run.find(digest) if call.usable)
        call = next(matches, None)
        reply = None if call is None else call.content.reply
        if reply is None and shares and self._store is not None:
            reply = self._store.get(self._digests.with_address(digest, request.model))
        if reply is None:
            return None
        reply = free_reply(reply)
        if self._own is not None:
            self._own.add(request, digest, CallContent(reply, reused=True))
        return reply

    async def _ask_and_store(self, request: Request, digest: bytes | None) -> Reply:
        run_calls = self._own
        if run_calls is None:
            return await self._ask(request)
        start = perf_counter()
        try:
            deferred = None
            if self._sources.defer is not None and digest is not None:
                deferred = await self._sources.defer(request, digest)
            reply = deferred or await self._ask(request)
        except Refused:
            raise
        except (ProviderError, ReplyError) as error:
            retryable = isinstance(error, Retryable) or (
                isinstance(error, Rejected) and error.passing
            )
            if error.reply is not None:
                error.reply = with_savings(request, error.reply)
            content = CallContent(
                error.reply,
                error=error.message,
                retryable=retryable,
                latency_s=perf_counter() - start,
            )
            run_calls.add(request, digest, content, error.failure)
            raise
        reply = with_savings(request, reply)
        run_calls.add(request, digest, CallContent(reply, latency_s=reply.latency_s))
        return reply

    def forget(self, request: Request) -> None:
        """Mark a reply that cannot be read: it answers no equal request."""
        run_calls, store = self._own, self._store
        if run_calls is not None and (answered := run_calls.answered.get(place_of(request))):
            run_calls.database.mark_unusable(answered.number)
        if store is not None and request.model.cache:
            digest = self._digests.get(self._sources.rename(request))
            if digest is not None:
                store.remove(self._digests.with_address(digest, request.model))


def _recalled(run_calls: OwnCalls, call: StoredCall, place: Place) -> Reply | None:
    """The reply of a call that was made before; None where it is to be made again. Raises its failure."""
    earlier = call.number < run_calls.first
    reply = call.content.reply
    if reply is not None and earlier:
        reply = replace(reply, recalled=not call.content.reused)
    if call.failure:
        if reply is None and call.content.retryable and run_calls.is_last_attempt(call):
            return None
        run_calls.answered[place] = Answered(call.number, recalled=earlier)
        raise recorded_error(call.failure, call.content.error, reply)
    run_calls.answered[place] = Answered(call.number, recalled=earlier and not call.content.reused)
    return reply


def with_savings(request: Request, reply: Reply) -> Reply:
    """The reply, which says what the provider's cache saved."""
    usage = reply.usage
    if reply.cached or not (usage.cached_tokens or usage.cache_write_tokens):
        return reply
    saved = cache_saved_usd(request.model, usage, reply.service_tier)
    return replace(reply, saved_usd=saved)


def free_reply(reply: Reply, *, shared: bool = False) -> Reply:
    """The reply as another equal request gets it: it costs nothing, and says how
    long the provider took for it. ``shared``: the equal request was of the same run."""
    return replace(
        reply,
        cached=True,
        shared=shared,
        recalled=False,
        cost_usd=0.0,
        saved_usd=0.0,
        allowance=None,
        request="",
    )


def is_storable(reply: Reply, top_logprobs: int) -> bool:
    """Whether the reply, for which so many log-probabilities were requested, may be shared."""
    return reply.finish_reason != "length" and (not top_logprobs or bool(reply.logprobs))


VERSION = 2
"""Increased when a change to this program changes the replies to equal requests."""

KEY_PARTS = (
    (
        "endpoint",
        "the URL that is called, or the provider that litellm calls; never the key. Only in the shared cache",
    ),
    ("model", "the model's name"),
    ("messages", "every role and text, byte for byte"),
    (
        "parameters",
        "temperature, top_p, max_tokens, seed, stop, reasoning_effort, and everything in `params`",
    ),
    ("schema", "the JSON schema of the response"),
    ("logprobs", "how many alternatives are requested at each position"),
    (
        "question",
        "of a decision model: its kind, and its options with their descriptions, in order",
    ),
    ("seed", "the run's --seed: another seed samples again"),
    ("unit", "the unit's name, its index among the units of that name, and the number of the call"),
)
"""The parts of a digest, with what each contains."""


def question_key(request: Request) -> list[Any]:
    """What a decision model is asked, without what says how it is sent. The instructions and the state are the messages."""
    return [
        request.has_fields,
        *([question.kind, *map(astuple, question.options)] for question in request.questions),
    ]


_OPTIONS = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS


def _settings(model: Model) -> JsonObject:
    """What the requests of a model have in common."""
    structured = {} if model.structured == "auto" else {"structured": model.structured}
    return model.sampling() | structured


class RequestDigests:
    """Computes the digests of requests. Each model's address and settings are looked up once."""

    def __init__(self) -> None:
        self._settings: IdentityCache[JsonObject] = IdentityCache()
        self._urls: dict[EndpointKey, bytes] = {}

    def get(self, request: Request, *, of_row: bool = False) -> bytes | None:
        """16 bytes that equal requests share, ``of_row`` only those of one row and entry; None for a request that cannot
        be written as JSON.

        The unit's index separates repeated units, each of which needs its own sample; `judge` equals `judge[0]`.
        """
        model = request.model
        try:
            canonical = orjson.dumps(
                [
                    VERSION,
                    model.name,
                    [
                        (message.role, message.content, message.images)
                        for message in request.messages
                    ],
                    self._settings.get((model,), None, _settings, model),
                    request.json_schema,
                    request.top_logprobs and (model.top_logprobs or request.top_logprobs),
                    request.seed,
                    (request.written or request.node).removesuffix("[0]"),
                    request.call,
                    (request.row.index, request.row.item) if of_row else None,
                    *([question_key(request)] if request.questions else []),
                ],
                option=_OPTIONS,
            )
        except TypeError:
            return None
        return blake2b(canonical, digest_size=16).digest()

    def with_address(self, digest: bytes, model: Model) -> bytes:
        """The digest of a request at the model's address."""
        key = model.endpoint_key
        url = self._urls.get(key)
        if url is None:
            url = self._urls[key] = endpoint_address(model)[0].encode()
        return blake2b(digest + url, digest_size=16).digest()
