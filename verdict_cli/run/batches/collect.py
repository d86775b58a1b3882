"""Bring the results of an ended batch into the journal."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import astuple, dataclass, field
from pathlib import Path

from verdict_cli.errors import Refused, VerdictError
from verdict_cli.llm.batches.batch_api import BatchApi, BatchState
from verdict_cli.llm.batches.batch_ledger import BatchLedger, SentBatch, TokenCounts
from verdict_cli.llm.batches.read_results import Outcome, failed_entry, read_result, result_lines, unanswered
from verdict_cli.llm.batches.request_file import RequestKey, read_keys, result_path
from verdict_cli.llm.middleware.cache import is_storable
from verdict_cli.llm.middleware.cache_store import CacheStore
from verdict_cli.llm.middleware.circuit_breaker import MAX_REJECTIONS
from verdict_cli.llm.providers.secrets import model_secrets
from verdict_cli.model import Model
from verdict_cli.run.batches.batch_calls import WaveJournal
from verdict_cli.storage.journal.entry import JournalEntry

_AT_ONCE = 500
"""Results that are read before the event loop gets a turn."""


@dataclass
class CollectedBatch:
    """What an ended batch brought: the requests with a reply, those without, its cost (None: unknown), what that saved, and
    the error that stops the run, if any."""

    answered: int = 0
    unanswered: int = 0
    cost_usd: float | None = 0.0
    saved_usd: float | None = 0.0
    refusal: VerdictError | None = None
    rejections: dict[str, int] = field(default_factory=dict)
    counts: TokenCounts = field(default_factory=TokenCounts)

    def add(self, outcome: Outcome, estimated: int) -> None:
        """Count an outcome, whose prompt was estimated to have so many tokens."""
        if outcome.reply is not None:
            self.answered += 1
            usage = outcome.reply.usage
            self.counts.add(TokenCounts(1, usage.completion_tokens, usage.prompt_tokens, estimated))
            cost, ordinary = outcome.reply.cost_usd, outcome.ordinary_usd
            self.cost_usd = None if cost is None or self.cost_usd is None else self.cost_usd + cost
            known = not (cost is None or ordinary is None or self.saved_usd is None)
            self.saved_usd = (self.saved_usd or 0.0) + (ordinary or 0.0) - (cost or 0.0) if known else None
        elif outcome.entry is not None and outcome.entry.retryable:
            self.unanswered += 1
        if outcome.rejection:
            self.rejections[outcome.rejection] = self.rejections.get(outcome.rejection, 0) + 1
        self.refusal = self.refusal or outcome.refusal


@dataclass
class Collector:
    """Brings results into the journal. ``store`` is the cache."""

    ledger: BatchLedger
    journal: WaveJournal
    flush: Callable[[], Awaitable[None]]
    store: CacheStore | None = None

    async def ended(self, batch: SentBatch, state: BatchState, api: BatchApi) -> CollectedBatch:
        """Read the results of an ended batch, and note its end in the ledger."""
        results = result_path(self.ledger.request_file(batch.number))
        results.unlink(missing_ok=True)
        os.close(os.open(results, os.O_WRONLY | os.O_CREAT, 0o600))
        if state.files:
            await api.results(state, results)
        return await self.file(batch, results, api, state.status, state.problem or state.status)

    def matches(self, batch: SentBatch, results: Path, api: BatchApi) -> bool:
        """Whether any line of a file is a result of the batch."""
        names = {key.custom_id for key in read_keys(self.ledger.request_file(batch.number))}
        return any(line.custom_id in names for line in result_lines(results, api, ()))

    async def file(self, batch: SentBatch, results: Path, api: BatchApi, status: str, why: str) -> CollectedBatch:
        """Read result lines from a file. Requests without one were not answered, because of ``why``."""
        model = batch.model
        keys = {key.custom_id: key for key in read_keys(self.ledger.request_file(batch.number))}
        collected = CollectedBatch()
        entries: list[JournalEntry] = []
        rejected: list[JournalEntry] = []
        for number, line in enumerate(result_lines(results, api, model_secrets(model, os.environ))):
            key = keys.pop(line.custom_id, None)
            if key is None:
                continue  # a repeated line, or another file's
            outcome = read_result(line, key, model, api)
            collected.add(outcome, key.tokens)
            if outcome.mode is not None:
                self.ledger.choose_mode(model.name, outcome.mode)
            if outcome.reply is not None:
                self._share(key, outcome, model)
            if outcome.entry is not None:
                (rejected if outcome.rejection else entries).append(outcome.entry)
            if number % _AT_ONCE == _AT_ONCE - 1:
                self.journal.include(entries)
                entries.clear()
                await asyncio.sleep(0)
        if collected.refusal is None:
            error = unanswered(model, why)
            entries += [failed_entry(key, error) for key in keys.values()]
            collected.unanswered += len(keys)
        _stop_if_all_rejected(collected, model)
        # Requests whose rejection stops the run are sent again once its cause is fixed.
        self.journal.include(entries if collected.refusal is not None else entries + rejected)
        await self.flush()
        self.ledger.end(
            batch,
            status,
            answered=collected.answered,
            cost_usd=collected.cost_usd,
            saved_usd=collected.saved_usd,
            counts=list(astuple(collected.counts)),
        )
        return collected

    def _share(self, key: RequestKey, outcome: Outcome, model: Model) -> None:
        """Keep a usable reply in the cache."""
        reply = outcome.reply
        if self.store is None or reply is None or outcome.entry is None or outcome.entry.failure:
            return
        if key.cache_key and is_storable(reply, key.top_logprobs):
            self.store.put(bytes.fromhex(key.cache_key), model.name, reply)


def _stop_if_all_rejected(collected: CollectedBatch, model: Model) -> None:
    """Stop the run where a batch brought no reply, and one message rejected all of many requests."""
    most = max(collected.rejections, key=lambda message: collected.rejections[message], default="")
    if collected.answered or collected.refusal is not None or collected.rejections.get(most, 0) < MAX_REJECTIONS:
        return
    collected.refusal = Refused(
        f"model {model.name} rejected {collected.rejections[most]:,} requests of a batch with the same message and answered "
        f"none: {most}",
        hint="fix the cause; the same command sends these requests again",
        kind="rejected",
    )
