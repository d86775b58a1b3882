"""Calls of an earlier, interrupted run are answered from its journal; new ones are kept there."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Protocol

from msgspec.structs import replace

from verdict_cli.errors import ProviderError, Refused, Rejected, ReplyError, Retryable, VerdictError
from verdict_cli.llm.model_families import is_local
from verdict_cli.llm.providers.http_errors import failure_again
from verdict_cli.messages import Ask, Call, Reply, Request
from verdict_cli.storage.journal.entry import JournalEntry


class Keeper(Protocol):
    """The part of a journal that calls need: finding an entry, and keeping one."""

    def recall(self, row: str, node: str, call: int = 0, attempt: int = 0) -> JournalEntry | None: ...

    def append(self, entry: JournalEntry) -> None: ...


class UnrecordedError(VerdictError):
    """The journal has no such call."""

    kind = "unrecorded"


def replay_journal(
    ask: Ask, journal: Keeper, *, as_recorded: bool = False, appended: Callable[[], None] = lambda: None
) -> Ask:
    """``ask``, with each outcome appended before it is returned or raised (the journal's ``settle`` writes it out).

    A call that the journal has is not made again: its reply comes back as ``recalled``, its failure is raised anew.
    Three kinds are made again: calls of built-in models and recordings, which cost nothing; failures that pass and cost
    nothing, so that a resumed run does not meet yesterday's outage; and refusals (kept nowhere), whose cause is mended before a
    run is resumed. ``as_recorded``: a failure that passes is raised anew like any other. ``appended`` is called after each append.
    """

    def _is_last(request: Request) -> bool:
        """Whether no later attempt at this call was kept: a failure that a later attempt mended is past."""
        return journal.recall(request.row.key, request.node, request.call, request.attempt + 1) is None

    async def ask_once(request: Request) -> Reply:
        if is_local(request.model.name):
            return await ask(request)
        entry = journal.recall(request.row.key, request.node, request.call, request.attempt)
        kept = None if entry is None or entry.reply is None else replace(entry.reply, recalled=True)
        if (
            entry is not None
            and entry.failure
            and not (entry.retryable and kept is None and not as_recorded and _is_last(request))
        ):
            raise failure_again(entry.failure, entry.error, kept)
        if kept is not None:
            return kept
        start = perf_counter()
        try:
            reply = await ask(request)
        except Refused:
            raise
        except (ProviderError, ReplyError) as problem:
            failed = Call(request, problem.reply, problem.failure, problem.message, perf_counter() - start)
            passing = isinstance(problem, Retryable) or (isinstance(problem, Rejected) and problem.passing)
            journal.append(JournalEntry.of(failed, retryable=passing))
            appended()
            raise
        journal.append(
            JournalEntry(request.row.key, request.node, request.call, request.attempt, reply, latency_s=reply.latency_s)
        )
        appended()
        return reply

    return ask_once


def is_recorded(ask: Ask, journal: Keeper) -> Ask:
    """``ask`` (`journalled`) for calls that the journal has, or that cost nothing; UnrecordedError for any other."""

    async def ask_if_recorded(request: Request) -> Reply:
        if not is_local(request.model.name):
            entry = journal.recall(request.row.key, request.node, request.call, request.attempt)
            if entry is None:
                raise UnrecordedError(f"the journal has no such call of {request.node}")
        return await ask(request)

    return ask_if_recorded
