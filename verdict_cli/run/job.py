"""What a run is to do, its partitions, and how it is stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from verdict_cli.errors import VerdictError
from verdict_cli.llm.middleware.cache_store import CacheStore
from verdict_cli.llm.providers.recording import Recording
from verdict_cli.llm.tracing import Spans
from verdict_cli.messages import Output, Row, RunFacts
from verdict_cli.plan.node import Plan
from verdict_cli.run.progress import RunStats
from verdict_cli.run.result_columns import CALL_COLUMNS, declared_columns, result_columns
from verdict_cli.run.run_directory import RunDirectory
from verdict_cli.storage.datasets.dataset import Dataset, DatasetFacts
from verdict_cli.storage.tables.reader import concatenate_tables


@dataclass(frozen=True)
class RunJob:
    """Everything that a run needs.

    ``changed`` makes what is judged of each row of the dataset; ``renamed`` gives the name under which a unit is asked,
    by which recordings, the cache and seeded models tell samples of one question apart.
    """

    plan: Plan
    dataset: Dataset
    data: DatasetFacts
    directory: RunDirectory
    start: RunFacts
    concurrency: int = 64
    recording: Recording | None = None
    budget_usd: float | None = None
    store: CacheStore | None = None
    fresh: bool = False
    retry_failed: bool = False
    update: bool = False
    spans: Spans = field(default_factory=Spans)
    meanwhile: Callable[[], None] = lambda: None
    """Done in a thread while the first calls are in flight: preparations for what follows the run."""
    changed: Callable[[Row], Row] | None = None
    renamed: Callable[[str], str] | None = None


@dataclass
class Stop:
    """Asks a run to stop: no call is started any more, those in flight have a few seconds to end."""

    event: asyncio.Event | None = None
    loop: asyncio.AbstractEventLoop | None = None
    asked: bool = False

    @property
    def bound(self) -> bool:
        """Whether a run is going on that will stop in order."""
        return self.loop is not None

    def ask(self) -> None:
        """May be called from a signal handler."""
        self.asked = True
        if self.loop is not None and self.event is not None:
            self.loop.call_soon_threadsafe(self.event.set)

    def bind(self) -> asyncio.Event:
        """The event in the running loop."""
        self.loop, self.event = asyncio.get_running_loop(), asyncio.Event()
        if self.asked:
            self.event.set()
        return self.event

    def release(self) -> None:
        """The run is over: there is nothing left to stop."""
        self.loop = self.event = None


@dataclass(frozen=True)
class Partition:
    """``rows`` in the dataset's order, ``count`` of them, each with a key that no other row of the run has.

    ``folder`` takes the part's journal and tables. ``pinned`` are the outputs of the pinned units, None where this part
    is to ask for them; a part without rows does that alone.
    """

    rows: Iterable[Row]
    count: int
    folder: RunDirectory
    pinned: Mapping[int, Output | None] | None = None


@dataclass(frozen=True)
class PartitionResult:
    """What came of a part: its counts, and the pinned units' outputs.

    ``complete``: each of its rows has a result. ``trouble`` is what stopped it, None where nothing did.
    """

    tally: RunStats
    pinned: Mapping[int, Output | None]
    complete: bool
    trouble: VerdictError | None = None


def join(parts: Sequence[Partition], into: RunDirectory, plan: Plan, source: Sequence[str]) -> None:
    """Writes the tables of the parts, in this order, as one: the same bytes as a run of all their rows in one part.

    ``source`` are the dataset's columns. OutputError when the disk refuses, DataError for a table that is damaged.
    """
    columns = result_columns(plan, source)
    concatenate_tables([part.folder.results for part in parts], into.results, columns, declared_columns(plan))
    concatenate_tables([part.folder.calls for part in parts], into.calls, CALL_COLUMNS)
