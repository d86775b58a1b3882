"""A run of all rows by the local engine, in its own directory: in one part, or in several."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Self

from verdict_cli.llm.batches.batch_ledger import LEDGER, BatchLedger
from verdict_cli.messages import Row
from verdict_cli.run.event_loop import loop_factory
from verdict_cli.run.job import Partition, RunJob, Stop
from verdict_cli.run.local import LocalRunner, with_client
from verdict_cli.run.model_client import ModelClient
from verdict_cli.run.part_update import check_in_flight, claim_parts
from verdict_cli.run.progress import Progress, RunStats
from verdict_cli.run.ray.partition import recover_partitions
from verdict_cli.run.row_writer import RunTables
from verdict_cli.run.run_metadata import RowDigest, changed_dataset, finish_run, is_batched, start_run
from verdict_cli.run.run_parts import RunParts
from verdict_cli.run_facts import RunFacts
from verdict_cli.storage.datasets.read import stream_rows
from verdict_cli.storage.journal.digest_index import number_duplicates


def run_locally(job: RunJob, stop: Stop, show: Callable[[Progress], None]) -> RunFacts:
    """Run the job and return its facts; `status` is `finished` or `interrupted`.

    The tables hold what is done whatever stopped the run, unless the disk refuses. Raises what stops a run: Refused,
    BudgetError, PinnedError, OutputError, DataError, JournalError.
    """
    with job.observer.run(job.start.name) as ended, asyncio.Runner(loop_factory=loop_factory()) as runner:
        facts = runner.run(with_client(job, lambda client: run_within(job, stop, show, client)))
        ended(facts)
        return facts


async def run_within(job: RunJob, stop: Stop, show: Callable[[Progress], None], client: ModelClient) -> RunFacts:
    """As `run_locally`, in the running event loop and with a client whose limits and budget others share."""
    run = (PartedRun if job.start.part_rows else FullRun).of(job, stop, show, client)
    await run.go()
    if run.halt.error is not None:
        raise run.halt.error
    return run.facts


class FullRun(LocalRunner):
    """All rows, in the run's own directory."""

    facts: RunFacts
    judged: RowDigest

    @classmethod
    def of(cls, job: RunJob, stop: Stop, show: Callable[[Progress], None], client: ModelClient) -> Self:
        """The run of a job."""
        judged = RowDigest(stream_rows(job.dataset, job.data.selection))
        run = cls(job, Partition(_numbered(job, judged), job.data.rows, job.directory), stop, show, client)
        run.judged = judged
        return run

    def all_rows(self) -> Iterable[Row]:
        return _numbered(self.job, stream_rows(self.job.dataset, self.job.data.selection))

    async def claim(self) -> None:
        """Write the run's facts into its directory. JournalError when it belongs to another run."""
        directory = self.job.directory
        earlier = None if self.job.fresh else directory.facts()
        if earlier is not None and not (self.job.recording or is_batched(self.job)):
            directory.fetch(name for name in directory.stored(LEDGER) if name == LEDGER)
            check_in_flight(directory, [BatchLedger.read(directory.path)])
        start_run(self.job)
        await recover_partitions(self.job, self.root, of_parts=earlier is not None and earlier.part_rows > 0)

    def conclude(self) -> None:
        """Write `run.json`."""
        if self.complete and (error := changed_dataset(self.job, self.same_rows)):
            self.halt.fail(error)
        waves = None if self.batched is None else self.batched.outcome
        self.facts = finish_run(self.job, self.counted, complete=self.complete, waves=waves)

    def same_rows(self) -> bool:
        """Whether the dataset's rows are as they were judged."""
        return self.judged.holds(self.job)


def _numbered(job: RunJob, rows: Iterable[Row]) -> Iterable[Row]:
    numbered = number_duplicates(rows)
    return numbered if job.transform_row is None else map(job.transform_row, numbered)


class PartedRun(FullRun):
    """All rows in parts, those of an earlier run without the finished ones."""

    parts: RunParts

    async def claim(self) -> None:
        kept = await claim_parts(self.job, self.root)
        self.parts = RunParts(self.job, self.root, kept)
        self.journal = self.parts
        self.reader = self.parts.rows()
        self.client.spending.add_earlier(self.parts.kept.cost_usd, self.parts.kept.models)

    def open_tables(self, stack: ExitStack) -> RunTables:
        return stack.enter_context(self.parts.open_tables())

    @property
    def counted(self) -> RunStats:
        return self.parts.counted(self.stats)

    def conclude(self) -> None:
        self.parts.publish()
        super().conclude()

    def same_rows(self) -> bool:
        return self.parts.hold_same_rows()
