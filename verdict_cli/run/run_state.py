"""The database of a run that is executed: what an earlier process left in it, and the rows that are added."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

from verdict_cli.errors import JournalError
from verdict_cli.llm.middleware.cache_store import cache_directory
from verdict_cli.llm.middleware.replies import OwnCalls, place_of
from verdict_cli.messages import Call, Result
from verdict_cli.run.job import RunJob
from verdict_cli.run.load_run import check_same_run, stored_run
from verdict_cli.run.result_columns import ResultRows
from verdict_cli.run.row import PINNED_ROW
from verdict_cli.storage.database.database import Database
from verdict_cli.storage.database.records import CallContent, RowCall, StoredRow
from verdict_cli.storage.database.repair import repair
from verdict_cli.storage.database.schema import DamagedError, check_pages, database_files, refused
from verdict_cli.storage.mounts import network_file_system
from verdict_cli.storage.paths import output_errors, replacing

_EXTRA_ROW = -2
"""The row that has calls which were paid for and are of no row's result."""


class FinishedRows:
    """The rows that have a result: a bit for each."""

    def __init__(self) -> None:
        self._bits = bytearray()
        self.count = 0

    def __contains__(self, row: int) -> bool:
        index = row >> 3
        return index < len(self._bits) and bool(self._bits[index] >> (row & 7) & 1)

    def add(self, row: int) -> None:
        """Note a finished row."""
        index = row >> 3
        if index >= len(self._bits):
            self._bits.extend(bytes(index - len(self._bits) + 1024))
        self._bits[index] |= 1 << (row & 7)
        self.count += 1

    def discard(self, row: int) -> None:
        """Note that a finished row is to be run again."""
        self._bits[row >> 3] &= ~(1 << (row & 7))
        self.count -= 1

    @property
    def first_missing(self) -> int:
        """The first row that is not finished."""
        full = next(
            (index for index, byte in enumerate(self._bits) if byte != 0xFF), len(self._bits)
        )
        row = 8 * full
        while row in self:
            row += 1
        return row


