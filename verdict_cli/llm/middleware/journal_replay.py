"""Journal: answer the calls of an interrupted run from its journal, and append new ones to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from hashlib import blake2b
from time import perf_counter
from typing import Protocol

from msgspec.structs import replace

from verdict_cli.errors import ProviderError, Refused, Rejected, ReplyError, Retryable, VerdictError, recorded_error
from verdict_cli.llm.model_families import is_local
from verdict_cli.messages import Ask, Call, Reply, Request
from verdict_cli.storage.journal.entry import JournalEntry


class CallJournal(Protocol):
    """The part of a journal that calls need."""

    def recall(
        self, row: str, node: str, call: int = 0, attempt: int = 0, item: str = "", content: str = ""
    ) -> JournalEntry | None: ...

    def append(self, entry: JournalEntry) -> None: ...


class UnrecordedError(VerdictError):
    """The journal has no such call."""

    kind = "unrecorded"


def replay_journal(
    ask: Ask,
    journal: CallJournal,
    *,
    as_recorded: bool = False,
    on_append: Callable[[], None] = lambda: None,
    updated: bool = False,
    resumed: bool = True,
) -> Ask:
    """``ask``, with each outcome appended to the journal before it is returned or raised.

    A call in the journal is not made again: its reply is returned as ``recalled``, its failure is raised. Three kinds of
    calls are made again: those of built-in models and recordings, which are free; temporary failures that cost nothing, so
    that a resumed run does not fail with yesterday's outage; and refusals, which are not recorded, because the user fixes
    their cause before resuming. ``as_recorded``: temporary failures are raised like any other. ``on_append`` is called after
    each append. ``updated``: rows may have changed since the journal was written; a call for an entry of `each` is then also
    found by the entry's content, wherever it is in the row's list now. Not ``resumed``: the journal has no calls of an
    earlier run, so that none is looked for.
    """

    def is_last_attempt(request: Request) -> bool:
        return _recalled(journal, replace(request, attempt=request.attempt + 1)) is None

    def ask_unless_journalled(request: Request) -> Awaitable[Reply]:
        if is_local(request.model.name):
            return ask(request)
        content = "" if request.row.entry is None else content_digest(request)
        return ask_unless_recalled(request, content) if resumed else ask_recorded(request, content)

    async def ask_unless_recalled(request: Request, content: str) -> Reply:
        entry = _recalled(journal, request)
        if entry is None and updated and content:
            entry = journal.recall(request.row.key, request.node, request.call, request.attempt, content=content)
            if entry is not None:
                journal.append(replace(entry, row=request.row.key, item=request.row.item))
                on_append()
        recalled = None if entry is None or entry.reply is None else replace(entry.reply, recalled=True)
        if (
            entry is not None
            and entry.failure
            and not (entry.retryable and recalled is None and not as_recorded and is_last_attempt(request))
        ):
            raise recorded_error(entry.failure, entry.error, recalled)
        return await ask_recorded(request, content) if recalled is None else recalled

    async def ask_recorded(request: Request, content: str) -> Reply:
        start = perf_counter()
        try:
            reply = await ask(request)
        except Refused:
            raise
        except (ProviderError, ReplyError) as error:
            failed = Call(request, error.reply, error.failure, error.message, perf_counter() - start)
            retryable = isinstance(error, Retryable) or (isinstance(error, Rejected) and error.passing)
            journal.append(JournalEntry.of(failed, retryable=retryable, content=content))
            on_append()
            raise
        journal.append(
            JournalEntry(
                request.row.key,
                request.node,
                request.call,
                request.attempt,
                reply,
                latency_s=reply.latency_s,
                item=request.row.item if content else "",
                content=content,
            )
        )
        on_append()
        return reply

    return ask_unless_journalled


def _recalled(journal: CallJournal, request: Request) -> JournalEntry | None:
    return journal.recall(request.row.key, request.node, request.call, request.attempt, request.row.item)


def content_digest(request: Request) -> str:
    """What a call inside `each` is about, wherever its entry is in the list: the row's id, the entry, and what is asked.
    "" outside `each`."""
    row = request.row
    if row.entry is None:
        return ""
    digest = blake2b(f"{'' if row.placed else row.id}|{row.entry.key}".encode("utf-8", "surrogatepass"), digest_size=16)
    for message in request.messages:
        digest.update(f"\0{message.role}\0{message.content}\0{message.images}".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def only_journalled(ask: Ask, journal: CallJournal) -> Ask:
    """``ask`` for calls that are in the journal or free; raises UnrecordedError for any other."""

    async def ask_if_recorded(request: Request) -> Reply:
        if not is_local(request.model.name):
            entry = _recalled(journal, request)
            if entry is None:
                raise UnrecordedError(f"the journal has no such call of {request.node}")
        return await ask(request)

    return ask_if_recorded
