"""Send request files as batches, and find those again whose creation was not acknowledged."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from functools import partial
from time import time
from typing import TypeVar

from verdict_cli.errors import ProviderError, Refused, Rejected, Retryable
from verdict_cli.features.batches.batch_api import BatchApi, BatchState, UploadApi
from verdict_cli.features.batches.ledger import LOST, BatchLedger, SentBatch
from verdict_cli.features.batches.request_file import read_keys
from verdict_cli.llm.providers.wire_values import loads
from verdict_cli.model import Model

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


class Submitter:
    """Sends batches. A batch is looked for before it is created a second time, so that none is paid for twice."""

    def __init__(self, ledger: BatchLedger, api_of: Callable[[Model], BatchApi]) -> None:
        self._ledger, self._api_of = ledger, api_of

    async def send(self, batch: SentBatch) -> None:
        """Send an intended batch. Raises QueueFullError, or ProviderError where it cannot be sent."""
        api = self._api_of(batch.model)
        file = self._ledger.request_file(batch.number)
        if isinstance(api, UploadApi) and not batch.file_id:
            self._ledger.uploaded(batch, await _patiently(lambda: api.upload(file)))
        for attempt in range(_TRIES):
            try:
                state = await api.create(batch.file_id, file, batch.tag)
            except ProviderError as error:
                if QUEUE_LIMIT.search(error.message):
                    raise QueueFullError(error.message) from None
                if not isinstance(error, Retryable):
                    raise _refusal(error, batch) from None
                await asyncio.sleep(min(30.0, error.retry_after_s or _DELAY_S * 2**attempt))
                found = await _patiently(lambda: self.look_for(batch, api))
                if found is None and attempt == _TRIES - 1:
                    raise _unreachable(error, batch) from None
                if found is None:
                    continue
                state = found
            self._ledger.sent(batch, state.id, state.status)
            return

    async def recover(self, batch: SentBatch) -> None:
        """Find the batch of an intent without an id, else send it. Raises as `send`."""
        path = self._ledger.request_file(batch.number)
        if not path.exists():
            self._ledger.end(batch, LOST)
            return
        api = self._api_of(batch.model)
        wait_s = batch.intended + ARRIVAL_S - time()
        if 0 < wait_s <= ARRIVAL_S:
            await asyncio.sleep(wait_s)
        found = (
            await _patiently(lambda: self.look_for(batch, api))
            if batch.file_id or not isinstance(api, UploadApi)
            else None
        )
        if found is None:
            await self.send(batch)
        else:
            self._ledger.sent(batch, found.id, found.status)

    async def look_for(self, batch: SentBatch, api: BatchApi) -> BatchState | None:
        """The intended batch at the provider: the one with its tag; without tags, the one whose results have its custom ids."""
        taken = {each.id for each in self._ledger.batches.values()}
        candidates = []
        async for state in api.recent(batch.intended):
            if api.has_tags and state.tag == batch.tag:
                return state
            if not api.has_tags and state.id not in taken and state.requests in (0, batch.requests):
                candidates.append(state)
        if not candidates:
            return None
        names = {key.custom_id for key in read_keys(self._ledger.request_file(batch.number))}
        for candidate in candidates:
            if await self._has_results_of(candidate, names, batch, api):
                return candidate
        return None

    async def _has_results_of(self, state: BatchState, names: set[str], batch: SentBatch, api: BatchApi) -> bool:
        """Whether a batch's results are those of the requests. It is waited for: before its end nothing of it can be seen."""
        delay_s = 2 * _DELAY_S
        while not state.ended:
            await asyncio.sleep(delay_s)
            delay_s = min(60.0, 2 * delay_s)
            state = await _patiently(partial(api.get, state.id))
        path = self._ledger.request_file(batch.number).with_suffix(".candidate")
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


def _refusal(error: ProviderError, batch: SentBatch) -> ProviderError:
    """The error that stops the run where the provider does not take a batch."""
    if isinstance(error, Rejected):
        message = f"{error.message} (a batch of {batch.requests:,} requests)"
        return Refused(message, hint=error.hint, status=error.status)
    return error


def _unreachable(error: Retryable, batch: SentBatch) -> ProviderError:
    return Refused(
        f"a batch of {batch.requests:,} requests could not be sent: {error.message}",
        hint="the same command looks for it at the provider, and sends it if it is not there",
        kind="unreachable",
    )
