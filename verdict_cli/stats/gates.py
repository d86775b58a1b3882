"""Gates: whether a run meets its limits.

All gates must pass, so their number needs no correction. A gate with `confidence` compares one bound with its limit: the end
of the metric's interval with the rows without a prediction at their worst. A gate with a `baseline` (non-inferiority: Walker
and Nowacki, 2011) does the same with the interval of the paired difference and `max_drop`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np

from verdict_cli.errors import DataError, VerdictError
from verdict_cli.language.evaluations import Evaluation
from verdict_cli.language.gate_rules import ROW_METRICS, Gate
from verdict_cli.language.metric_registry import GOLD_ESTIMATES, find_metric
from verdict_cli.plural import plural
from verdict_cli.run_facts import RunFacts
from verdict_cli.stats.columns.row_data import EvaluationData
from verdict_cli.stats.columns.row_identities import row_identities
from verdict_cli.stats.columns.sample import Sample
from verdict_cli.stats.confidence_sequence import anytime_interval
from verdict_cli.stats.intervals.interval_methods import NO_VARIATION, MetricValue, normal
from verdict_cli.stats.intervals.intervals import CONFIDENCE_LEVEL, Draw
from verdict_cli.stats.measure import Measures, gold_estimates, measure, metric_values
from verdict_cli.stats.metrics.metric_families import input_statistics, key_columns, metric_input, usable
from verdict_cli.stats.metrics.statistic import Statistic
from verdict_cli.stats.paired import (
    OpenRows,
    PairedRows,
    RunRows,
    pair,
    paired_difference,
    run_rows,
    undefined_difference,
)
from verdict_cli.stats.worst_case import filled, open_pairs, open_rows

GateVerdict = Literal["passed", "failed", "inconclusive"]
Inconclusive = Literal["pass", "fail"]
"""What an inconclusive gate does to the run."""


@dataclass(frozen=True, slots=True)
class GateOutcome:
    """The outcome of one gate. `rule` is the limit in words, `limit` the number that `value` is compared with.

    With a baseline, `value`, `low` and `high` are of the paired difference (this run minus the baseline), and
    `limit` is `max_drop`. `held`: what a passed gate compares, as `lower end 0.806 ≥ 0.8`.
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
    sequential: bool = False,
) -> tuple[GateOutcome, ...]:
    """The outcome of every gate in order, the implied one on `run.coverage` last.

    Evaluations with a gate also have gates of 1 on `coverage` and, with a baseline, `shared`, listed where they fail.

    `measures` are those of `measure` on the same results; `root` is the directory that `baseline` paths are relative to.
    `sequential` gives gates with `confidence` bounds that hold however often the gates are decided as rows come in.
    Raises DataError for results that cannot be measured. A baseline that cannot be read fails its gate, and so does
    an internal error; the other gates are decided all the same.
    """
    every = [*gates]
    if every and all(gate.metric != IMPLIED.metric for gate in every):
        every.append(IMPLIED)
    rows = GateRows(gates, evaluations, results, root, seed, sequential=sequential)
    outcomes = []
    implied = [] if not gates else _implied_of_rows(gates, evaluations)
    for gate in [*every, *implied]:
        try:
            if gate.parts[1] in ROW_METRICS and gate.parts[0] != "run":
                outcomes.append(_of_rows(gate, gates, measures, rows))
                if gate in implied and outcomes[-1].verdict == "passed":
                    outcomes.pop()
            elif gate.baseline is not None:
                outcomes.append(_against_baseline(gate, rows))
            else:
                outcomes.append(_outcome(gate, measures, facts, rows))
        except VerdictError:
            raise
        except Exception as error:
            outcomes.append(_failed_by(gate, error))
    return tuple(replace(outcome, tolerated=inconclusive == "pass") for outcome in outcomes)


GateScope = tuple[str, str]
"""An evaluation and the `where` of a gate."""


