"""Gates: whether a run meets its limits.

All gates must pass, so their number needs no correction. A gate with `confidence` compares one bound with its limit: the end
of the metric's interval with the rows without a prediction at their worst. A gate with a `baseline` (non-inferiority: Walker
and Nowacki, 2011) does the same with the interval of the paired difference and `max_drop`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from filecmp import cmp
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import orjson
from msgspec import Struct, field
from msgspec.structs import replace

from verdict_cli.errors import DataError, Problem, VerdictError, internal_fault
from verdict_cli.language.evaluations import Evaluations
from verdict_cli.language.gate_rules import ROW_METRICS, Gate
from verdict_cli.language.metric_registry import GOLD_ESTIMATES, find_metric
from verdict_cli.messages import NamedValues
from verdict_cli.plural import plural
from verdict_cli.run_facts import RunFacts
from verdict_cli.stats.baseline_file import (
    baseline_results,
    check_baseline_file,
    read_header,
    run_digest,
)
from verdict_cli.stats.columns.row_data import EvaluationData
from verdict_cli.stats.columns.row_identities import row_identities
from verdict_cli.stats.intervals.interval_methods import MetricValue, normal, undefined_value
from verdict_cli.stats.intervals.intervals import CONFIDENCE_LEVEL, Draw, anytime_ends
from verdict_cli.stats.measure import Measures, gold_estimates, measure, metric_values
from verdict_cli.stats.metrics.metric_families import metric_input, sampled_statistics, usable
from verdict_cli.stats.paired import (
    PairedRows,
    RunRows,
    pair,
    paired_difference,
    run_rows,
)
from verdict_cli.stats.worst_case import filled, open_pairs, open_rows

GateVerdict = Literal["passed", "failed", "inconclusive"]
Inconclusive = Literal["pass", "fail"]
"""What an inconclusive gate does to the run."""


class GateOutcome(Struct, frozen=True):
    """The outcome of one gate. `rule` is the limit in words, `limit` the number that `value` is compared with.

    With a baseline, `value`, `low` and `high` are of the paired difference (this run minus the baseline), and
    `limit` is `max_drop`. `held`: what a passed gate compares, as `lower end 0.806 ≥ 0.8`.
    `verdict` is `inconclusive` where the value meets the limit but its interval does not: that does not pass, unless
    `tolerated`. `reason` says why the verdict is not `passed`. `implied`: the file sets no such gate.
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
    implied: bool = False

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


@np.errstate(over="ignore", invalid="ignore")  # told as too large
def decide_gates(
    gates: Sequence[Gate],
    evaluations: Evaluations,
    measures: Mapping[str, Measures],
    facts: RunFacts,
    results: Path,
    *,
    root: Path = Path(),
    inconclusive: Inconclusive = "fail",
    sequential: bool = False,
) -> tuple[GateOutcome, ...]:
    """The outcome of every gate in order, the implied one on `run.coverage` last.

    Evaluations with a gate also have gates of 1 on `coverage` and, with a baseline, `shared`, listed where they fail.

    `measures` are those of `measure` on the same results; `root` is the directory that `baseline` paths are relative to.
    `sequential` gives gates with `confidence` bounds that hold however often the gates are decided as rows come in.
    Raises DataError for results that cannot be measured and for a baseline that is not there or is this run. A baseline
    that cannot be read fails its gate, and so does an internal error; the other gates are decided all the same.
    """
    check_baselines(gates, results, root)
    of_rows = [gate for gate in gates if gate.parts[0] != "run"]
    rows = GateRows(of_rows, evaluations, results, root, facts.seed, sequential)
    named = {gate.metric for gate in gates}
    of_run = [IMPLIED] if gates and IMPLIED.metric not in named else []
    implied = [gate for gate in _implied_of_rows(gates, evaluations) if gate.metric not in named]
    outcomes = [_outcome(gate, measures, facts, rows) for gate in (*gates, *of_run)]
    unmet = [_outcome(gate, measures, facts, rows) for gate in implied]
    outcomes += [outcome for outcome in unmet if outcome.verdict != "passed"]
    return tuple(
        replace(outcome, tolerated=inconclusive == "pass", implied=outcome.metric not in named)
        for outcome in outcomes
    )


