"""What is known of a run's batches: in `run.json`, and for the progress display."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from time import time
from typing import TYPE_CHECKING

from msgspec import convert
from msgspec.structs import replace

from verdict_cli.features.batches.batch_keys import batch_settings
from verdict_cli.messages import JsonObject
from verdict_cli.model import Model
from verdict_cli.run_facts import RunFacts

if TYPE_CHECKING:
    from verdict_cli.storage.database.database import Database

TABLE = _KEY = "batches"
_NAMES = "batch-*"
"""The names of batches in the database."""
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


@dataclass(kw_only=True)
class SentBatch(BatchFacts):
    """One batch, from the intent to send it to its end, as the run's database has it; ``settings`` are those of its model."""

    number: int
    tag: str
    settings: JsonObject
    intended: float
    reserved_usd: float = 0.0
    charged_usd: float | None = 0.0
    """What the budget is charged for it; None: unknown."""
    refused: bool = False
    """Whether it was refused as a whole: its requests are sent again once the cause is fixed."""
    rejected: int = 0
    """Requests that were rejected for another reason than their row's content."""

    @property
    def sent_to(self) -> Model:
        """Its model."""
        return Model.model_validate(self.settings)

    @property
    def facts(self) -> JsonObject:
        """What `run.json` says of it."""
        return asdict(convert(self, BatchFacts, from_attributes=True))

    @property
    def is_too_late(self) -> bool:
        """Whether it takes longer than its model's `wait` allows."""
        return time() - self.intended >= batch_settings(self.sent_to).wait_s

    @property
    def is_at_provider(self) -> bool:
        """Whether the provider has it, and it has not ended."""
        return bool(self.id) and not self.ended and self.provider != TO_FILE


def read_batches(database: Database) -> list[SentBatch]:
    """The batches in a run's database."""
    return [
        convert(database.get(name, TABLE), SentBatch) for name in database.names_of(TABLE, _NAMES)
    ]


def with_batches(facts: RunFacts, database: Database) -> RunFacts:
    """The facts of a run that was answered by the batches in its database."""
    listed = [batch.facts for batch in read_batches(database)]
    if not listed and _KEY not in facts.added:
        return facts
    return replace(facts, added={**facts.added, _KEY: listed})


def batches_of(facts: RunFacts) -> tuple[BatchFacts, ...]:
    """The batches by which a run was answered. ValueError for what no run writes."""
    return convert(facts.added.get(_KEY, ()), tuple[BatchFacts, ...])