class RunState:
    """A run's database while the run is executed. Closing it merges its log.

    ``warnings`` say what a reader of the run must know of it.
    """

    def __init__(self, job: RunJob, database: Database, warnings: Sequence[str] = ()) -> None:
        self.database = database
        self.warnings = warnings
        self.finished = FinishedRows()
        self.failed = 0
        self.own = OwnCalls(database)
        self._job = job
        self._rows = ResultRows(job.plan)
        self._extra: list[RowCall] = []

    @classmethod
    def open(cls, job: RunJob) -> RunState:
        """Open the database of a job's directory, whose lock this process holds.

        A damaged one is replaced by what can be read of it. JournalError where an earlier run has none.
        """
        path, warnings = _working_copy(job)
        if job.fresh or job.earlier is None:
            for file in database_files(path):
                file.unlink()
        elif not path.exists():
            raise JournalError(
                f"{path} is missing, with the calls that the run has paid for",
                hint="put it back; or give --fresh to start over",
            )
        try:
            return cls._loaded(job, path, warnings)
        except DamagedError:
            return cls._loaded(job, path, [*warnings, repair(path).message(path)])
        except sqlite3.Error as error:
            raise refused(path, error) from error

    @classmethod
    def _loaded(cls, job: RunJob, path: Path, warnings: Sequence[str]) -> RunState:
        """The state with what the database holds. DamagedError where it, or a row of it, is not as it was written."""
        if path.exists():
            check_pages(path)
        state = cls(job, Database.open(path), warnings)
        try:
            state._load()
        except BaseException:
            state.database.close()
            raise
        return state

    def _load(self) -> None:
        self.database.check_values()
        stored = stored_run(self.database, self._job.directory)
        if stored is not None:
            check_same_run(self._job.directory, stored, self._job.start)
        for row, status in self.database.check_rows():
            if row >= 0:
                self.finished.add(row)
                self.failed += status == "failed"
        self._reopen_failed()
        extra = self.database.row(_EXTRA_ROW)
        self._extra = [] if extra is None else [*extra.calls]
        self.own.first = self.database.next_call
        if self.own.resumed:
            self.own.attempts = self.database.last_attempts(self.finished.__contains__)

    def _reopen_failed(self) -> None:
        """Have failed rows run again: all of them where the user asks for it, without the calls of which every attempt failed;
        else those that failed by what may have passed, such as an outage."""
        database, retries = self.database, self._job.retry_failed
        for row in [*database.rows(status="failed")] if self.failed else ():
            if retries:
                database.retract(_failed_calls(row))
            elif not self._may_have_passed(row):
                continue
            database.remove_row(row.row)
            self.finished.discard(row.row)
            self.failed -= 1
        if retries and database.row(PINNED_ROW.index) is None:
            database.retract(database.failed_calls(PINNED_ROW.index))
        database.writer.wait()

    def _may_have_passed(self, row: StoredRow) -> bool:
        """Whether a row failed by a temporary failure that cost nothing."""
        calls = self.database.calls([call.number for call in row.calls if call.failure])
        return any(call.content.retryable and call.content.reply is None for call in calls.values())

    def add(self, result: Result) -> None:
        """Store a row that has a result."""
        names, values = self._rows.row(result)
        failure = result.failure
        self.database.add_row(
            StoredRow(
                result.row.index,
                result.row.id,
                self.database.names(names),
                values,
                tuple([self._row_call(call) for call in result.calls]),
                result.status,
                None if failure is None else (failure.kind, failure.message),
                dict(result.saved),
                dict(result.stages),
            )
        )

    def add_pinned(self, calls: tuple[Call, ...]) -> None:
        """Store the calls of the units that all rows share."""
        if calls:
            self._add_calls(PINNED_ROW.index, [self._row_call(call) for call in calls])

    def add_extra(self, call: Call) -> None:
        """Store a call that was paid for and is of no row's result."""
        self._extra.append(self._row_call(call))
        self._add_calls(_EXTRA_ROW, self._extra)

    def _add_calls(self, row: int, calls: list[RowCall]) -> None:
        self.database.add_row(StoredRow(row, "", self.database.names(()), [], tuple(calls)))

    def _row_call(self, call: Call) -> RowCall:
        request = call.request
        place = place_of(request)
        answered = self.own.answered.pop(place, None)
        self.own.attempts.pop(place[:4], None)
        if answered is None:
            content = CallContent(call.reply, error=call.error, latency_s=call.latency_s)
            self.own.add(request, None, content, call.failure)
            answered = self.own.answered.pop(place_of(request))
        return RowCall(
            answered.number,
            request.node,
            request.row.item,
            request.call,
            request.attempt,
            call.failure,
            call.error,
            answered.shared,
            answered.recalled,
            call.repaired,
            call.mass,
        )

    def close(self) -> None:
        """Write what is left, and close the file. OutputError when the disk refuses."""
        self.database.close()
        stored = self._job.directory.database
        if self.database.path != stored:
            with replacing(stored) as part:
                shutil.copyfile(self.database.path, part)


def _failed_calls(row: StoredRow) -> list[int]:
    """The numbers of a row's calls of which every attempt failed."""
    readable = {(call.unit, call.item, call.call) for call in row.calls if not call.failure}
    return [
        call.number
        for call in row.calls
        if not call.shared and (call.unit, call.item, call.call) not in readable
    ]


def _working_copy(job: RunJob) -> tuple[Path, list[str]]:
    """The path of the database while the run is executed, and what to tell of it.

    Where the directory is on a network file system, on which SQLite's log cannot be used, it is a copy on this machine, which
    is copied there when the run ends or stops. A copy that a killed process has left is taken where it is the newer one.
    """
    stored = job.directory.database
    kind = network_file_system(stored.parent)
    if not kind:
        return stored, []
    digest = blake2b(str(stored.resolve()).encode(), digest_size=12).hexdigest()
    copy = cache_directory() / "runs" / digest / stored.name
    warning = f"{stored.parent} is on {kind}: the run's database is in {copy.parent} until the run ends or stops"
    with output_errors(copy):
        copy.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if stored.exists() and not (
            copy.exists() and copy.stat().st_mtime >= stored.stat().st_mtime
        ):
            shutil.copy2(stored, copy)
    return copy, [warning]