def undecided_gates(gates: Sequence[Gate], reason: str) -> tuple[GateOutcome, ...]:
    """The failed outcomes of gates on evaluations that cannot be measured."""
    outcomes = [_decided(gate, undefined_value(reason)) for gate in gates]
    return tuple(replace(outcome, verdict="failed", reason=reason) for outcome in outcomes)


def check_baselines(gates: Sequence[Gate], results: Path, root: Path = Path()) -> None:
    """DataError for a baseline that is not there, or that is this run: a run always agrees with itself."""
    for baseline in dict.fromkeys(gate.baseline for gate in gates if gate.baseline is not None):
        place = root / baseline
        earlier = place if place.is_file() else place / "results.parquet"
        if not earlier.exists():
            message = f"the baseline {baseline} is not there, or holds no results.parquet"
            hint = "make that run first, or take the gate out until there is one"
            raise DataError(Problem("bad-baseline", message, hint))
        if place.is_file():
            check_baseline_file(place)
        if _is_same_run(earlier, results):
            message = f"the baseline {baseline} is this run itself, or a copy of it: the difference is always 0"
            raise DataError(Problem("bad-baseline", message, "name an earlier run"))


def _is_same_run(earlier: Path, results: Path) -> bool:
    """Whether a baseline is this run, or a copy of it also where somebody changed its `run.json` or left that out: two runs
    with equal tables do not take the same time."""
    if earlier.samefile(results):
        return True
    own, other = results.parent / "run.json", earlier.parent / "run.json"
    if not own.is_file():
        return False
    facts = orjson.loads(own.read_bytes())
    if earlier.suffix != ".parquet":
        return read_header(earlier).get("run") == run_digest(facts)
    others = orjson.loads(other.read_bytes()) if other.is_file() else {}
    if run_digest(others) == run_digest(facts):
        return True
    took_as_long = others.get("wall_s", facts["wall_s"]) == facts["wall_s"]
    return took_as_long and cmp(earlier, results, shallow=False)


def _scope(name: str, where: NamedValues | None = None) -> str:
    """An evaluation and the `where` of a gate. What follows the null character distinguishes selections that `collect` reads
    side by side."""
    return f"{name}\0{where or {}!r}"


_RunsByScope = tuple[dict[str, RunRows], ...]


class GateRows(Struct):
    """The rows that gates are decided on. A run, and a baseline with the run, are read once for any number of gates."""

    gates: Sequence[Gate]
    evaluations: Evaluations
    results: Path
    root: Path
    seed: int
    sequential: bool
    _runs: dict[str | None, _RunsByScope | str] = field(default_factory=dict)

    def runs(self, baseline: str | None, scope: str) -> tuple[RunRows, ...] | str:
        """The rows of the baseline, if there is one, and of the run; or why they cannot be compared."""
        if baseline not in self._runs:
            self._runs[baseline] = self._read(baseline)
        runs = self._runs[baseline]
        return runs if isinstance(runs, str) else tuple(run[scope] for run in runs)

    def data(self, gate: Gate) -> EvaluationData:
        """The rows of a gate without a baseline."""
        runs = self.runs(None, _scope(gate.parts[0], gate.where))
        assert not isinstance(runs, str)
        return runs[0][0]

    def draw(self, gate: Gate, level: float) -> Draw:
        """How the gate's interval is computed."""
        seeds = [abs(self.seed), *gate.metric.encode()]
        return Draw(np.random.default_rng(seeds), level, continuity=True)

    def pairs(self, gate: Gate) -> PairedRows | str:
        """The rows that the baseline and the run share; or why there are none."""
        runs = self.runs(gate.baseline, _scope(gate.parts[0], gate.where))
        return runs if isinstance(runs, str) else pair(*runs)

    def _read(self, baseline: str | None) -> _RunsByScope | str:
        gates = [gate for gate in self.gates if gate.baseline == baseline]
        if baseline is None:
            gates = [gate for gate in gates if gate.parts[1] not in ROW_METRICS]
            return (self._rows(gates, self.results, ()),)
        gates += [gate.model_copy(update={"where": None}) for gate in gates]
        try:
            with baseline_results(self.root / baseline) as earlier:
                runs = (earlier, self.results)
                keys = row_identities(runs).keys
                return tuple(map(partial(self._rows, gates), runs, keys))
        except DataError as error:
            return error.problem.message

    def _rows(self, gates: Sequence[Gate], results: Path, ids: Sequence[str]) -> dict[str, RunRows]:
        scopes = {_scope(gate.parts[0], gate.where): gate for gate in gates}
        evaluations = {
            key: self.evaluations[gate.parts[0]].model_copy(update={"by": ()})
            for key, gate in scopes.items()
        }
        only = {key: gate.where or {} for key, gate in scopes.items()}
        return run_rows(evaluations, results, ids, only)


