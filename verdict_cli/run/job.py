"""What a run is to do, its partitions, and how it is stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import msgspec
from msgspec import Struct

from verdict_cli.errors import VerdictError
from verdict_cli.llm.middleware.budget import HaltedError
from verdict_cli.llm.middleware.cache_store import CacheStore
from verdict_cli.llm.providers.recording import Recording
from verdict_cli.messages import Output, Row
from verdict_cli.plan.node import Plan
from verdict_cli.run.hooks import RunHooks, hook_classes
from verdict_cli.run.observer import RunObserver
from verdict_cli.run.progress import Counts
from verdict_cli.run.result_columns import column_types, result_columns
from verdict_cli.run.run_directory import RunDirectory
from verdict_cli.run_facts import RunFacts
from verdict_cli.storage.datasets.dataset import Dataset, DatasetFacts
from verdict_cli.storage.tables.column_types import ColumnKind
from verdict_cli.storage.tables.reader import concatenate_tables
from verdict_cli.storage.tables.run_columns import CALL_COLUMNS, column_kinds_of, column_types_of
from verdict_cli.storage.tables.writer import ParquetTable

GRACE_S = 5.0
"""How long calls in flight may still take once a run is to stop: most replies take less, and they are paid for."""


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Everything that the caller of a run chooses. `verdict_cli.run.session.open_run` opens a run with it."""

    # what is judged

    plan: Plan
    dataset: Dataset
    data: DatasetFacts
    """What the check of the dataset has found: its rows, its columns and its fingerprint."""
    config: str = ""
    """The pipeline as the user named it, for `run.json`."""
    source: str = ""
    """The dataset as the user named it, for `run.json`."""
    transform_row: Callable[[Row], Row] | None = None
    """What is judged in place of each row of the dataset."""

    # its directory, and the run that is there already

    out: Path | str | None = None
    """A path or a URL; None is a directory in `runs/` that belongs to this pipeline and dataset."""
    fresh: bool = False
    """Discard the run that is there."""
    update: bool = False
    """Resume it although the pipeline or the dataset has changed."""
    retry_failed: bool = False
    """Retry the failed calls of its failed rows."""
    part_rows: int | None = None
    """The rows in each part of a new run; None: by their number."""

    # its calls

    seed: int = 0
    replay: Path | None = None
    """The recording that answers every call."""
    recording: Recording | None = None
    """The content of ``replay``."""
    concurrency: int = 64
    """The most rows and the most calls at a time."""
    budget_usd: float | None = None
    rename_unit: Callable[[str], str] | None = None
    """The unit's name in requests. Recordings, the cache and seeded models distinguish samples of one question by it."""

    # how it is executed

    engine: str = "local"
    """The name of an engine of `verdict_cli.run.hooks.ENGINES`."""
    chosen_hooks: Mapping[str, RunHooks] = field(default_factory=dict)
    """The options of features, by the features' names. Others have their defaults."""
    observer: RunObserver = field(default_factory=RunObserver)
    """What follows the run, such as a trace."""
    preload: Callable[[], None] = lambda: None
    """Runs in a thread while the first calls are in flight: imports what the end of the run needs."""
    warn: Callable[[str], None] = lambda _: None
    """Takes what the user is told while the run is executed."""

    @cached_property
    def hooks(self) -> Mapping[str, RunHooks]:
        """What each feature does in the run, by the features' names."""
        return {name: self.chosen_hooks.get(name) or hooks() for name, hooks in hook_classes().items()}

    @property
    def deferring(self) -> RunHooks | None:
        """The feature that has the run's calls answered later than they are made, if any."""
        return next((hooks for hooks in self.hooks.values() if hooks.defers(self)), None)


@dataclass(frozen=True, kw_only=True)
class RunJob(RunOptions):
    """The options of a run that is executed, and what opening it has found."""

    directory: RunDirectory
    start: RunFacts
    """The facts with which it starts: fingerprints, parts, and since when it runs."""
    store: CacheStore | None = None
    """The cache of replies, which is open."""

    def warn_of_damage(self, lines: int, journal: Path) -> None:
        """Warn of lines of a journal that cannot be read."""
        if lines:
            are = "line is" if lines == 1 else "lines are"
            self.warn(f"{journal}: {lines:,} {are} damaged; what is lost with them is called again")


