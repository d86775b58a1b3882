"""What a run is to do, its partitions, and how it is stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from verdict_cli.errors import VerdictError
from verdict_cli.llm.middleware.budget import HaltedError
from verdict_cli.llm.middleware.cache_store import CacheStore
from verdict_cli.llm.providers.recording import Recording
from verdict_cli.messages import Row
from verdict_cli.plan.node import Plan
from verdict_cli.run.hooks import RunHooks, hook_classes
from verdict_cli.run.observer import RunObserver
from verdict_cli.run.result_columns import column_types, result_columns
from verdict_cli.run.run_directory import RunDirectory
from verdict_cli.run.tables import TableColumns
from verdict_cli.run_facts import RunFacts
from verdict_cli.storage.datasets.dataset import Dataset, DatasetFacts

GRACE_S = 5.0
"""How long calls in flight may still take once an error stops a run: most replies take less, and they are paid for."""
SIGNAL_GRACE_S = 0.3
"""How long they may take once a signal stops it, which ends it within a second."""


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
    retry_failed: bool = False
    """Run its failed rows again."""
    reuse: tuple[Path, ...] = ()
    """The directories of other runs, whose replies answer equal requests."""

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
        return {
            name: self.chosen_hooks.get(name) or hooks() for name, hooks in hook_classes().items()
        }


@dataclass(frozen=True, kw_only=True)
class RunJob(RunOptions):
    """The options of a run that is executed, and what opening it has found."""

    directory: RunDirectory
    start: RunFacts
    """The facts with which it starts: fingerprints, parts, and since when it runs."""
    store: CacheStore | None = None
    """The cache of replies, which is open."""

    earlier: RunFacts | None = None
    """The facts of the run that it resumes."""

    @cached_property
    def table_columns(self) -> TableColumns:
        """The columns of the results."""
        declared = column_types(self.plan, self.dataset)
        return TableColumns(result_columns(self.plan, self.data.columns, declared), declared)


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

    async def wait_for(self, tasks: set[asyncio.Task[Any]]) -> bool:
        """Wait for the tasks; once the run is to stop, for `GRACE_S` at most. True when none was cut short."""
        every = asyncio.gather(*tasks, return_exceptions=True)
        halted = asyncio.create_task(self.event.wait())
        either: set[asyncio.Future[Any]] = {every, halted}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        halted.cancel()
        if not every.done():
            grace_s = SIGNAL_GRACE_S if self.stop.requested else GRACE_S
            await asyncio.wait({every}, timeout=grace_s)
        for task in tasks:
            task.cancel()
        outcomes = await every
        for outcome in outcomes:
            if isinstance(outcome, BaseException) and not isinstance(
                outcome, asyncio.CancelledError
            ):
                raise outcome
        return not self.is_set()
