"""What is counted of a run, and its facts, which `run.json` holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from msgspec import Struct, convert, to_builtins
from msgspec.structs import replace

from verdict_cli.messages import (
    Failure,
    JsonObject,
    NamedValues,
    Reply,
    Result,
    Stage,
    add_counts,
    add_stages,
    sum_usd,
)
from verdict_cli.plural import plural


class Counts(Struct):
    """What is counted of the rows and calls of a run."""

    rows: int = 0
    """The dataset's selected rows."""
    done: int = 0
    """Those with a result."""
    failed: int = 0
    """Those whose result is a failure."""
    abstained: int = 0
    """Those that have no verdict because a unit abstained."""
    failures: dict[str, int] = {}
    """Failed rows by the kind of their failure."""
    reasons: dict[str, str] = {}
    """The first message of each kind of failure."""
    saved: dict[str, int] = {}
    """The calls that early stopping avoided, by the id of the pool after the layer."""
    stages: dict[str, tuple[Stage, ...]] = {}
    """The stages of the units that escalate, by id."""
    calls: int = 0
    requests: int = 0
    """HTTP requests: a decision model answers several calls, its questions, in one."""
    recalled: int = 0
    """Replies that an earlier process of the run had paid for."""
    cached: int = 0
    """Replies that equal requests had already."""
    shared: int = 0
    """The cached replies whose request was of this run."""
    cost_usd: float | None = 0.0
    """None if any call's price is unknown."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    """The prompt tokens that came from providers' caches."""
    cache_saved_usd: float | None = 0.0
    """What that saved, less what writing to the caches cost; None if a price is unknown."""
    models: dict[str, int] = {}
    """Calls by model."""
    served: dict[str, dict[str, int]] = {}
    """By each model that was called, the replies of each model that answered, as the provider names it."""

    def add(self, result: Result) -> None:
        """Count a row with its calls."""
        self.add_row(result.status, result.failure, result.saved, result.stages)
        self.add_calls([(call.request.model.name, call.reply) for call in result.calls])

    def add_row(
        self,
        status: str,
        failure: Failure | None,
        saved: Mapping[str, int],
        stages: Mapping[str, tuple[Stage, ...]],
    ) -> None:
        """Count a row without its calls."""
        self.done += 1
        self.abstained += status == "abstained"
        if failure is not None:
            self.failed += 1
            self.failures[failure.kind] = self.failures.get(failure.kind, 0) + 1
            self.reasons.setdefault(failure.kind, failure.message)
        add_counts(self.saved, saved)
        add_stages(self.stages, stages)

    def add_calls(self, calls: Sequence[tuple[str, Reply | None]]) -> None:
        """Count the calls of rows, by model and reply. Several of one row may have been one HTTP request."""
        self.calls += len(calls)
        replies = [reply for _, reply in calls if reply is not None]
        alone = [reply for reply in replies if not reply.request and not reply.cached]
        together = {reply.request for reply in replies if reply.request}
        self.requests += len(calls) - len(replies) + len(alone) + len(together)
        usages = [reply.usage for reply in replies]
        self.prompt_tokens += sum(map(attrgetter("prompt_tokens"), usages))
        self.completion_tokens += sum(map(attrgetter("completion_tokens"), usages))
        self.cached_tokens += sum(map(attrgetter("cached_tokens"), usages))
        self.recalled += sum(map(attrgetter("recalled"), replies))
        self.cached += sum(map(attrgetter("cached"), replies))
        self.shared += sum(map(attrgetter("shared"), replies))
        self.cost_usd = sum_usd(self.cost_usd, *map(attrgetter("cost_usd"), replies))
        saved = map(attrgetter("saved_usd"), replies)
        self.cache_saved_usd = sum_usd(self.cache_saved_usd, *saved)
        add_counts(self.models, Counter([model for model, _ in calls]))
        for model, reply in calls:
            if reply is not None and reply.model:
                add_counts(self.served.setdefault(model, {}), {reply.model: 1})


class RunFacts(Counts, frozen=True, kw_only=True):  # type: ignore[misc]  # msgspec allows it
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
    shard: str = ""
    """``i/n`` where the run has every n-th of the rows that the dataset's selection takes, from the i-th on."""
    skipped_bad_rows: int = 0
    wall_s: float = 0.0
    floors: tuple[str, ...] = ()
    """The built-in baseline models that answered, so that no reader takes their metrics for those of an LLM judge."""
    nodes: Mapping[str, str] = {}
    """Unit -> fingerprint, which covers the unit and everything before it."""
    calibrated: str = ""
    """When the oldest calibration in use was fitted, "" without one."""
    replay: str = ""
    """The recording that answered all calls, "" where models did."""
    other_prompts: int = 0
    """The calls that it answered with replies to another prompt."""
    digests: Mapping[str, str] = {}
    """The SHA-256 of the run's files by name, once its report is written."""
    id_column: str | None = None
    """The column that identifies the rows; None: their numbers do."""
    warnings: tuple[str, ...] = ()
    """What a reader must know of the run, one sentence each, without repetitions: `tell` adds to them."""
    added: NamedValues = {}
    """What features know of the run, by a name of theirs. In `run.json` each is a key next to the others."""

    @property
    def recording_mismatch(self) -> str:
        """How many replies of a recording answered another prompt, "" where all fit."""
        if not self.other_prompts:
            return ""
        calls = plural(self.other_prompts, "call")
        return f"{calls} had another prompt when the recording was made"

    @classmethod
    def from_json(cls, fields: NamedValues) -> RunFacts:
        """The facts of the fields of a `run.json`. Raises msgspec's ValidationError for a value of another type."""
        added = {key: value for key, value in fields.items() if key not in cls.__struct_fields__}
        return convert({**fields, "added": added}, cls)

    def as_json(self) -> JsonObject:
        """The facts as `run.json` has them."""
        fields = to_builtins(self)
        return {**fields.pop("added"), **fields}

    def with_counts(self, counts: Counts, status: str, wall_s: float) -> RunFacts:
        """The facts of a run that now has these counts.

        Baseline models are named in them only where they answered, not a recording.
        """
        counted = {name: _in_order(getattr(counts, name)) for name in Counts.__struct_fields__}
        floors = [name for name in counted["models"] if name.startswith("baseline/")]
        answered = () if self.replay else tuple(floors)
        return replace(self, status=status, wall_s=wall_s, floors=answered, **counted)


def _in_order(value: Any) -> Any:
    """A value with the keys of its mappings in order."""
    if not isinstance(value, dict):
        return value
    return {name: _in_order(value[name]) for name in sorted(value)}


def tell(facts: RunFacts, warning: str, warn: Callable[[str], None]) -> RunFacts:
    """The facts with a warning, which is then in `run.json` and in every report. ``warn`` gets a new one, as a line."""
    if warning in facts.warnings:
        return facts
    warn(f"warning: {warning}")
    return replace(facts, warnings=(*facts.warnings, warning))
