"""The batches of a run in its database: what was sent, for which calls, and how replies become calls of the run.

A batch and its requests are committed before the batch is created, so that a killed process finds it again. A request is stored
under the digest by which the run finds the reply, until it has one.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from time import time
from typing import Any, TypeVar, cast

import msgspec
import orjson
from msgspec import Struct

from verdict_cli.errors import ProviderError, Refused, Rejected, ReplyError, Retryable
from verdict_cli.features.batches.adapters import BATCHES, TIER
from verdict_cli.features.batches.batch_api import BatchApi, BatchState, ResultLine
from verdict_cli.features.batches.batch_facts import TO_FILE, BatchFacts
from verdict_cli.llm.middleware.cache_store import CacheStore
from verdict_cli.llm.middleware.circuit_breaker import MAX_REJECTIONS
from verdict_cli.llm.middleware.replies import (
    OwnCalls,
    RequestDigests,
    is_storable,
    place_of,
    with_savings,
)
from verdict_cli.llm.middleware.require_logprobs import missing_logprobs
from verdict_cli.llm.providers.chat_completions import read_envelope
from verdict_cli.llm.providers.http_errors import Source, response_error
from verdict_cli.llm.providers.json_mode import JsonMode, lesser_mode
from verdict_cli.llm.providers.price_book import charged_usd, cost_usd
from verdict_cli.llm.providers.secrets import may_contain, model_secrets, redact
from verdict_cli.llm.providers.usage import read_usage
from verdict_cli.llm.providers.wire_values import loads
from verdict_cli.messages import Entry, Reply, Request, Row, sum_usd
from verdict_cli.model import Model
from verdict_cli.storage.database.database import Database
from verdict_cli.storage.database.records import CallContent, Images

TABLE = "batches"
_MODES = "modes"
_AT_ONCE = 500
"""Results that are read before the event loop gets a turn."""


class PooledRequest(Struct, frozen=True, array_like=True):
    """What a request's reply is for, and how it is read.

    ``mode`` is the form of a request for JSON ("": none), ``sent`` the parameters as JSON. ``shares``: its reply may answer
    equal requests of other runs.
    """

    batch: int
    row: int
    row_id: str | int
    unit: str
    item: str
    call: int
    attempt: int
    messages: tuple[tuple[str, int, Images], ...]
    top_logprobs: int = 0
    mode: str = ""
    sent: str = ""
    shares: bool = False

    def request(self, model: Model) -> Request:
        """The request, without its messages."""
        entry = Entry(self.item, {}, 0, "") if self.item else None
        row = Row(self.row, self.row_id, {}, entry=entry)
        return Request(
            row, self.unit, model, (), self.call, self.attempt, top_logprobs=self.top_logprobs
        )


@dataclass(kw_only=True)
class SentBatch(BatchFacts):
    """One batch, from the intent to send it to its end; ``settings`` are those of its model."""

    number: int
    tag: str
    settings: dict[str, Any]
    intended: float
    reserved_usd: float = 0.0

    @property
    def sent_to(self) -> Model:
        """Its model."""
        return Model.model_validate(self.settings)

    @property
    def facts(self) -> BatchFacts:
        """What `run.json` says of it."""
        return BatchFacts(*[getattr(self, fact.name) for fact in fields(BatchFacts)])

    @property
    def is_at_provider(self) -> bool:
        """Whether the provider has it, and it has not ended."""
        return bool(self.id) and not self.ended and self.provider != TO_FILE


@dataclass
class CollectedBatch:
    """What an ended batch brought: the requests with a reply, those without, its cost (None: unknown), what that saved, what
    the budget is charged, and the error that stops the run, if any."""

    answered: int = 0
    unanswered: int = 0
    cost_usd: float | None = 0.0
    saved_usd: float | None = 0.0
    charged_usd: float | None = 0.0
    refusal: Refused | None = None
    rejections: Counter[str] = field(default_factory=Counter)

    def add(self, outcome: Outcome, model: Model) -> None:
        """Count an outcome."""
        error, reply = outcome.error, outcome.reply
        if reply is not None:
            self.answered += 1
            self.cost_usd = sum_usd(self.cost_usd, reply.cost_usd)
            saved = sum_usd(
                outcome.ordinary_usd, None if reply.cost_usd is None else -reply.cost_usd
            )
            self.saved_usd = sum_usd(self.saved_usd, saved)
            charged = charged_usd(model, reply.cost_usd, reply.usage, tier=TIER)
            self.charged_usd = sum_usd(self.charged_usd, charged)
        if isinstance(error, Refused):
            self.refusal = self.refusal or error
        elif isinstance(error, Retryable):
            self.unanswered += 1
        elif isinstance(error, Rejected) and error.failure == "rejected":
            self.rejections[error.message] += 1

    def stop_if_all_rejected(self, model: Model) -> None:
        """Stop the run where a batch brought no reply, and one message rejected all of many requests."""
        message, count = self.rejections.most_common(1)[0] if self.rejections else ("", 0)
        if self.answered or self.refusal is not None or count < MAX_REJECTIONS:
            return
        self.refusal = Refused(
            f"model {model.name} rejected {count:,} requests of a batch with the same message and answered none: {message}",
            hint="fix the cause; the same command sends these requests again",
            kind="rejected",
        )


class RunBatches:
    """The batches of a run. Its calls are ``own``; ``store`` is the shared cache."""

    def __init__(self, own: OwnCalls, store: CacheStore | None = None) -> None:
        self._own, self._store = own, store
        self.database: Database = own.database
        self.batches = {batch.number: batch for batch in read_batches(self.database)}
        self.modes: dict[str, JsonMode] = self.database.get(_MODES, TABLE) or {}
        self._digests = RequestDigests()

    @property
    def in_flight(self) -> list[SentBatch]:
        """The batches that have not ended, in the order of their intents."""
        return [batch for batch in self.batches.values() if not batch.ended]

    def has(self, name: str) -> bool:
        """Whether a batch in flight has the request of that digest."""
        return self.database.get(name, TABLE) is not None

    async def intend(self, batch: SentBatch, requests: dict[str, PooledRequest]) -> None:
        """Commit a batch that is to be sent, with its requests."""
        self.batches[batch.number] = batch
        for name, request in requests.items():
            self.database.put(name, request, TABLE)
        await self._save(batch)

    async def sent(self, batch: SentBatch, state: BatchState) -> None:
        """Note that the provider has a batch."""
        batch.id, batch.status, batch.submitted = state.id, state.status, _now()
        await self._save(batch)

    async def end(self, batch: SentBatch, status: str) -> None:
        """Note the end of a batch: requests without a reply may be sent again."""
        for name, _ in self._requests(batch):
            self.database.remove(name, TABLE)
        batch.status, batch.ended = status, _now()
        await self._save(batch)

    async def drop(self, batch: SentBatch) -> None:
        """Forget a batch that was never created: its requests are pooled again."""
        for name, _ in self._requests(batch):
            self.database.remove(name, TABLE)
        self.database.remove(_name(batch.number), TABLE)
        del self.batches[batch.number]
        await self.database.writer.flush()

    async def collect(
        self, batch: SentBatch, state: BatchState, api: BatchApi, folder: Path
    ) -> CollectedBatch:
        """Take the results of an ended batch into the run's calls."""
        results = folder / f"{batch.number}.results"
        results.unlink(missing_ok=True)
        os.close(os.open(results, os.O_WRONLY | os.O_CREAT, 0o600))
        if state.files:
            await api.results(state, results)
        collected = await self.read(
            batch, results, api, state.status, state.problem or state.status
        )
        results.unlink()
        return collected

    async def read(
        self, batch: SentBatch, results: Path, api: BatchApi, status: str, why: str
    ) -> CollectedBatch:
        """Take result lines into the run's calls. Requests without one were not answered, because of ``why``."""
        model = batch.sent_to
        collected = CollectedBatch()
        rejected: list[tuple[str, PooledRequest, Outcome]] = []
        names: set[str] = set()
        secrets = model_secrets(model, os.environ)
        for number, line in enumerate(result_lines(results, api, secrets), 1):
            name = name_of(line.custom_id)
            request = self._request(name)
            if request is None or request.batch != batch.number or name in names:
                continue  # a repeated line, or another file's
            names.add(name)
            outcome = read_result(line, request, model, api)
            collected.add(outcome, model)
            if outcome.mode is not None:
                self._choose_mode(model.name, outcome.mode)
            if isinstance(outcome.error, Rejected):
                rejected.append((name, request, outcome))
            elif not isinstance(outcome.error, Refused):
                self._add(name, request, outcome, model)
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
        collected.stop_if_all_rejected(model)
        if collected.refusal is None:  # else they are sent again once its cause is fixed
            for rejection in rejected:
                self._add(*rejection, model)
            collected.unanswered += self._add_unanswered(batch, names, why)
        batch.answered, batch.cost_usd, batch.saved_usd = (
            collected.answered,
            collected.cost_usd,
            collected.saved_usd,
        )
        await self.end(batch, status)
        return collected

    def _add_unanswered(self, batch: SentBatch, answered: AbstractSet[str], why: str) -> int:
        """Store the requests without a result line as unanswered; how many there are."""
        model = batch.sent_to
        missing = Outcome(unanswered(model, why))
        requests = [item for item in self._requests(batch) if item[0] not in answered]
        for name, request in requests:
            self._add(name, request, missing, model)
        return len(requests)

    def matches(self, batch: SentBatch, results: Path, api: BatchApi) -> bool:
        """Whether any line of a file is a result of the batch."""
        for line in result_lines(results, api, ()):
            request = self._request(name_of(line.custom_id))
            if request is not None and (request.batch, str(request.attempt)) == (
                batch.number,
                line.custom_id[33:],
            ):
                return True
        return False

    def _add(self, name: str, pooled: PooledRequest, outcome: Outcome, model: Model) -> None:
        """Store the call of a request, unless a process that was killed has done so."""
        request, digest = pooled.request(model), bytes.fromhex(name)
        error = outcome.error
        reply = outcome.reply if error is None else error.reply
        reply = reply and with_savings(request, reply)
        place = place_of(request)
        calls = self.database.find(digest)
        if not any(
            (c.row, c.unit, c.item, c.call, c.attempt) == place and c.content.reply is not None
            for c in calls
        ):
            content = CallContent(
                reply,
                pooled.messages,
                error="" if error is None else error.message,
                retryable=isinstance(error, Retryable),
            )
            self._own.add(request, digest, content, "" if error is None else error.failure)
            self._own.answered.pop(place)
        self.database.remove(name, TABLE)
        shared = self._store is not None and pooled.shares and error is None
        if shared and reply is not None and is_storable(reply, pooled.top_logprobs):
            assert self._store is not None
            self._store.put(self._digests.with_address(digest, model), model.name, reply)

    def _choose_mode(self, model: str, mode: JsonMode) -> None:
        self.modes[model] = mode
        self.database.put(_MODES, self.modes, TABLE)

    def _request(self, name: str) -> PooledRequest | None:
        value = self.database.get(name, TABLE)
        return None if value is None else msgspec.convert(value, PooledRequest)

    def _requests(self, batch: SentBatch) -> Iterator[tuple[str, PooledRequest]]:
        for name in self.database.names_of(TABLE, "?" * 32):
            request = self._request(name)
            if request is not None and request.batch == batch.number:
                yield name, request

    async def _save(self, batch: SentBatch) -> None:
        self.database.put(_name(batch.number), asdict(batch), TABLE)
        await self.database.writer.flush()


