"""Waves: the calls of a pass over the rows are sent as batches, and the next pass reads their results.

No row waits in memory. A row whose call is not answered is put back, and run again from the journal once the batch has ended,
so a run needs as many waves as its graph is deep, and memory does not grow with the rows. What is in flight counts at batch
prices, and a wave that does not fit the budget is not sent.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import monotonic, time
from typing import TypeVar

from verdict_cli.errors import BudgetError, ProviderError, Refused, Rejected, Retryable, UsageError
from verdict_cli.features.batches.batch_api import BatchApi, BatchState
from verdict_cli.features.batches.batch_calls import BatchCalls, CallParker, Collector, short_id
from verdict_cli.features.batches.batch_facts import TO_FILE, PendingBatches, with_batches
from verdict_cli.features.batches.batch_keys import batch_settings
from verdict_cli.features.batches.ledger import (
    LOST,
    SPLIT,
    BatchLedger,
    RequestFile,
    SentBatch,
    TokenCounts,
    read_keys,
    split_requests,
)
from verdict_cli.features.batches.providers import FileBatches
from verdict_cli.features.batches.run_hooks import TIER, BatchOptions, open_batch_api
from verdict_cli.llm.middleware.budget import Spending
from verdict_cli.llm.middleware.chain import JournalOptions, StopSignal
from verdict_cli.llm.providers.price_book import charged_usd, cost_usd
from verdict_cli.llm.providers.wire_values import loads
from verdict_cli.messages import Ask, Usage
from verdict_cli.model import EndpointKey, Model
from verdict_cli.run.job import Halt, RunJob
from verdict_cli.run.model_client import ModelClient, has_alternative
from verdict_cli.run.progress import PendingCalls
from verdict_cli.run_facts import RunFacts
from verdict_cli.storage.journal.entry import decode_entry
from verdict_cli.storage.journal.journal import Journal

FIRST_REPLY_TOKENS = 120
"""The assumed length of a reply while a model has given none: about what `verdict estimate` assumes."""
ENOUGH_REPLIES = 20
"""Replies after which a model's own mean length counts."""


@dataclass
class WaveBudget:
    """What waves are expected to cost, and what is spent. ``spending`` is shared with ordinary calls."""

    spending: Spending
    _counts: defaultdict[str, TokenCounts] = field(default_factory=lambda: defaultdict(TokenCounts))

    def learn(self, model: Model, counts: TokenCounts) -> None:
        """Learn how many tokens a model's prompts and replies have."""
        self._counts[model.name].add(counts)

    def knows(self, model: Model) -> bool:
        """Whether the model has given enough replies to know their length."""
        return self._counts[model.name].replies >= ENOUGH_REPLIES

    def expected_usd(self, model: Model, file: RequestFile) -> float:
        """What a request file is expected to cost at batch prices; 0 where the price is unknown."""
        if not file.count:
            return 0.0
        counts = self._counts[model.name]
        prompt = file.tokens / file.count
        if self.knows(model):
            reply = counts.completion / counts.replies
            prompt *= counts.prompt / counts.estimated if counts.estimated else 1.0
        else:
            reply = min(FIRST_REPLY_TOKENS, model.max_tokens or FIRST_REPLY_TOKENS)
        # Rates may depend on a prompt's length: one request's price, times their number.
        usage = Usage(round(prompt), round(reply))
        return file.count * (charged_usd(model, cost_usd(model, usage, tier=TIER), usage, tier=TIER) or 0.0)

    def fitting(self, waves: list[tuple[Model, RequestFile]]) -> list[tuple[Model, RequestFile, int]]:
        """How many requests of each file may be sent.

        All of a wave, or none: then BudgetError. Only while the length of a model's replies is not known, a part that fits by
        a cautious guess is sent, from which it is learned.
        """
        self.spending.spend(0.0)
        self.spending.check()
        budget = self.spending.budget_usd
        room = math.inf if budget is None else budget - self.spending.spent_usd
        expected = {id(file): self.expected_usd(model, file) for model, file in waves}
        total = sum(expected.values())
        if total <= room:
            return [(model, file, file.count) for model, file in waves]
        if all(self.knows(model) for model, _ in waves):
            raise self._spent(total, room)
        chosen = []
        for model, file in waves:
            cost = expected[id(file)]
            count = file.count if cost <= room else int(file.count * room / cost)
            chosen.append((model, file, count))
            room -= cost * count / file.count
        if not any(count for _, _, count in chosen):
            raise self._spent(total, room)
        return chosen

    def reserve(self, expected_usd: float) -> None:
        """Count what a batch in flight is expected to cost."""
        self.spending.spend(expected_usd)

    def settle(self, expected_usd: float, cost_usd: float | None) -> None:
        """Count what a batch cost in place of what was expected."""
        self.spending.spend((cost_usd or 0.0) - expected_usd)

    def _spent(self, total: float, room: float) -> BudgetError:
        return BudgetError(
            f"the next wave of batches is expected to cost {total:.4g} USD, and the budget of "
            f"{self.spending.budget_usd:g} USD has {max(0.0, room):.4g} left: it was not sent",
            hint="the same command with a larger --budget resumes the run",
        )