def _implied_of_rows(gates: Sequence[Gate], evaluations: Evaluations) -> list[Gate]:
    """Gates on the rows of the evaluations that have gates; none where the file has its own. A gate on `run.coverage` that
    allows for failed rows allows for as many without a prediction."""
    implied: dict[str, Gate] = {}
    least = min((gate.min or 0.0 for gate in gates if gate.metric == IMPLIED.metric), default=1.0)
    for gate in gates:
        name, metric = gate.parts
        if name == "run" or metric in ROW_METRICS:
            continue
        if evaluations[name].missing != "wrong":
            implied.setdefault(f"{name}.coverage", Gate(metric=f"{name}.coverage", min=least))
        if gate.baseline is not None:
            implied.setdefault(f"{name}.shared", Gate(metric=f"{name}.shared", min=1.0))
    return [*implied.values()]


def _outcome(
    gate: Gate, measures: Mapping[str, Measures], facts: RunFacts, rows: GateRows
) -> GateOutcome:
    """The outcome of one gate. One that an internal error prevents fails; one on labels of people of which some cannot be
    used, or on recorded replies to other prompts, does not pass."""
    name = gate.parts[0]
    try:
        if name == "run":
            return _decided(gate, _run_value(gate.parts[1], facts))
        outcome = _outcome_of_rows(gate, measures[name], rows)
    except VerdictError:
        raise
    except Exception as error:
        return undecided_gates([gate], internal_fault(error))[0]
    problems = measures[name].label_problems
    if facts.recording_mismatch:
        problems = (*problems, facts.recording_mismatch)
    if outcome.verdict != "passed" or not problems:
        return outcome
    return replace(outcome, verdict="inconclusive", reason="; ".join(problems), held="")


def _outcome_of_rows(gate: Gate, measured: Measures, rows: GateRows) -> GateOutcome:
    metric = gate.parts[1]
    if metric == "coverage":
        counted = measured.rows - measured.unlabelled
        value = MetricValue(measured.coverage, None, None, counted, "" if counted else "no rows")
        return _decided(gate, value)
    if metric == "shared":
        return _decided(gate, _shared_rows(gate, rows))
    if gate.baseline is not None:
        return _against_baseline(gate, rows)
    if gate.confidence is not None:
        return _with_confidence(gate, gate.confidence, measured, rows)
    metric_value = measured.values.get(metric)
    if metric_value is None or gate.where:
        metric_value = _value(gate, rows.data(gate), rows, CONFIDENCE_LEVEL)
    return _decided(gate, metric_value)


def _shared_rows(gate: Gate, rows: GateRows) -> MetricValue:
    """The share of the rows of the evaluation's baselines that are here; of several baselines the least."""
    name = gate.parts[0]
    baselines = {own.baseline for own in rows.gates if own.parts[0] == name} - {None}
    if not baselines:
        return undefined_value(f"no gate on `{name}` has a `baseline`")
    shares = [_shared(rows.runs(baseline, _scope(name))) for baseline in sorted(baselines, key=str)]
    return min(shares, key=lambda share: -1.0 if share.value is None else share.value)


def _shared(runs: tuple[RunRows, ...] | str) -> MetricValue:
    if isinstance(runs, str):
        return undefined_value(runs)
    earlier, run = (set(keys) for _, _, keys in runs)
    if not earlier:
        return undefined_value("the baseline has no rows")
    return MetricValue(len(earlier & run) / len(earlier), None, None, len(earlier))


