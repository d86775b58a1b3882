"""The parts of a run while it is executed: each row's calls go to the journal of its part, its results to its tables."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import accumulate, islice

from msgspec.structs import replace

from verdict_cli.errors import DataError, VerdictError
from verdict_cli.messages import Call, Row
from verdict_cli.run.digests import file_digest
from verdict_cli.run.job import RunJob, open_tables
from verdict_cli.run.part_files import PART_TABLES, Columns, PartLayout, PartMark, RowRange
from verdict_cli.run.progress import Counts, RunStats
from verdict_cli.run.result_columns import column_types
from verdict_cli.run.row import PINNED_ROW
from verdict_cli.run.row_writer import PartTables
from verdict_cli.run.run_metadata import changed_dataset
from verdict_cli.storage.datasets.fingerprint import file_stamps
from verdict_cli.storage.datasets.read import stream_rows
from verdict_cli.storage.journal.digest_index import DigestIndex, count_sorted, sorted_keys
from verdict_cli.storage.journal.entry import JournalEntry
from verdict_cli.storage.journal.journal import Journal, sync_directory
from verdict_cli.storage.tables.column_types import ColumnKind, wider
from verdict_cli.storage.tables.reader import concatenate_tables
from verdict_cli.storage.tables.run_columns import CALL_COLUMNS, column_types_of


@dataclass
class _OpenPart:
    """A part whose rows are run. Its tables are opened for its first row that is done."""

    number: int
    journal: Journal
    range: RowRange | None = None
    rows: list[str] = field(default_factory=list)
    tables: PartTables | None = None
    ending: bool = False
    """Whether its files are being closed, or are."""


class RunParts:
    """The parts of a run without the finished ones (``kept``). It is the run's journal, and has its tables.

    ``root`` is the journal in the run's own directory: it has the calls of the pinned units, and a call that ends when its
    part has ended. If the run has one part, it is that part's, too.
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
        self._digests = {number: mark.rows_digest for number, mark in marks.items()}
        self._columns: dict[int, PartColumns] = {number: mark.columns for number, mark in marks.items()}
        self.kept, self._ended = Counts(0), Counts(0)
        for mark in marks.values():
            self.kept.include(mark.counts)
        self.resumed = root.resumed or not layout.journals().isdisjoint(self._left)
        self.damaged = 0

    def rows(self) -> Iterator[tuple[int, Row]]:
        """The rows that are left, each with its number among them. A part is opened with its first row."""
        transform = self._job.transform_row
        index = 0
        for number, row_range, rows in unfinished_parts(self._job, self._layout, self._marks):
            part = self._begin(number)
            part.range = row_range
            for row in rows:
                if self._layout.size:  # else the root journal has all calls: no row need be looked up
                    self._part_of[row.key] = part
                    part.rows.append(row.key)
                yield index, row if transform is None else transform(row)
                index += 1

    def _begin(self, number: int) -> _OpenPart:
        """The part, which is opened unless it is open."""
        if number in self._open:
            return self._open[number]
        journal = self._root
        if self._layout.size:
            journal = self._layout.open_journal(number, self._job.start.nodes)
            self._job.warn_of_damage(journal.damaged, self._layout.journal(number))
        part = self._open[number] = _OpenPart(number, journal)
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
        others = [part.journal for part in self._open.values() if not part.ending and part.journal is not self._root]
        return [self._root, *others]

    # the tables

    @contextmanager
    def open_tables(self) -> Iterator[RunParts]:
        """The tables. Those of unfinished parts are closed at the end, and discarded after an error."""
        with ExitStack() as stack:
            stack.callback(self._discard)
            if not self._layout.size:  # a run that stops before its first row has empty tables
                self._begin(0)
                self._tables(0)
            yield self
            stack.pop_all()
        tables = [table for part in self._open.values() if part.tables for table in part.tables.both]
        for table in tables:
            table.end()  # all write their last rows at the same time
        for table in tables:
            table.close()

    def _discard(self) -> None:
        for part in self._open.values():
            for table in () if part.tables is None else part.tables.both:
                table.discard()

    def at(self, index: int) -> PartTables:
        """The tables of a row, by its number among those that are run."""
        while index >= self._ends[self._current]:
            self._current += 1
        while self._current and index < self._ends[self._current - 1]:
            self._current -= 1
        return self._tables(self._left[self._current])

    def _tables(self, number: int) -> PartTables:
        part = self._open[number]
        if part.tables is None:
            part.tables = PartTables(Counts(0), *open_tables(self._job, *self._layout.tables(number).values()))
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

    async def end_before(self, index: int) -> None:
        """Finish the parts whose rows are all before this one, and written."""
        # The only part of a run ends with the run.
        while (
            self._layout.size
            and not self._failed
            and (self._ending is not None or (self._first < len(self._left) and self._ends[self._first] <= index))
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
            self._ended.include(mark.counts)
            self._first, self._ending = self._first + 1, None

    def _end(self, part: _OpenPart) -> PartMark:
        """Close a part's files, and write its mark last."""
        tables, part.tables = self._tables(part.number), None
        with ExitStack() as stack:
            stack.callback(part.journal.close)
            for table in tables.both:
                stack.enter_context(table)
        assert part.range is not None
        self._digests[part.number] = part.range.digest
        columns = {name: table.columns for name, table in zip(PART_TABLES, tables.both, strict=True)}
        return finish_part(self._job, self._layout, part.number, part.range, tables.stats, columns)

    # the outcome

    def counted(self, stats: RunStats) -> RunStats:
        """The counts of all rows that are done; ``stats`` has the number of rows and the start."""
        whole = RunStats(stats.rows, started=stats.started, kept=self.kept.done)
        for part in (self.kept, self._ended, *(part.tables.stats for part in self._open.values() if part.tables)):
            whole.include(part)
        return whole

    def publish(self) -> None:
        """Give the parts' tables the same columns, and move them to where readers look for them."""
        if not self._layout.size:
            return
        written = {number: part.tables for number, part in self._open.items() if part.tables}
        for number, tables in written.items():
            self._columns[number] = dict(zip(PART_TABLES, (table.columns for table in tables.both), strict=True))
        publish_parts(self._job, self._layout, self._columns, written)

    def hold_same_rows(self) -> bool:
        """Whether the dataset's rows are those that were judged."""
        if not self._layout.size and (only := self._open[0].range) is not None:
            self._digests[0] = only.digest
        return hold_same_rows(self._job, self._layout, self._digests)


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

    def numbered(number: int, row_range: RowRange) -> Iterator[Row]:
        for row in islice(rows, len(layout.span(number))):
            key = row_range.add(row)
            copies = seen.count(key) + (count_sorted(before, key) if before else 0)
            yield replace(row, key=f"{row.key}.{copies}") if copies else row

    for number in range(first, layout.count):
        if number in marks:
            for key in marks[number].row_keys():
                seen.count(key)
        else:
            row_range = RowRange(job.dataset)
            yield number, row_range, numbered(number, row_range)


def hold_same_rows(job: RunJob, layout: PartLayout, digests: Mapping[int, str]) -> bool:
    """Whether the dataset's rows are as they were: ``digests`` has that of the rows of each part."""
    rows = stream_rows(job.dataset, job.data.selection)
    try:
        for number in range(layout.count):
            now = RowRange(job.dataset)
            for row in islice(rows, len(layout.span(number))):
                now.add(row)
            if digests.get(number) != now.digest:
                return False
    except DataError:
        return False
    return True


PartColumns = Mapping[str, Columns]
"""The columns of a part's tables, by the tables' names."""


def finish_part(
    job: RunJob, layout: PartLayout, number: int, rows: RowRange, stats: Counts, columns: PartColumns
) -> PartMark:
    """Write the mark of a part, whose files are closed. DataError where the dataset was rewritten meanwhile, OutputError
    when the disk or the store refuses."""
    if file_stamps(job.dataset) != job.data.stamps and (error := changed_dataset(job)):
        raise error
    span = layout.span(number)
    counts = Counts(len(span))
    counts.include(stats)
    mark = PartMark(
        span.start,
        counts,
        job.start.spec_fingerprint,
        job.start.data_fingerprint,
        rows.digest,
        rows.encoded_keys(),
        {name: dict(columns[name]) for name in PART_TABLES},
        {},
    )
    return seal_part(layout, number, mark)


def seal_part(layout: PartLayout, number: int, mark: PartMark) -> PartMark:
    """Write the mark with the digests of the part's files, once their names are on the disk, or they are in the store."""
    files = layout.file_names(number)
    for folder in {path.parent for path in files.values()}:
        sync_directory(folder)
    # A journal that is in the store only is as it was when the mark was first written.
    digests = {name: file_digest(path) for name, path in files.items() if name not in mark.digests or path.exists()}
    sealed = replace(mark, digests={**mark.digests, **digests})
    layout.put(number)
    layout.write_mark(number, sealed)
    return sealed


def publish_parts(job: RunJob, layout: PartLayout, parts: Mapping[int, PartColumns], unfinished: Iterable[int]) -> None:
    """Give the parts' tables the same columns, and move them to where readers look for them.

    ``unfinished`` are the parts whose tables have only the rows that are done.
    """
    for number in set(layout.existing()) - parts.keys():
        layout.reopen(number)  # of an earlier process, which did other rows before it was stopped
    _unify_tables(job, layout, parts)
    for number in unfinished:
        layout.put_tables(number)
    layout.publish()


def _unify_tables(job: RunJob, layout: PartLayout, parts: Mapping[int, PartColumns]) -> None:
    """Rewrite the tables whose columns are narrower than those of all parts: other programs read a folder of tables by the
    columns of one of them.

    A part's mark is removed meanwhile: if this is interrupted, the part is made again from its journal.
    """
    declared = {PART_TABLES[0]: column_types(job.plan, job.dataset), PART_TABLES[1]: column_types_of(CALL_COLUMNS)}
    widest = {name: widest_columns(parts[number][name] for number in sorted(parts)) for name in PART_TABLES}
    for number in sorted(parts):
        narrow = [name for name in PART_TABLES if _kinds(parts[number][name]) != _kinds(widest[name])]
        if not narrow:
            continue
        mark = PartMark.read(layout.mark(number))
        layout.get_tables(number)
        layout.remove_mark(number)
        for name in narrow:
            path = layout.tables(number)[name]
            columns: dict[str, ColumnKind] = dict(_kinds(widest[name]))
            concatenate_tables([path], path, columns, declared[name])
        if mark is not None:
            seal_part(layout, number, replace(mark, columns={name: dict(widest[name]) for name in PART_TABLES}))


def _kinds(columns: Columns) -> list[tuple[str, ColumnKind]]:
    return [(name, kind) for name, (kind, _) in columns.items()]


def widest_columns(tables: Iterable[Columns]) -> Columns:
    """The columns of all tables, in the order of their first appearance."""
    widest: dict[str, tuple[ColumnKind, bool]] = {}
    for columns in tables:
        for name, (kind, exact) in columns.items():
            known, known_exact = widest.get(name, ("null", True))
            both = exact and known_exact
            widest[name] = wider(known, kind, exact=both), both
    return widest
