"""What a run is asked to do, and how it is asked to stop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from verdict_cli.calls import Spans, Store
from verdict_cli.data import Dataset, Facts
from verdict_cli.engines.directory import RunDirectory
from verdict_cli.plan import Plan
from verdict_cli.providers import Recording
from verdict_cli.values import Row, RunFacts


@dataclass(frozen=True)
class Job:
    """Everything that a run needs.

    ``changed`` makes what is judged of each row of the dataset; ``renamed`` gives the name under which a unit is asked,
    by which recordings, the cache and seeded models tell samples of one question apart.
    """

    plan: Plan
    dataset: Dataset
    data: Facts
    directory: RunDirectory
    start: RunFacts
    concurrency: int = 64
    recording: Recording | None = None
    budget_usd: float | None = None
    store: Store | None = None
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
