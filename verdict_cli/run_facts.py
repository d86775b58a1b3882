"""The facts of a run, which `run.json` holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from verdict_cli.messages import Stage


@dataclass(frozen=True, slots=True)
class RunFacts:
    """The facts of a run: the content of ``run.json``."""

    name: str
    status: str
    """``running``, ``finished``, ``interrupted`` or ``waiting`` (for calls that are answered later)."""
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
    shard: str = ""
    """``i/n`` where the run has every n-th of the rows that the dataset's selection takes, from the i-th on."""
    skipped_bad_rows: int = 0
    calls: int = 0
    requests: int = 0
    """HTTP requests: a decision model answers several calls, its questions, in one."""
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
    shared: int = 0
    """The cached replies whose request was of this run."""
    id_column: str | None = None
    """The column that identifies the rows; None: their numbers do."""
    warnings: tuple[str, ...] = ()
    """What a reader must know of the run, one sentence each, without repetitions: `tell` adds to them."""
    added: Mapping[str, Any] = field(default_factory=dict)
    """What features know of the run, by a name of theirs. In `run.json` each is a key next to the others."""

    def as_json(self) -> dict[str, Any]:
        """The facts as `run.json` has them."""
        own = asdict(self)
        return {**own.pop("added"), **own}


def tell(facts: RunFacts, warning: str, warn: Callable[[str], None]) -> RunFacts:
    """The facts with a warning, which is then in `run.json` and in every report. ``warn`` gets a new one, as a line."""
    if warning in facts.warnings:
        return facts
    warn(f"warning: {warning}")
    return replace(facts, warnings=(*facts.warnings, warning))
