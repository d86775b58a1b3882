"""The parts of a run while it is executed: each row's calls go to the journal of its part, its results to its tables."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import accumulate, islice

from msgspec.structs import replace

from verdict_cli.errors import DataError, VerdictError
from verdict_cli.messages import Call, Row
from verdict_cli.run.job import RunJob, open_tables
from verdict_cli.run.part_layout import PART_TABLES, PartLayout
from verdict_cli.run.part_mark import PartMark, RowRange
from verdict_cli.run.part_tables import PartColumns, finish_part, publish_parts
from verdict_cli.run.progress import RunStats
from verdict_cli.run.row import PINNED_ROW
from verdict_cli.run.row_writer import PartTables
from verdict_cli.storage.datasets.read import stream_rows
from verdict_cli.storage.journal.digest_index import DigestIndex, count_sorted, sorted_keys
from verdict_cli.storage.journal.entry import JournalEntry
from verdict_cli.storage.journal.journal import Journal


@dataclass
class _OpenPart:
    """A part whose rows are run. Its tables are opened for its first row that is done."""

    number: int
    journal: Journal
    range: RowRange
    rows: list[str] = field(default_factory=list)
    tables: PartTables | None = None
    ending: bool = False
    """Whether its files are being closed, or are."""


class RunParts:
    """The parts of a run without the finished ones (``kept``). It is the run's journal, and has its tables.

    ``root`` is the journal in the run's own directory: it has the calls of the pinned units, and a call that ends when its
    part has ended.
    """

    def __init__(self, job: RunJob, root: Journal, marks: Mapping[int, PartMark]) -> None:
        self._job, self._root, self._marks = job, root, marks
        self._layout = layout = PartLayout(job.directory, job.start.part_rows, job.data.rows)
        self._left = [number for number in range(layout.count) if number not in marks]
        self._ends = [*accumulate(len(layout.span(number)) for number in self._left)]
        self._first, self._current = 0, 0
        self._open: dict[int, _OpenPart] = {}
        self._part_of: dict[str, _OpenPart] = {}
        self._ending: asyncio.Future[PartMark] | None = None
        self._failed = False
        self._columns: dict[int, PartColumns] = {number: mark.columns for number, mark in marks.items()}
        self.kept = RunStats(0)
        for mark in marks.values():
            mark.counts.add_to(self.kept)
        self._ended = RunStats(0)
        self.resumed = root.resumed or not layout.journals().isdisjoint(self._left)
        self.damaged = 0

    def rows(self) -> Iterator[tuple[int, Row]]:
        """The rows that are left, each with its number among them. A part is opened with its first row."""
        transform = self._job.transform_row
        place = 0
        for number, found, rows in unfinished_parts(self._job, self._layout, self._marks):
            part = self._begin(number)
            part.range = found
            for row in rows:
                self._part_of[row.key] = part
                part.rows.append(row.key)
                yield place, row if transform is None else transform(row)
                place += 1

    def _begin(self, number: int) -> _OpenPart:
        """The part, which is opened unless it is open."""
        if number in self._open:
            return self._open[number]
        journal = self._layout.open_journal(number, self._job.start.nodes)
        self._job.warn_of_damage(journal.damaged, self._layout.journal(number))
        part = self._open[number] = _OpenPart(number, journal, RowRange(self._job.dataset))
        return part

    # the journal

    def _journal(self, row: str) -> Journal:
        part = self._part_of.get(row)
        return self._root if part is None else part.journal

    def recall(
        self, row: str, node: str, call: int = 0, attempt: int = 0, item: str = "", content: str = ""
    ) -> JournalEntry | None:
        """As `Journal.recall`, from the journal of the row's part."""
        return self._journal(row).recall(row, node, call, attempt, item, content)

    def has(self, row: str, node: str, call: int = 0, attempt: int = 0, item: str = "") -> bool:
        """As `Journal.has`."""
        return self._journal(row).has(row, node, call, attempt, item)

    def append(self, entry: JournalEntry) -> None:
        """As `Journal.append`."""
        self._journal(entry.row).append(entry)

    async def flush(self) -> None:
        """As `Journal.flush`, of all open parts."""
        for journal in self._journals():
            await journal.flush()

    def close(self) -> None:
        """Close all journals."""
        with ExitStack() as stack:
            for journal in self._journals():
                stack.callback(journal.close)

    def _journals(self) -> list[Journal]:
        """The journals that are open."""
        return [self._root, *(part.journal for part in self._open.values() if not part.ending)]

    # the tables

    @contextmanager
    def open_tables(self) -> Iterator[RunParts]:
        """The tables. Those of unfinished parts are closed at the end, and discarded after an error."""
        with ExitStack() as stack:
            stack.callback(self._discard)
            yield self
            stack.pop_all()
        for part in self._open.values():
            if part.tables is not None:
                part.tables.results.close()
                part.tables.calls.close()

    def _discard(self) -> None:
        for part in self._open.values():
            if part.tables is not None:
                part.tables.results.discard()
                part.tables.calls.discard()

    def at(self, place: int) -> PartTables:
        """The tables of a row, by its number among those that are run."""
        while place >= self._ends[self._current]:
            self._current += 1
        while self._current and place < self._ends[self._current - 1]:
            self._current -= 1
        return self._tables(self._left[self._current])

    def _tables(self, number: int) -> PartTables:
        part = self._open[number]
        if part.tables is None:
            part.tables = PartTables(RunStats(0), *open_tables(self._job, *self._layout.tables(number).values()))
        return part.tables

    def add_call(self, call: Call) -> None:
        """Count and write a call that belongs to no row's result. What pinned units cost is already in the first part."""
        row = call.request.row
        recalled = call.reply is not None and call.reply.recalled
        if row.key == PINNED_ROW.key and 0 in self._marks and recalled:
            return
        part = self._part_of.get(row.key)
        if part is None and self._first < len(self._left):
            part = self._begin(self._left[self._first])
        if part is not None:
            self._tables(part.number).add_call(call)

    async def end_before(self, place: int) -> None:
        """Finish the parts whose rows are all before this one, and written."""
        while not self._failed and (
            self._ending is not None or (self._first < len(self._left) and self._ends[self._first] <= place)
        ):
            if self._ending is None:
                part = self._open[self._left[self._first]]
                part.ending = True
                for row in part.rows:
                    del self._part_of[row]
                self._ending = asyncio.ensure_future(asyncio.to_thread(self._end, part))
            # Shielded: the thread works on when this task is cancelled, and the next call waits for it.
            try:
                mark = await asyncio.shield(self._ending)
            except VerdictError:
                self._failed = True
                raise
            number = self._left[self._first]
            del self._open[number]
            self._columns[number] = mark.columns
            mark.counts.add_to(self._ended)
            self._first, self._ending = self._first + 1, None

    def _end(self, part: _OpenPart) -> PartMark:
        """Close a part's files, and write its mark last."""
        tables, part.tables = self._tables(part.number), None
        with ExitStack() as stack:
            stack.callback(part.journal.close)
            for table in (tables.results, tables.calls):
                stack.enter_context(table)
        columns = {name: table.columns for name, table in zip(PART_TABLES, (tables.results, tables.calls), strict=True)}
        return finish_part(self._job, self._layout, part.number, part.range, tables.stats, columns)

    # the outcome

    def counted(self, stats: RunStats) -> RunStats:
        """The counts of all rows that are done; ``stats`` has the number of rows and the start."""
        whole = RunStats(stats.rows, stats.started, self.kept.done)
        for part in (self.kept, self._ended, *(part.tables.stats for part in self._open.values() if part.tables)):
            whole.include(part)
        return whole

    def publish(self) -> None:
        """Give the parts' tables the same columns, and move them to where readers look for them."""
        written = {number: part.tables for number, part in self._open.items() if part.tables}
        for number, tables in written.items():
            self._columns[number] = dict(zip(PART_TABLES, (tables.results.columns, tables.calls.columns), strict=True))
        publish_parts(self._job, self._layout, self._columns, written)

    def hold_same_rows(self) -> bool:
        """Whether the dataset's rows are those that the marks name."""
        return hold_same_rows(self._job, self._layout)