def read_batches(database: Database) -> list[SentBatch]:
    """The batches in a run's database."""
    return [
        msgspec.convert(database.get(name, TABLE), SentBatch)
        for name in database.names_of(TABLE, BATCHES)
    ]


def batch_facts(database: Database) -> list[BatchFacts]:
    """What `run.json` says of the batches in a run's database."""
    return [batch.facts for batch in read_batches(database)]


def _name(number: int) -> str:
    return f"batch-{number:06}"


def custom_id(name: str, attempt: int) -> str:
    """How a provider knows a request: its digest, and which attempt it is."""
    return f"{name}-{attempt}"


def name_of(custom: str) -> str:
    """The digest in a custom id."""
    return custom.partition("-")[0]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


class Outcome(Struct, frozen=True):
    """One request's reply or error; what its reply would have cost as an ordinary call, and the form of JSON requests to use
    from now on (None: as before)."""

    error: ProviderError | ReplyError | None = None
    reply: Reply | None = None
    ordinary_usd: float | None = None
    mode: JsonMode | None = None


def read_result(result: ResultLine, pooled: PooledRequest, model: Model, api: BatchApi) -> Outcome:
    """The outcome of a request, read by what reads ordinary replies and errors."""
    request = pooled.request(model)
    ordinary, source = None, Source(f"{api.provider}'s batch")
    try:
        if result.unpaid:
            raise unanswered(model, result.unpaid)
        if not 200 <= result.status < 300:
            raise response_error(
                result.status, orjson.dumps(result.body, default=str), model.name, source
            )
        envelope: Any = result.body
        if api.protocol is not None and isinstance(envelope, dict):
            envelope = api.protocol.to_chat(envelope)
        if isinstance(envelope, dict):
            envelope = {**envelope, "service_tier": TIER}
            ordinary = cost_usd(
                model, read_usage(envelope.get("usage")), served=str(envelope.get("model") or "")
            )
        reply = read_envelope(envelope, request, 0.0, pooled.sent, source)
        if pooled.top_logprobs and not reply.logprobs:
            raise missing_logprobs(request, reply)
    except Rejected as error:
        mode = None
        if pooled.mode and model.structured == "auto":
            mode = lesser_mode(cast("JsonMode", pooled.mode), error)
        if mode is None:
            return Outcome(error, error.reply, ordinary)
        return Outcome(Retryable(error.message, kind="unavailable", status=error.status), mode=mode)
    except (ProviderError, ReplyError) as error:
        return Outcome(error, error.reply, ordinary)
    return Outcome(None, reply, ordinary)