@dataclass
class Stop:
    """A request to stop a run: no further call is started, those in flight have a few seconds to end."""

    event: asyncio.Event | None = None
    loop: asyncio.AbstractEventLoop | None = None
    requested: bool = False

    @property
    def bound(self) -> bool:
        """Whether a run is in progress that stops in order."""
        return self.loop is not None

    def request(self) -> None:
        """Stop the run. May be called from a signal handler."""
        self.requested = True
        if self.loop is not None and self.event is not None:
            self.loop.call_soon_threadsafe(self.event.set)

    def bind(self) -> asyncio.Event:
        """The event in the running loop."""
        self.loop, self.event = asyncio.get_running_loop(), asyncio.Event()
        if self.requested:
            self.event.set()
        return self.event

    def release(self) -> None:
        """Detach from a run that has ended: there is nothing left to stop."""
        self.loop = self.event = None


class Partition(Struct, frozen=True):
    """``rows`` in the dataset's order, ``count`` of them, each with a key that no other row of the run has.

    ``folder`` takes the partition's journal and tables. ``pinned`` are the outputs of the pinned units, None where this
    partition is to call them; a partition without rows does only that.
    """

    rows: Iterable[Row]
    count: int
    folder: RunDirectory
    pinned: Mapping[int, Output | None] | None = None


class PartitionResult(Struct, frozen=True):
    """A partition's counts, and the outputs of the pinned units.

    ``complete``: each of its rows has a result. ``error`` is what stopped it, None where nothing did. ``columns`` are those
    of its tables, by the tables' names. ``waits``: batches of it are in flight.
    """

    stats: Counts
    pinned: Mapping[int, Output | None]
    complete: bool
    error: VerdictError | None = None
    columns: Mapping[str, Mapping[str, tuple[ColumnKind, bool]]] = msgspec.field(default_factory=dict)
    waits: bool = False


def open_tables(job: RunJob, results: Path, calls: Path) -> tuple[ParquetTable, ParquetTable]:
    """The tables of results and calls at these paths, with the columns that the plan declares."""
    declared = column_types(job.plan, job.dataset)
    columns = result_columns(job.plan, job.data.columns, declared)
    table = ParquetTable(results, columns, declared=declared)
    return table, ParquetTable(calls, column_kinds_of(CALL_COLUMNS), declared=column_types_of(CALL_COLUMNS))


def join_partitions(parts: Sequence[Partition], job: RunJob) -> None:
    """Write the tables of the partitions, in this order, as one: the same bytes as a run of all rows in one partition.

    OutputError when the disk refuses, DataError for a table that is damaged.
    """
    into, declared = job.directory, column_types(job.plan, job.dataset)
    columns = result_columns(job.plan, job.data.columns, declared)
    concatenate_tables([part.folder.results for part in parts], into.results, columns, declared)
    of_calls = column_kinds_of(CALL_COLUMNS), column_types_of(CALL_COLUMNS)
    concatenate_tables([part.folder.calls for part in parts], into.calls, *of_calls)


class Halt:
    """Whether a run is to stop, in the running event loop: by `Stop`, or by an error."""

    def __init__(self, stop: Stop) -> None:
        self.stop = stop
        self.event = stop.bind()
        self.is_set = self.event.is_set
        self.set = self.event.set
        self.error: VerdictError | None = None

    def fail(self, error: VerdictError) -> None:
        """Stop because of the error, the first of which is kept. Calls in flight may still end."""
        if self.error is None and not isinstance(error, HaltedError):
            self.error = error
        self.set()

    def continue_after_stop(self) -> None:
        """Continue after a request to stop that has ended all waiting: what is done is still to be written."""
        self.stop.requested = False
        self.event.clear()

    async def wait_for(self, tasks: set[asyncio.Task[None]]) -> bool:
        """Wait for the tasks; once the run is to stop, for `GRACE_S` at most. True when none was cut short."""
        halted = asyncio.create_task(self.event.wait())
        pending: set[asyncio.Task[None]] = set(tasks)
        while pending and not self.is_set():
            done, rest = await asyncio.wait({*pending, halted}, return_when=asyncio.FIRST_COMPLETED)
            pending &= rest
            if any(task.exception() for task in done):
                self.set()
        halted.cancel()
        if pending:
            _, pending = await asyncio.wait(pending, timeout=GRACE_S)
        for task in pending:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException) and not isinstance(outcome, asyncio.CancelledError):
                raise outcome
        return not self.is_set()
