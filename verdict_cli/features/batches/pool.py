"""Calls that are pooled and sent as batches: the run's one loop goes over its rows again once a batch has ended.

A pooled call raises Pending, and its row is dropped. A batch is sent when it is full, or when no row can continue. What is in flight
counts at the most that it may cost.
"""

from __future__ import annotations

import asyncio
import os
import re
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from time import monotonic, time
from typing import TYPE_CHECKING
from uuid import uuid4

from msgspec.structs import replace

from verdict_cli.errors import Pending, ProviderError, Refused, Rejected, Retryable, UsageError
from verdict_cli.features.batches.adapters import open_batch_api
from verdict_cli.features.batches.batch_api import BatchApi, BatchState
from verdict_cli.features.batches.batch_facts import TO_FILE
from verdict_cli.features.batches.batch_keys import batch_settings
from verdict_cli.features.batches.providers import FileBatches
from verdict_cli.features.batches.sent import (
    DELAY_S,
    TRIES,
    PooledRequest,
    RunBatches,
    SentBatch,
    custom_id,
    look_for,
    patiently,
    scratch,
    settle_intent,
)
from verdict_cli.llm.middleware.chain import with_renamed_units
from verdict_cli.llm.middleware.replies import OwnCalls, RequestDigests, place_of
from verdict_cli.llm.providers.json_mode import chosen_mode
from verdict_cli.llm.providers.price_book import worst_case_usd
from verdict_cli.messages import Ask, Reply, Request
from verdict_cli.model import EndpointKey, Model
from verdict_cli.run.job import Halt, RunJob
from verdict_cli.run.model_client import ModelClient

if TYPE_CHECKING:
    from verdict_cli.features.batches.run_hooks import BatchOptions

MOST_ATTEMPTS = 12
"""How often a request is sent, at most, while batches do not answer it: expired, cancelled, or a temporary failure."""
MOST_POOLED = 100_000
"""Requests of one batch at most, whatever the provider takes: what is known of them is in memory until it is sent."""
MOST_FAILED_BATCHES = 5
"""Batches of at least `min` requests that may end without a reply, one after another, before the run stops."""
FIRST_POLL_S = 1.0
MOST_POLL_S = 60.0
MOST_QUEUE_WAIT_S = 600.0
BATCH_PRICE = 0.5
"""The price of a call in a batch, as a share of the ordinary one."""
QUEUE_LIMIT = re.compile(
    r"token_limit_exceeded|enqueued token limit|queued? token|quota.{0,40}batch|batch.{0,40}(queue|enqueued).{0,40}limit",
    re.I,
)
"""How providers say that the account has too many tokens in its queue."""


class _Unsent:
    """The requests of a batch that is not sent yet, in a file."""

    def __init__(self, path: Path, number: int, model: Model) -> None:
        self.path, self.number, self.model = path, number, model
        self.size = 0
        self.reserved_usd = 0.0
        self.requests: dict[str, PooledRequest] = {}
        self._file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")

    def add(self, line: bytes, name: str, request: PooledRequest) -> None:
        """Write a request."""
        self._file.write(line)
        self.size += len(line)
        self.requests[name] = request

    def close(self) -> None:
        """Write what is left."""
        self._file.close()