T = TypeVar("T")
QUEUE_LIMIT = re.compile(
    r"token_limit_exceeded|enqueued token limit|queued? token|quota.{0,40}batch|batch.{0,40}(queue|enqueued).{0,40}limit",
    re.I,
)
"""How providers say that the account has too many tokens in its queue."""
ARRIVAL_S = 1.0
"""How long after its intent a batch may still appear in the provider's list: the killed process's request may be on its way."""
_TRIES = 6
_DELAY_S = 0.5
"""The wait after the first failure; it doubles."""


class QueueFullError(Exception):
    """The account's limit of queued tokens does not admit the batch now."""


async def send_batch(ledger: BatchLedger, batch: SentBatch, api: BatchApi) -> None:
    """Send an intended batch. Raises QueueFullError, or ProviderError where it cannot be sent."""
    file = ledger.request_file(batch.number)
    if api.uploads and not batch.file_id:
        ledger.uploaded(batch, await _patiently(partial(api.upload, file)))
    for attempt in range(_TRIES):
        try:
            state = await api.create(batch.file_id, file, batch.tag)
        except ProviderError as error:
            if QUEUE_LIMIT.search(error.message):
                raise QueueFullError(error.message) from None
            if isinstance(error, Rejected):
                message = f"{error.message} (a batch of {batch.requests:,} requests)"
                raise Refused(message, hint=error.hint, status=error.status) from None
            if not isinstance(error, Retryable):
                raise
            await asyncio.sleep(min(30.0, error.retry_after_s or _DELAY_S * 2**attempt))
            # It is looked for before it is created a second time, so that none is paid for twice.
            state_of_intent = await _patiently(partial(look_for, ledger, batch, api))
            if state_of_intent is None and attempt == _TRIES - 1:
                raise Refused(
                    f"a batch of {batch.requests:,} requests could not be sent: {error.message}",
                    hint="the same command looks for it at the provider, and sends it if it is not there",
                    kind="unreachable",
                ) from None
            if state_of_intent is None:
                continue
            state = state_of_intent
        ledger.sent(batch, state.id, state.status)
        return


async def recover_batch(ledger: BatchLedger, batch: SentBatch, api: BatchApi) -> None:
    """Find the batch of an intent without an id, else send it. Raises as `send_batch`."""
    if not ledger.request_file(batch.number).exists():
        ledger.end(batch, LOST)
        return
    wait_s = batch.intended + ARRIVAL_S - time()
    if 0 < wait_s <= ARRIVAL_S:
        await asyncio.sleep(wait_s)
    known = None
    if batch.file_id or not api.uploads:
        known = await _patiently(partial(look_for, ledger, batch, api))
    if known is None:
        await send_batch(ledger, batch, api)
    else:
        ledger.sent(batch, known.id, known.status)


async def look_for(ledger: BatchLedger, batch: SentBatch, api: BatchApi) -> BatchState | None:
    """The intended batch at the provider: the one with its tag; without tags, the one whose results have its custom ids."""
    taken = {sent.id for sent in ledger.batches.values()}
    candidates = []
    async for state in api.recent(batch.intended):
        if api.has_tags and state.tag == batch.tag:
            return state
        if not api.has_tags and state.id not in taken and state.requests in (0, batch.requests):
            candidates.append(state)
    if not candidates:
        return None
    for candidate in candidates:
        if await _has_results_of(candidate, ledger.request_file(batch.number), api):
            return candidate
    return None