def unanswered(model: Model, why: str) -> Retryable:
    """The error of a request that a batch did not answer."""
    return Retryable(
        f"model {model.name}: the batch did not answer this request: {why}", kind="timeout"
    )


def result_lines(path: Path, api: BatchApi, secrets: tuple[str, ...]) -> Iterator[ResultLine]:
    """The outcomes in a file of results, without secrets that the server repeated. Lines that cannot be read are left out:
    their requests count as unanswered."""
    with path.open("rb") as file:
        for line in file:
            if not line.strip():
                continue
            try:
                value = loads(line)
                yield api.read(redact(value, secrets) if may_contain(line, secrets) else value)
            except (ValueError, KeyError, TypeError, AttributeError):
                continue


T = TypeVar("T")
ARRIVAL_S = 1.0
"""How long after its intent a batch may still appear in the provider's list: the killed process's request may be on its way."""
TRIES = 6
DELAY_S = 0.5
"""The wait after the first failure; it doubles."""


async def patiently(call: Callable[[], Awaitable[T]]) -> T:
    """What a harmless call gives, which is repeated after temporary failures."""
    for attempt in range(TRIES):
        try:
            return await call()
        except Retryable as error:
            if attempt == TRIES - 1:
                raise Refused(
                    error.message, hint="the same command resumes the run", kind="unreachable"
                ) from None
            await asyncio.sleep(min(30.0, error.retry_after_s or DELAY_S * 2**attempt))
    raise AssertionError("unreachable")