class BatchPool:
    """The calls of a run that batches answer: see `CallPool`. Batches stay in flight when the run is stopped."""

    def __init__(
        self, options: BatchOptions, job: RunJob, own: OwnCalls, client: ModelClient, halt: Halt
    ) -> None:
        self.waiting = False
        self._options, self._job, self._own, self._halt = options, job, own, halt
        self._client = client
        self._sent = RunBatches(own, client.store)
        self._number = max(self._sent.batches, default=0)
        self._wave = 1 + max((batch.wave for batch in self._sent.batches.values()), default=0)
        self._digests = RequestDigests()
        self._unsent: dict[EndpointKey, _Unsent] = {}
        self._names: set[str] = set()
        """The requests that are not committed yet."""
        self._reserved_usd = 0.0
        self._apis: dict[EndpointKey, BatchApi] = {}
        self._most: dict[EndpointKey, int] = {}
        """The most requests of a batch, where the account's queue has refused a larger one."""
        self._queue_full = False
        self._queue_delay_s = FIRST_POLL_S
        self._failed_in_a_row = 0
        self._too_late: set[int] = set()
        self._stack = AsyncExitStack()

    async def start(self) -> None:
        """Find the batches that an earlier process has sent."""
        self._folder = await self._stack.enter_async_context(scratch(self._job.directory.path))
        for batch in self._sent.in_flight:
            if batch.provider == TO_FILE and not batch.id:
                await self._sent.drop(batch)
                continue
            self._check_provider(batch)
            if not batch.id:
                await settle_intent(self._sent, batch, self._api(batch.sent_to), self._folder)
        for batch in self._sent.in_flight:
            self._reserve(batch.reserved_usd)
        if self._sent.in_flight:
            await self._poll()

    def _check_provider(self, batch: SentBatch) -> None:
        """UsageError where this command cannot collect a batch."""
        if batch.provider == self._api(batch.sent_to).provider:
            return
        if batch.provider == TO_FILE:
            raise UsageError(
                f"{batch.requests:,} requests were exported to {batch.id}, and their results are missing",
                hint="verdict batch import RUN RESULTS; or `verdict batch cancel RUN`, and the requests are sent again",
            )
        raise UsageError(
            f"a batch of {batch.requests:,} requests is in flight at {batch.provider}",
            hint="collect it by the command that sent it, or give it up: verdict batch cancel RUN",
        )

    def around(self, ask: Ask) -> Ask:
        """``ask``, which raises Pending for a call that a batch answers."""

        async def ask_pooled(request: Request) -> Reply:
            digest = self._digest(request) if self._options.takes(request.model) else None
            if digest is None:
                return await ask(request)
            unanswered = self._unanswered(request, digest)
            if unanswered and self._options.fallback:
                return await ask(request)
            if unanswered >= MOST_ATTEMPTS:
                error = Retryable(
                    f"model {request.model.name}: {unanswered} batches did not answer this request"
                )
                error.waited = True
                raise error
            await self._pool(request, digest.hex())
            raise Pending("the call waits for a batch")

        return ask_pooled

    async def answer(self) -> bool:
        """Send what is pooled, and wait until batches have ended. A small batch waits for more while earlier ones are in flight."""
        least = min(
            (batch_settings(unsent.model).min for unsent in self._unsent.values()), default=0
        )
        pooled = sum(len(unsent.requests) for unsent in self._unsent.values())
        if pooled >= least or all(batch.wave == self._wave for batch in self._sent.in_flight):
            for key in list(self._unsent):
                await self._send(key)
            self._wave = 1 + max((batch.wave for batch in self._sent.batches.values()), default=0)
        if not (self._sent.in_flight or self._queue_full):
            return False
        if self._options.detach:
            self.waiting = True
            return False
        return await self._wait()

    async def close(self) -> None:
        """Close connections; what is not sent is pooled again by the next run."""
        for unsent in self._unsent.values():
            unsent.close()
        await self._stack.aclose()
        for api in self._apis.values():
            await api.aclose()

    def _api(self, model: Model) -> BatchApi:
        """The interface of a model's provider."""
        key, export = model.endpoint_key, self._options.export
        if key not in self._apis:
            self._apis[key] = (
                open_batch_api(model) if export is None else FileBatches(model, export)
            )
        return self._apis[key]

    def _shares(self, request: Request) -> bool:
        return self._client.store is not None and request.model.cache

    def _digest(self, request: Request) -> bytes | None:
        """The digest by which the run finds the reply."""
        renamed = self._job.rename_unit
        if renamed is not None:
            request = with_renamed_units(lambda named: named, renamed)(request)
        return self._digests.get(request, of_row=not self._shares(request))

    def _unanswered(self, request: Request, digest: bytes) -> int:
        """How often the call was sent and not answered."""
        place = place_of(request)
        calls = [
            call
            for call in self._own.database.find(digest)
            if call.failure and call.content.reply is None
        ]
        places = [(call.row, call.unit, call.item, call.call, call.attempt) for call in calls]
        return places.count(place)

    # pooling

    async def _pool(self, request: Request, name: str) -> None:
        """Write the request, unless it is in flight or written, or the budget or the account's queue has no room."""
        if self._queue_full or name in self._names or self._sent.has(name):
            return
        worst_usd = self._worst_usd(request)
        if not self._has_room(worst_usd):
            return
        model, key = request.model, request.model.endpoint_key
        api = self._api(model)
        wanted = (model.top_logprobs or request.top_logprobs) if request.top_logprobs else 0
        mode = chosen_mode(model) or self._sent.modes.get(model.name, "schema")
        sent_request = replace(request, stream=False, top_logprobs=wanted)
        line, sent = api.line(custom_id(name, request.attempt), sent_request, mode)
        unsent = self._unsent.get(key)
        if unsent is not None and unsent.size + len(line) > api.max_bytes:
            await self._send(key)
            unsent = None
        if unsent is None:
            self._number += 1
            unsent = self._unsent[key] = _Unsent(
                self._folder / f"{self._number:06}.jsonl", self._number, model
            )
        pooled = PooledRequest(
            unsent.number,
            *(
                request.row.index,
                request.row.id,
                request.node,
                request.row.item,
                request.call,
                request.attempt,
            ),
            self._own.database.add_messages(request.messages),
            wanted,
            mode if request.json_schema is not None else "",
            sent,
            self._shares(request),
        )
        unsent.add(line, name, pooled)
        self._names.add(name)
        self._reserve(worst_usd)
        unsent.reserved_usd += worst_usd
        if len(unsent.requests) >= min(
            MOST_POOLED, api.most_requests(model), self._most.get(key, MOST_POOLED)
        ):
            await self._send(key)

    def _worst_usd(self, request: Request) -> float:
        budget = self._client.spending.budget_usd
        if budget is None:
            return 0.0
        worst = worst_case_usd(request)
        return budget if worst is None else BATCH_PRICE * worst

    def _has_room(self, worst_usd: float) -> bool:
        """Whether the budget has room for a request. One that does not fit even alone is sent alone. Raises BudgetError."""
        spending = self._client.spending
        if spending.budget_usd is None:
            return True
        if not self._reserved_usd:
            spending.check()
            return True
        return (
            worst_usd
            <= spending.budget_usd * (1 + 1e-9) - spending.spent_usd - spending.reserved_usd
        )

    def _reserve(self, usd: float) -> None:
        """Count what may be spent as spent; a negative amount once it is known what was."""
        self._reserved_usd = max(0.0, self._reserved_usd + usd)
        self._client.spending.spend(usd)

    # sending

    async def _send(self, key: EndpointKey) -> None:
        """Send the requests of an endpoint as a batch. Raises ProviderError."""
        unsent = self._unsent.pop(key)
        unsent.close()
        api = self._api(unsent.model)
        batch = SentBatch(
            id="",
            provider=api.provider,
            model=unsent.model.name,
            requests=len(unsent.requests),
            status="sending",
            wave=self._wave,
            number=unsent.number,
            tag=uuid4().hex,
            settings=unsent.model.model_dump(mode="json", exclude_defaults=True),
            intended=time(),
            reserved_usd=unsent.reserved_usd,
        )
        await self._sent.intend(batch, unsent.requests)
        self._names.difference_update(unsent.requests)
        try:
            state = await self._create(batch, api, unsent.path)
        except _QueueFullError as full:
            await self._refused_by_queue(batch, str(full))
        else:
            await self._sent.sent(batch, state)
        finally:
            unsent.path.unlink(missing_ok=True)

    async def _create(self, batch: SentBatch, api: BatchApi, file: Path) -> BatchState:
        """The batch, created. It is looked for before it is created a second time, so that none is paid for twice."""
        file_id = await patiently(lambda: api.upload(file)) if api.uploads else ""
        for attempt in range(TRIES):
            try:
                return await api.create(file_id, file, batch.tag)
            except ProviderError as error:
                if QUEUE_LIMIT.search(error.message):
                    raise _QueueFullError(error.message) from None
                if isinstance(error, Rejected):
                    message = f"{error.message} (a batch of {batch.requests:,} requests)"
                    raise Refused(message, hint=error.hint, status=error.status) from None
                if not isinstance(error, Retryable):
                    raise
                await asyncio.sleep(min(30.0, error.retry_after_s or DELAY_S * 2**attempt))
                last = error
            state = await patiently(lambda: look_for(self._sent, batch, api, self._folder))
            if state is not None:
                return state
        raise Refused(
            f"a batch of {batch.requests:,} requests could not be sent: {last.message}",
            hint="the same command looks for it at the provider, and sends it if it is not there",
            kind="unreachable",
        )

    async def _refused_by_queue(self, batch: SentBatch, why: str) -> None:
        """Pool the requests of a batch again, in smaller ones where no other is in flight, once the queue may have room."""
        await self._sent.drop(batch)
        self._reserve(-batch.reserved_usd)
        self._queue_full = True
        if not self._sent.in_flight:
            self._most[batch.sent_to.endpoint_key] = max(1, batch.requests // 2)
        self._job.warn(
            f"{batch.provider} has no room in its queue for a batch of {batch.requests:,} requests: {why:.200}"
        )

    # waiting

    async def _wait(self) -> bool:
        """Poll until batches have ended; False once the run is to stop.

        Others are waited for as long again as it has taken so far, so that their rows continue together.
        """
        delay_s, began, until = 0.0, monotonic(), None
        retry_at = monotonic() + self._queue_delay_s
        while await self._sleep(delay_s):
            ended = await self._poll()
            if ended and until is None:
                until = 2 * monotonic() - began
            if (
                self._queue_full
                and not self._sent.in_flight
                and not ended
                and monotonic() >= retry_at
            ):
                self._queue_delay_s = min(MOST_QUEUE_WAIT_S, 2 * self._queue_delay_s)
                self._queue_full = False
                return True
            if (ended and not self._sent.in_flight) or (until is not None and monotonic() >= until):
                self._queue_full, self._queue_delay_s = False, FIRST_POLL_S
                return True
            delay_s = FIRST_POLL_S if ended else min(MOST_POLL_S, max(FIRST_POLL_S, 2 * delay_s))
        return False

    async def _sleep(self, seconds: float) -> bool:
        """Wait; False once the run is to stop."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._halt.event.wait(), seconds)
        return not self._halt.is_set()

    async def _poll(self) -> bool:
        """Look at every batch in flight, and collect those that have ended. True if any has."""
        ended = False
        for batch in self._sent.in_flight:
            api = self._api(batch.sent_to)
            try:
                state = await api.get(batch.id)
                if state.ended:
                    await self._collect(batch, state, api)
                    ended = True
                elif self._is_too_late(batch):
                    self._too_late.add(batch.number)
                    await api.cancel(batch.id)
            except Retryable:
                continue  # the next poll looks again
        return ended

    def _is_too_late(self, batch: SentBatch) -> bool:
        is_late = time() - batch.intended >= batch_settings(batch.sent_to).wait_s
        return is_late and batch.number not in self._too_late

    async def _collect(self, batch: SentBatch, state: BatchState, api: BatchApi) -> None:
        if not state.files and state.problem:
            if QUEUE_LIMIT.search(state.problem):
                await self._refused_by_queue(batch, state.problem)
                return
            await self._sent.end(batch, state.status)
            self._reserve(-batch.reserved_usd)
            raise Refused(
                f"model {batch.model}: a batch of {batch.requests:,} requests failed: {state.problem:.500}",
                hint="fix the cause; the same command sends these requests again",
            )
        collected = await self._sent.collect(batch, state, api, self._folder)
        self._reserve(-batch.reserved_usd)
        self._client.spending.add_earlier(collected.charged_usd, batch.model)
        if collected.refusal is not None:
            raise collected.refusal
        is_empty = collected.unanswered == batch.requests and batch.number not in self._too_late
        is_small = (
            batch.requests < batch_settings(batch.sent_to).min
        )  # such as a few requests that always expire
        self._failed_in_a_row = self._failed_in_a_row + 1 if is_empty and not is_small else 0
        if self._failed_in_a_row >= MOST_FAILED_BATCHES:
            raise Refused(
                f"model {batch.model}: the last {MOST_FAILED_BATCHES} batches ended ({state.status}) without a reply",
                hint="the same command sends their requests again; --batch-fallback sends them as ordinary calls",
                kind="unreachable",
            )


class _QueueFullError(Exception):
    """The account's limit of queued tokens does not admit the batch now."""
