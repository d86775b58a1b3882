"""Completed rows: collect them, bring their calls to the disk together, and write the tables in input order."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from time import monotonic
from typing import Protocol

from verdict_cli.messages import Call, Result
from verdict_cli.run.progress import Counts
from verdict_cli.run.result_columns import ResultRows
from verdict_cli.storage.tables.run_columns import CALL_NAMES, call_values
from verdict_cli.storage.tables.writer import ParquetTable

COLLECT_S = 0.2
"""How long replies are collected, at most, before one fsync serves all of them."""
PAUSE_S = 0.02
"""When no reply came for so long, what came is written: nothing else waits for the processor."""


@dataclass
class PartTables:
    """The open tables of a part, and the counts of its rows."""

    stats: Counts
    results: ParquetTable
    calls: ParquetTable

    @property
    def both(self) -> tuple[ParquetTable, ParquetTable]:
        """The tables."""
        return self.results, self.calls

    def add_call(self, call: Call) -> None:
        """Count and write a call that belongs to no row's result."""
        self.stats.count(call)
        self.calls.add(CALL_NAMES, call_values(call))


class RunTables(Protocol):
    """The tables of a run, whatever its parts."""

    def at(self, number: int) -> PartTables:
        """The tables of a row, by its number among those that are run."""

    def add_call(self, call: Call) -> None:
        """Count and write a call that belongs to no row's result."""

    async def end_before(self, number: int) -> None:
        """Finish the parts whose rows are all before this one, and written."""


class OnePart:
    """The tables of a run that has one part."""

    def __init__(self, part: PartTables) -> None:
        self._part = part
        self.add_call = part.add_call

    def at(self, number: int) -> PartTables:
        return self._part

    async def end_before(self, number: int) -> None:
        """The part ends with the run."""


class FlushedJournal(Protocol):
    """The part of a journal that the tables need."""

    async def flush(self) -> None: ...


class RowWriter:
    """Counts rows and writes them once their calls are on disk.

    ``ahead`` is how many rows may be begun before an earlier one is written: a slow row holds back those after it.
    """

    def __init__(self, journal: FlushedJournal, rows: ResultRows, tables: RunTables, ahead: int) -> None:
        self.ahead = ahead
        self.next_row = 0
        self.room = asyncio.Event()
        """Set when a row was written, which makes room for another one."""
        self._journal, self._rows, self._tables = journal, rows, tables
        self._completed: list[tuple[int, Result]] = []
        self._waiting: dict[int, Result | None] = {}
        self._arrived = asyncio.Event()
        self._arrivals = 0
        self._woken = False

    def add(self, number: int, result: Result) -> None:
        """Take a completed row, whose number in the partition is ``place``."""
        self._completed.append((number, result))
        self.notify()

    def is_full(self, begun: int) -> bool:
        """Whether as many rows were begun as may be."""
        return begun - self.next_row >= self.ahead

    async def wait_for_room(self) -> None:
        """Return once a row was written."""
        self.room.clear()
        await self.room.wait()

    def put_back(self, number: int) -> None:
        """Leave out a row that has no result yet."""
        self._waiting[number] = None
        self._write_in_turn()

    def notify(self) -> None:
        """Note that a reply arrived in the journal."""
        self._arrivals += 1
        if not self._woken:  # cheaper than the event's own check
            self._woken = True
            self._arrived.set()

    async def write_as_completed(self) -> None:
        """Write rows as they are completed, until cancelled. Raises OutputError when the disk or the store refuses."""
        while True:
            await self._arrived.wait()
            await self._pause()
            await self.flush()

    async def flush(self) -> None:
        """Write the completed rows whose turn it is, once their calls are on disk. One fsync serves all of them."""
        self._arrived.clear()
        self._woken = False
        completed, self._completed = self._completed, []
        try:
            await self._journal.flush()
        except BaseException:
            self._completed = completed + self._completed
            raise
        for number, result in completed:
            self._tables.at(number).stats.add(result)
            self._write_in_order(number, result)
        self.room.set()
        await self._tables.end_before(self.next_row)

    def write_rest(self) -> None:
        """Write rows that are complete although an earlier one is not: the table of a stopped run has them too."""
        for number in sorted(self._waiting):
            self._write(number, self._waiting.pop(number))

    async def _pause(self) -> None:
        """Return once the replies that arrived together are processed, or many rows wait to be written."""
        until = monotonic() + COLLECT_S
        before = 0
        while before < self._arrivals and len(self._completed) < self.ahead // 4 and monotonic() < until:
            before = self._arrivals
            await asyncio.sleep(PAUSE_S)

    def _write_in_order(self, number: int, result: Result) -> None:
        self._waiting[number] = result
        self._write_in_turn()

    def _write_in_turn(self) -> None:
        while self.next_row in self._waiting:
            self._write(self.next_row, self._waiting.pop(self.next_row))
            self.next_row += 1

    def _write(self, number: int, result: Result | None) -> None:
        if result is None:
            return
        tables = self._tables.at(number)
        tables.results.add(*self._rows.row(result))
        for call in result.calls:
            tables.calls.add(CALL_NAMES, call_values(call))
