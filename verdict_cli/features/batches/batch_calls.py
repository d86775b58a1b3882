"""The path of a call in a run that sends batches: the journal, the cache, the wave that is being collected; then its result."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any, NoReturn, cast

import orjson
from msgspec import Struct
from msgspec.structs import replace

from verdict_cli.errors import Pending, ProviderError, Refused, Rejected, ReplyError, Retryable
from verdict_cli.features.batches.batch_api import BatchApi, BatchState, ResultLine
from verdict_cli.features.batches.ledger import (
    BatchLedger,
    RequestFile,
    RequestKey,
    SentBatch,
    TokenCounts,
    custom_id,
    read_keys,
    result_path,
)
from verdict_cli.features.batches.run_hooks import TIER, BatchOptions
from verdict_cli.llm.middleware.cache import CacheKeys, free_reply, is_storable
from verdict_cli.llm.middleware.cache_store import CacheStore
from verdict_cli.llm.middleware.chain import Chain, with_renamed_units
from verdict_cli.llm.middleware.circuit_breaker import MAX_REJECTIONS
from verdict_cli.llm.middleware.journal_replay import content_digest, replay_journal
from verdict_cli.llm.middleware.require_logprobs import missing_logprobs
from verdict_cli.llm.model_families import is_local
from verdict_cli.llm.providers.chat_completions import read_envelope
from verdict_cli.llm.providers.http_errors import Source, response_error
from verdict_cli.llm.providers.json_mode import JsonMode, chosen_mode, lesser_mode
from verdict_cli.llm.providers.price_book import cost_usd
from verdict_cli.llm.providers.secrets import may_contain, model_secrets, redact
from verdict_cli.llm.providers.usage import read_usage
from verdict_cli.llm.providers.wire_values import loads
from verdict_cli.messages import Reply, Request, Row
from verdict_cli.model import EndpointKey, Model
from verdict_cli.run.job import RunJob
from verdict_cli.storage.journal.entry import JournalEntry
from verdict_cli.storage.journal.journal import Journal

MOST_ATTEMPTS = 12
"""How often a request is sent, at most, while batches do not answer it: expired, cancelled, or a temporary failure."""


class BatchCalls:
    """Answers calls from the journal and the cache. Of the others, those of batched models are parked, and the rest are made
    by the ``chain`` in the ordinary way.

    ``parker`` collects the wave; without one no call is parked or made. With `--retry-failed`, `retry` says which failed
    calls get another attempt.
    """

    def __init__(
        self, options: BatchOptions, job: RunJob, journal: Journal, chain: Chain, store: CacheStore | None
    ) -> None:
        self._options, self._journal, self._chain, self._store = options, journal, chain, store
        cache_key, rename = CacheKeys().get, job.rename_unit
        self._cache_key = cache_key if rename is None else with_renamed_units(cache_key, rename)
        self._ask_batched = replay_journal(self._ask_or_park, journal, as_recorded=True, updated=job.update)
        self._ask_known = replay_journal(chain.ask, journal, updated=job.update)
        self.parker: CallParker | None = None
        self.retry = self._retry if job.retry_failed else None

    async def ask(self, request: Request) -> Reply:
        """The reply to a call. Raises Pending for one that waits for a batch."""
        if is_local(request.model.name):
            # No journal has the replies of built-in models: they are asked when the tables are written too.
            return await self._chain.ask(request)
        if not self._options.takes(request.model):
            if self._entry(request, request.attempt) is None:
                if self.parker is None:
                    raise Pending("the run has ended")
                return await self._chain.ask(request)
            reply = await self._ask_known(request)
            return replace(reply, recalled=reply.recalled and self._has(request, opened=True))
        reply = await self._ask_batched(request)
        # The run that sent a batch is the one that paid for it, however often it was started again.
        return replace(reply, recalled=False) if reply.recalled else reply

    def again(self, request: Request) -> bool:
        """Whether a call whose attempts have failed has another one: it was made, or the last one was not answered by a batch, and
        cost nothing."""
        return self._has(request) or (
            self._options.takes(request.model) and request.attempt < MOST_ATTEMPTS and self._was_unanswered(request)
        )

    def _retry(self, request: Request) -> bool:
        """As `again`, in a row that failed: also where an earlier process made the last attempt."""
        return self.again(request) or self._has(replace(request, attempt=request.attempt - 1), opened=True)

    async def _ask_or_park(self, request: Request) -> Reply:
        if self.parker is None:
            raise Pending("the call waits for a batch")
        cache_key = None
        if self._store is not None and request.model.cache:
            cache_key = self._cache_key(request)
            stored = None if cache_key is None else self._store.get(cache_key)
            if stored is not None:
                return free_reply(stored)
        if self._options.fallback and request.attempt and self._was_unanswered(request):
            return await self._chain.ask_models(request)
        self.parker.park(request, cache_key)

    def _has(self, request: Request, *, opened: bool = False) -> bool:
        """Whether the journal has the attempt; with ``opened``, whether it had it before this process."""
        row = request.row
        return self._journal.has(row.key, request.node, request.call, request.attempt, row.item, opened=opened)

    def _was_unanswered(self, request: Request) -> bool:
        """Whether no batch answered the attempt before this one."""
        entry = self._entry(request, request.attempt - 1)
        return entry is not None and entry.retryable and entry.reply is None

    def _entry(self, request: Request, attempt: int) -> JournalEntry | None:
        row = request.row
        entry = self._journal.recall(row.key, request.node, request.call, attempt, row.item)
        if entry is None and (content := content_digest(request)):
            entry = self._journal.recall("", request.node, request.call, attempt, content=content)
        return entry


_CHARACTERS_A_TOKEN = 4
_IMAGE_TOKENS = 1000
_PREFIX = "wave-"
"""How the names of request files begin that are not sent yet."""


class CallParker:
    """The calls of one wave, in request files by model, each within the provider's limits.

    ``known`` are the custom ids of requests in batches that have not ended: they are not written again. Equal requests
    that may share a reply are written once.
    """

    def __init__(
        self,
        folder: Path,
        nodes: Mapping[str, str],
        api_of: Callable[[Model], BatchApi],
        modes: Mapping[str, JsonMode],
        known: set[int],
    ) -> None:
        self._folder, self._nodes, self._api_of, self._modes, self._known = folder, nodes, api_of, modes, known
        self._files: dict[EndpointKey, tuple[Model, list[RequestFile]]] = {}
        self.count = 0

    def park(self, request: Request, cache_key: bytes | None) -> NoReturn:
        """Write the request, unless it is in flight or written. Raises Pending; Rejected for a request that cannot be
        written as JSON, Refused for a setting that the API does not have."""
        row, model = request.row, request.model
        fingerprint = self._nodes.get(request.node, "")
        call = (row.key, request.node, fingerprint, request.call, request.attempt, row.item)
        name = custom_id(call)
        ids = {short_id(name)} if cache_key is None else {short_id(name), int.from_bytes(cache_key[:8])}
        if not ids.isdisjoint(self._known):
            raise Pending("the call waits for a batch")
        wanted = model.top_logprobs or request.top_logprobs if request.top_logprobs else 0
        sent_request = replace(request, stream=False, top_logprobs=wanted)
        mode = chosen_mode(model) or self._modes.get(model.name, "schema")
        try:
            line, sent = self._api_of(model).line(name, sent_request, mode)
        except TypeError as error:
            raise Rejected(f"model {model.name}: the request cannot be written as JSON: {error}") from None
        key = RequestKey(
            name,
            *call,
            content_digest(request),
            "" if cache_key is None else cache_key.hex(),
            wanted,
            mode if request.json_schema is not None else "",
            sent,
            prompt_size(request),
        )
        self._file(model, len(line)).add(line, key)
        self._known |= ids
        self.count += 1
        raise Pending("the call waits for a batch")

    def close(self) -> Iterator[tuple[Model, RequestFile]]:
        """The request files, on disk."""
        for model, files in self._files.values():
            for file in files:
                file.close()
                yield model, file

    def discard(self) -> None:
        """Remove what was written and not sent: the calls are parked again."""
        for _, files in self._files.values():
            for file in files:
                if file.path.name.startswith(_PREFIX):
                    file.discard()

    def _file(self, model: Model, size: int) -> RequestFile:
        """The file that has room for a line of this size."""
        _, files = self._files.setdefault(model.endpoint_key, (model, []))
        api = self._api_of(model)
        if not files or files[-1].count >= api.most_requests(model) or files[-1].size + size > api.max_bytes:
            if files:
                files[-1].close()
            files.append(RequestFile(self._folder / f"{_PREFIX}{len(self._files)}-{len(files)}.jsonl"))
        return files[-1]


def short_id(name: str) -> int:
    """The first 64 bits of a custom id."""
    return int(name[:16], 16)


def prompt_size(request: Request) -> int:
    """About how many tokens the request's prompt has."""
    characters = sum(len(message.content) for message in request.messages)
    if request.json_schema is not None:
        characters += len(orjson.dumps(cast("dict[str, object]", request.json_schema), default=str))
    images = sum(len(message.images) for message in request.messages)
    return characters // _CHARACTERS_A_TOKEN + _IMAGE_TOKENS * images


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
    refusal: Refused | None = None
    rejections: Counter[str] = field(default_factory=Counter)
    counts: TokenCounts = field(default_factory=TokenCounts)

    def add(self, outcome: Outcome, estimated: int) -> None:
        """Count an outcome, whose prompt was estimated to have so many tokens."""
        result, reply = outcome.result, outcome.result.reply
        if reply is not None:
            self.answered += 1
            self.counts.add(TokenCounts(1, reply.usage.completion_tokens, reply.usage.prompt_tokens, estimated))
            cost, ordinary = reply.cost_usd, outcome.ordinary_usd
            self.cost_usd = None if cost is None or self.cost_usd is None else self.cost_usd + cost
            known = not (cost is None or ordinary is None or self.saved_usd is None)
            self.saved_usd = (self.saved_usd or 0.0) + (ordinary or 0.0) - (cost or 0.0) if known else None
        if isinstance(result, Refused):
            self.refusal = self.refusal or result
        elif result.failure == "rejected":
            self.rejections[result.error] += 1
        elif reply is None and result.retryable:
            self.unanswered += 1


