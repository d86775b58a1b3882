"""Counts of a run while it is in progress, for `run.json` and the progress display."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import replace
from time import perf_counter

from msgspec import Struct, field

from verdict_cli.llm.middleware.rate_limit import Flow, RateLimiters
from verdict_cli.messages import Call, Failure, Result, Stage
from verdict_cli.run_facts import RunFacts


class Progress(Struct, frozen=True):
    """How far a run is. ``rate`` is rows a second, ``left_s`` is None as long as no row is done; ``units`` counts, by
    unit, the calls that neither the journal nor the cache answered."""

    rows: int
    done: int
    failed: int
    calls: int
    recalled: int
    waiting: int
    running: int
    cost_usd: float | None
    elapsed_s: float
    rate: float
    left_s: float | None
    cached: int = 0
    units: Mapping[str, Flow] = dataclasses.field(default_factory=dict)


class Counts(Struct):
    """What is counted of the rows of a run. `RunFacts` has the same names.

    ``kept`` are rows that an earlier process finished.
    """

    rows: int
    started: float = field(default_factory=perf_counter)
    kept: int = 0
    done: int = 0
    failed: int = 0
    calls: int = 0
    requests: int = 0
    recalled: int = 0
    cached: int = 0
    shared: int = 0
    cost_usd: float | None = 0.0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    cache_saved_usd: float | None = 0.0
    abstained: int = 0
    failures: dict[str, int] = {}
    reasons: dict[str, tuple[int, str]] = {}
    """The first message of each kind of failure, with its row."""
    models: dict[str, int] = {}
    served: dict[str, dict[str, int]] = {}
    saved: dict[str, int] = {}
    stages: dict[str, tuple[Stage, ...]] = {}

    def add(self, result: Result) -> None:
        """Count a row with its calls."""
        self.add_row(result.row.index, result.status, result.failure, result.saved, result.stages)
        self.count([(call, 0.0) for call in result.calls])

    def add_row(
        self,
        row: int,
        status: str,
        failure: Failure | None,
        saved: Mapping[str, int],
        stages: Mapping[str, tuple[Stage, ...]],
    ) -> None:
        """Count a row without its calls."""
        self.done += 1
        if failure is not None:
            self.failed += 1
            _add_up(self.failures, {failure.kind: 1})
            reason = (row, failure.message)
            self.reasons[failure.kind] = min(reason, self.reasons.get(failure.kind, reason))
        _add_up(self.saved, saved)
        self.abstained += status == "abstained"
        if stages:
            self._add_stages(stages)

    def count(self, calls: Sequence[tuple[Call, float | None]]) -> None:
        """Count the calls of a row, each with what the provider's cache saved."""
        for call, saved_usd in calls:
            self._count(call, saved_usd)
        self.requests += requests_of([call for call, _ in calls])

    def _count(self, call: Call, saved_usd: float | None) -> None:
        self.calls += 1
        name, reply = call.request.model.name, call.reply
        self.models[name] = self.models.get(name, 0) + 1
        if reply is None:
            return
        usage, cost = reply.usage, reply.cost_usd
        self.prompt_tokens += usage.prompt_tokens
        self.completion_tokens += usage.completion_tokens
        if reply.model:
            _add_up(self.served.setdefault(name, {}), {reply.model: 1})
        if reply.recalled or reply.cached:
            self.recalled += reply.recalled
            self.cached += reply.cached
            self.shared += reply.shared
        self.cached_tokens += usage.cached_tokens
        if not reply.cached:
            self.cache_saved_usd = _sum(self.cache_saved_usd, saved_usd)
        self.cost_usd = _sum(self.cost_usd, cost)

    def add_earlier(self, cost_usd: float | None) -> None:
        """Count what an earlier process has paid."""
        self.cost_usd = _sum(self.cost_usd, cost_usd)

    def _add_stages(self, stages: Mapping[str, tuple[Stage, ...]]) -> None:
        for node, counted in stages.items():
            before = self.stages.get(node)
            self.stages[node] = (
                counted
                if before is None
                else tuple(a.plus(b) for a, b in zip(before, counted, strict=True))
            )

    def progress(self, gates: RateLimiters) -> Progress:
        """The current state."""
        elapsed = perf_counter() - self.started
        rate = (self.done - self.kept) / elapsed if elapsed > 0 else 0.0
        left = (self.rows - self.done) / rate if rate > 0 else None
        return Progress(
            self.rows,
            self.done,
            self.failed,
            self.calls,
            self.recalled,
            gates.waiting,
            gates.running,
            self.cost_usd,
            elapsed,
            rate,
            left,
            self.cached,
            gates.flows,
        )

    def facts(self, start: RunFacts, status: str) -> RunFacts:
        """The facts of the run with the counts so far.

        Baseline models are named in them only where they answered, not a recording.
        """
        floors = (
            ()
            if start.replay
            else tuple(sorted(name for name in self.models if name.startswith("baseline/")))
        )
        return replace(
            start,
            status=status,
            rows=self.rows,
            **{name: getattr(self, name) for name in _SUMS},
            wall_s=start.wall_s + perf_counter() - self.started,
            failures=dict(sorted(self.failures.items())),
            reasons={kind: message for kind, (_, message) in sorted(self.reasons.items())},
            models=dict(sorted(self.models.items())),
            served={
                model: dict(sorted(answered.items()))
                for model, answered in sorted(self.served.items())
            },
            floors=floors,
            saved=dict(sorted(self.saved.items())),
            stages=dict(sorted(self.stages.items())),
        )


def requests_of(calls: Sequence[Call]) -> int:
    """The HTTP requests of a row's calls: those that were not cached, of which several may have been one."""
    made = [call.reply for call in calls if call.reply is None or not call.reply.cached]
    alone = sum(reply is None or not reply.request for reply in made)
    return alone + len({reply.request for reply in made if reply is not None and reply.request})


_SUMS = (
    "done", "failed", "calls", "requests", "recalled", "cached", "shared", "prompt_tokens", "completion_tokens",
    "cached_tokens", "abstained", "cost_usd", "cache_saved_usd",
)  # fmt: skip


def _add_up(mine: dict[str, int], others: Mapping[str, int]) -> None:
    for name, count in others.items():
        mine[name] = mine.get(name, 0) + count


def _sum(total: float | None, other: float | None) -> float | None:
    return None if total is None or other is None else total + other