async def _has_results_of(state: BatchState, requests: Path, api: BatchApi) -> bool:
    """Whether a batch's results are those of the requests. It is waited for: before its end nothing of it can be seen."""
    delay_s = 2 * _DELAY_S
    while not state.ended:
        await asyncio.sleep(delay_s)
        delay_s = min(60.0, 2 * delay_s)
        state = await _patiently(partial(api.get, state.id))
    names = {key.custom_id for key in read_keys(requests)}
    path = requests.with_suffix(".candidate")
    path.unlink(missing_ok=True)
    try:
        await api.results(state, path)
        with path.open("rb") as file:
            return any(api.read(loads(line)).custom_id in names for line in [file.readline()] if line)
    except (ValueError, KeyError, TypeError, OSError):
        return False
    finally:
        path.unlink(missing_ok=True)


async def _patiently(call: Callable[[], Awaitable[T]]) -> T:
    """What a harmless call gives, which is repeated after temporary failures."""
    for attempt in range(_TRIES):
        try:
            return await call()
        except Retryable as error:
            if attempt == _TRIES - 1:
                raise Refused(error.message, hint="the same command resumes the run", kind="unreachable") from None
            await asyncio.sleep(min(30.0, error.retry_after_s or _DELAY_S * 2**attempt))
    raise AssertionError("unreachable")


FIRST_POLL_S = 1.0
MOST_POLL_S = 60.0
MOST_QUEUE_WAIT_S = 600.0
MOST_FAILED_BATCHES = 5
"""Batches that may end without a reply, one after another, before the run stops."""


