"""Calls that are pooled and sent as batches: the run's one loop goes over its rows again once a batch has ended.

A pooled call raises Pending, and its row is dropped. A batch is sent when it is full, or when no row can continue. What is in flight
counts at the most that it may cost.
"""

from __future__ import annotations

import asyncio
import math
import re
from contextlib import suppress
from pathlib import Path
from time import monotonic, time
from typing import TYPE_CHECKING
from uuid import uuid4

from msgspec.structs import replace

from verdict_cli.errors import Pending, ProviderError, Refused, Rejected, Retryable, UsageError
from verdict_cli.features.batches.batch_api import BatchApi, BatchState
from verdict_cli.features.batches.batch_facts import TABLE, SentBatch
from verdict_cli.features.batches.batch_keys import batch_settings
from verdict_cli.features.batches.sent import (
    RunBatches,
    SentRequest,
    read_result,
)
from verdict_cli.llm.middleware.replies import OwnCalls
from verdict_cli.llm.providers.json_mode import chosen_mode
from verdict_cli.llm.providers.price_book import BATCH_SHARE, worst_case_usd
from verdict_cli.messages import Reply, Request
from verdict_cli.model import EndpointKey
from verdict_cli.regex import regex
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
_CANCELLED = "cancelling"
"""The status of a batch that took too long, until it has ended."""
QUEUE_LIMIT = regex(
    r"token_limit_exceeded|enqueued token limit|queued? token|quota.{0,40}batch|batch.{0,40}(queue|enqueued).{0,40}limit",
    re.I,
)
"""How providers say that the account has too many tokens in its queue."""


class _Unsent:
    """A batch that is not sent yet, with its requests and their file."""

    def __init__(self, batch: SentBatch, folder: Path, api: BatchApi) -> None:
        self.batch, self.api = batch, api
        self.requests: dict[str, SentRequest] = {}
        self.path = folder / f"{batch.number:06}.jsonl"
        self.file = self.path.open("wb")
        self.file.write(api.opening)

    def add(self, line: bytes, name: str, request: SentRequest) -> None:
        """Write a request."""
        if self.requests:
            self.file.write(self.api.separator)
        self.file.write(line)
        self.requests[name] = request

    def close(self) -> None:
        """Write what is left."""
        self.file.write(self.api.closing)
        self.file.close()


def _custom_id(request: Request, digest: bytes) -> str:
    return f"{digest.hex()}-{request.attempt}"


