"""Gates: whether a run meets its limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from verdict_cli.errors import VerdictError
from verdict_cli.language.evaluations import Evaluation
from verdict_cli.language.gate_rules import ROW_METRICS, Gate
from verdict_cli.run_facts import RunFacts
from verdict_cli.stats.intervals.interval_methods import NO_VARIATION, MetricValue
from verdict_cli.stats.intervals.intervals import CONFIDENCE_LEVEL
from verdict_cli.stats.intervals.missing_data_bounds import worst_case_interval
from verdict_cli.stats.measure import Measures, measure
from verdict_cli.stats.noninferiority import Drop, against_baselines, least_detectable, metric_counts_wrong_rows
from verdict_cli.stats.paired import shared_rows

GateVerdict = Literal["passed", "failed", "inconclusive"]
Inconclusive = Literal["pass", "fail"]
"""What an inconclusive gate does to the run."""


@dataclass(frozen=True, slots=True)
class GateOutcome:
    """The outcome of one gate. `rule` is the limit in words, `limit` the number that `value` is compared with.

    With a baseline, `value`, `low` and `high` are of the paired difference (this run minus the baseline), and
    `limit` is `max_drop`. `detectable` is the smallest true distance (to a limit with a confidence, or between the
    runs) that so many rows show with 80% power. `held`: what a passed gate compares, as `lower end 0.806 ≥ 0.8`.
    `verdict` is `inconclusive` where the value meets the limit but its interval does not: that does not pass, unless
    `tolerated`. `reason` says why the verdict is not `passed`.
    """

    metric: str
    verdict: GateVerdict
    value: float | None
    limit: float | None
    low: float | None
    high: float | None
    n: int | None
    reason: str
    rule: str
    detectable: float | None = None
    tolerated: bool = False
    held: str = ""

    @property
    def passed(self) -> bool:
        """Whether the run may pass this gate; what has no value is not tolerated."""
        return self.verdict == "passed" or (
            self.tolerated and self.verdict == "inconclusive" and self.value is not None
        )


LEAST_LEVEL = 0.01
"""The level of a one-sided gate's interval is twice its confidence minus one, at least this."""
IMPLIED = Gate(metric="run.coverage", min=1.0)
"""The last gate of a file that has gates, but none on `run.coverage`."""


def decide_gates(
    gates: Sequence[Gate],
    evaluations: Mapping[str, Evaluation],
    measures: Mapping[str, Measures],
    facts: RunFacts,
    results: Path,
    *,
    seed: int = 0,
    root: Path = Path(),
    inconclusive: Inconclusive = "fail",
) -> tuple[GateOutcome, ...]:
    """The outcome of every gate in order, the implied one on `run.coverage` last.

    Evaluations with a gate also have gates of 1 on `coverage` and, with a baseline, `shared`, listed where they fail.

    `measures` are those of `measure` on the same results; `root` is the directory that `baseline` paths are relative to.
    Raises DataError for results that cannot be measured. A baseline that cannot be read fails its gate, and so does
    an internal error; the other gates are decided all the same.
    """
    every = [*gates]
    if every and all(gate.metric != IMPLIED.metric for gate in every):
        every.append(IMPLIED)
    compared = [gate for gate in every if gate.baseline is not None]
    missing = {name: each.missing for name, each in measures.items()}
    broken: Exception | None = None
    drops: Iterator[Drop] = iter(())
    try:
        drops = iter(against_baselines(compared, evaluations, results, seed=seed, root=root, missing=missing))
    except VerdictError:
        raise
    except Exception as error:
        broken = error
    outcomes = []
    implied = [] if not gates else _implied_of_rows(gates, evaluations)
    for gate in [*every, *implied]:
        try:
            if gate.parts[1] in ROW_METRICS and gate.parts[0] != "run":
                outcomes.append(_of_rows(gate, gates, evaluations, measures, results, root=root))
                if gate in implied and outcomes[-1].verdict == "passed":
                    outcomes.pop()
            elif gate.baseline is None:
                outcomes.append(_outcome(gate, evaluations, measures, facts, results, seed=seed))
            elif broken is not None:
                outcomes.append(_failed_by(gate, broken))
            else:
                outcomes.append(_against_baseline(gate, next(drops)))
        except VerdictError:
            raise
        except Exception as error:
            outcomes.append(_failed_by(gate, error))
    return tuple(replace(outcome, tolerated=inconclusive == "pass") for outcome in outcomes)


