"""What is known of a run's batches: in `run.json`, and for the progress display."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from msgspec import Struct, convert

from verdict_cli.plural import plural
from verdict_cli.run_facts import RunFacts

if TYPE_CHECKING:
    from verdict_cli.run.progress import PendingCalls

_KEY = "batches"
TO_FILE = "file"
"""The name of the provider of files: requests that were exported."""


@dataclass
class BatchFacts:
    """One batch of a run; ``ended`` is "" while it is in flight, ``saved_usd`` how much less it cost than ordinary calls."""

    id: str
    provider: str
    model: str
    requests: int
    status: str
    submitted: str = ""
    ended: str = ""
    wave: int = 1
    answered: int = 0
    cost_usd: float | None = None
    saved_usd: float | None = None


def with_batches(facts: RunFacts, batches: Iterable[BatchFacts]) -> RunFacts:
    """The facts of a run that was answered by these batches."""
    listed = [asdict(batch) for batch in batches]
    return replace(facts, added={**facts.added, _KEY: listed}) if listed or _KEY in facts.added else facts


def batches_of(facts: RunFacts) -> tuple[BatchFacts, ...]:
    """The batches by which a run was answered. ValueError for what no run writes."""
    return convert(facts.added.get(_KEY, ()), tuple[BatchFacts, ...])


class PendingBatches(Struct, frozen=True):
    """Calls that batches are to answer: the last wave, the batches in flight, their requests, and how many are answered."""

    wave: int
    batches: int
    requests: int
    answered: int

    def plus(self, other: PendingCalls | None) -> PendingCalls:
        if not isinstance(other, PendingBatches):
            return self
        counts = (self.batches + other.batches, self.requests + other.requests, self.answered + other.answered)
        return PendingBatches(max(self.wave, other.wave), *counts)

    def text(self) -> str:
        """As `PendingCalls.text`, such as `wave 2: 1,200 of 6,000 requests answered in 2 batches`."""
        if not self.batches:
            return ""
        number = plural(self.batches, "batch|batches")
        return f"wave {self.wave}: {self.answered:,} of {self.requests:,} requests answered in {number}"
