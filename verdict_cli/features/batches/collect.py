"""Bring the results of an ended batch into the journal."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any, cast

import orjson
from msgspec import Struct

from verdict_cli.errors import ProviderError, Refused, Rejected, ReplyError, Retryable, VerdictError
from verdict_cli.features.batches.batch_api import BatchApi, BatchState, ResultLine
from verdict_cli.features.batches.batch_calls import WaveJournal
from verdict_cli.features.batches.batch_interfaces import TIER
from verdict_cli.features.batches.ledger import BatchLedger, RequestKey, SentBatch, TokenCounts, read_keys, result_path
from verdict_cli.llm.middleware.cache import is_storable
from verdict_cli.llm.middleware.cache_store import CacheStore
from verdict_cli.llm.middleware.circuit_breaker import MAX_REJECTIONS
from verdict_cli.llm.middleware.require_logprobs import missing_logprobs
from verdict_cli.llm.providers.chat_completions import read_envelope
from verdict_cli.llm.providers.http_errors import Source, response_error
from verdict_cli.llm.providers.json_mode import JsonMode, lesser_mode
from verdict_cli.llm.providers.price_book import cost_usd
from verdict_cli.llm.providers.secrets import may_contain, model_secrets, redact
from verdict_cli.llm.providers.usage import read_usage
from verdict_cli.llm.providers.wire_values import loads
from verdict_cli.messages import Reply, Request, Row
from verdict_cli.model import Model
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


class Outcome(Struct, frozen=True):
    """One request's entry for the journal (None: the run stops, ``refusal`` says why), its reply if it was answered, what it
    would have cost as an ordinary call, and the form of JSON requests to use from now on ("": as before)."""

    entry: JournalEntry | None
    reply: Reply | None = None
    ordinary_usd: float | None = None
    refusal: Refused | None = None
    mode: JsonMode | None = None
    rejection: str = ""


def read_result(result: ResultLine, key: RequestKey, model: Model, api: BatchApi) -> Outcome:
    """The outcome of a request, read by what reads ordinary replies and errors."""
    request = Request(
        Row(-1, "", {}, key.row), key.node, model, (), key.call, key.attempt, top_logprobs=key.top_logprobs
    )
    ordinary = None
    try:
        if result.unpaid:
            raise unanswered(model, result.unpaid)
        if not 200 <= result.status < 300:
            raise _error(result, model, api.provider)
        envelope: Any = result.body
        if api.protocol is not None and isinstance(envelope, dict):
            envelope = api.protocol.to_chat(envelope)
        if isinstance(envelope, dict):
            envelope = {**envelope, "service_tier": TIER}
            ordinary = cost_usd(model, read_usage(envelope.get("usage")), served=str(envelope.get("model") or ""))
        reply = read_envelope(envelope, request, 0.0, key.sent, Source(f"{api.provider}'s batch"))
        if key.top_logprobs and not reply.logprobs:
            raise missing_logprobs(request, reply)
    except Refused as refused:
        return Outcome(None, refused.reply, ordinary, refused)
    except (ProviderError, ReplyError) as error:
        mode = None
        if isinstance(error, Rejected) and key.mode and model.structured == "auto":
            mode = lesser_mode(cast("JsonMode", key.mode), error)
            if mode is not None:
                error = Retryable(error.message, kind="unavailable", status=error.status)
        entry = failed_entry(key, error)
        rejected = isinstance(error, Rejected) and error.failure == "rejected"
        return Outcome(entry, error.reply, ordinary, mode=mode, rejection=error.message if rejected else "")
    return Outcome(_entry(key, reply), reply, ordinary)


def unanswered(model: Model, why: str) -> Retryable:
    """The error of a request that a batch did not answer."""
    return Retryable(f"model {model.name}: the batch did not answer this request: {why}", kind="timeout")


def failed_entry(key: RequestKey, error: ProviderError | ReplyError) -> JournalEntry:
    """The journal's entry of a request that failed."""
    retryable = isinstance(error, Retryable)
    return _entry(key, error.reply, error.failure, error.message, retryable=retryable)


def _entry(
    key: RequestKey, reply: Reply | None, failure: str = "", error: str = "", *, retryable: bool = False
) -> JournalEntry:
    return JournalEntry(
        key.row,
        key.node,
        key.call,
        key.attempt,
        reply,
        failure,
        error,
        retryable,
        fingerprint=key.fingerprint,
        item=key.item,
        content=key.content,
    )


def _error(result: ResultLine, model: Model, provider: str) -> ProviderError:
    body = orjson.dumps(result.body, default=str)
    return response_error(result.status, body, model.name, Source(f"{provider}'s batch"))


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