def _selection(gate: Gate) -> GateScope:
    return gate.parts[0], repr(gate.where or {})


class GateRows:
    """The rows that gates are decided on. A run, and a baseline with the run, are read once for any number of gates."""

    def __init__(
        self,
        gates: Sequence[Gate],
        evaluations: Mapping[str, Evaluation],
        results: Path,
        root: Path,
        seed: int,
        *,
        sequential: bool,
    ) -> None:
        self.evaluations, self.results, self.root, self.seed = evaluations, results, root, seed
        self.sequential = sequential
        self._gates = [gate for gate in gates if gate.parts[0] != "run"]
        self._data: dict[GateScope, EvaluationData] | None = None
        self._sides: dict[str, tuple[dict[GateScope, RunRows], dict[GateScope, RunRows]] | str] = {}

    def data(self, gate: Gate) -> EvaluationData:
        """The rows that the gate counts."""
        if self._data is None:
            gates = [one for one in self._gates if one.baseline is None and one.parts[1] not in ROW_METRICS]
            self._data = {key: rows[0] for key, rows in self._read(gates, self.results, None).items()}
        return self._data[_selection(gate)]

    def draw(self, gate: Gate, level: float) -> Draw:
        """How the gate's interval is computed: shares have exact ones."""
        return Draw(np.random.default_rng([abs(self.seed), *gate.metric.encode()]), level, exact=True)

    def sides(self, baseline: str, key: GateScope) -> tuple[RunRows, RunRows] | str:
        """The rows of a baseline and of the run; or why they cannot be compared."""
        if baseline not in self._sides:
            self._sides[baseline] = self._read_baseline(baseline)
        found = self._sides[baseline]
        return found if isinstance(found, str) else (found[0][key], found[1][key])

    def pairs(self, gate: Gate) -> PairedRows | str:
        """The rows that the baseline and the run share; or why there are none."""
        sides = self.sides(gate.baseline or "", _selection(gate))
        return sides if isinstance(sides, str) else pair(*sides)

    def _read_baseline(self, baseline: str) -> tuple[dict[GateScope, RunRows], dict[GateScope, RunRows]] | str:
        earlier = self.root / baseline / "results.parquet"
        if not earlier.exists():
            return f"{baseline} holds no results.parquet"
        gates = [gate for gate in self._gates if gate.baseline == baseline]
        whole = [gate.model_copy(update={"where": None}) for gate in gates]
        try:
            keys = row_identities((earlier, self.results)).keys
            first, second = (
                self._read([*gates, *whole], run, ids) for run, ids in zip((earlier, self.results), keys, strict=True)
            )
        except DataError as error:
            return error.problem.message
        return first, second

    def _read(self, gates: Iterable[Gate], results: Path, ids: Sequence[str] | None) -> dict[GateScope, RunRows]:
        found: dict[GateScope, RunRows] = {}
        wanted = {_selection(gate): gate for gate in gates}
        # Selections of one evaluation are read side by side, under names that only differ in what no name contains.
        names = {f"{key[0]}\0{key[1]}": (key, gate) for key, gate in wanted.items()}
        rows = run_rows(
            {name: self.evaluations[key[0]].model_copy(update={"by": ()}) for name, (key, _) in names.items()},
            results,
            ids,
            {name: gate.where or {} for name, (_, gate) in names.items()},
        )
        for name, (key, _) in names.items():
            found[key] = rows[name]
        return found


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


def _of_rows(gate: Gate, gates: Sequence[Gate], measures: Mapping[str, Measures], rows: GateRows) -> GateOutcome:
    """A gate on the share of an evaluation's rows with a prediction, or of its baselines' rows that are here."""
    name, metric = gate.parts
    measured = measures[name]
    if metric == "coverage":
        counted = measured.rows - measured.unlabelled
        value = MetricValue(measured.coverage, None, None, counted, "" if counted else "no rows")
        return _within_limits(gate, value)
    baselines = dict.fromkeys(each.baseline for each in gates if each.baseline is not None and each.parts[0] == name)
    if not baselines:
        return _within_limits(gate, MetricValue(None, None, None, 0, f"no gate on `{name}` has a `baseline`"))
    found = [_shared(rows.sides(each, (name, "{}"))) for each in baselines]
    return _within_limits(gate, min(found, key=lambda each: -1.0 if each.value is None else float(each.value)))


