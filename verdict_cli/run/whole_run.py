"""A run of all rows in this process: what it takes over of an earlier run in its directory, and its outcome."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from itertools import islice
from typing import Self

from msgspec import Struct
from msgspec.structs import replace

from verdict_cli.messages import Row
from verdict_cli.run.checked_data import keep_checked
from verdict_cli.run.digests import file_digest
from verdict_cli.run.event_loop import loop_factory
from verdict_cli.run.job import Partition, RunJob, RunOptions, Stop
from verdict_cli.run.local import LocalRunner, with_client
from verdict_cli.run.model_client import ModelClient
from verdict_cli.run.open_parts import RunParts
from verdict_cli.run.part_files import PART_TABLES, PartLayout, PartMark, RowRange
from verdict_cli.run.progress import Progress, RunStats
from verdict_cli.run.row import PINNED_ROW
from verdict_cli.run.row_writer import RunTables
from verdict_cli.run.run_directory import RunDirectory
from verdict_cli.run.run_metadata import changed_dataset, finish_run, start_run
from verdict_cli.run_facts import RunFacts
from verdict_cli.storage.datasets.read import stream_rows
from verdict_cli.storage.journal.digest_index import number_duplicates
from verdict_cli.storage.journal.journal import Journal
from verdict_cli.storage.journal.partition import (
    PARTS,
    clear_partitions,
    merge_partitions,
    part_name,
    partition_journal,
    wait_for_workers,
)
from verdict_cli.storage.paths import output_errors


class LocalEngine:
    """Judges rows in this process."""

    def check(self, options: RunOptions, directory: RunDirectory) -> None:
        """As `Engine.check`: this engine makes any run."""

    def run(self, job: RunJob, stop: Stop, show: Callable[[Progress], None]) -> RunFacts:
        """As `Engine.run`."""
        with job.observer.run(job.start.name) as ended, asyncio.Runner(loop_factory=loop_factory()) as runner:
            facts = runner.run(with_client(job, lambda client: run_within(job, stop, show, client)))
            ended(facts)
            return facts


async def run_within(job: RunJob, stop: Stop, show: Callable[[Progress], None], client: ModelClient) -> RunFacts:
    """As `LocalEngine.run`, in the running event loop and with a client whose limits and budget others share."""
    run = WholeRun.of(job, stop, show, client)
    await run.go()
    if run.halt.error is not None:
        raise run.halt.error
    return run.facts


class WholeRun(LocalRunner):
    """All rows of a dataset, in the run's own directory: the parts of an earlier run without the finished ones."""

    facts: RunFacts
    parts: RunParts

    @classmethod
    def of(cls, job: RunJob, stop: Stop, show: Callable[[Progress], None], client: ModelClient) -> Self:
        """The run of a job, whose rows come once the directory is known to be this run's."""
        return cls(job, Partition((), job.data.rows, job.directory), stop, show, client)

    async def claim(self) -> None:
        """Write the run's facts into its directory. JournalError when it belongs to another run."""
        kept = await claim_parts(self.job, self.root)
        self.parts = RunParts(self.job, self.root, kept)
        if self.job.start.part_rows:  # else the root journal is that of the only part
            self.journal = self.parts
        self.reader = self.parts.rows()
        self.client.spending.add_earlier(self.parts.kept.cost_usd, self.parts.kept.models)

    def all_rows(self) -> Iterable[Row]:
        rows = number_duplicates(stream_rows(self.job.dataset, self.job.data.selection))
        return rows if self.job.transform_row is None else map(self.job.transform_row, rows)

    def open_tables(self, stack: ExitStack) -> RunTables:
        return stack.enter_context(self.parts.open_tables())

    @property
    def counted(self) -> RunStats:
        return self.parts.counted(self.stats)

    def conclude(self) -> None:
        """Write `run.json`."""
        self.parts.publish()
        if self.complete and (error := changed_dataset(self.job, self.parts.hold_same_rows)):
            self.halt.fail(error)
        add_facts = None if self.deferred is None else self.deferred.facts
        self.facts = finish_run(
            self.job, self.counted, complete=self.complete, waiting=self.waiting, add_facts=add_facts
        )


_DEALT = "parts.dealt"
"""The folder in which parts get the calls of the run's own journal, before they are complete."""