def unfinished_parts(
    job: RunJob, layout: PartLayout, marks: Mapping[int, PartMark]
) -> Iterator[tuple[int, RowRange, Iterator[Row]]]:
    """The parts without a mark: the number of each, its rows, and what identifies them once they are read.

    Rows of parts with a mark are read past. Copies of earlier rows have keys of their own, as `number_duplicates` gives them.
    """
    first = next((number for number in range(layout.count) if number not in marks), layout.count)
    before = sorted_keys(marks[number].row_keys() for number in range(first))
    seen = DigestIndex("I")
    rows = stream_rows(job.dataset, job.data.selection, skipped=[layout.span(number) for number in marks])

    def numbered(number: int, found: RowRange) -> Iterator[Row]:
        for row in islice(rows, len(layout.span(number))):
            key = found.add(row)
            copies = seen.count(key) + (count_sorted(before, key) if before else 0)
            yield replace(row, key=f"{row.key}.{copies}") if copies else row

    for number in range(first, layout.count):
        if number in marks:
            for key in marks[number].row_keys():
                seen.count(key)
        else:
            found = RowRange(job.dataset)
            yield number, found, numbered(number, found)


def hold_same_rows(job: RunJob, layout: PartLayout) -> bool:
    """Whether the dataset's rows are those that the marks of all parts name."""
    rows = stream_rows(job.dataset, job.data.selection)
    try:
        for number in range(layout.count):
            now = RowRange(job.dataset)
            for row in islice(rows, len(layout.span(number))):
                now.add(row)
            mark = PartMark.read(layout.mark(number))
            if mark is None or mark.rows_digest != now.digest:
                return False
    except DataError:
        return False
    return True
