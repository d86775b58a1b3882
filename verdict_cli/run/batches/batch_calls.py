"""The path of a call in a run that sends batches: the journal, the cache, then the wave that is being collected."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from verdict_cli.llm.batches.parking import CallParker, ParkedError
from verdict_cli.llm.middleware.cache import CacheKeys, free_reply
from verdict_cli.llm.middleware.cache_store import CacheStore
from verdict_cli.llm.middleware.journal_replay import content_digest, replay_journal
from verdict_cli.messages import Ask, Reply, Request
from verdict_cli.run.batches.batch_options import BatchOptions
from verdict_cli.storage.journal.entry import JournalEntry, encode_entry
from verdict_cli.storage.journal.journal import Journal

MOST_ATTEMPTS = 12
"""How often a request is sent, at most, while batches do not answer it: expired, cancelled, or a temporary failure."""


class WaveJournal:
    """A run's journal in which a call that was made in this run is found as well: rows are run again in every wave."""

    def __init__(self, journal: Journal, nodes: dict[str, str]) -> None:
        self._journal, self._nodes = journal, nodes

    def recall(
        self, row: str, node: str, call: int = 0, attempt: int = 0, item: str = "", content: str = ""
    ) -> JournalEntry | None:
        return self._journal.recall(row, node, call, attempt, item, content)

    def has(self, request: Request, *, opened: bool = False) -> bool:
        """Whether it has the attempt; with ``opened``, whether it had it before this process."""
        row = request.row
        return self._journal.has(row.key, request.node, request.call, request.attempt, row.item, opened=opened)

    def append(self, entry: JournalEntry) -> None:
        self.include([entry])

    def include(self, entries: list[JournalEntry]) -> None:
        """Append entries that this run finds again."""
        self._journal.include([encode_entry(entry, self._nodes.get(entry.node, "")) for entry in entries])


class BatchCalls:
    """Answers calls from the journal and the cache. Of the others, those of batched models are parked, and the rest are made
    by ``ask`` in the ordinary way.

    ``ask_models`` makes a call without the journal. ``parker`` collects the wave; without one no call is parked or made. With
    ``retry_failed``, `retry` says which failed calls get another attempt.
    """

    def __init__(
        self,
        options: BatchOptions,
        journal: WaveJournal,
        ask: Ask,
        ask_models: Ask,
        store: CacheStore | None,
        rename: Callable[[str], str] | None,
        *,
        updated: bool,
        retry_failed: bool = False,
    ) -> None:
        self._options, self._journal, self._ask, self._ask_models = options, journal, ask, ask_models
        self._store, self._rename, self._keys = store, rename, CacheKeys()
        self._ask_batched = replay_journal(self._ask_or_park, journal, as_recorded=True, updated=updated)
        self._ask_known = replay_journal(ask, journal, updated=updated)
        self.parker: CallParker | None = None
        self.retry = self._retry if retry_failed else None

    async def ask(self, request: Request) -> Reply:
        """The reply to a call. Raises ParkedError for one that waits for a batch."""
        if not self._options.takes(request.model):
            if self._entry(request, request.attempt) is None:
                if self.parker is None:
                    raise ParkedError("the run has ended")
                return await self._ask(request)
            reply = await self._ask_known(request)
            return replace(reply, recalled=reply.recalled and self._journal.has(request, opened=True))
        reply = await self._ask_batched(request)
        # The run that sent a batch is the one that paid for it, however often it was started again.
        return replace(reply, recalled=False) if reply.recalled else reply

    def again(self, request: Request) -> bool:
        """Whether a call whose attempts have failed has another one: it was made, or the last one was not answered by a batch, and
        cost nothing."""
        return self._journal.has(request) or (
            self._options.takes(request.model)
            and request.attempt < MOST_ATTEMPTS
            and self._was_unanswered(request, request.attempt - 1)
        )

    def _retry(self, request: Request) -> bool:
        """As `again`, in a row that failed: also where an earlier process made the last attempt."""
        return self.again(request) or self._journal.has(replace(request, attempt=request.attempt - 1), opened=True)

    async def _ask_or_park(self, request: Request) -> Reply:
        if self.parker is None:
            raise ParkedError("the call waits for a batch")
        cache_key = None
        if self._store is not None and request.model.cache:
            cache_key = self._keys.get(self._renamed(request))
            stored = None if cache_key is None else self._store.get(cache_key)
            if stored is not None:
                return free_reply(stored)
        if self._options.fallback and request.attempt and self._was_unanswered(request, request.attempt - 1):
            return await self._ask_models(request)
        self.parker.park(request, cache_key)

    def _renamed(self, request: Request) -> Request:
        rename = self._rename
        if rename is None:
            return request
        return replace(request, node=rename(request.node), written=request.written and rename(request.written))

    def _was_unanswered(self, request: Request, attempt: int) -> bool:
        entry = self._entry(request, attempt)
        return entry is not None and entry.retryable and entry.reply is None

    def _entry(self, request: Request, attempt: int) -> JournalEntry | None:
        row = request.row
        entry = self._journal.recall(row.key, request.node, request.call, attempt, row.item)
        if entry is None and (content := content_digest(request)):
            entry = self._journal.recall("", request.node, request.call, attempt, content=content)
        return entry
