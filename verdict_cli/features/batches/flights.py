"""The batches of a run that are in flight: send them, poll them, collect them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic, time

from verdict_cli.errors import Refused, Retryable, UsageError
from verdict_cli.features.batches.batch_api import BatchApi, BatchState
from verdict_cli.features.batches.batch_calls import short_id
from verdict_cli.features.batches.batch_facts import PendingBatches
from verdict_cli.features.batches.batch_interfaces import TO_FILE, open_batch_api
from verdict_cli.features.batches.batch_keys import batch_settings
from verdict_cli.features.batches.collect import Collector
from verdict_cli.features.batches.ledger import SPLIT, BatchLedger, SentBatch
from verdict_cli.features.batches.request_file import RequestFile, read_keys, reopened
from verdict_cli.features.batches.submit import QUEUE_LIMIT, QueueFullError, Submitter
from verdict_cli.features.batches.wave_budget import WaveBudget
from verdict_cli.model import EndpointKey, Model
from verdict_cli.run.progress import PendingCalls

FIRST_POLL_S = 1.0
MOST_POLL_S = 60.0
MOST_QUEUE_WAIT_S = 600.0
MOST_FAILED_BATCHES = 5
"""Batches that may end without a reply, one after another, before the run stops."""


class Flights:
    """What is in flight, and what waits for room in the account's queue. ``on_change`` is called when a batch was sent or has
    ended, ``warn`` takes what the user is told."""

    def __init__(
        self,
        ledger: BatchLedger,
        collector: Collector,
        budget: WaveBudget,
        *,
        open_api: Callable[[Model], BatchApi] = open_batch_api,
        on_change: Callable[[], None] = lambda: None,
        warn: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.ledger = ledger
        self._collector, self._budget, self._on_change, self._warn = collector, budget, on_change, warn
        self._open_api, self._apis = open_api, dict[EndpointKey, BatchApi]()
        self._submitter = Submitter(ledger, self.api)
        self._states: dict[int, BatchState] = {}
        self._queue: list[tuple[Model, RequestFile]] = []
        self.rest: list[tuple[Model, RequestFile]] = []
        self._queue_delay_s = FIRST_POLL_S
        self._queue_at = 0.0
        self._failed_in_a_row = 0
        self._too_late: set[int] = set()

    @property
    def any(self) -> bool:
        """Whether a batch is in flight or waits to be sent."""
        return bool(self.ledger.in_flight or self._queue)

    def progress(self) -> PendingCalls:
        """What is in flight, for display."""
        flying = self.ledger.in_flight
        answered = sum(self._states[each.number].answered for each in flying if each.number in self._states)
        return PendingBatches(self.ledger.wave, len(flying), sum(each.requests for each in flying), answered)

    def api(self, model: Model) -> BatchApi:
        """The interface of a model's provider."""
        api = self._apis.get(model.endpoint_key)
        if api is None:
            api = self._apis[model.endpoint_key] = self._open_api(model)
        return api

    async def close(self) -> None:
        """Close connections. Batches stay in flight."""
        for _, file in (*self._queue, *self.rest):
            file.discard()
        for api in self._apis.values():
            await api.close()

    async def resume(self) -> None:
        """Take over what an earlier process left: send or find intended batches, collect those that have ended."""
        self.ledger.remove_unsent()
        for batch in self.ledger.in_flight:
            if batch.provider != self.api(batch.model).provider:
                raise _elsewhere(batch)
        for batch in self.ledger.batches.values():
            if batch.ended:
                self._budget.learn(batch.model, batch.counts)
            else:
                self._budget.reserve(batch.expected_usd)
        for batch in self.ledger.in_flight:
            if not batch.id:
                await self._queue_if_full(batch, self._submitter.recover(batch))
        if self.ledger.in_flight:
            await self.poll()

    def custom_ids(self) -> set[int]:
        """The custom ids of requests in batches that have not ended, or that wait to be sent."""
        paths = [self.ledger.request_file(batch.number) for batch in self.ledger.in_flight]
        paths += [file.path for _, file in self._queue]
        return {short_id(key.custom_id) for path in paths for key in read_keys(path)}

    async def send_wave(self, files: list[tuple[Model, RequestFile]]) -> None:
        """Send the files of a wave, as far as the budget allows; the rest is kept. Raises BudgetError, or ProviderError."""
        await self._send_fitting(files, self.ledger.wave + 1)

    async def send_rest(self) -> None:
        """Send what the budget kept back of the last wave, now that the length of its replies is known. Raises as `send_wave`."""
        rest, self.rest = self.rest, []
        await self._send_fitting(rest, self.ledger.wave)

    async def _send_fitting(self, files: list[tuple[Model, RequestFile]], wave: int) -> None:
        for model, file, count in self._budget.fitting(files):
            part = file
            if count < file.count:
                part, rest = file.split(count)
                self.rest.append((model, rest))
            if part.count:
                await self._send(model, part, wave)
        self._on_change()

    async def poll(self) -> bool:
        """Look at every batch in flight, and collect those that have ended. True if any has."""
        ended = False
        for batch in self.ledger.in_flight:
            if not batch.id:
                continue
            api = self.api(batch.model)
            try:
                state = self._states[batch.number] = await api.get(batch.id)
                if state.ended:
                    await self._collect(batch, state, api)
                    ended = True
                else:
                    await self._cancel_if_late(batch, api)
            except Retryable:
                continue  # the next poll looks again
        if ended:
            self._queue_at = 0.0
            self._on_change()
        return ended

    async def send_queued(self) -> None:
        """Send what waits for the account's queue, one after another until it is full again."""
        while self._queue and monotonic() >= self._queue_at:
            waiting = len(self._queue)
            model, file = self._queue.pop(0)
            await self._send(model, file, max(1, self.ledger.wave))
            if len(self._queue) >= waiting:
                return
            self._queue_delay_s = FIRST_POLL_S
            self._on_change()

    async def wait(self, sleep: Callable[[float], Awaitable[bool]]) -> None:
        """Poll until batches have ended, or ``sleep`` returns False.

        Those of the same wave are waited for as long again as it has taken so far, so that their rows continue together.
        """
        delay_s, began, until = 0.0, monotonic(), None
        while await sleep(delay_s):
            ended = await self.poll()
            await self.send_queued()
            if ended and until is None:
                until = 2 * monotonic() - began
            if not self.any or (until is not None and monotonic() >= until):
                return
            delay_s = FIRST_POLL_S if ended else min(MOST_POLL_S, max(FIRST_POLL_S, 2 * delay_s))

    async def _send(self, model: Model, file: RequestFile, wave: int) -> None:
        expected = self._budget.expected_usd(model, file)
        batch = self.ledger.intend(file, self.api(model).provider, model, wave, expected)
        self._budget.reserve(expected)
        await self._queue_if_full(batch, self._submitter.send(batch))

    async def _queue_if_full(self, batch: SentBatch, sending: Awaitable[None]) -> None:
        """Send a batch. One that the account's queue does not admit is split, and waits."""
        try:
            await sending
        except QueueFullError as full:
            self._requeue(batch, str(full))

    def _requeue(self, batch: SentBatch, why: str) -> None:
        """Split a batch that was not admitted in two, which are sent when others have ended, or after a while."""
        copy = reopened(self.ledger.request_file(batch.number))
        halves = copy.split(copy.count // 2) if copy.count > 1 else (copy,)
        self.ledger.end(batch, SPLIT)
        self._budget.settle(batch.expected_usd, 0.0)
        self._queue += [(batch.model, half) for half in halves]
        self._warn(f"{batch.provider} has no room in its queue for a batch of {batch.requests:,} requests: {why:.200}")
        self._queue_at = monotonic() + self._queue_delay_s
        self._queue_delay_s = min(MOST_QUEUE_WAIT_S, 2 * self._queue_delay_s)

    async def _collect(self, batch: SentBatch, state: BatchState, api: BatchApi) -> None:
        if not state.files and state.problem:
            if QUEUE_LIMIT.search(state.problem):
                self._requeue(batch, state.problem)
                return
            self.ledger.end(batch, state.status)
            self._budget.settle(batch.expected_usd, 0.0)
            raise Refused(
                f"model {batch.model.name}: a batch of {batch.requests:,} requests failed: {state.problem:.500}",
                hint="fix the cause; the same command sends these requests again",
            )
        collected = await self._collector.ended(batch, state, api)
        self._states.pop(batch.number, None)
        self._budget.settle(batch.expected_usd, collected.cost_usd)
        self._budget.learn(batch.model, collected.counts)
        if collected.refusal is not None:
            raise collected.refusal
        empty = collected.unanswered == batch.requests and batch.number not in self._too_late
        self._failed_in_a_row = self._failed_in_a_row + 1 if empty else 0
        if self._failed_in_a_row >= MOST_FAILED_BATCHES:
            raise Refused(
                f"model {batch.model.name}: the last {MOST_FAILED_BATCHES} batches ended ({state.status}) without a reply",
                hint="the same command sends their requests again; --batch-fallback sends them as ordinary calls",
                kind="unreachable",
            )

    async def _cancel_if_late(self, batch: SentBatch, api: BatchApi) -> None:
        if batch.number not in self._too_late and time() - batch.intended >= batch_settings(batch.model).wait_s:
            self._too_late.add(batch.number)
            await api.cancel(batch.id)


def _elsewhere(batch: SentBatch) -> UsageError:
    """The error of a run that has a batch at another place than where it would now send one."""
    if batch.provider == TO_FILE:
        message = f"{batch.requests:,} requests were exported to {batch.id or 'a file'}, and their results are missing"
        hint = "verdict batch import RUN RESULTS; or `verdict batch cancel RUN`, and the requests are sent again"
    else:
        message = f"a batch of {batch.requests:,} requests is in flight at {batch.provider}"
        hint = "collect it by the command that sent it, or give it up: verdict batch cancel RUN"
    return UsageError(message, hint=hint)


async def sleep_unless(event: asyncio.Event, seconds: float) -> bool:
    """Wait; False once the event is set."""
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return not event.is_set()
    return False