def _implied_of_rows(gates: Sequence[Gate], evaluations: Mapping[str, Evaluation]) -> list[Gate]:
    """Gates on the rows of the evaluations that have gates; none where the file has its own. A gate on `run.coverage` that
    allows for failed rows allows for as many without a prediction."""
    found: dict[str, Gate] = {}
    least = min((gate.min or 0.0 for gate in gates if gate.metric == IMPLIED.metric), default=1.0)
    for gate in gates:
        name, metric = gate.parts
        if name == "run" or metric in ROW_METRICS:
            continue
        if evaluations[name].missing != "wrong":
            found.setdefault(f"{name}.coverage", Gate(metric=f"{name}.coverage", min=least))
        if gate.baseline is not None:
            found.setdefault(f"{name}.shared", Gate(metric=f"{name}.shared", min=1.0))
    named = {gate.metric for gate in gates}
    return [gate for metric, gate in found.items() if metric not in named]


def _of_rows(
    gate: Gate,
    gates: Sequence[Gate],
    evaluations: Mapping[str, Evaluation],
    measures: Mapping[str, Measures],
    results: Path,
    *,
    root: Path,
) -> GateOutcome:
    """A gate on the share of an evaluation's rows with a prediction, or of its baselines' rows that are here."""
    name, metric = gate.parts
    measured = measures[name]
    if metric == "coverage":
        rows = measured.rows - measured.unlabelled
        return _within_limits(gate, MetricValue(measured.coverage, None, None, rows, "" if rows else "no rows"))
    baselines = dict.fromkeys(each.baseline for each in gates if each.baseline is not None and each.parts[0] == name)
    if not baselines:
        return _within_limits(gate, MetricValue(None, None, None, 0, f"no gate on `{name}` has a `baseline`"))
    found = [shared_rows(name, evaluations[name], root / each / "results.parquet", results) for each in baselines]
    return _within_limits(gate, min(found, key=lambda each: -1.0 if each.value is None else float(each.value)))


def _outcome(
    gate: Gate,
    evaluations: Mapping[str, Evaluation],
    measures: Mapping[str, Measures],
    facts: RunFacts,
    results: Path,
    *,
    seed: int,
) -> GateOutcome:
    name, metric = gate.parts
    if name == "run":
        return _within_limits(gate, _run_value(metric, facts))
    measured = measures[name]
    level = gate.confidence or CONFIDENCE_LEVEL
    if gate.sided == "one":
        level = max(2 * level - 1, LEAST_LEVEL)
    exact, where = gate.confidence is not None, {name: gate.where or {}}
    if metric not in measured.values or gate.where or exact:
        only = evaluations[name].model_copy(update={"metrics": (metric,), "by": ()})
        measured = measure({name: only}, results, seed=seed, level=level, only=where, exact=exact)[name]
    found, bounds = measured.values[metric], measured.bounds.get(metric)
    if bounds is None or gate.confidence is None:
        return _within_limits(gate, found)
    wrong = None
    if metric_counts_wrong_rows(metric):
        strict = evaluations[name].model_copy(update={"metrics": (metric,), "by": (), "missing": "wrong"})
        wrong = measure({name: strict}, results, seed=seed, level=level, only=where, exact=exact)[name].values[metric]
    return _within_limits(gate, found, worst_case_interval(found, bounds, wrong, measured.missing, level))


def _run_value(metric: str, facts: RunFacts) -> MetricValue:
    """A fact of the run as a value without an interval."""
    if metric == "coverage":
        done = facts.done - facts.failed - facts.abstained
        value = done / facts.rows if facts.rows else None
        return MetricValue(value, None, None, facts.rows, "" if facts.rows else "the run has no rows")
    if metric == "calibration_age_days":
        return _age(facts)
    value = getattr(facts, metric)
    reason = "" if value is not None else "the cost is unknown, because a model's price is: set its `cost:`"
    return MetricValue(value, None, None, facts.rows, reason)


def _age(facts: RunFacts) -> MetricValue:
    """The age of the oldest calibration at the start of the run, in days."""
    if not facts.calibrated:
        return MetricValue(None, None, None, facts.rows, "the pipeline uses no calibration")
    age = datetime.fromisoformat(facts.started) - datetime.fromisoformat(facts.calibrated)
    return MetricValue(age.total_seconds() / 86_400, None, None, facts.rows)


def _within_limits(gate: Gate, found: MetricValue, bounds: tuple[float, float] | None = None) -> GateOutcome:
    """Compare a value with `min` and `max`; the first that it misses is the outcome's limit."""
    limits = [("min", gate.min), ("max", gate.max)]
    outcomes = [_within_limit(gate, found, side, limit, bounds) for side, limit in limits if limit is not None]
    return next((outcome for outcome in outcomes if outcome.verdict != "passed"), outcomes[0])


