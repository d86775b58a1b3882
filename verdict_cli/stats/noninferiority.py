"""Gates against a baseline: is this run at most `max_drop` worse? (Walker and Nowacki, 2011)

Each gate checks that the interval of the paired difference stays within `max_drop`. Several such gates are tests on the
same rows, so their intervals follow Holm's step-down procedure (Holm, 1979): of m gates, the clearest is tested at the
one-sided 0.025 / m, the next at 0.025 / (m - 1), until one is inconclusive.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from verdict_cli.errors import DataError
from verdict_cli.language.evaluations import Evaluation
from verdict_cli.language.gate_rules import Gate
from verdict_cli.language.metric_registry import find_metric
from verdict_cli.stats.intervals.interval_methods import NO_VARIATION, MetricValue, normal
from verdict_cli.stats.intervals.intervals import CONFIDENCE_LEVEL
from verdict_cli.stats.paired import difference

POWER = 0.8
"""The share of runs in which a difference of the detectable size is found (Cohen, 1988)."""


@dataclass(frozen=True, slots=True)
class Drop:
    """How much worse a run is than its baseline. `worse` and `worst` (the interval's end) are positive for worse.

    `family` is the number of tests made together, `level` that of this one's interval, `rejected` whether Holm's
    procedure reached it. `lost` is how much worse the metric is if this run's rows without a prediction are wrong, None
    where there are none or no row can be wrong. `detectable` is the smallest true difference found with 80% power,
    `needed` a phrase with the number of rows. `upper`: the metric counts errors, so the interval's upper end is the worst.
    """

    change: MetricValue
    worse: float | None
    worst: float | None
    level: float
    family: int
    rejected: bool
    detectable: float | None
    needed: str
    lost: float | None = None
    upper: bool = False


def against_baselines(
    gates: Sequence[Gate],
    evaluations: Mapping[str, Evaluation],
    results: Path,
    *,
    seed: int = 0,
    root: Path = Path(),
    missing: Mapping[str, int],
) -> list[Drop]:
    """The drop of each gate with a `baseline`, in order; `missing` counts each evaluation's rows without a prediction."""

    def change(gate: Gate, level: float) -> MetricValue:
        return _change(gate, evaluations, results, seed=seed, root=root, level=level)

    first = [change(gate, CONFIDENCE_LEVEL) for gate in gates]
    tested = [index for index, found in enumerate(first) if found.value is not None]
    tested.sort(key=lambda index: _clearness(gates[index], first[index]), reverse=True)
    drops = [_drop(gate, found, found, CONFIDENCE_LEVEL, len(tested)) for gate, found in zip(gates, first, strict=True)]
    rejected = True
    for rank, index in enumerate(tested):
        level = 1 - (1 - CONFIDENCE_LEVEL) / (len(tested) - rank)
        gate = gates[index]
        found = first[index] if level == CONFIDENCE_LEVEL else change(gate, level)
        drop = replace(_drop(gate, found, first[index], level, len(tested)), rejected=rejected)
        rejected = rejected and drop.worst is not None and drop.worst <= (gate.max_drop or 0.0)
        drops[index] = drop
    return [
        replace(drop, lost=_lost(gate, evaluations, results, seed=seed, root=root))
        if missing[gate.parts[0]] and metric_counts_wrong_rows(gate.parts[1])
        else drop
        for gate, drop in zip(gates, drops, strict=True)
    ]


def metric_counts_wrong_rows(name: str) -> bool:
    """Whether a missing prediction can count as wrong in the metric."""
    metric = find_metric(name)
    return metric is not None and metric.inputs[0] == "labels"


def _lost(gate: Gate, evaluations: Mapping[str, Evaluation], results: Path, *, seed: int, root: Path) -> float | None:
    worst = _change(gate, evaluations, results, seed=seed, root=root, level=CONFIDENCE_LEVEL, missing_are_wrong=True)
    return None if worst.value is None else -worst.value


def _change(
    gate: Gate,
    evaluations: Mapping[str, Evaluation],
    results: Path,
    *,
    seed: int,
    root: Path,
    level: float,
    missing_are_wrong: bool = False,
) -> MetricValue:
    name, metric = gate.parts
    earlier = root / (gate.baseline or "") / "results.parquet"
    if not earlier.exists():
        return MetricValue(None, None, None, 0, f"{gate.baseline} holds no results.parquet")
    try:
        return difference(
            name,
            evaluations[name],
            metric,
            (earlier, results),
            seed=seed,
            level=level,
            only=gate.where,
            missing_are_wrong=missing_are_wrong,
        )
    except DataError as error:
        return MetricValue(None, None, None, 0, error.problem.message)


def _clearness(gate: Gate, found: MetricValue) -> float:
    """The distance of a difference from `max_drop`, in half-widths of its interval."""
    worse, worst = _sides(gate, found)
    if worse is None or worst is None:
        return -float("inf")
    room, reach = (gate.max_drop or 0.0) - worse, worst - worse
    return room / reach if reach > 0 else float("inf") if room >= 0 else -float("inf")


def _sides(gate: Gate, found: MetricValue) -> tuple[float | None, float | None]:
    """How much worse the run is, and may be; the latter None where nothing bounds it."""
    if found.reason == NO_VARIATION:
        found = replace(found, low=None, high=None)
    if _counts_errors(gate):
        return found.value, found.high
    return (None if found.value is None else -found.value, None if found.low is None else -found.low)


def _counts_errors(gate: Gate) -> bool:
    metric = find_metric(gate.parts[1])
    return metric is not None and metric.lower_is_better


def _drop(gate: Gate, found: MetricValue, plain: MetricValue, level: float, family: int) -> Drop:
    worse, worst = _sides(gate, found)
    detectable = least_detectable(plain, CONFIDENCE_LEVEL)
    limit = gate.max_drop or 0.0
    needed = ""
    if worse is not None and detectable and limit > worse and worst is not None and worst > limit:
        rows = plain.n * (detectable / (limit - max(worse, 0.0))) ** 2 if limit > max(worse, 0.0) else 0
        needed = f"; about {_rounded(max(rows, plain.n))} rows would decide" if rows else ""
    return Drop(found, worse, worst, level, family, True, detectable, needed, upper=_counts_errors(gate))


def least_detectable(found: MetricValue, level: float) -> float | None:
    """The smallest difference that a two-sided test at this level finds with 80% power, from the interval's width."""
    from scipy.special import ndtri

    if found.low is None or found.high is None or found.high <= found.low:
        return None
    quantile = normal(level)
    return (found.high - found.low) / 2 / quantile * (quantile + float(ndtri(POWER)))


def _rounded(rows: float) -> str:
    """Two digits, rounded up."""
    step = 10 ** max(0, len(str(int(rows))) - 2)
    return f"{math.ceil(rows / step) * step:,}"
