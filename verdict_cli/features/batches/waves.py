"""Waves: the calls of a pass over the rows are sent as batches, and the next pass reads their results.

No row waits in memory. A row whose call is not answered is put back, and run again from the journal once the batch has ended,
so a run needs as many waves as its graph is deep, and memory does not grow with the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from verdict_cli.features.batches.batch_api import BatchApi
from verdict_cli.features.batches.batch_calls import BatchCalls, CallParker, WaveJournal
from verdict_cli.features.batches.batch_facts import with_batches
from verdict_cli.features.batches.batch_interfaces import open_batch_api
from verdict_cli.features.batches.batch_keys import batch_settings
from verdict_cli.features.batches.collect import Collector
from verdict_cli.features.batches.flights import Flights, WaveBudget, sleep_unless
from verdict_cli.features.batches.ledger import REQUESTS, BatchLedger
from verdict_cli.features.batches.providers import FileBatches
from verdict_cli.features.batches.run_hooks import BatchOptions
from verdict_cli.llm.middleware.budget import Spending
from verdict_cli.llm.middleware.chain import JournalOptions, StopSignal
from verdict_cli.messages import Ask, Request
from verdict_cli.model import Model
from verdict_cli.run.job import Halt, RunJob
from verdict_cli.run.model_client import ModelClient, has_alternative
from verdict_cli.run.progress import PendingCalls
from verdict_cli.run_facts import RunFacts
from verdict_cli.storage.journal.entry import JournalEntry, decode_entry
from verdict_cli.storage.journal.journal import Journal


class Waves:
    """The calls of a run that sends batches; see `DeferredCalls`. Batches stay in flight when the run is stopped."""

    def __init__(self, options: BatchOptions, job: RunJob, journal: Journal, client: ModelClient, halt: Halt) -> None:
        folder = job.directory.path
        if job.fresh:
            ledger = BatchLedger(folder, store=job.directory)
            ledger.clear()
        else:
            ledger = BatchLedger.read(folder, store=job.directory)
        self._nodes = dict(job.start.nodes)
        recorded = WaveJournal(journal, self._nodes)
        chain = client.chain(
            job.observer,
            StopSignal(halt.is_set, halt.fail, job.directory.confirm_lease),
            JournalOptions(
                recorded,
                resumed=False,
                as_recorded=False,
                is_spared=has_alternative(job.plan),
                on_append=lambda: None,
                updated=job.update,
            ),
            job.rename_unit,
        )
        self._calls = BatchCalls(
            options,
            recorded,
            chain.ask,
            chain.ask_models,
            client.store,
            job.rename_unit,
            updated=job.update,
            retry_failed=job.retry_failed,
        )
        _count_recorded(_journal_entries(job), client.spending)
        self._flights = Flights(
            ledger,
            Collector(ledger, recorded, journal.flush, client.store),
            WaveBudget(client.deferred_spending),
            open_api=open_batch_api if options.export is None else partial(_open_file, options.export),
            # The facts of a run on several workers are those of the run, not of its parts.
            on_change=lambda: None if job.start.part_rows else job.directory.write_facts(self.facts(job.start)),
            warn=job.warn,
        )
        self._halt, self._detach = halt, options.detach
        self.ask: Ask = self._calls.ask
        self.forget = chain.forget
        self.waiting = False

    def again(self, request: Request) -> bool:
        return self._calls.again(request)

    @property
    def retry(self) -> Callable[[Request], bool] | None:
        return self._calls.retry

    @property
    def pending(self) -> PendingCalls:
        return self._flights.progress()

    async def start(self) -> None:
        await self._flights.resume()

    def begin_pass(self) -> None:
        flights = self._flights
        folder = flights.ledger.folder / REQUESTS
        self._calls.parker = CallParker(folder, self._nodes, flights.api, flights.ledger.modes, flights.custom_ids())

    async def answer(self) -> bool:
        """Send what the rows wait for, and wait until batches have ended. A small wave waits while more can become ready."""
        flights, parker = self._flights, self._calls.parker
        assert parker is not None
        files = list(parker.close())
        least = min((batch_settings(model).min for model, _ in files), default=0)
        if files and (parker.count >= least or not flights.any):
            await flights.send_wave(files)
        self._end_pass()
        while flights.any:
            if self._detach:
                self.waiting = True
                return False
            await flights.wait(partial(sleep_unless, self._halt.event))
            if self._halt.is_set() or not flights.rest:
                return not self._halt.is_set()
            await flights.send_rest()
        return False

    async def close(self) -> None:
        self._end_pass()
        await self._flights.close()

    def facts(self, facts: RunFacts) -> RunFacts:
        return with_batches(facts, self._flights.ledger.facts)

    def _end_pass(self) -> None:
        """Remove the requests that were not sent: their calls are parked again."""
        if self._calls.parker is not None:
            self._calls.parker.discard()
            self._calls.parker = None


def _open_file(target: Path, model: Model) -> BatchApi:
    return FileBatches(model, target)


def _journal_entries(job: RunJob) -> Iterator[JournalEntry]:
    """The calls of earlier runs, once each."""
    seen: set[int] = set()
    with job.directory.journal.open("rb") as lines:
        for line in lines:
            try:
                entry = decode_entry(line)
            except ValueError:
                continue
            if hash(entry.key) not in seen:
                seen.add(hash(entry.key))
                yield entry


def _count_recorded(entries: Iterator[JournalEntry], spending: Spending) -> None:
    """With a budget: count what earlier runs of the directory have paid."""
    if spending.budget_usd is None:
        return
    for entry in entries:
        if entry.reply is not None and not entry.reply.cached:
            spending.add(entry.reply)
