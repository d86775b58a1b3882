"""How far a run is, for the progress display."""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter

from msgspec import Struct

from verdict_cli.llm.middleware.rate_limit import Flow, RateLimiters
from verdict_cli.run_facts import Counts


class Progress(Struct, frozen=True):
    """How far a run is. ``earlier`` are rows that an earlier process finished; ``units`` has, by unit, the calls that nothing
    but a model answers."""

    counts: Counts
    earlier: int = 0
    elapsed_s: float = 0.0
    waiting: int = 0
    running: int = 0
    units: Mapping[str, Flow] = {}

    @classmethod
    def since(
        cls, started: float, counts: Counts, limiters: RateLimiters, earlier: int = 0
    ) -> Progress:
        """The current state of what was started at that time of `perf_counter`."""
        elapsed_s = perf_counter() - started
        return cls(counts, earlier, elapsed_s, limiters.waiting, limiters.running, limiters.flows)

    @property
    def rate(self) -> float:
        """Rows a second."""
        return (self.counts.done - self.earlier) / self.elapsed_s if self.elapsed_s > 0 else 0.0

    @property
    def left_s(self) -> float | None:
        """The seconds left, None as long as no row is done."""
        return (self.counts.rows - self.counts.done) / self.rate if self.rate > 0 else None
