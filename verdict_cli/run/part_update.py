"""Which parts of an earlier run are kept, and where the calls of the others go."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from itertools import islice

from msgspec.structs import replace

from verdict_cli.run.checked_data import keep_checked
from verdict_cli.run.job import RunJob
from verdict_cli.run.part_layout import PART_TABLES, PARTS, PartLayout, part_name
from verdict_cli.run.part_mark import PartMark, RowRange
from verdict_cli.run.row import PINNED_ROW
from verdict_cli.run.run_directory import RunDirectory
from verdict_cli.run.run_metadata import start_run
from verdict_cli.run_facts import RunFacts
from verdict_cli.storage.datasets.read import stream_rows
from verdict_cli.storage.journal.digest_index import number_duplicates
from verdict_cli.storage.journal.journal import Journal
from verdict_cli.storage.journal.partition import (
    clear_partitions,
    merge_partitions,
    partition_journal,
    wait_for_workers,
)
from verdict_cli.storage.paths import output_errors

_DEALT = "parts.dealt"
"""The folder in which parts get the calls of the run's own journal, before they are complete."""


async def claim_parts(job: RunJob, root: Journal) -> dict[int, PartMark]:
    """Write the run's facts into its directory, whose journal is ``root``, and return the marks of the parts that are kept.

    JournalError when the directory belongs to another run.
    """
    layout = PartLayout(job.directory, job.start.part_rows, job.data.rows)
    earlier = None if job.fresh else job.directory.earlier_run(job.plan, job.start, update=job.update)[0]
    if earlier is not None:
        check_claimed(job, same=_made_of(earlier) == _made_of(job.start))
    if earlier is None or earlier.part_rows != layout.size:
        await recover_partitions(job, root, of_parts=earlier is not None and earlier.part_rows > 0)
    elif _made_of(earlier) != _made_of(job.start):
        await _update(job, layout, root, same_data=earlier.data_fingerprint == job.start.data_fingerprint)
    start_run(job)
    keep_checked(job)
    marks = layout.marks(job.start)
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


@dataclass(frozen=True)
class _Part:
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
            layout.deliver_journal(number)
        shutil.rmtree(dealt)
