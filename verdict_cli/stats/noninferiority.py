"""Gates against a baseline: is this run at most so much worse? (Walker and Nowacki, 2011)

Each gate asks whether the interval of the paired difference stays within `max_drop`. Several such gates are tests
on the same rows, so their intervals follow Holm's step-down procedure (Holm, 1979): of m gates, the surest is held
to the one-sided 0.025 / m, the next to 0.025 / (m - 1), until one cannot be decided.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from verdict_cli.errors import DataError
from verdict_cli.language.evaluations import Evaluation
from verdict_cli.language.gate_rules import Gate
from verdict_cli.language.metric_names import lower_is_better
from verdict_cli.stats.figures import MetricValue
from verdict_cli.stats.intervals.agreement import SAME
from verdict_cli.stats.intervals.intervals import CONFIDENCE_LEVEL
from verdict_cli.stats.intervals.proportions import normal
from verdict_cli.stats.metrics.metric_families import OF_LABELS
from verdict_cli.stats.paired import difference

POWER = 0.8
"""The share of runs in which a difference of the detectable size is found (Cohen, 1988)."""


@dataclass(frozen=True, slots=True)
class Drop:
    """How much worse a run is than its baseline. `worse` and `worst` (the interval's end) are positive for worse.

    `family` is the number of tests made together, `level` this one's interval, `rejected` whether Holm's procedure
    came to it. `lost` is how much worse the figure is if this run's rows without a prediction are wrong, None where
    there are none or the figure knows no wrong rows. `detectable` is the least true difference found with 80% power, `needed` the words on how many rows.
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


def against_baselines(
    gates: Sequence[Gate],
    evaluations: Mapping[str, Evaluation],
    results: Path,
    *,
    seed: int = 0,
    root: Path = Path(),
    missing: Mapping[str, int],
) -> list[Drop]:
    """What each gate with a `baseline` comes to, in order; `missing` counts each evaluation's rows without a prediction."""

    def change(gate: Gate, level: float) -> MetricValue:
        return _change(gate, evaluations, results, seed=seed, root=root, level=level)

    first = [change(gate, CONFIDENCE_LEVEL) for gate in gates]
    tested = [index for index, figure in enumerate(first) if figure.value is not None]
    tested.sort(key=lambda index: _sureness(gates[index], first[index]), reverse=True)
    drops = [
        _drop(gate, figure, figure, CONFIDENCE_LEVEL, len(tested)) for gate, figure in zip(gates, first, strict=True)
    ]
    rejected = True
    for place, index in enumerate(tested):
        level = 1 - (1 - CONFIDENCE_LEVEL) / (len(tested) - place)
        gate = gates[index]
        figure = first[index] if level == CONFIDENCE_LEVEL else change(gate, level)
        drop = replace(_drop(gate, figure, first[index], level, len(tested)), rejected=rejected)
        rejected = rejected and drop.worst is not None and drop.worst <= (gate.max_drop or 0.0)
        drops[index] = drop
    return [
        replace(drop, lost=_lost(gate, evaluations, results, seed=seed, root=root))
        if missing[gate.parts[0]] and gate.parts[1] in OF_LABELS
        else drop
        for gate, drop in zip(gates, drops, strict=True)
    ]


def _lost(gate: Gate, evaluations: Mapping[str, Evaluation], results: Path, *, seed: int, root: Path) -> float | None:
    worst = _change(gate, evaluations, results, seed=seed, root=root, level=CONFIDENCE_LEVEL, lost_are_wrong=True)
    return None if worst.value is None else -worst.value


def _change(
    gate: Gate,
    evaluations: Mapping[str, Evaluation],
    results: Path,
    *,
    seed: int,
    root: Path,
    level: float,
    lost_are_wrong: bool = False,
) -> MetricValue:
    name, metric = gate.parts
    earlier = root / (gate.baseline or "") / "results.parquet"
    if not earlier.is_file():
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
            lost_are_wrong=lost_are_wrong,
        )
    except DataError as error:
        return MetricValue(None, None, None, 0, error.problem.message)


def _sureness(gate: Gate, figure: MetricValue) -> float:
    """How many half-widths of its interval a difference is away from `max_drop`."""
    worse, worst = _sides(gate, figure)
    if worse is None or worst is None:
        return -float("inf")
    room, reach = (gate.max_drop or 0.0) - worse, worst - worse
    return room / reach if reach > 0 else float("inf") if room >= 0 else -float("inf")


def _sides(gate: Gate, figure: MetricValue) -> tuple[float | None, float | None]:
    """How much worse the run is, and may be; no more than it is where it scores every row as the baseline does."""
    if figure.reason == SAME and figure.value is not None:
        return figure.value, figure.value
    if lower_is_better(gate.parts[1]):
        return figure.value, figure.high
    return (None if figure.value is None else -figure.value, None if figure.low is None else -figure.low)


def _drop(gate: Gate, figure: MetricValue, plain: MetricValue, level: float, family: int) -> Drop:
    worse, worst = _sides(gate, figure)
    detectable = least_detectable(plain, CONFIDENCE_LEVEL)
    limit = gate.max_drop or 0.0
    needed = ""
    if worse is not None and detectable and limit > worse and worst is not None and worst > limit:
        rows = plain.n * (detectable / (limit - max(worse, 0.0))) ** 2 if limit > max(worse, 0.0) else 0
        needed = f"; about {_rounded(max(rows, plain.n))} rows would tell" if rows else ""
    return Drop(figure, worse, worst, level, family, True, detectable, needed)


def least_detectable(figure: MetricValue, level: float) -> float | None:
    """The least difference that a two-sided test at this level finds with 80% power, from the interval's width."""
    from scipy.special import ndtri

    if figure.low is None or figure.high is None or figure.high <= figure.low:
        return None
    quantile = normal(level)
    return (figure.high - figure.low) / 2 / quantile * (quantile + float(ndtri(POWER)))


def _rounded(rows: float) -> str:
    """Two digits, rounded up."""
    step = 10 ** max(0, len(str(int(rows))) - 2)
    return f"{math.ceil(rows / step) * step:,}"