async def settle_intent(batches: RunBatches, batch: SentBatch, api: BatchApi, folder: Path) -> None:
    """Find the batch of an intent without an id; forget it where the provider has none."""
    wait_s = batch.intended + ARRIVAL_S - time()
    if 0 < wait_s <= ARRIVAL_S:
        await asyncio.sleep(wait_s)
    state = await patiently(lambda: look_for(batches, batch, api, folder))
    if state is None:
        await batches.drop(batch)
    else:
        await batches.sent(batch, state)


async def look_for(
    batches: RunBatches, batch: SentBatch, api: BatchApi, folder: Path
) -> BatchState | None:
    """The intended batch at the provider: the one with its tag; without tags, the one whose results have its custom ids."""
    taken = {sent.id for sent in batches.batches.values()}
    candidates = []
    async for state in api.recent(batch.intended):
        if api.has_tags and state.tag == batch.tag:
            return state
        if not api.has_tags and state.id not in taken and state.requests in (0, batch.requests):
            candidates.append(state)
    for candidate in candidates:
        if await _has_results_of(candidate, batches, batch, api, folder):
            return candidate
    return None


async def _has_results_of(
    state: BatchState, batches: RunBatches, batch: SentBatch, api: BatchApi, folder: Path
) -> bool:
    """Whether a batch's results are those of the requests. It is waited for: before its end nothing of it can be seen."""
    delay_s = 2 * DELAY_S
    identity = state.id
    while not state.ended:
        await asyncio.sleep(delay_s)
        delay_s = min(60.0, 2 * delay_s)
        state = await patiently(lambda: api.get(identity))
    path = folder / "candidate"
    path.unlink(missing_ok=True)
    try:
        await api.results(state, path)
        return batches.matches(batch, path, api)
    except OSError:
        return False


@asynccontextmanager
async def scratch(directory: Path) -> AsyncIterator[Path]:
    """A folder in a run's directory for files of requests and results, which is then removed."""
    folder = directory / "batches"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