def _shared(sides: tuple[RunRows, RunRows] | str) -> MetricValue:
    """The share of the baseline's rows that the run has too."""
    if isinstance(sides, str):
        return MetricValue(None, None, None, 0, sides)
    earlier, run = (set(keys) for _, _, keys in sides)
    if not earlier:
        return MetricValue(None, None, None, 0, "the baseline has no rows")
    return MetricValue(len(earlier & run) / len(earlier), None, None, len(earlier))


def _outcome(gate: Gate, measures: Mapping[str, Measures], facts: RunFacts, rows: GateRows) -> GateOutcome:
    name, metric = gate.parts
    if name == "run":
        return _within_limits(gate, _run_value(metric, facts))
    known = measures[name].values.get(metric)
    if gate.confidence is None:
        if known is None or gate.where:
            known = _value(gate, rows.data(gate), rows, CONFIDENCE_LEVEL)
        return _within_limits(gate, known)
    level = gate.confidence if gate.sided == "two" else max(2 * gate.confidence - 1, LEAST_LEVEL)
    if metric not in GOLD_ESTIMATES and find_metric(metric) is None:  # human_alpha is of another table
        evaluation = {name: rows.evaluations[name].model_copy(update={"by": ()})}
        where = {name: gate.where or {}}
        return _within_limits(gate, measure(evaluation, rows.results, level=level, only=where)[name].values[metric])
    data = rows.data(gate)
    found = _value(gate, data, rows, level)
    if found.value is None or metric in GOLD_ESTIMATES:
        return _within_limits(gate, found)
    missing = open_rows(metric, data) & (not data.wrong)
    ends = []
    for best in (False, True) if missing.any() else ():
        fill = filled(metric, data, missing, best=best)
        ends.append(None if fill is None else _value(gate, fill, rows, level))
    count = int(missing.sum()) + measures[name].unreached
    return _within_limits(gate, found, ends, count)


def _value(gate: Gate, data: EvaluationData, rows: GateRows, level: float) -> MetricValue:
    """The gate's metric with the interval of gates."""
    name, metric = gate.parts
    everything, draw = np.arange(len(data.target)), rows.draw(gate, level)
    if metric in GOLD_ESTIMATES:
        return gold_estimates(rows.evaluations[name], data, draw, everything)[0][metric]
    found = metric_values((metric,), data, everything, draw)[metric]
    if rows.sequential and gate.confidence is not None and found.value is not None:
        return _anytime_value(metric, data, found, level)
    return found


def _anytime_value(metric: str, data: EvaluationData, found: MetricValue, level: float) -> MetricValue:
    """The metric with the interval that holds at every look; none where it is not the mean of independent rows."""
    of = metric_input(metric, data)
    kept = np.flatnonzero(usable(of, data))
    sample = Sample.of(tuple(column[kept] for column in key_columns(of, data)))
    given = input_statistics(of, (metric,), data, kept[sample.first])
    statistic = None if isinstance(given, str) else given.get(metric)
    ends = None
    if statistic is not None and data.cluster is None:
        ends = _anytime_ends(statistic, sample, data, metric, 1 - level)
    if ends is None:
        return replace(found, low=None, high=None, reason=NO_ANYTIME, warnings=())
    return replace(found, low=ends[0], high=ends[1], method="confidence sequence", reason="", warnings=(), df=None)


NO_ANYTIME = "no bound of this metric holds at every look: --sequential is for shares and means of independent rows"