def _with_confidence(
    gate: Gate, confidence: float, measures: Measures, rows: GateRows
) -> GateOutcome:
    """A gate on the end of an interval."""
    name, metric = gate.parts
    level = confidence if gate.sided == "two" else max(2 * confidence - 1, LEAST_LEVEL)
    if metric not in GOLD_ESTIMATES and find_metric(metric) is None:
        # `human_alpha` is of another table.
        evaluation = {name: rows.evaluations[name].model_copy(update={"by": ()})}
        return _decided(gate, measure(evaluation, rows.results, level=level)[name].values[metric])
    data = rows.data(gate)
    measured = _value(gate, data, rows, level)
    if measured.value is None or metric in GOLD_ESTIMATES:
        return _decided(gate, measured)
    missing = open_rows(metric, data) & (not data.wrong)
    ends, unbounded = [], undefined_value("")
    for best in (False, True) if missing.any() else ():
        fill = filled(metric, data, missing, best=best)
        value = unbounded if fill is None else _value(gate, fill, rows, level)
        ends.append(unbounded if value.warnings else value)
    return _decided(gate, measured, ends, int(missing.sum()) + measures.unreached)


def _value(gate: Gate, data: EvaluationData, rows: GateRows, level: float) -> MetricValue:
    """The gate's metric with the interval of gates."""
    name, metric = gate.parts
    everything, draw = np.arange(len(data.target)), rows.draw(gate, level)
    if metric in GOLD_ESTIMATES:
        return gold_estimates(rows.evaluations[name], data, draw, everything)[0][metric]
    measured = metric_values((metric,), data, everything, draw)[metric]
    if rows.sequential and gate.confidence is not None and measured.value is not None:
        return _anytime_value(metric, data, measured, level)
    return measured


def _anytime_value(
    metric: str, data: EvaluationData, measured: MetricValue, level: float
) -> MetricValue:
    """The metric with the interval that holds at every look; none where it is not the mean of independent rows."""
    family = metric_input(metric, data)
    rows = np.flatnonzero(usable(family, data))
    sample, statistics = sampled_statistics(family, (metric,), data, rows)
    ends = None if data.cluster is not None else anytime_ends(statistics[metric], sample, level)
    if ends is None:
        return replace(measured, low=None, high=None, reason=NO_ANYTIME, warnings=())
    low, high = ends
    return replace(
        measured,
        low=low,
        high=high,
        method="confidence sequence",
        reason="",
        warnings=(),
        df=None,
    )


NO_ANYTIME = "no bound of this metric holds at every look: --sequential is for shares, and means on a declared scale, of independent rows"


UNKNOWN_COST = "the cost is unknown, because a model's price is: set its `cost:`"


def _run_value(metric: str, facts: RunFacts) -> MetricValue:
    """A fact of the run as a value without an interval."""
    value, reason = _run_fact(metric, facts)
    return MetricValue(value, None, None, facts.rows, reason)


def _run_fact(metric: str, facts: RunFacts) -> tuple[float | None, str]:
    """The fact, or why there is none."""
    if metric == "coverage":
        if not facts.rows:
            return None, "the run has no rows"
        # Rows that --skip-bad-rows left out are missing, too.
        rows = facts.rows + facts.skipped_bad_rows
        return (facts.done - facts.failed - facts.abstained) / rows, ""
    if metric == "calibration_age_days":
        if not facts.calibrated:
            return None, "the pipeline uses no calibration"
        age = datetime.fromisoformat(facts.started) - datetime.fromisoformat(facts.calibrated)
        return age.total_seconds() / 86_400, ""
    value = getattr(facts, metric)
    return value, UNKNOWN_COST if value is None else ""


def _limits(gate: Gate) -> list[_Limit]:
    """What the gate's value is compared with. With a baseline the value is the difference, and a rise of errors a drop."""
    if gate.baseline is not None:
        drop = gate.max_drop or 0.0
        definition = find_metric(gate.parts[1])
        is_rise = definition is not None and definition.lower_is_better
        return [_Limit(gate, "max", drop) if is_rise else _Limit(gate, "min", -drop)]
    limits = []
    if gate.min is not None:
        limits.append(_Limit(gate, "min", gate.min))
    if gate.max is not None:
        limits.append(_Limit(gate, "max", gate.max))
    return limits


