"""The batches of a run in its database: what was sent, for which calls, and how replies become calls of the run.

A batch and its requests are committed before the batch is created, so that a killed process finds it again. A request is stored
under the digest by which the run finds the reply, until it has one.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from time import time
from typing import TypeGuard, TypeVar

import msgspec
import orjson
from msgspec import Struct

from verdict_cli.errors import ProviderError, Refused, Rejected, ReplyError, Retryable
from verdict_cli.features.batches.adapters import TIER, open_batch_api
from verdict_cli.features.batches.batch_api import BatchApi, BatchState, ResultLine
from verdict_cli.features.batches.batch_facts import TABLE, TO_FILE, SentBatch, read_batches
from verdict_cli.llm.middleware.cache_store import CacheStore
from verdict_cli.llm.middleware.circuit_breaker import MAX_REJECTIONS
from verdict_cli.llm.middleware.replies import (
    OwnCalls,
    Place,
    RequestDigests,
    is_storable,
    with_savings,
)
from verdict_cli.llm.middleware.require_logprobs import missing_logprobs
from verdict_cli.llm.providers.http_errors import Source, response_error
from verdict_cli.llm.providers.json_mode import JsonMode, lesser_mode
from verdict_cli.llm.providers.price_book import charged_usd
from verdict_cli.llm.providers.read_reply import read_envelope
from verdict_cli.llm.providers.secrets import may_contain, model_secrets, redact
from verdict_cli.llm.providers.wire_values import loads
from verdict_cli.messages import Entry, Reply, Request, Row, sum_usd
from verdict_cli.model import EndpointKey, Model
from verdict_cli.storage.database.database import Database
from verdict_cli.storage.database.records import CallContent, Images, StoredCall

_MODES = "modes"
Failed = ProviderError | ReplyError
_AT_ONCE = 500
"""Results that are read before the event loop gets a turn."""


class PooledRequest(Struct, frozen=True, array_like=True):
    """What a request's reply is for, and how it is read.

    ``mode`` is the form of a request for JSON, ``sent`` the parameters as JSON.
    """

    batch: int
    place: Place
    row_id: str | int
    messages: tuple[tuple[str, int, Images], ...]
    top_logprobs: int
    mode: JsonMode | None
    sent: str

    def request(self, model: Model) -> Request:
        """The request, without its messages."""
        row, unit, item, call, attempt = self.place
        entry = Entry(item, {}, 0, "") if item else None
        of_row = Row(row, self.row_id, {}, entry=entry)
        return Request(of_row, unit, model, (), call, attempt, top_logprobs=self.top_logprobs)


class RunBatches:
    """The batches of a run, and their providers. The run's calls are ``own``; ``store`` is the shared cache.

    ``folder`` takes files of requests and results. ``open_api`` gives the interface of a model's provider.
    """

    def __init__(
        self,
        own: OwnCalls,
        folder: Path,
        store: CacheStore | None = None,
        open_api: Callable[[Model], BatchApi] = open_batch_api,
    ) -> None:
        self._own, self._store = own, store
        self.folder = folder
        self.database: Database = own.database
        self.batches = {batch.number: batch for batch in read_batches(self.database)}
        self.modes: dict[str, JsonMode] = self.database.get(_MODES, TABLE) or {}
        self._digests = RequestDigests()
        self._intended: set[str] = set()
        """The requests that are being committed."""
        self._open_api = open_api
        self._apis: dict[EndpointKey, BatchApi] = {}

    def api(self, model: Model) -> BatchApi:
        """The interface of a model's provider."""
        key = model.endpoint_key
        if key not in self._apis:
            self._apis[key] = self._open_api(model)
        return self._apis[key]

    async def aclose(self) -> None:
        """Close connections."""
        for api in self._apis.values():
            await api.aclose()

    @property
    def in_flight(self) -> list[SentBatch]:
        """The batches that have not ended, in the order of their intents."""
        return [batch for batch in self.batches.values() if not batch.ended]

    def has(self, name: str) -> bool:
        """Whether a batch in flight has the request of that digest."""
        return name in self._intended or self.database.get(name, TABLE) is not None

    async def intend(self, batch: SentBatch, requests: dict[str, PooledRequest]) -> None:
        """Commit a batch that is to be sent, with its requests."""
        self.batches[batch.number] = batch
        self._intended.update(requests)
        for name, request in requests.items():
            self.database.put(name, request, TABLE)
        await self._save(batch)
        self._intended.difference_update(requests)

    async def sent(self, batch: SentBatch, state: BatchState) -> None:
        """Note that the provider has a batch."""
        batch.id, batch.status, batch.submitted = state.id, state.status, _now()
        await self._save(batch)

    async def end(self, batch: SentBatch, status: str) -> None:
        """Note the end of a batch: requests without a reply may be sent again."""
        self._remove_requests(batch)
        batch.status, batch.ended = status, _now()
        await self._save(batch)

    async def drop(self, batch: SentBatch) -> None:
        """Forget a batch that was never created: its requests are pooled again."""
        self._remove_requests(batch)
        self.database.remove(_name(batch.number), TABLE)
        del self.batches[batch.number]
        await self.database.writer.flush()

    async def create(self, batch: SentBatch, file: Path) -> BatchState:
        """The batch of a request file. It is looked for before it is created a second time, so that none is paid for twice."""
        api = self.api(batch.sent_to)
        file_id = await patiently(lambda _: api.upload(file))

        async def create(attempt: int) -> BatchState:
            state = await self._look_for(batch) if attempt else None
            return state or await api.create(file_id, file, batch.tag)

        return await patiently(create)

    async def settle(self, batch: SentBatch) -> None:
        """Find the batch of an intent without an id; forget it where the provider has none."""
        await asyncio.sleep(min(ARRIVAL_S, batch.intended + ARRIVAL_S - time()))
        state = await patiently(lambda _: self._look_for(batch))
        if state is None:
            await self.drop(batch)
        else:
            await self.sent(batch, state)

    async def _look_for(self, batch: SentBatch) -> BatchState | None:
        """The intended batch at the provider: the one with its tag; without tags, the one whose results have its custom ids."""
        api = self.api(batch.sent_to)
        states = await api.recent(batch.intended)
        if api.has_tags:
            return next((state for state in states if state.tag == batch.tag), None)
        taken = {sent.id for sent in self.batches.values()}
        for state in states:
            may_be = state.id not in taken and state.requests in (0, batch.requests)
            if may_be and await self._has_results(batch, state):
                return state
        return None

    async def _has_results(self, batch: SentBatch, state: BatchState) -> bool:
        """Whether the results of a batch are those of the requests. It is waited for: before its end nothing of it can be seen."""
        api, delay_s = self.api(batch.sent_to), 2 * DELAY_S
        while not state.ended:
            await asyncio.sleep(delay_s)
            delay_s = min(60.0, 2 * delay_s)
            state = await api.get(state.id)
        return self.matches(batch, await self._results(api, state))

    async def _results(self, api: BatchApi, state: BatchState) -> Path:
        """The file with the result lines of an ended batch, which takes the place of the one before."""
        path = self.folder / "results"
        path.write_bytes(b"")
        await api.results(state, path)
        return path

    async def cancel(self, batch: SentBatch) -> bool:
        """Cancel a batch in flight; False where it was never created. What a provider had answered is still to be collected."""
        if batch.provider == TO_FILE:
            await self.end(batch, "cancelled")
            return True
        if not batch.id:
            await self.settle(batch)
        if batch.id:
            await self.api(batch.sent_to).cancel(batch.id)
        return bool(batch.id)

    async def collect(self, batch: SentBatch, state: BatchState) -> Refused | None:
        """Take the results of an ended batch into the run's calls; requests without one were not answered. The error that stops
        the run, if any."""
        model, api = batch.sent_to, self.api(batch.sent_to)
        batch.answered, batch.cost_usd, batch.charged_usd = 0, 0.0, 0.0
        refusal: Refused | None = None
        errors: dict[str, Failed | None] = {}
        lines = self._lines_of(batch, await self._results(api, state))
        for number, (name, request, line) in enumerate(lines, 1):
            reply, error = read_result(line, request, model, api)
            if reply is not None:
                batch.answered += 1
                batch.cost_usd = sum_usd(batch.cost_usd, reply.cost_usd)
                charged = charged_usd(model, reply.cost_usd, reply.usage, tier=TIER)
                batch.charged_usd = sum_usd(batch.charged_usd, charged)
            error = errors[name] = self._with_lesser_mode(request, error, model)
            if isinstance(error, Refused):
                refusal = error
            elif not isinstance(error, Rejected):
                self._add(name, request, reply, error, model)
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
        rejections = [error.message for error in errors.values() if _is_rejection(error)]
        batch.rejected = len(rejections)
        if not batch.answered and batch.rejected >= MAX_REJECTIONS:
            refusal = refusal or Refused(
                f"model {batch.model} rejected {batch.rejected:,} requests of a batch and answered none, the first with: {rejections[0]}",
                hint="fix the cause; the same command sends these requests again",
                kind="rejected",
            )
        if refusal is None:  # else they are sent again once its cause is fixed
            missing = unanswered(model, state.problem or state.status)
            for name, request in self._requests(batch):
                error = errors.get(name, missing)
                if name not in errors or isinstance(error, Rejected):
                    self._add(name, request, None if error is None else error.reply, error, model)
        await self.end(batch, state.status)
        return refusal

    def matches(self, batch: SentBatch, results: Path) -> bool:
        """Whether any line of a file is a result of the batch."""
        return any(
            line.custom_id == custom_id(name, request.place[-1])
            for name, request, line in self._lines_of(batch, results)
        )

    def _lines_of(
        self, batch: SentBatch, results: Path
    ) -> Iterator[tuple[str, PooledRequest, ResultLine]]:
        """The lines of a file that are results of the batch, with their requests; one that is repeated counts once."""
        names = set()
        for line in result_lines(results, self.api(batch.sent_to)):
            name = line.custom_id.partition("-")[0]
            request = None if name in names else self._request(name)
            if request is not None and request.batch == batch.number:
                names.add(name)
                yield name, request, line

    def calls(self, digest: bytes, place: Place) -> list[StoredCall]:
        """What is stored of a call."""
        return [
            call
            for call in self.database.find(digest)
            if (call.row, call.unit, call.item, call.call, call.attempt) == place
        ]

    def _add(
        self,
        name: str,
        pooled: PooledRequest,
        reply: Reply | None,
        error: Failed | None,
        model: Model,
    ) -> None:
        """Store the call of a request, unless a process that was killed has done so."""
        request, digest = pooled.request(model), bytes.fromhex(name)
        reply = reply and with_savings(request, reply)
        if not any(call.content.reply for call in self.calls(digest, pooled.place)):
            content = CallContent(
                reply,
                pooled.messages,
                error="" if error is None else error.message,
                retryable=isinstance(error, Retryable),
            )
            failure = "" if error is None else error.failure
            self._own.add(request, digest, content, failure)
            self._own.answered.pop(pooled.place)
        self.database.remove(name, TABLE)
        if self._store is None or not model.cache or error is not None or reply is None:
            return
        if is_storable(reply, pooled.top_logprobs):
            self._store.put(self._digests.with_address(digest, model), model.name, reply)

    def _with_lesser_mode(
        self, request: PooledRequest, error: Failed | None, model: Model
    ) -> Failed | None:
        """The error; one that is passing where the form of JSON was rejected, of which a lesser one is used from now on."""
        if not (isinstance(error, Rejected) and request.mode and model.structured == "auto"):
            return error
        mode = lesser_mode(request.mode, error)
        if mode is None:
            return error
        self.modes[model.name] = mode
        self.database.put(_MODES, self.modes, TABLE)
        return Retryable(error.message)

    def _request(self, name: str) -> PooledRequest | None:
        value = self.database.get(name, TABLE)
        return None if value is None else msgspec.convert(value, PooledRequest)

    def _requests(self, batch: SentBatch) -> Iterator[tuple[str, PooledRequest]]:
        for name in self.database.names_of(TABLE, "?" * 32):
            request = self._request(name)
            if request is not None and request.batch == batch.number:
                yield name, request

    def _remove_requests(self, batch: SentBatch) -> None:
        for name, _ in self._requests(batch):
            self.database.remove(name, TABLE)

    async def _save(self, batch: SentBatch) -> None:
        self.database.put(_name(batch.number), asdict(batch), TABLE)
        await self.database.writer.flush()


