"""The facts of a run, which `run.json` holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from verdict_cli.messages import Stage


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class RunFacts:
    """The facts of a run: the content of ``run.json``."""

    name: str
    status: str
    """``running``, ``finished``, ``interrupted`` or ``waiting`` (for batches)."""
    config: str
    dataset: str
    """Both as the user gave them."""
    spec_fingerprint: str
    data_fingerprint: str
    version: str
    started: str
    seed: int = 0
    rows: int = 0
    """The dataset's selected rows."""
    done: int = 0
    """Those with a result."""
    failed: int = 0
    """Those whose result is a failure."""
    skipped_bad_rows: int = 0
    calls: int = 0
    recalled: int = 0
    """Replies that were taken from the journal of an earlier process, which paid for them."""
    cached: int = 0
    """Replies that equal requests had already."""
    cost_usd: float | None = 0.0
    """None if any call's price is unknown."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    wall_s: float = 0.0
    failures: Mapping[str, int] = field(default_factory=dict)
    """Failed rows by the kind of their failure."""
    models: Mapping[str, int] = field(default_factory=dict)
    """Calls by model."""
    floors: tuple[str, ...] = ()
    """The built-in baseline models that answered, so that no reader takes their metrics for those of an LLM judge."""
    nodes: Mapping[str, str] = field(default_factory=dict)
    """Unit -> fingerprint, which covers the unit and everything before it."""
    saved: Mapping[str, int] = field(default_factory=dict)
    """The calls that early stopping avoided, by the id of the pool after the layer."""
    stages: Mapping[str, tuple[Stage, ...]] = field(default_factory=dict)
    """The stages of the units that escalate, by id."""
    abstained: int = 0
    """Rows that have no verdict because a unit abstained."""
    calibrated: str = ""
    """When the oldest calibration in use was fitted, "" without one."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """The first message of each kind of failure."""
    replay: str = ""
    """The recording that answered all calls, "" where models did."""
    served: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By each model that was called, the replies of each model that answered, as the provider names it."""
    cached_tokens: int = 0
    """The prompt tokens that came from providers' caches."""
    cache_saved_usd: float | None = 0.0
    """What that saved, less what writing to the caches cost; None if a price is unknown."""
    digests: Mapping[str, str] = field(default_factory=dict)
    """The SHA-256 of the run's files by name, once its report is written."""
    batches: tuple[BatchFacts, ...] = ()
    part_rows: int = 0
    """The number of rows in each of its parts, 0 if it has one."""
    shared: int = 0
    """The cached replies whose request was of this run."""
    id_column: str | None = None
    """The column that identifies the rows; None: their numbers do."""