def _decided(
    gate: Gate, measured: MetricValue, fills: Sequence[MetricValue] = (), missing: int = 0
) -> GateOutcome:
    """Compare a value with the gate's limits; the first that it misses is the outcome's. `fills` are the values with the
    `missing` rows at their worst and their best."""
    outcomes = [_compared(limit, measured, fills, missing) for limit in _limits(gate)]
    return next((outcome for outcome in outcomes if outcome.verdict != "passed"), outcomes[0])


class _Limit(Struct, frozen=True):
    """One limit of a gate: on the metric, or with a baseline on its difference, whose drops are written as positive."""

    gate: Gate
    side: Literal["min", "max"]
    value: float

    @property
    def is_relative(self) -> bool:
        """Whether it is a limit on the difference from a baseline."""
        return self.gate.baseline is not None

    @property
    def sign(self) -> int:
        return -1 if self.is_relative and self.side == "min" else 1

    @property
    def mark(self) -> str:
        return "≥" if self.side == "min" else "≤"

    @property
    def end_name(self) -> str:
        return "lower" if self.side == "min" else "upper"

    @property
    def relation(self) -> str:
        """How a value that misses the limit lies."""
        return "below" if self.side == "min" else "above"

    def meets(self, value: float) -> bool:
        return value >= self.value if self.side == "min" else value <= self.value

    def end(self, metric: MetricValue) -> float | None:
        """The end of the interval that is nearer to the limit."""
        return metric.low if self.side == "min" else metric.high

    def worst_end(self, values: Iterable[MetricValue]) -> float:
        """The end that is the farthest on the limit's side."""
        ends = [end for value in values if (end := self.end(value)) is not None]
        return min(ends) if self.side == "min" else max(ends)

    def text(self, value: float) -> str:
        """The value to four digits; to six where four would read as the limit that it misses."""
        shown, limit = self.sign * value, self.sign * self.value
        text = f"{shown:.4g}"
        return f"{shown:.6g}" if float(text) == float(f"{limit:.4g}") else text


_Miss = tuple[GateVerdict, str]
"""Why a gate does not pass."""


def _compared(
    limit: _Limit, measured: MetricValue, fills: Sequence[MetricValue], missing: int
) -> GateOutcome:
    """Compare with one limit the value; with `confidence` or a `baseline` the end of its interval too, and the ends with the
    missing rows at their worst and best."""
    has_interval = limit.gate.confidence is not None or limit.is_relative
    miss, held = _value_miss(limit, measured), ""
    if miss is None and has_interval:
        reason = _interval_reason(limit, measured)
        reason = reason or _missing_rows_reason(limit, measured, fills, missing)
        miss = ("inconclusive", reason) if reason else None
    if miss is None and has_interval:
        end = limit.worst_end((measured, *fills))
        at_worst = " with the rows without a prediction at their worst"
        held = f"{limit.end_name} end {end:.4g} {limit.mark} {limit.value:g}"
        held += at_worst if end != limit.end(measured) else ""
    verdict, reason = miss or ("passed", "")
    return GateOutcome(
        metric=limit.gate.metric,
        verdict=verdict,
        value=measured.value,
        limit=limit.sign * limit.value,
        low=measured.low,
        high=measured.high,
        n=measured.n,
        reason=reason,
        rule=_rule(limit),
        held=held,
    )


def _value_miss(limit: _Limit, measured: MetricValue) -> _Miss | None:
    """Why the value alone does not pass."""
    if measured.value is None and limit.is_relative:
        return ("failed", f"there is no paired difference: {measured.reason}")
    if measured.value is None:
        reason = measured.reason.removeprefix("undefined: ")
        return ("inconclusive", f"there is no value: {reason}")
    if limit.meets(measured.value):
        return None
    value = limit.text(measured.value)
    if not limit.is_relative:
        return "failed", f"{value} is {limit.relation} {limit.value:g}"
    reason = f"the metric is {value} worse than the baseline's"
    if measured.low is not None and measured.high is not None:
        low, high = sorted((limit.text(measured.low), limit.text(measured.high)), key=float)
        level = f"{100 * measured.level:g}% confidence"
        reason += f", and may be from {low} to {high} worse, at {level}"
    return "failed", reason