def _name(number: int) -> str:
    return f"batch-{number:06}"


def custom_id(name: str, attempt: int) -> str:
    """How a provider knows a request: its digest, and which attempt it is."""
    return f"{name}-{attempt}"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _is_rejection(error: Failed | None) -> TypeGuard[Rejected]:
    """Whether the request was rejected for another reason than its row's content."""
    return isinstance(error, Rejected) and error.failure == "rejected"


def read_result(
    line: ResultLine, pooled: PooledRequest, model: Model, api: BatchApi
) -> tuple[Reply | None, Failed | None]:
    """The reply or the error of a request, read by what reads ordinary ones."""
    request, source = pooled.request(model), Source(f"{api.provider}'s batch")
    body = line.body
    try:
        if line.unpaid:
            raise unanswered(model, line.unpaid)
        if not 200 <= line.status < 300:
            content = orjson.dumps(body, default=str)
            raise response_error(line.status, content, model.name, source)
        if isinstance(body, dict):
            body = {**api.protocol.to_chat(body), "service_tier": TIER}
        reply = read_envelope(body, request, 0.0, pooled.sent, source)
        if pooled.top_logprobs and not reply.logprobs:
            raise missing_logprobs(request, reply)
    except (ProviderError, ReplyError) as fault:
        return fault.reply, fault
    return reply, None


def unanswered(model: Model, why: str) -> Retryable:
    """The error of a request that a batch did not answer."""
    message = f"model {model.name}: the batch did not answer this request: {why}"
    return Retryable(message, kind="timeout")


def result_lines(path: Path, api: BatchApi) -> Iterator[ResultLine]:
    """The outcomes in a file of results, without secrets that the server repeated. Lines that cannot be read are left out:
    their requests count as unanswered."""
    secrets = model_secrets(api.model, os.environ)
    with path.open("rb") as file:
        for line in file:
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


async def patiently(call: Callable[[int], Awaitable[T]]) -> T:
    """What a harmless call gives, which is repeated after temporary failures. It gets the number of the attempt."""
    for attempt in range(TRIES):
        try:
            return await call(attempt)
        except Retryable as error:
            last = error
            await asyncio.sleep(min(30.0, error.retry_after_s or DELAY_S * 2**attempt))
    hint = "the same command resumes the run"
    raise Refused(last.message, hint=hint, kind="unreachable")


@contextmanager
def scratch(directory: Path) -> Iterator[Path]:
    """A folder in a run's directory for files of requests and results, which is then removed."""
    folder = directory / "batches"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