def _anytime_ends(
    statistic: Statistic, sample: Sample, data: EvaluationData, metric: str, alpha: float
) -> tuple[float, float] | None:
    if statistic.share is not None:
        hits, trials = (float(sample.counts @ column) for column in (statistic.share.hits, statistic.share.trials))
        low, high = anytime_interval(hits, trials, alpha)
        return statistic.share.metric_of(low), statistic.share.metric_of(high)
    bounds = data.value.bounds
    if metric != "mean" or bounds is None or not bounds[1] > bounds[0]:
        return None
    width = bounds[1] - bounds[0]
    total = (float(np.nansum(data.value.numbers)) - sample.n * bounds[0]) / width
    low, high = (bounds[0] + width * end for end in anytime_interval(total, sample.n, alpha))
    return low, high


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


def _within_limits(
    gate: Gate, found: MetricValue, filled_values: Sequence[MetricValue | None] = (), missing: int = 0
) -> GateOutcome:
    """Compare a value with `min` and `max`; the first that it misses is the outcome's limit. `filled_values` are those with
    the `missing` rows at their worst and their best."""
    limits = [("min", gate.min), ("max", gate.max)]
    outcomes = [
        _within_limit(gate, found, side, limit, filled_values, missing) for side, limit in limits if limit is not None
    ]
    return next((outcome for outcome in outcomes if outcome.verdict != "passed"), outcomes[0])


def _beside(value: float, limit: float) -> str:
    """The value to four digits; to six where four would read as the limit that it misses."""
    text = f"{value:.4g}"
    return f"{value:.6g}" if float(text) == float(f"{limit:.4g}") else text


def _within_limit(
    gate: Gate, found: MetricValue, side: str, limit: float, filled_values: Sequence[MetricValue | None], missing: int
) -> GateOutcome:
    sign = "≥" if side == "min" else "≤"
    rule = f"{sign} {limit:g}"
    if gate.confidence is not None:
        rule += f" at {gate.confidence:g} {'one-sided ' if gate.sided == 'one' else ''}confidence"
    rule += _where(gate)

    def outcome(verdict: GateVerdict, reason: str = "") -> GateOutcome:
        return GateOutcome(gate.metric, verdict, found.value, limit, found.low, found.high, found.n, reason, rule)

    def meets(value: float) -> bool:
        return value >= limit if side == "min" else value <= limit

    def end_of(value: MetricValue) -> float | None:
        return value.low if side == "min" else value.high

    name, relation = ("lower", "below") if side == "min" else ("upper", "above")
    if found.value is None:
        return outcome("inconclusive", f"there is no value: {found.reason.removeprefix('undefined: ')}")
    if not meets(found.value):
        return outcome("failed", f"{_beside(found.value, limit)} is {relation} {limit:g}")
    if gate.confidence is None:
        return outcome("passed")
    end = end_of(found)
    if end is None or NO_VARIATION in found.warnings:
        return outcome("inconclusive", f"there is no interval: {found.reason}")
    if found.warnings:
        return outcome("inconclusive", f"the interval cannot be relied on: {found.reason}")
    if not meets(end):
        return outcome("inconclusive", f"the interval's {name} end {_beside(end, limit)} is {relation} {limit:g}")
    ends = [None if value is None or value.warnings else end_of(value) for value in filled_values]
    if None in ends or (missing and not ends):
        rows = plural(missing, "row")
        return outcome("inconclusive", f"nothing bounds what the {rows} without a prediction would change")
    known = [each for each in ends if each is not None]
    most = min((end, *known)) if side == "min" else max((end, *known))
    if not meets(most):
        return outcome(
            "inconclusive", f"with the rows without a prediction the interval may end at {_beside(most, limit)}"
        )
    at_worst = "" if most == end else " with the rows without a prediction at their worst"
    return replace(outcome("passed"), held=f"{name} end {most:.4g} {sign} {limit:g}{at_worst}")


POWER = 0.8
"""So often is a drop decided with the rows that an inconclusive gate says it needs."""