def _interval_reason(limit: _Limit, measured: MetricValue) -> str:
    """Why the interval of a value that passes does not, "" where it does."""
    end = limit.end(measured)
    if end is None:
        return f"there is no interval: {measured.reason}"
    if measured.warnings:
        reason = "; ".join(measured.warnings) if limit.is_relative else measured.reason
        return f"the interval cannot be relied on: {reason}"
    if limit.meets(end):
        return ""
    text = limit.text(end)
    if not limit.is_relative:
        return f"the interval's {limit.end_name} end {text} is {limit.relation} {limit.value:g}"
    drop = limit.sign * float(measured.value or 0.0)
    needed = _rows_needed(measured, drop, limit.sign * limit.value)
    return f"the metric may be up to {text} worse than the baseline's{needed}"


def _missing_rows_reason(
    limit: _Limit, measured: MetricValue, fills: Sequence[MetricValue], missing: int
) -> str:
    """Why rows without a prediction could turn a gate that passes, "" where they could not."""
    bounded = [fill for fill in fills if limit.end(fill) is not None]
    if len(bounded) < len(fills) or (missing and not fills):
        rows = "rows" if limit.is_relative else plural(missing, "row")
        return f"nothing bounds what the {rows} without a prediction would change"
    end = limit.worst_end((measured, *fills))
    if limit.meets(end):
        return ""
    if not limit.is_relative:
        return f"with the rows without a prediction the interval may end at {limit.text(end)}"
    drop = limit.text(float(bounded[0].value or 0.0))
    return (
        f"the rows without a prediction could make the metric {drop} worse than the baseline's, "
        f"up to {limit.text(end)} with the sampling error"
    )


def _rule(limit: _Limit) -> str:
    gate, shown = limit.gate, limit.sign * limit.value
    where = "".join(f", {path} = {value!r}" for path, value in (gate.where or {}).items())
    if gate.baseline is not None:
        return f"against {gate.baseline}, at most {shown:g} worse{where}"
    sided = "one-sided " if gate.sided == "one" else ""
    confidence = "" if gate.confidence is None else f" at {gate.confidence:g} {sided}confidence"
    return f"{limit.mark} {shown:g}{confidence}{where}"


def with_gate_intervals(
    measures: Mapping[str, Measures],
    gates: Sequence[Gate],
    outcomes: Sequence[GateOutcome],
    level: float,
) -> dict[str, Measures]:
    """The measures with the intervals that gates at this level decide by, so that a page shows one for each metric."""
    shown = dict(measures)
    for gate, outcome in zip(gates, outcomes, strict=False):
        plain = gate.confidence == level and gate.sided == "two" and not gate.where
        name, metric = gate.parts
        value = shown[name].values.get(metric) if name in shown else None
        if not plain or value is None or outcome.low is None:
            continue
        same = replace(
            value, low=outcome.low, high=outcome.high, method=f"{value.method}; that of the gate"
        )
        shown[name] = replace(shown[name], values={**shown[name].values, metric: same})
    return shown


POWER = 0.8
"""So often is a drop decided with the rows that an inconclusive gate says it needs."""


def _against_baseline(gate: Gate, rows: GateRows) -> GateOutcome:
    """Non-inferiority: the interval of the paired difference, with rows without a prediction at their worst, must not exceed
    `max_drop`."""
    metric = gate.parts[1]
    if rows.sequential:
        return _decided(gate, undefined_value("--sequential has no bound against a baseline"))
    pairs = rows.pairs(gate)
    if isinstance(pairs, str):
        return _decided(gate, undefined_value(pairs))

    def change_of(pairs: PairedRows) -> MetricValue:
        return paired_difference(metric, pairs, rows.draw(gate, CONFIDENCE_LEVEL)).change

    change, open_case = change_of(pairs), None
    if change.value is not None and metric not in GOLD_ESTIMATES:
        # The rows that only one of the runs has are left to the gate on `shared`.
        open_case = open_pairs(metric, pairs, change_of, alone=False)
    return _decided(
        gate, change, () if open_case is None else (open_case.worst or undefined_value(""),)
    )


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