@dataclass
class Collector:
    """Brings results into the journal. ``store`` is the cache."""

    ledger: BatchLedger
    journal: Journal
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
        model = batch.sent_to
        keys = {key.custom_id: key for key in read_keys(self.ledger.request_file(batch.number))}
        collected = CollectedBatch()
        rejected: list[JournalEntry] = []
        for number, line in enumerate(result_lines(results, api, model_secrets(model, os.environ)), 1):
            key = keys.pop(line.custom_id, None)
            if key is None:
                continue  # a repeated line, or another file's
            outcome = read_result(line, key, model, api)
            collected.add(outcome, key.tokens)
            if outcome.mode is not None:
                self.ledger.choose_mode(model.name, outcome.mode)
            if isinstance(outcome.result, JournalEntry):
                self._share(key, outcome.result, model)
                if outcome.result.failure == "rejected":
                    rejected.append(outcome.result)
                else:
                    self.journal.append(outcome.result)
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
        if collected.refusal is None:
            error = unanswered(model, why)
            for key in keys.values():
                self.journal.append(failed_entry(key, error))
            collected.unanswered += len(keys)
        _stop_if_all_rejected(collected, model)
        # Requests whose rejection stops the run are sent again once its cause is fixed.
        if collected.refusal is None:
            for entry in rejected:
                self.journal.append(entry)
        await self.journal.flush()
        self.ledger.end(
            batch,
            status,
            answered=collected.answered,
            cost_usd=collected.cost_usd,
            saved_usd=collected.saved_usd,
            counts=list(astuple(collected.counts)),
        )
        return collected

    def _share(self, key: RequestKey, entry: JournalEntry, model: Model) -> None:
        """Keep a usable reply in the cache."""
        reply = None if entry.failure else entry.reply
        if self.store is not None and reply is not None and key.cache_key and is_storable(reply, key.top_logprobs):
            self.store.put(bytes.fromhex(key.cache_key), model.name, reply)


