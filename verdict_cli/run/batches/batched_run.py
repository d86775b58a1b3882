"""The waves of one run: what they share with the engine, and what is left when they have ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from verdict_cli.llm.batches import open_batch_api
from verdict_cli.llm.batches.batch_api import BatchApi
from verdict_cli.llm.batches.batch_ledger import BatchLedger
from verdict_cli.llm.batches.file_batches import FileBatches
from verdict_cli.llm.middleware.budget import Spending
from verdict_cli.llm.middleware.chain import JournalOptions, StopSignal
from verdict_cli.messages import Row
from verdict_cli.model import Model
from verdict_cli.run.attempts import Context, EntrySlots
from verdict_cli.run.batches.batch_calls import BatchCalls, WaveJournal
from verdict_cli.run.batches.batch_options import sends_batches
from verdict_cli.run.batches.collect import Collector
from verdict_cli.run.batches.flights import Flights
from verdict_cli.run.batches.wave_budget import WaveBudget
from verdict_cli.run.batches.wave_halt import WaveHalt, WaveOutcome
from verdict_cli.run.batches.wave_runner import WaveRunner
from verdict_cli.run.job import Halt, RunJob
from verdict_cli.run.model_client import ModelClient, has_alternative
from verdict_cli.run.progress import Progress, RunStats
from verdict_cli.storage.journal.entry import JournalEntry, decode_entry
from verdict_cli.storage.journal.journal import Journal

_SHOW_S = 0.25


@dataclass
class BatchedRun:
    """The waves of a run. ``calls`` answers from the journal once they have ended."""

    calls: BatchCalls
    flights: Flights
    waves: WaveRunner
    outcome: WaveOutcome

    @classmethod
    def open(
        cls, job: RunJob, journal: Journal, client: ModelClient, halt: Halt, rows: Callable[[], Iterable[Row]]
    ) -> BatchedRun:
        """The waves of a run whose journal is open. ``rows`` gives all of its rows, each time from the first."""
        folder = job.directory.path
        ledger = (
            BatchLedger(folder, store=job.directory) if job.fresh else BatchLedger.read(folder, store=job.directory)
        )
        if job.fresh:
            ledger.clear()
        nodes = dict(job.start.nodes)
        recorded = WaveJournal(journal, nodes)
        wave_halt = WaveHalt(halt)
        options = JournalOptions(
            recorded,
            resumed=False,
            as_recorded=False,
            is_spared=has_alternative(job.plan),
            on_append=lambda: None,
            updated=job.update,
        )
        stop = StopSignal(wave_halt.is_set, wave_halt.fail, job.directory.confirm_lease)
        chain = client.chain(job.observer, stop, options, job.rename_unit)
        calls = BatchCalls(
            job.batches,
            recorded,
            chain.ask,
            chain.ask_models,
            client.store,
            job.rename_unit,
            updated=job.update,
            retry_failed=job.retry_failed,
        )
        budget = WaveBudget(client.wave_spending)
        _count_recorded(_journal_entries(job), client.spending)
        context = Context(
            calls.ask, seed=job.start.seed, forget=chain.forget, again=calls.again, slots=EntrySlots(job.concurrency)
        )
        collector = Collector(ledger, recorded, journal.flush, client.store)
        target = job.batches.export
        flights = Flights(
            ledger,
            collector,
            budget,
            open_api=open_batch_api if target is None else partial(_open_file, target),
            on_change=lambda: None if job.start.part_rows else _write_batches(job, ledger),
            warn=job.warn,
        )
        waves = WaveRunner(
            job.plan,
            rows,
            nodes,
            calls,
            context,
            flights,
            wave_halt,
            concurrency=min(job.concurrency, max(1, job.data.rows)),
            detach=job.batches.detach,
        )
        return cls(calls, flights, waves, WaveOutcome())

    async def run(self, client: ModelClient, stats: RunStats, show: Callable[[Progress], None]) -> None:
        """Run the waves until all calls are answered, or nothing more is to be sent."""

        async def tick() -> None:
            while True:
                now = stats.progress(client.limiters)
                show(replace(now, done=self.waves.done, batches=self.flights.progress()))
                await asyncio.sleep(_SHOW_S)

        ticker = asyncio.create_task(tick())
        try:
            self.outcome = await self.waves.run()
            self.outcome.batches = self.flights.ledger.facts
        finally:
            ticker.cancel()
            with suppress(asyncio.CancelledError):
                await ticker


async def run_waves(
    job: RunJob,
    journal: Journal,
    client: ModelClient,
    halt: Halt,
    stats: RunStats,
    show: Callable[[Progress], None],
    rows: Callable[[], Iterable[Row]],
) -> BatchedRun | None:
    """Where a run sends its calls as batches: have all of them answered before rows are written. None for another run.

    ``rows`` gives all of its rows, each time from the first.
    """
    if client.recorded or not sends_batches(job.plan, job.batches):
        return None
    batched = BatchedRun.open(job, journal, client, halt, rows)
    await batched.run(client, stats, show)
    if batched.outcome.interrupted:
        halt.continue_after_stop()
    return batched


def _write_batches(job: RunJob, ledger: BatchLedger) -> None:
    job.directory.write_facts(replace(job.start, batches=ledger.facts))


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