class BatchPool:
    """The calls of a run that batches answer: see `CallPool`. Batches stay in flight when the run is stopped."""

    def __init__(
        self, options: BatchOptions, job: RunJob, own: OwnCalls, client: ModelClient, halt: Halt
    ) -> None:
        self.waiting = False
        self._options, self._job, self._halt = options, job, halt
        self._spending = client.spending
        self._sent = RunBatches(own.database, job.directory.path, options.open_api)
        self._wave = self._next_wave()
        self._unsent: dict[EndpointKey, _Unsent] = {}
        self._most: dict[EndpointKey, int] = {}
        """The most requests of a batch, where the account's queue has refused a larger one."""
        self._pooled: set[str] = set()
        """The requests that are pooled or are being committed."""
        self._queue_full = False
        self._failed_in_a_row = 0
        own.on_stored = self._forget

    async def start(self) -> None:
        """Find the batches that an earlier process has sent."""
        for batch in self._sent.in_flight:
            if not batch.id:
                await self._sent.settle(batch)
        for batch in self._sent.in_flight:
            if batch.provider != self._sent.api(batch.sent_to).provider:
                raise UsageError(
                    f"the results of {batch.requests:,} requests are missing, which are at {batch.provider} ({batch.id})",
                    hint="collect them by the command that sent them, or give them up: verdict batch cancel RUN",
                )
            self._spending.charge(batch.reserved_usd)
        for model, cost_usd in self._sent.unclaimed():
            self._spending.charge(cost_usd, model)
        await self._poll()

    async def defer(self, request: Request, digest: bytes) -> Reply | None:
        """The reply of a call that a batch has answered. Pools one that a batch is to answer, and raises Pending. Retryable where
        too many batches have not answered it; None where it is made in the ordinary way."""
        if not self._options.takes(request.model):
            return None
        name = _custom_id(request, digest)
        earlier = self._sent.find(name)
        if name in self._pooled or self._sent.is_in_flight(earlier):
            raise Pending("the call waits for a batch")
        most = 1 if self._options.fallback else MOST_ATTEMPTS
        if earlier is not None and (earlier.result is not None or earlier.tries >= most):
            if earlier.result is not None:
                api = self._sent.api(request.model)
                return read_result(request, earlier, api)
            if self._options.fallback:
                return None
            error = Retryable(
                f"model {request.model.name}: {earlier.tries} batches did not answer this request"
            )
            error.waited = True
            raise error
        await self._pool(request, name, 1 if earlier is None else earlier.tries + 1)
        raise Pending("the call waits for a batch")

    def _forget(self, request: Request, digest: bytes | None) -> None:
        """Remove a request whose result has been stored as a call: it would be charged a second time."""
        if digest is not None:
            self._sent.database.remove(_custom_id(request, digest), TABLE)

    async def answer(self) -> bool:
        """Send what is pooled, and wait until batches have ended. A small batch waits for more while earlier ones are in flight."""
        unsent = self._unsent.values()
        least = min((batch_settings(batch.api.model).min for batch in unsent), default=0)
        is_enough = sum(len(batch.requests) for batch in unsent) >= least
        if is_enough or all(batch.wave == self._wave for batch in self._sent.in_flight):
            for key in list(self._unsent):
                await self._send(key)
            self._wave = self._next_wave()
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
        await self._sent.aclose()

    def _next_wave(self) -> int:
        return 1 + max((batch.wave for batch in self._sent.batches.values()), default=0)

    # pooling

    async def _pool(self, request: Request, name: str, tries: int) -> None:
        """Write the request, unless the budget or the account's queue has no room."""
        worst_usd = None if self._queue_full else self._room_for(request)
        if worst_usd is None:
            return
        model, key = request.model, request.model.endpoint_key
        api = self._sent.api(model)
        logprobs = (model.top_logprobs or request.top_logprobs) if request.top_logprobs else 0
        mode = chosen_mode(model) or self._sent.modes.get(model.name, "schema")
        body, sent = api.body(replace(request, stream=False, top_logprobs=logprobs), mode)
        line = api.line(name, body)
        if key in self._unsent and self._unsent[key].file.tell() + len(line) > api.max_bytes:
            await self._send(key)
        if key not in self._unsent:
            self._unsent[key] = _Unsent(self._new_batch(api), self._sent.folder, api)
        unsent = self._unsent[key]
        form = None if request.json_schema is None else mode
        unsent.add(line, name, SentRequest(unsent.batch.number, tries, logprobs, form, sent))
        unsent.batch.requests += 1
        unsent.batch.reserved_usd += worst_usd
        self._pooled.add(name)
        self._spending.charge(worst_usd)
        most = batch_settings(model).max_requests or api.max_requests
        if len(unsent.requests) >= min(most, api.max_requests, self._most.get(key, MOST_POOLED)):
            await self._send(key)

    def _new_batch(self, api: BatchApi) -> SentBatch:
        self._sent.last_number += 1
        return SentBatch(
            id="",
            provider=api.provider,
            model=api.model.name,
            requests=0,
            status="sending",
            wave=self._wave,
            number=self._sent.last_number,
            tag=uuid4().hex,
            settings=api.model.model_dump(mode="json", exclude_defaults=True),
            intended=0.0,
        )

    def _room_for(self, request: Request) -> float | None:
        """The dollars to reserve for a request, which count as spent until it is known what was; None where the budget has no
        room. One that does not fit even alone is sent alone. Raises BudgetError."""
        budget_usd = self._spending.budget_usd
        if budget_usd is None:
            return 0.0
        worst = worst_case_usd(request)
        worst_usd = budget_usd if worst is None else BATCH_SHARE * worst
        if not (self._unsent or self._sent.in_flight):
            self._spending.check()
            return worst_usd
        return worst_usd if worst_usd <= self._spending.room_usd else None

    # sending

    async def _send(self, key: EndpointKey) -> None:
        """Send the requests of an endpoint as a batch. Raises ProviderError."""
        unsent = self._unsent.pop(key)
        unsent.close()
        batch = unsent.batch
        batch.intended = time()
        await self._sent.intend(batch, unsent.requests)
        self._pooled.difference_update(unsent.requests)
        try:
            await self._sent.sent(batch, await self._sent.create(batch, unsent.path))
        except ProviderError as error:
            if QUEUE_LIMIT.search(error.message):
                await self._refused_by_queue(batch, error.message)
            elif isinstance(error, Rejected):
                message = f"{error.message} (a batch of {batch.requests:,} requests)"
                raise Refused(message, hint=error.hint, status=error.status) from None
            else:
                raise
        finally:
            unsent.path.unlink(missing_ok=True)

    async def _refused_by_queue(self, batch: SentBatch, why: str) -> None:
        """Pool the requests of a batch again, in smaller ones where no other is in flight, once the queue may have room."""
        await self._sent.drop(batch)
        self._spending.charge(-batch.reserved_usd)
        self._queue_full = True
        if not self._sent.in_flight:
            self._most[batch.sent_to.endpoint_key] = max(1, batch.requests // 2)
        self._job.warn(
            f"{batch.provider} has no room in its queue for a batch of {batch.requests:,} requests: {why:.200}"
        )

    # waiting

    async def _wait(self) -> bool:
        """Poll until batches have ended; False once the run is to stop.

        Others are waited for as long again as it has taken so far, so that their rows continue together. Where only the
        account's queue is full, requests are sent again after a while.
        """
        if not self._sent.in_flight:
            self._queue_full = False
            return await self._sleep(MOST_POLL_S)
        delay_s, began, until = 0.0, monotonic(), math.inf
        while await self._sleep(delay_s):
            if await self._poll():
                until = min(until, 2 * monotonic() - began)
                delay_s = FIRST_POLL_S
            else:
                delay_s = min(MOST_POLL_S, max(FIRST_POLL_S, 2 * delay_s))
            if not self._sent.in_flight or monotonic() >= until:
                self._queue_full = False
                return True
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
            if not batch.is_at_provider:
                continue
            api = self._sent.api(batch.sent_to)
            try:
                state = await api.get(batch.id)
                if state.ended:
                    await self._collect(batch, state)
                    ended = True
                elif batch.is_too_late and batch.status != _CANCELLED:
                    batch.status = _CANCELLED
                    await api.cancel(batch.id)
            except Retryable:
                continue  # the next poll looks again
        return ended

    async def _collect(self, batch: SentBatch, state: BatchState) -> None:
        if state.problem and not state.files:
            if QUEUE_LIMIT.search(state.problem):
                await self._refused_by_queue(batch, state.problem)
                return
            batch.refused = True
            await self._sent.end(batch, state.status)
            self._spending.charge(-batch.reserved_usd)
            raise Refused(
                f"model {batch.model}: a batch of {batch.requests:,} requests failed: {state.problem:.500}",
                hint="fix the cause; the same command sends these requests again",
            )
        refusal = await self._sent.collect(batch, state)
        self._spending.charge(-batch.reserved_usd)
        self._spending.charge(batch.charged_usd, batch.model)
        if refusal is not None:
            raise refusal
        # Neither a late batch, which was cancelled, nor a few requests that always expire.
        least = batch_settings(batch.sent_to).min
        is_normal = not batch.is_too_late and batch.requests >= least
        is_empty = not (batch.answered or batch.rejected)
        self._failed_in_a_row = self._failed_in_a_row + 1 if is_empty and is_normal else 0
        if self._failed_in_a_row >= MOST_FAILED_BATCHES:
            raise Refused(
                f"model {batch.model}: the last {MOST_FAILED_BATCHES} batches ended ({state.status}) without a reply",
                hint="the same command sends their requests again; --batch-fallback sends them as ordinary calls",
                kind="unreachable",
            )