async def claim_parts(job: RunJob, root: Journal) -> dict[int, PartMark]:
    """Write the run's facts into its directory, whose journal is ``root``, and return the marks of the parts that are kept.

    JournalError when the directory belongs to another run.
    """
    layout = PartLayout(job.directory, job.start.part_rows, job.data.rows)
    earlier = None if job.fresh else job.directory.earlier_run(job.plan, job.start, update=job.update)[0]
    if earlier is not None:
        check_claimed(job, same=not layout.size or _made_of(earlier) == _made_of(job.start))
    # What an earlier run has paid for is brought to where this one looks for it before `run.json` says that it is this one's:
    # a process that is killed in between leaves calls that the next one finds.
    if earlier is None or not layout.size or earlier.part_rows != layout.size:
        await recover_partitions(job, root, of_parts=earlier is not None and earlier.part_rows > 0)
    elif _made_of(earlier) != _made_of(job.start):
        await _update(job, layout, root, same_data=earlier.data_fingerprint == job.start.data_fingerprint)
    start_run(job)
    if not layout.size:
        return {}
    keep_checked(job)
    marks = layout.marks(job.start)
    for number in [number for number, mark in marks.items() if _has_other_tables(layout, number, mark)]:
        layout.reopen(number)  # its tables are made again from its journal
        del marks[number]
    if job.retry_failed:
        for number in [number for number, mark in marks.items() if mark.counts.failed]:
            layout.reopen(number)
            del marks[number]
    for number in layout.existing():
        if number not in marks and layout.journal(number).exists():
            await wait_for_workers(layout.journal(number))
    bare = sorted(set(range(layout.count)) - marks.keys() - layout.journals())
    if bare and _has_rows(job.directory):
        _deal(job, layout, bare)
    return marks


async def recover_partitions(job: RunJob, journal: Journal, *, of_parts: bool = False) -> None:
    """Merge the partitions, or the parts, that an earlier run left behind, and remove them."""
    run = job.directory
    if not job.fresh:
        await merge_partitions(run.path, run.store_folder, journal, of_parts=of_parts)
    clear_partitions(run.path, run.store_folder, PART_TABLES)


def check_claimed(job: RunJob, *, same: bool) -> None:
    """UsageError where a feature does not let this run take over the earlier one of its directory."""
    for hooks in job.hooks.values():
        hooks.check_claimed(job, same=same)


def _made_of(facts: RunFacts) -> tuple[str, str]:
    return facts.spec_fingerprint, facts.data_fingerprint


class _Part(Struct, frozen=True):
    number: int
    mark: PartMark | None
    same_rows: bool


async def _update(job: RunJob, layout: PartLayout, root: Journal, *, same_data: bool) -> None:
    """Keep the parts whose rows and pipeline are as before, and of those whose rows are, the journal.

    The calls of all others go to the run's own journal, since their rows may be in any part now. A mark is removed before
    anything else of its part, and before the run's facts are written: if this is interrupted, no mark is wrong.
    """
    parts = (
        [_Part(number, None, same_rows=True) for number in layout.existing()] if same_data else _compared(job, layout)
    )
    for part in parts:
        if part.mark is None or not part.same_rows or part.mark.spec_fingerprint != job.start.spec_fingerprint:
            layout.reopen(part.number)
        else:
            layout.write_mark(part.number, replace(part.mark, data_fingerprint=job.start.data_fingerprint))
    changed = [part.number for part in parts if not part.same_rows]
    for number in changed:
        root.include(layout.lines(number))
    await root.flush()
    for number in changed:
        layout.remove(number)


def _compared(job: RunJob, layout: PartLayout) -> list[_Part]:
    """The parts that exist, each with whether its rows are as before."""
    rows = stream_rows(job.dataset, job.data.selection)
    digests: dict[int, str] = {}
    for number in range(layout.count):
        now = RowRange(job.dataset)
        for row in islice(rows, len(layout.span(number))):
            now.add(row)
        digests[number] = now.digest
    marks = [(number, PartMark.read(layout.mark(number))) for number in layout.existing()]
    return [_Part(number, mark, mark is not None and mark.rows_digest == digests.get(number)) for number, mark in marks]


def _has_other_tables(layout: PartLayout, number: int, mark: PartMark) -> bool:
    """Whether a table of a finished part is not as the part wrote it. In a store the tables are not on this machine."""
    if layout.directory.remote:
        return False
    files = layout.file_names(number)
    return any(file_digest(files[name]) != mark.digests.get(name) for name in files if name.endswith(".parquet"))


def _has_rows(directory: RunDirectory) -> bool:
    """Whether the run's own journal has calls of rows."""
    pinned = b'{"row":"%s"' % PINNED_ROW.key.encode()
    with directory.journal.open("rb") as lines:
        return any(not line.startswith(pinned) for line in lines)


def _deal(job: RunJob, layout: PartLayout, numbers: list[int]) -> None:
    """Give these parts the lines of the run's own journal that are of their rows.

    Each then has a journal, so that it is done once. The journals are complete before they are where a run looks for them.
    """
    dealt = job.directory.path / _DEALT
    with output_errors(dealt):
        shutil.rmtree(dealt, ignore_errors=True)
        dealt.mkdir()
        rows = number_duplicates(stream_rows(job.dataset, job.data.selection))
        names = frozenset(part_name(number) for number in numbers)
        partition_journal(job.directory.journal, dealt, rows, layout.size, job.start.nodes, only=names)
        for number in numbers:
            folder = dealt / part_name(number)
            folder.mkdir(exist_ok=True)
            with (folder / layout.journal(number).name).open("ab") as journal:
                os.fsync(journal.fileno())
        (job.directory.path / PARTS).mkdir(exist_ok=True)
        for number in numbers:
            shutil.rmtree(layout.folder(number), ignore_errors=True)
            (dealt / part_name(number)).replace(layout.folder(number))
            layout.put_journal(number)
        shutil.rmtree(dealt)
