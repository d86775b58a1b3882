"""What is known of a run's batches: in `run.json`, and for the progress display."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass

from msgspec import convert
from msgspec.structs import replace

from verdict_cli.run_facts import RunFacts

_KEY = "batches"
TO_FILE = "file"
"""The name of the provider of files: requests that were exported."""


@dataclass
class BatchFacts:
    """One batch of a run; ``ended`` is "" while it is in flight."""

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


def with_batches(facts: RunFacts, batches: Iterable[BatchFacts]) -> RunFacts:
    """The facts of a run that was answered by these batches."""
    listed = [asdict(batch) for batch in batches]
    if not listed and _KEY not in facts.added:
        return facts
    return replace(facts, added={**facts.added, _KEY: listed})


def batches_of(facts: RunFacts) -> tuple[BatchFacts, ...]:
    """The batches by which a run was answered. ValueError for what no run writes."""
    return convert(facts.added.get(_KEY, ()), tuple[BatchFacts, ...])