def _stop_if_all_rejected(collected: CollectedBatch, model: Model) -> None:
    """Stop the run where a batch brought no reply, and one message rejected all of many requests."""
    message, count = collected.rejections.most_common(1)[0] if collected.rejections else ("", 0)
    if collected.answered or collected.refusal is not None or count < MAX_REJECTIONS:
        return
    collected.refusal = Refused(
        f"model {model.name} rejected {count:,} requests of a batch with the same message and answered none: {message}",
        hint="fix the cause; the same command sends these requests again",
        kind="rejected",
    )


class Outcome(Struct, frozen=True):
    """One request's entry for the journal, or the error that stops the run; what its reply would have cost as an ordinary
    call, and the form of JSON requests to use from now on (None: as before)."""

    result: JournalEntry | Refused
    ordinary_usd: float | None = None
    mode: JsonMode | None = None


def read_result(result: ResultLine, key: RequestKey, model: Model, api: BatchApi) -> Outcome:
    """The outcome of a request, read by what reads ordinary replies and errors."""
    request = Request(
        Row(-1, "", {}, key.row), key.node, model, (), key.call, key.attempt, top_logprobs=key.top_logprobs
    )
    ordinary, source = None, Source(f"{api.provider}'s batch")
    try:
        if result.unpaid:
            raise unanswered(model, result.unpaid)
        if not 200 <= result.status < 300:
            raise response_error(result.status, orjson.dumps(result.body, default=str), model.name, source)
        envelope: Any = result.body
        if api.protocol is not None and isinstance(envelope, dict):
            envelope = api.protocol.to_chat(envelope)
        if isinstance(envelope, dict):
            envelope = {**envelope, "service_tier": TIER}
            ordinary = cost_usd(model, read_usage(envelope.get("usage")), served=str(envelope.get("model") or ""))
        reply = read_envelope(envelope, request, 0.0, key.sent, source)
        if key.top_logprobs and not reply.logprobs:
            raise missing_logprobs(request, reply)
    except Refused as refused:
        return Outcome(refused, ordinary)
    except (ProviderError, ReplyError) as error:
        mode = None
        if isinstance(error, Rejected) and key.mode and model.structured == "auto":
            mode = lesser_mode(cast("JsonMode", key.mode), error)
            if mode is not None:
                error = Retryable(error.message, kind="unavailable", status=error.status)
        return Outcome(failed_entry(key, error), ordinary, mode)
    return Outcome(_entry(key, reply), ordinary)


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
