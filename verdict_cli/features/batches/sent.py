"""The batches of a run in its database: what was sent, and the results, which wait there until their calls are made again.

A batch and its requests are committed before the batch is created, so that a killed process finds it again. A request is stored
under its custom id: the digest of the call, and which attempt it is.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from time import time
from typing import TypeVar

import msgspec
import orjson
from msgspec import Struct
from msgspec.structs import replace

from verdict_cli.errors import ProviderError, Refused, Rejected, ReplyError, Retryable
from verdict_cli.features.batches.adapters import TIER, open_batch_api
from verdict_cli.features.batches.batch_api import BatchApi, BatchState, ResultLine
from verdict_cli.features.batches.batch_facts import TABLE, TO_FILE, SentBatch, read_batches
from verdict_cli.llm.middleware.circuit_breaker import MAX_REJECTIONS
from verdict_cli.llm.middleware.require_logprobs import missing_logprobs
from verdict_cli.llm.providers.http_errors import Source, response_error
from verdict_cli.llm.providers.json_mode import JsonMode, lesser_mode
from verdict_cli.llm.providers.price_book import charged_usd
from verdict_cli.llm.providers.read_reply import read_envelope
from verdict_cli.llm.providers.secrets import may_contain, model_secrets, redact
from verdict_cli.llm.providers.wire_values import loads
from verdict_cli.messages import Reply, Request, Row, sum_usd
from verdict_cli.model import EndpointKey, Model
from verdict_cli.storage.database.database import Database

_MODES, _LAST_NUMBER = "modes", "last-number"
_AT_ONCE = 500
"""Results that are read before the event loop gets a turn."""


class SentRequest(Struct, frozen=True, array_like=True):
    """A request, how its reply is read, and its result once a batch has one.

    ``tries`` is how often it was sent, ``mode`` the form of a request for JSON, ``sent`` the parameters as JSON.
    """

    batch: int
    tries: int
    top_logprobs: int
    mode: JsonMode | None
    sent: str
    result: ResultLine | None = None


class RunBatches:
    """The batches of a run, and their providers.

    ``folder``, which is in the run's directory until `aclose`, takes files of requests and results. ``open_api`` gives the
    interface of a model's provider.
    """

    def __init__(
        self,
        database: Database,
        directory: Path,
        open_api: Callable[[Model], BatchApi] = open_batch_api,
    ) -> None:
        self.database = database
        self.batches = {batch.number: batch for batch in read_batches(database)}
        self.last_number: int = max([*self.batches, database.get(_LAST_NUMBER, TABLE) or 0])
        """The highest number of a batch; stored requests may name one that was dropped, so that none is given twice."""
        self.modes: dict[str, JsonMode] = database.get(_MODES, TABLE) or {}
        self._open_api = open_api
        self._apis: dict[EndpointKey, BatchApi] = {}
        self.folder = directory / "batches"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(mode=0o700)

    def api(self, model: Model) -> BatchApi:
        """The interface of a model's provider."""
        key = model.endpoint_key
        if key not in self._apis:
            self._apis[key] = self._open_api(model)
        return self._apis[key]

    async def aclose(self) -> None:
        """Close connections, and remove the files."""
        shutil.rmtree(self.folder, ignore_errors=True)
        for api in self._apis.values():
            await api.aclose()

    @property
    def in_flight(self) -> list[SentBatch]:
        """The batches that have not ended, in the order of their intents."""
        return [batch for batch in self.batches.values() if not batch.ended]

    def find(self, name: str) -> SentRequest | None:
        """The request of that custom id, None where it was not sent. A batch that was refused as a whole is no try."""
        value = self.database.get(name, TABLE)
        if value is None:
            return None
        sent = msgspec.convert(value, SentRequest)
        batch = self.batches.get(sent.batch)
        return sent if batch and not batch.refused else replace(sent, tries=sent.tries - 1)

    def is_in_flight(self, request: SentRequest | None) -> bool:
        """Whether a batch that has not ended has the request."""
        batch = None if request is None else self.batches.get(request.batch)
        return batch is not None and not batch.ended

    def unclaimed(self) -> Iterator[tuple[str, float | None]]:
        """The models of the replies whose calls were not made again, and what the budget is charged for each."""
        for name in self.database.names_of(TABLE, "?" * 32 + "-*"):
            sent = self.find(name)
            batch = self.batches.get(sent.batch) if sent else None
            # A damaged database may have lost the batch; a killed process may have been collecting it.
            if sent is None or sent.result is None or batch is None or not batch.ended:
                continue
            model = batch.sent_to
            reply, _ = self._outcome(sent, model)
            if reply is not None:
                yield batch.model, _charged(reply, model)

    async def intend(self, batch: SentBatch, requests: dict[str, SentRequest]) -> None:
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
        """Note the end of a batch: requests without a result may be sent again."""
        batch.status, batch.ended = status, _now()
        await self._save(batch)

    async def drop(self, batch: SentBatch) -> None:
        """Forget a batch that was never created: its requests are pooled again."""
        self.database.remove(_name(batch.number), TABLE)
        self.database.put(_LAST_NUMBER, self.last_number, TABLE)
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
        """Keep the results of an ended batch until their calls are made again; requests without one were not answered. The
        error that stops the run, if any."""
        model, api = batch.sent_to, self.api(batch.sent_to)
        batch.answered, batch.cost_usd, batch.charged_usd = 0, 0.0, 0.0
        refusal: Refused | None = None
        rejected: list[tuple[Rejected, str, SentRequest]] = []
        lines = self._answered(batch, await self._results(api, state))
        for number, (name, request) in enumerate(lines, 1):
            reply, error = self._outcome(request, model)
            _count(batch, reply, model)
            if isinstance(error, Refused):
                refusal = error
            elif isinstance(error, Rejected):
                if not self._lowers_mode(request, error, model):
                    rejected.append((error, name, request))
            elif reply is not None or not isinstance(error, Retryable):
                self.database.put(name, request, TABLE)
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
        # A row's content may be rejected; anything else is the request's form.
        messages = [error.message for error, _, _ in rejected if error.failure == "rejected"]
        batch.rejected = len(messages)
        if not batch.answered and batch.rejected >= MAX_REJECTIONS:
            refusal = refusal or Refused(
                f"model {batch.model} rejected {batch.rejected:,} requests of a batch and answered none, the first with: {messages[0]}",
                hint="fix the cause; the same command sends these requests again",
                kind="rejected",
            )
        batch.refused = refusal is not None
        if not batch.refused:  # else they are sent again once its cause is fixed
            for _, name, request in rejected:
                self.database.put(name, request, TABLE)
        await self.end(batch, state.status)
        return refusal

    def matches(self, batch: SentBatch, results: Path) -> bool:
        """Whether any line of a file is a result of the batch."""
        return any(True for _ in self._answered(batch, results))

    def _answered(self, batch: SentBatch, results: Path) -> Iterator[tuple[str, SentRequest]]:
        """The requests of the batch that have a result in a file, with their custom ids; one that is repeated counts once."""
        names = set()
        for line in result_lines(results, self.api(batch.sent_to)):
            request = None if line.custom_id in names else self.find(line.custom_id)
            if request is not None and request.batch == batch.number:
                names.add(line.custom_id)
                yield line.custom_id, replace(request, result=line)

    def _outcome(
        self, sent: SentRequest, model: Model
    ) -> tuple[Reply | None, ProviderError | ReplyError | None]:
        """The reply or the error of a request, whatever call it is for."""
        request = Request(Row(0, 0, {}), "", model, (), top_logprobs=sent.top_logprobs)
        try:
            return read_result(request, sent, self.api(model)), None
        except (ProviderError, ReplyError) as error:
            return error.reply, error

    def _lowers_mode(self, request: SentRequest, error: Rejected, model: Model) -> bool:
        """Whether the form of JSON was rejected, of which a lesser one is used from now on."""
        mode = lesser_mode(request.mode, error) if request.mode else None
        if mode is None or model.structured != "auto":
            return False
        self.modes[model.name] = mode
        self.database.put(_MODES, self.modes, TABLE)
        return True

    async def _save(self, batch: SentBatch) -> None:
        self.database.put(_name(batch.number), asdict(batch), TABLE)
        await self.database.writer.flush()


