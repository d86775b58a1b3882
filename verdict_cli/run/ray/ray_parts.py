"""A run in parts on Ray: each worker makes whole parts, which are kept as the local engine keeps them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

from verdict_cli.llm.batches.batch_ledger import LEDGER, BatchLedger
from verdict_cli.messages import Row
from verdict_cli.run.batches.wave_halt import WaveOutcome
from verdict_cli.run.event_loop import loop_factory
from verdict_cli.run.job import PartitionResult, RunJob, Stop
from verdict_cli.run.part_layout import PART_TABLES, PARTS, PartLayout, part_name
from verdict_cli.run.part_mark import PartMark, RowRange
from verdict_cli.run.part_tables import PartColumns, finish_part, publish_parts, widest_columns
from verdict_cli.run.part_update import claim_parts, part_ledgers
from verdict_cli.run.progress import Progress, RunStats
from verdict_cli.run.ray.partition import PINNED, clear_partition, merge_partitions, paid_usd, partition_journal
from verdict_cli.run.ray.ray_engine import RayRun
from verdict_cli.run.run_directory import output_errors
from verdict_cli.run.run_metadata import changed_dataset, finish_run, is_batched
from verdict_cli.run.run_parts import hold_same_rows, unfinished_parts
from verdict_cli.run_facts import RunFacts
from verdict_cli.storage.tables.reader import concatenate_tables


class RayPartsRun(RayRun):
    """The parts of a run that are not finished, each a partition."""

    async def claim(self) -> None:
        job = self.job
        if not job.fresh:
            await self.gather()
        self.marks: dict[int, PartMark] = await claim_parts(job, self.journal)
        self.layout = PartLayout(job.directory, job.start.part_rows, job.data.rows)
        for mark in self.marks.values():
            mark.counts.add_to(self.stats)
        self.stats.kept = self.stats.done
        self.columns: dict[int, PartColumns] = {number: mark.columns for number, mark in self.marks.items()}
        self.unfinished: list[int] = []
        self.of_pinned: PartitionResult | None = None

    async def deal(self, workers: int) -> float:
        nodes, spent = self.job.start.nodes, self.stats.cost_usd or 0.0
        pinned = await asyncio.to_thread(partition_journal, self.job.directory.journal, self.parts, (), 1, nodes)
        if self.job.budget_usd is None:
            return spent
        left = self.layout.journals() - self.marks.keys()
        lines = (line for number in sorted(left) for line in self.layout.lines(number))
        spent += await asyncio.to_thread(paid_usd, lines, nodes)
        return spent if 0 in self.marks else spent + pinned

    def partitions(self) -> Iterator[tuple[int, list[Row]]]:
        self.ranges: dict[int, RowRange] = {}
        for number, found, rows in unfinished_parts(self.job, self.layout, self.marks):
            self.ranges[number] = found
            yield number, list(rows)

    async def ended(self, name: str, done: PartitionResult) -> None:
        if name == PINNED:
            if 0 not in self.marks:  # else the first part has its calls
                self.of_pinned = done
                self.stats.include(done.stats)
            return
        await asyncio.to_thread(self._end, int(name), done)
        self.stats.include(done.stats)

    def _end(self, number: int, done: PartitionResult) -> None:
        """Take a part's tables, and write its mark where it is finished."""
        folder = self.parts / part_name(number)
        stats = RunStats(0)
        stats.include(done.stats)
        columns = dict(done.columns)
        with output_errors(folder):
            for name, path in self.layout.tables(number).items():
                path.parent.mkdir(parents=True, exist_ok=True)
                (folder / name).replace(path)
        if number == 0 and self.of_pinned is not None:
            stats.include(self.of_pinned.stats)
            calls = PART_TABLES[1]
            columns[calls] = widest_columns([self.of_pinned.columns[calls], columns[calls]])
            self._join(self.parts / PINNED / calls, self.layout.tables(number)[calls], columns)
        self.columns[number] = columns
        if not done.complete:
            self.unfinished.append(number)
            return
        if self.job.directory.remote:
            self.layout.open_journal(number, {}).close()  # which fetches it from the store, to vouch for it
        finish_part(self.job, self.layout, number, self.ranges.pop(number), stats, columns)
        self.layout.remove_strays(number)

    def _join(self, first: Path, second: Path, columns: PartColumns) -> None:
        kinds = {name: kind for name, (kind, _) in columns[PART_TABLES[1]].items()}
        concatenate_tables([first, second], second, kinds)

    async def gather(self) -> None:
        """Collect the calls of pinned units. Those of a part stay in its journal."""
        directory = self.job.directory
        await merge_partitions(directory, self.journal, only=PINNED)
        folder = f"{PARTS}/{PINNED}"
        directory.fetch(name for name in directory.stored(folder) if name == f"{folder}/{LEDGER}")
        if not BatchLedger.read(directory.path / folder).in_flight:
            clear_partition(directory, PINNED)

    def conclude(self) -> RunFacts:
        job = self.job
        publish_parts(job, self.layout, self.columns, self.unfinished)
        if self.complete:
            self.error = changed_dataset(job, lambda: hold_same_rows(job, self.layout))
        waves = None
        if is_batched(job):
            batches = tuple(each for ledger in part_ledgers(job.directory) for each in ledger.facts)
            waves = WaveOutcome(self.waiting, batches=batches)
        return finish_run(job, self.stats, complete=self.complete, waves=waves)


def run_on_ray(job: RunJob, stop: Stop, show: Callable[[Progress], None], *, address: str | None = None) -> RunFacts:
    """As `run_locally`, on the Ray at the address, else on one on this machine that ends with the run.

    The workers must reach the run's directory by the same path. Raises what `run_locally` raises, and WorkerError.
    """
    run = (RayPartsRun if job.start.part_rows else RayRun)(job, stop, show)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(run.go(address))
