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
    """The facts of a run: the content of ``run.json``.

    ``status`` is ``running``, ``finished``, ``interrupted`` or ``waiting`` (for batches). ``rows`` counts the dataset's selected rows,
    ``done`` those with a result, ``failed`` those whose result is a failure, counted by kind in ``failures``.
    ``cost_usd`` is None if any call's price is unknown. ``floors`` names the built-in baseline models
    that answered, so that no reader takes their metrics for those of an LLM judge. ``nodes`` is node -> fingerprint,
    which covers the node and everything before it. ``saved`` counts the calls that early stopping avoided, by the id
    of the pool after the layer; ``stages`` has the stages of the units that escalate, by id.
    ``abstained`` counts the rows that have no verdict because a unit abstained. ``calibrated`` is when the oldest
    calibration in use was fitted, "" without one. ``reasons`` has the first message of each kind of failure.
    ``served`` counts, by each model that was called, the replies of each model that answered, as the provider names it.
    ``cached`` counts the replies that equal requests had already, ``shared`` those of them whose request was of this run.
    ``cached_tokens`` are the prompt tokens that came from providers' caches, ``cache_saved_usd`` what that saved (None if a
    price is unknown), less what writing to the caches cost.
    ``replay`` names the recording that answered all calls, "" where models did. ``digests`` has the SHA-256 of the run's
    files by name, once its report is written. ``part_rows`` is the number of rows in each of its parts, 0 if it has one.
    """

    name: str
    status: str
    config: str
    dataset: str
    spec_fingerprint: str
    data_fingerprint: str
    version: str
    started: str
    seed: int = 0
    rows: int = 0
    done: int = 0
    failed: int = 0
    skipped_bad_rows: int = 0
    calls: int = 0
    recalled: int = 0
    cached: int = 0
    cost_usd: float | None = 0.0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    wall_s: float = 0.0
    failures: Mapping[str, int] = field(default_factory=dict)
    models: Mapping[str, int] = field(default_factory=dict)
    floors: tuple[str, ...] = ()
    nodes: Mapping[str, str] = field(default_factory=dict)
    saved: Mapping[str, int] = field(default_factory=dict)
    stages: Mapping[str, tuple[Stage, ...]] = field(default_factory=dict)
    abstained: int = 0
    calibrated: str = ""
    reasons: Mapping[str, str] = field(default_factory=dict)
    replay: str = ""
    served: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    cached_tokens: int = 0
    cache_saved_usd: float | None = 0.0
    digests: Mapping[str, str] = field(default_factory=dict)
    batches: tuple[BatchFacts, ...] = ()
    part_rows: int = 0
    shared: int = 0
    id_column: str | None = None
    """The column that identifies the rows; None: their numbers do."""