def _against_baseline(gate: Gate, rows: GateRows) -> GateOutcome:
    """Non-inferiority: the interval of the paired difference, with rows without a prediction at their worst, must not exceed
    `max_drop`."""
    metric, limit = gate.parts[1], gate.max_drop or 0.0
    pairs = rows.pairs(gate) if not rows.sequential else "--sequential has no bound against a baseline"
    open_case: OpenRows | None = None
    if isinstance(pairs, str):
        change = undefined_difference(pairs).change
    else:

        def change_of(pairs: PairedRows) -> MetricValue:
            return paired_difference(metric, pairs, rows.draw(gate, CONFIDENCE_LEVEL)).change

        change = change_of(pairs)
        if change.value is not None and metric not in GOLD_ESTIMATES:
            # The rows that only one of the runs has are left to the gate on `shared`.
            open_case = open_pairs(metric, pairs, change_of, alone=False)
    upper = counts_errors(metric)

    def outcome(verdict: GateVerdict, reason: str = "") -> GateOutcome:
        rule = f"against {gate.baseline}, at most {limit:g} worse{_where(gate)}"
        return GateOutcome(gate.metric, verdict, change.value, limit, change.low, change.high, change.n, reason, rule)

    def worse(found: MetricValue) -> tuple[float | None, float | None]:
        """How much worse the run is, and may be."""
        end = found.high if upper else found.low
        sign = 1 if upper else -1
        return tuple(None if value is None else sign * value for value in (found.value, end))  # type: ignore[return-value]

    drop, worst = worse(change)
    if drop is None:
        return outcome("failed", f"there is no paired difference: {change.reason}")
    if drop > limit:
        return outcome("failed", f"the metric is {_beside(drop, limit)} worse than the baseline's")
    if worst is None or change.reason == NO_VARIATION:
        return outcome("inconclusive", f"there is no interval: {change.reason}")
    if change.warnings:
        return outcome("inconclusive", f"the interval cannot be relied on: {'; '.join(change.warnings)}")
    if worst > limit:
        reason = f"the metric may be up to {_beside(worst, limit)} worse than the baseline's{_rows_needed(change, drop, limit)}"
        return outcome("inconclusive", reason)
    at_worst = ""
    if open_case is not None:
        lost, end = (None, None) if open_case.worst is None else worse(open_case.worst)
        if lost is None or end is None:
            return outcome("inconclusive", "nothing bounds what the rows without a prediction would change")
        if end > limit:
            return outcome(
                "inconclusive",
                f"the rows without a prediction could make the metric {_beside(lost, limit)} worse than the baseline's, "
                f"up to {_beside(end, limit)} with the sampling error",
            )
        at_worst = " with the rows without a prediction at their worst" if end > worst else ""
        worst = max(worst, end)
    held = f"upper end {worst:.4g} ≤ {limit:g}" if upper else f"lower end {-worst:.4g} ≥ {-limit:g}"
    return replace(outcome("passed"), held=held + at_worst)


def counts_errors(metric: str) -> bool:
    """Whether lower values of the metric are better."""
    known = find_metric(metric)
    return known is not None and known.lower_is_better


def _rows_needed(change: MetricValue, drop: float, limit: float) -> str:
    """How many rows would decide the gate with 80% power, if the drop is the one seen, or none where the run is better."""
    room = limit - max(drop, 0.0)
    if change.low is None or change.high is None or room <= 0 or change.high <= change.low:
        return ""
    quantile = normal(CONFIDENCE_LEVEL)
    detectable = (change.high - change.low) / 2 / quantile * (quantile + normal(2 * POWER - 1))
    rows = max(change.n * (detectable / room) ** 2, change.n)
    step = 10 ** max(0, len(str(int(rows))) - 2)  # two digits, rounded up
    return f"; about {plural(math.ceil(rows / step) * step, 'row')} would decide"


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