def _name(number: int) -> str:
    return f"batch-{number:06}"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _count(batch: SentBatch, reply: Reply | None, model: Model) -> None:
    """Count a reply of a batch that was paid for."""
    if reply is not None:
        batch.answered += 1
        batch.cost_usd = sum_usd(batch.cost_usd, reply.cost_usd)
        batch.charged_usd = sum_usd(batch.charged_usd, _charged(reply, model))


def _charged(reply: Reply, model: Model) -> float | None:
    """What the budget is charged for a reply of a batch."""
    return charged_usd(model, reply.cost_usd, reply.usage, tier=TIER)


def read_result(request: Request, sent: SentRequest, api: BatchApi) -> Reply:
    """The reply to a request that has a result, read by what reads ordinary ones. Raises its error."""
    line = sent.result
    assert line is not None
    source = Source(request.model.name, f"{api.provider}'s batch", sent=sent.sent)
    body = line.body
    if line.unpaid:
        raise Retryable(f"the batch did not answer this request: {line.unpaid}")
    if not 200 <= line.status < 300:
        raise response_error(line.status, orjson.dumps(body, default=str), source)
    if isinstance(body, dict):
        body = {**api.protocol.to_chat(body), "service_tier": TIER}
    reply = read_envelope(body, request, source)
    if sent.top_logprobs and not reply.logprobs:
        raise missing_logprobs(request, reply)
    return reply


def result_lines(path: Path, api: BatchApi) -> Iterator[ResultLine]:
    """The outcomes in a file of results, without secrets that the server repeated. Lines that cannot be read are left out:
    their requests count as unanswered."""
    secrets = model_secrets(api.model, os.environ)
    with path.open("rb") as file:
        for line in file:
            try:
                value = loads(line)
                result = api.read(redact(value, secrets) if may_contain(line, secrets) else value)
            except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
                continue
            if isinstance(result.custom_id, str):
                yield result


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