class Waves:
    """The calls of a run that sends batches: see `DeferredCalls`. Batches stay in flight when the run is stopped."""

    def __init__(self, options: BatchOptions, job: RunJob, journal: Journal, client: ModelClient, halt: Halt) -> None:
        journal.finds_own = True  # rows are run again in every wave
        chain = client.chain(
            job.observer,
            StopSignal(halt.is_set, halt.fail, job.directory.confirm_lease),
            JournalOptions(
                journal,
                resumed=False,
                as_recorded=False,
                is_spared=has_alternative(job.plan),
                on_append=lambda: None,
                updated=job.update,
            ),
            job.rename_unit,
        )
        self._calls = BatchCalls(options, job, journal, chain, client.store)
        self.ask: Ask = self._calls.ask
        self.again, self.retry, self.forget = self._calls.again, self._calls.retry, chain.forget
        self.waiting = False
        _count_recorded(job, client.spending)
        self._ledger = BatchLedger(job.directory) if job.fresh else BatchLedger.read(job.directory)
        if job.fresh:
            self._ledger.clear()
        self._options, self._job, self._halt = options, job, halt
        self._collector = Collector(self._ledger, journal, client.store)
        self._budget = WaveBudget(client.deferred_spending)
        self._apis: dict[EndpointKey, BatchApi] = {}
        self._states: dict[int, BatchState] = {}
        self._queue: list[tuple[Model, RequestFile]] = []
        """What waits for room in the account's queue."""
        self._rest: list[tuple[Model, RequestFile]] = []
        """What the budget kept back of the last wave, until the length of its replies is known."""
        self._queue_delay_s = FIRST_POLL_S
        self._queue_at = 0.0
        self._failed_in_a_row = 0
        self._too_late: set[int] = set()

    @property
    def pending(self) -> PendingCalls:
        flying = self._ledger.in_flight
        answered = sum(self._states[batch.number].answered for batch in flying if batch.number in self._states)
        return PendingBatches(self._ledger.wave, len(flying), sum(batch.requests for batch in flying), answered)

    async def start(self) -> None:
        """Send or find intended batches, collect those that have ended."""
        self._ledger.remove_unsent()
        for batch in self._ledger.in_flight:
            if batch.provider == self._api(batch.sent_to).provider:
                continue
            if batch.provider == TO_FILE:
                raise UsageError(
                    f"{batch.requests:,} requests were exported to {batch.id or 'a file'}, and their results are missing",
                    hint="verdict batch import RUN RESULTS; or `verdict batch cancel RUN`, and the requests are sent again",
                )
            raise UsageError(
                f"a batch of {batch.requests:,} requests is in flight at {batch.provider}",
                hint="collect it by the command that sent it, or give it up: verdict batch cancel RUN",
            )
        for batch in self._ledger.batches.values():
            if batch.ended:
                self._budget.learn(batch.sent_to, batch.counts)
            else:
                self._budget.reserve(batch.expected_usd)
        for batch in self._ledger.in_flight:
            if not batch.id:
                await self._queue_if_full(batch, recover_batch)
        if self._ledger.in_flight:
            await self._poll()

    def begin_pass(self) -> None:
        # Requests in batches that have not ended, or that wait to be sent, are not sent again.
        paths = [self._ledger.request_file(batch.number) for batch in self._ledger.in_flight]
        paths += [file.path for _, file in self._queue]
        known = {short_id(key.custom_id) for path in paths for key in read_keys(path)}
        ledger, nodes = self._ledger, self._job.start.nodes
        self._calls.parker = CallParker(ledger.requests, nodes, self._api, ledger.modes, known)

    async def answer(self) -> bool:
        """Send what the rows wait for, and wait until batches have ended. A small wave waits while more can become ready."""
        parker = self._calls.parker
        assert parker is not None
        files = list(parker.close())
        least = min((batch_settings(model).min for model, _ in files), default=0)
        if files and (parker.count >= least or not self._any):
            await self._send_fitting(files, self._ledger.wave + 1)
        self._end_pass()
        while self._any:
            if self._options.detach:
                self.waiting = True
                return False
            await self._wait()
            if self._halt.is_set() or not self._rest:
                return not self._halt.is_set()
            rest, self._rest = self._rest, []
            await self._send_fitting(rest, self._ledger.wave)
        return False

    async def close(self) -> None:
        self._end_pass()
        for _, file in (*self._queue, *self._rest):
            file.discard()
        for api in self._apis.values():
            await api.aclose()

    def facts(self, facts: RunFacts) -> RunFacts:
        return with_batches(facts, self._ledger.facts)

    @property
    def _any(self) -> bool:
        """Whether a batch is in flight or waits to be sent."""
        return bool(self._ledger.in_flight or self._queue)

    def _api(self, model: Model) -> BatchApi:
        """The interface of a model's provider."""
        key, export = model.endpoint_key, self._options.export
        if key not in self._apis:
            self._apis[key] = open_batch_api(model) if export is None else FileBatches(model, export)
        return self._apis[key]

    def _end_pass(self) -> None:
        """Remove the requests that were not sent: their calls are parked again."""
        if self._calls.parker is not None:
            self._calls.parker.discard()
            self._calls.parker = None

    async def _send_fitting(self, files: list[tuple[Model, RequestFile]], wave: int) -> None:
        """Send the files of a wave, as far as the budget allows; the rest is kept. Raises BudgetError, or ProviderError."""
        for model, file, count in self._budget.fitting(files):
            part = file
            if count < file.count:
                part, rest = split_requests(file.path, count)
                file.discard()
                self._rest.append((model, rest))
            if part.count:
                await self._send(model, part, wave)
        self._write_facts()

    async def _poll(self) -> bool:
        """Look at every batch in flight, and collect those that have ended. True if any has."""
        ended = False
        for batch in self._ledger.in_flight:
            api = self._api(batch.sent_to)
            try:
                state = self._states[batch.number] = await api.get(batch.id)
                if state.ended:
                    await self._collect(batch, state, api)
                    ended = True
                elif (
                    batch.number not in self._too_late
                    and time() - batch.intended >= batch_settings(batch.sent_to).wait_s
                ):
                    self._too_late.add(batch.number)
                    await api.cancel(batch.id)
            except Retryable:
                continue  # the next poll looks again
        if ended:
            self._queue_at = 0.0
            self._write_facts()
        return ended

    async def _send_queued(self) -> None:
        """Send what waits for the account's queue, one after another until it is full again."""
        while self._queue and monotonic() >= self._queue_at:
            waiting = len(self._queue)
            model, file = self._queue.pop(0)
            await self._send(model, file, max(1, self._ledger.wave))
            if len(self._queue) >= waiting:
                return
            self._queue_delay_s = FIRST_POLL_S
            self._write_facts()

    async def _wait(self) -> None:
        """Poll until batches have ended, or the run is to stop.

        Those of the same wave are waited for as long again as it has taken so far, so that their rows continue together.
        """
        delay_s, began, until = 0.0, monotonic(), None
        while await self._sleep(delay_s):
            ended = await self._poll()
            await self._send_queued()
            if ended and until is None:
                until = 2 * monotonic() - began
            if not self._any or (until is not None and monotonic() >= until):
                return
            delay_s = FIRST_POLL_S if ended else min(MOST_POLL_S, max(FIRST_POLL_S, 2 * delay_s))

    async def _sleep(self, seconds: float) -> bool:
        """Wait; False once the run is to stop."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._halt.event.wait(), seconds)
        return not self._halt.is_set()

    async def _send(self, model: Model, file: RequestFile, wave: int) -> None:
        expected = self._budget.expected_usd(model, file)
        batch = self._ledger.intend(file, self._api(model).provider, model, wave, expected)
        self._budget.reserve(expected)
        await self._queue_if_full(batch, send_batch)

    async def _queue_if_full(
        self, batch: SentBatch, send: Callable[[BatchLedger, SentBatch, BatchApi], Awaitable[None]]
    ) -> None:
        """Send a batch. One that the account's queue does not admit is split, and waits."""
        try:
            await send(self._ledger, batch, self._api(batch.sent_to))
        except QueueFullError as full:
            self._requeue(batch, str(full))

    def _requeue(self, batch: SentBatch, why: str) -> None:
        """Split a batch that was not admitted in two, which are sent when others have ended, or after a while."""
        halves = split_requests(self._ledger.request_file(batch.number), (batch.requests + 1) // 2)
        self._ledger.end(batch, SPLIT)
        self._budget.settle(batch.expected_usd, 0.0)
        self._queue += [(batch.sent_to, half) for half in halves if half.count]
        self._job.warn(
            f"{batch.provider} has no room in its queue for a batch of {batch.requests:,} requests: {why:.200}"
        )
        self._queue_at = monotonic() + self._queue_delay_s
        self._queue_delay_s = min(MOST_QUEUE_WAIT_S, 2 * self._queue_delay_s)

    async def _collect(self, batch: SentBatch, state: BatchState, api: BatchApi) -> None:
        if not state.files and state.problem:
            if QUEUE_LIMIT.search(state.problem):
                self._requeue(batch, state.problem)
                return
            self._ledger.end(batch, state.status)
            self._budget.settle(batch.expected_usd, 0.0)
            raise Refused(
                f"model {batch.model}: a batch of {batch.requests:,} requests failed: {state.problem:.500}",
                hint="fix the cause; the same command sends these requests again",
            )
        collected = await self._collector.ended(batch, state, api)
        self._states.pop(batch.number, None)
        self._budget.settle(batch.expected_usd, collected.cost_usd)
        self._budget.learn(batch.sent_to, collected.counts)
        if collected.refusal is not None:
            raise collected.refusal
        empty = collected.unanswered == batch.requests and batch.number not in self._too_late
        self._failed_in_a_row = self._failed_in_a_row + 1 if empty else 0
        if self._failed_in_a_row >= MOST_FAILED_BATCHES:
            raise Refused(
                f"model {batch.model}: the last {MOST_FAILED_BATCHES} batches ended ({state.status}) without a reply",
                hint="the same command sends their requests again; --batch-fallback sends them as ordinary calls",
                kind="unreachable",
            )

    def _write_facts(self) -> None:
        """Write which batches there are. The facts of a run on several workers are those of the run, not of its parts."""
        if not self._job.start.part_rows:
            self._job.directory.write_facts(with_batches(self._job.start, self._ledger.facts))


def _count_recorded(job: RunJob, spending: Spending) -> None:
    """With a budget: count what earlier runs of the directory have paid, each call once."""
    if spending.budget_usd is None:
        return
    counted: set[int] = set()
    with job.directory.journal.open("rb") as lines:
        for line in lines:
            with suppress(ValueError):
                entry = decode_entry(line)
                if hash(entry.key) not in counted and entry.reply is not None and not entry.reply.cached:
                    spending.add(entry.reply)
                counted.add(hash(entry.key))