def _within_limit(
    gate: Gate, found: MetricValue, side: str, limit: float, bounds: tuple[float, float] | None
) -> GateOutcome:
    sign = "≥" if side == "min" else "≤"
    rule = f"{sign} {limit:g}"
    if gate.confidence is not None:
        rule += f" at {gate.confidence:g} {'one-sided ' if gate.sided == 'one' else ''}confidence"
    rule += _where(gate)

    def outcome(verdict: GateVerdict, reason: str = "") -> GateOutcome:
        ends = (found.low, found.high)
        detectable = None if gate.confidence is None else least_detectable(found, gate.confidence)
        return GateOutcome(gate.metric, verdict, found.value, limit, *ends, found.n, reason, rule, detectable)

    def meets(value: float) -> bool:
        return value >= limit if side == "min" else value <= limit

    end, name, relation = (found.low, "lower", "below") if side == "min" else (found.high, "upper", "above")
    if found.value is None:
        return outcome("inconclusive", f"there is no value: {found.reason}")
    if not meets(found.value):
        return outcome("failed", f"{found.value:.6g} is {relation} {limit:g}")
    if gate.confidence is None:
        return outcome("passed")
    if end is None or NO_VARIATION in found.warnings:
        return outcome("inconclusive", f"there is no interval: {found.reason}")
    if found.warnings:
        return outcome("inconclusive", f"the interval cannot be relied on: {found.reason}")
    if not meets(end):
        return outcome("inconclusive", f"the interval's {name} end {end:.6g} is {relation} {limit:g}")
    worst = None if bounds is None else bounds[0] if side == "min" else bounds[1]
    if worst is not None and not meets(worst):
        return outcome("inconclusive", f"with the rows without a prediction the interval may end at {worst:.6g}")
    most = end if worst is None else min(end, worst) if side == "min" else max(end, worst)
    missing = "" if most == end else " with the rows without a prediction at their worst"
    return replace(outcome("passed"), held=f"{name} end {most:.4g} {sign} {limit:g}{missing}")


def _against_baseline(gate: Gate, drop: Drop) -> GateOutcome:
    """Non-inferiority: the interval of the paired difference must not exceed `max_drop`."""
    change, limit = drop.change, gate.max_drop or 0.0
    rule = f"against {gate.baseline}, at most {limit:g} worse{_where(gate)}"
    if drop.family > 1 and change.value is not None:
        rule += f" (one of {drop.family} tests, by Holm: {drop.level:.4g} interval)"

    def outcome(verdict: GateVerdict, reason: str = "") -> GateOutcome:
        ends = (change.low, change.high)
        return GateOutcome(gate.metric, verdict, change.value, limit, *ends, change.n, reason, rule, drop.detectable)

    if drop.worse is None:
        return outcome("failed", f"there is no paired difference: {change.reason}")
    if drop.worse > limit:
        return outcome("failed", f"the metric is {drop.worse:.6g} worse than the baseline's")
    if drop.worst is None:
        return outcome("inconclusive", f"there is no interval: {change.reason}")
    if change.warnings:
        return outcome("inconclusive", f"the interval cannot be relied on: {'; '.join(change.warnings)}")
    if drop.worst > limit:
        return outcome(
            "inconclusive", f"the metric may be up to {drop.worst:.6g} worse than the baseline's{drop.needed}"
        )
    if drop.lost is not None and drop.lost > limit:
        return outcome(
            "inconclusive",
            f"the rows without a prediction could make the metric {drop.lost:.6g} worse than the baseline's",
        )
    if not drop.rejected:
        return outcome("inconclusive", "a test that Holm's procedure puts before this one is inconclusive")
    held = f"upper end {drop.worst:.4g} ≤ {limit:g}" if drop.upper else f"lower end {-drop.worst:.4g} ≥ {-limit:g}"
    return replace(outcome("passed"), held=held)


def _failed_by(gate: Gate, error: Exception) -> GateOutcome:
    """The failed outcome of a gate that could not be decided."""
    reason = f"internal error in verdict (please report it): {type(error).__name__}: {error}"[:500]
    undefined = MetricValue(None, None, None, 0, reason)
    if gate.baseline is None:
        return _within_limits(gate, undefined)
    rule = f"against {gate.baseline}, at most {gate.max_drop or 0.0:g} worse{_where(gate)}"
    return GateOutcome(gate.metric, "failed", None, gate.max_drop, None, None, 0, reason, rule)


def _where(gate: Gate) -> str:
    pairs: Mapping[str, Any] = gate.where or {}
    return "".join(f", {path} = {value!r}" for path, value in pairs.items())
