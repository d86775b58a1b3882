"""Compare the variants of a sweep: a metric, its paired difference from the first variant, cost, the Pareto frontier.

The intervals of the differences hold for all variants together (max-T), and their p-values are adjusted (Holm). The best
variant is the best of what chance showed, so it has an interval that holds for all variants at once, and a probability
of being the best.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from verdict_cli.errors import UsageError
from verdict_cli.language.evaluations import Evaluation
from verdict_cli.language.metric_registry import METRICS, find_metric
from verdict_cli.messages import RunFacts
from verdict_cli.plan.node import Plan
from verdict_cli.stats.call_stats import ReplyLatencies, StandaloneCost, standalone_costs
from verdict_cli.stats.columns.column import Ints
from verdict_cli.stats.columns.row_data import EvaluationData
from verdict_cli.stats.compare import holm_adjusted
from verdict_cli.stats.intervals.interval_methods import MetricValue
from verdict_cli.stats.intervals.intervals import CONFIDENCE_LEVEL, Draw
from verdict_cli.stats.measure import measure
from verdict_cli.stats.metrics.metric_families import metric_input, usable
from verdict_cli.stats.paired import Difference, RunRows, pair, paired_difference, run_rows
from verdict_cli.stats.permutation import SWAPS
from verdict_cli.stats.simultaneous import JointEstimates, joint_estimates
from verdict_cli.storage.tables.reader import read_table


def frontier(prices: Sequence[float | None], gains: Sequence[float | None]) -> tuple[bool, ...]:
    """Whether each point is on the Pareto frontier of low prices and high gains; a point without either is not.

    A point is dominated by one that is as cheap and as good, and better in one of the two.
    """
    points = [
        (price, gain) if price is not None and gain is not None else None
        for price, gain in zip(prices, gains, strict=True)
    ]
    return tuple(point is not None and not any(_dominates(other, point) for other in points) for point in points)


def _dominates(other: tuple[float, float] | None, point: tuple[float, float]) -> bool:
    return other is not None and other[0] <= point[0] and other[1] >= point[1] and other != point


@dataclass(frozen=True, slots=True)
class VariantRun:
    """A finished run of a variant: its name, plan, directory and facts."""

    name: str
    plan: Plan
    folder: Path
    facts: RunFacts


@dataclass(frozen=True, slots=True)
class SweepPoint:
    """A variant's metric, its standalone cost, and its difference from the first variant.

    `difference` is None for the first variant, and where nothing can be compared, for the `reason`. `p_best` is the
    probability that no other variant is better; `like_frontier` names the variants on the frontier from which the rows
    cannot tell this one, all variants together.
    """

    run: VariantRun
    metric: MetricValue
    standalone: StandaloneCost
    difference: Difference | None = None
    reason: str = ""
    on_frontier: bool = False
    p_best: float | None = None
    like_frontier: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SweepResult:
    """The points of a sweep: `metric` is `evaluation.metric`, `axis` what the frontier is drawn against.

    `best` is the variant with the best metric, with an interval that allows for its having been chosen.
    """

    metric: str
    lower_is_better: bool
    axis: str
    points: tuple[SweepPoint, ...]
    best: tuple[str, MetricValue] | None = None


def choose_metric(plans: Sequence[tuple[str, Plan]], metric: str | None) -> tuple[str, str | None]:
    """The evaluation and the metric that compare the variants; None stands for the evaluation's first metric.

    UsageError if a variant has no such evaluation.
    """
    first = plans[0][1]
    evaluation, _, name = (metric or "").rpartition(".")
    if metric and not evaluation and metric in first.evaluations:
        evaluation, name = metric, ""
    if not evaluation:
        candidates = (
            key for key, each in first.evaluations.items() if not name or each.metrics is None or name in each.metrics
        )
        evaluation = next(candidates, next(iter(first.evaluations), ""))
    if name and find_metric(name) is None:
        from verdict_cli.language.document.error_messages import nearest_spelling

        raise UsageError(f"--metric: unknown metric {name!r}", hint=nearest_spelling(name, METRICS))
    for label, plan in plans:
        if evaluation not in plan.evaluations:
            known = ", ".join(plan.evaluations) or "none"
            raise UsageError(
                f"{label}: there is no evaluation {evaluation!r} to compare variants by"
                if evaluation
                else f"{label}: the pipeline has no `evaluate`, so variants have no metric",
                hint=f"its evaluations are {known}" if plan.evaluations else "add `evaluate` with what is measured",
            )
    return evaluation, name or None


def compare_variants(
    runs: Sequence[VariantRun], evaluation: str, metric: str | None, *, axis: str | None, recorded: bool, seed: int = 0
) -> SweepResult:
    """Measure the variants and compare each with the first.

    DataError if rows cannot be paired or measured, UsageError if the first variant has no such metric.
    """
    metric = metric or main_metric(runs[0], evaluation, seed)
    clock = ReplyLatencies()
    points = []
    for run in runs:
        only = _with_metric(run.plan.evaluations[evaluation], metric)
        measured = measure({evaluation: only}, run.folder / "results.parquet", seed=seed)[evaluation].values
        standalone = standalone_costs(run.plan, run.folder / "calls.parquet", clock, recorded=recorded)
        points.append(SweepPoint(run, measured[metric], standalone))
    known = find_metric(metric)
    lower = known is not None and known.lower_is_better
    sides = [_rows(run, evaluation, metric) for run in runs]
    joint = _joint(metric, sides, seed)
    points = _with_differences(points, metric, sides, joint, seed)
    axis = axis or _default_axis(points)
    gains = [None if point.metric.value is None else point.metric.value * (-1 if lower else 1) for point in points]
    on_frontier = frontier([price(point, axis) for point in points], gains)
    points = [replace(point, on_frontier=each) for point, each in zip(points, on_frontier, strict=True)]
    return SweepResult(
        f"{evaluation}.{metric}",
        lower,
        axis,
        tuple(_with_chances(points, joint, lower, seed)),
        _best(points, joint, evaluation, metric, gains, seed),
    )


def _rows(run: VariantRun, evaluation: str, metric: str) -> RunRows:
    """The variant's rows; their index identifies them, since all variants read the same dataset."""
    results = run.folder / "results.parquet"
    ids = [str(row) for batch in read_table(results, ["row"]) for row in batch["row"]]
    return run_rows({evaluation: _with_metric(run.plan.evaluations[evaluation], metric)}, results, ids)[evaluation]


def _joint(metric: str, sides: Sequence[RunRows], seed: int) -> JointEstimates | None:
    """The estimates of all variants over the rows that all of them score."""
    shared = set(sides[0][2]).intersection(*(side[2] for side in sides[1:]))
    data: list[EvaluationData] = [side[0] for side in sides]
    of = metric_input(metric, data[0])
    if any(each.kind != data[0].kind for each in data):
        return None
    rows: list[Ints] = []
    for side in sides:
        at = {key: index for index, key in enumerate(side[2]) if key in shared}
        rows.append(np.array([at[key] for key in sides[0][2] if key in shared], dtype=np.int64))
    kept = np.logical_and.reduce([usable(of, each)[at] for each, at in zip(data, rows, strict=True)])
    return joint_estimates(metric, data, [at[kept] for at in rows], np.random.default_rng(abs(seed)))


def _with_chances(points: list[SweepPoint], joint: JointEstimates | None, lower: bool, seed: int) -> list[SweepPoint]:
    """The points with their chances of being the best, and the frontier's that they cannot be told from."""
    if joint is None or len(points) < 2:
        return points
    rng = np.random.default_rng([abs(seed), 1])
    chances = joint.probability_best(rng, lower_is_better=lower)
    same = joint.indistinct(CONFIDENCE_LEVEL, rng)
    names = [point.run.name for point in points]
    return [
        replace(
            point,
            p_best=float(chances[index]),
            like_frontier=()
            if point.on_frontier
            else tuple(name for other, name in enumerate(names) if points[other].on_frontier and same[index, other]),
        )
        for index, point in enumerate(points)
    ]


def _best(
    points: Sequence[SweepPoint],
    joint: JointEstimates | None,
    evaluation: str,
    metric: str,
    gains: Sequence[float | None],
    seed: int,
) -> tuple[str, MetricValue] | None:
    """The best variant with the interval that holds for all variants together; None where it is not known."""
    if joint is None or len(points) < 2 or all(gain is None for gain in gains):
        return None
    index = max(range(len(points)), key=lambda each: -np.inf if gains[each] is None else float(gains[each] or 0.0))
    level = joint.level(CONFIDENCE_LEVEL, np.eye(len(points)), np.random.default_rng([abs(seed), 2]))
    run = points[index].run
    only = _with_metric(run.plan.evaluations[evaluation], metric)
    found = measure({evaluation: only}, run.folder / "results.parquet", seed=seed, level=level)[evaluation]
    return run.name, found.values[metric]


def price(point: SweepPoint, axis: str) -> float | None:
    """The point's coordinate on the axis: US dollars, calls or the median seconds of a row."""
    if axis == "cost":
        return point.standalone.cost_usd
    return point.standalone.row_s if axis == "latency" else float(point.standalone.calls)


def _default_axis(points: Sequence[SweepPoint]) -> str:
    """The cost, if it is known for all variants and differs between them; else the calls."""
    costs = [point.standalone.cost_usd for point in points]
    return "cost" if None not in costs and len(set(costs)) > 1 else "calls"


def _with_metric(evaluation: Evaluation, metric: str) -> Evaluation:
    return evaluation.model_copy(update={"metrics": (metric,), "by": (), "gold": None})


def main_metric(run: VariantRun, name: str, seed: int) -> str:
    """The first metric of the evaluation that is defined. UsageError if it has no scalar metric."""
    evaluation = run.plan.evaluations[name].model_copy(update={"by": (), "gold": None})
    measured = measure({name: evaluation}, run.folder / "results.parquet", seed=seed)[name].values
    scalars = [metric for metric in measured if metric != "confusion"]
    if not scalars:
        raise UsageError(f"`evaluate.{name}` has no metric to compare by", hint="name one with --metric")
    return next((metric for metric in scalars if measured[metric].value is not None), scalars[0])


def _with_differences(
    points: list[SweepPoint], metric: str, sides: Sequence[RunRows], joint: JointEstimates | None, seed: int
) -> list[SweepPoint]:
    level = CONFIDENCE_LEVEL
    if joint is not None and len(points) > 2:
        contrasts = np.eye(len(points))[1:] - np.eye(len(points))[0]
        level = joint.level(level, contrasts, np.random.default_rng([abs(seed), 3]))
    compared = points[:1]
    for index, point in enumerate(points[1:], 1):
        pairs = pair(sides[0], sides[index])
        if isinstance(pairs, str):
            compared.append(replace(point, reason=pairs))
            continue
        difference = paired_difference(metric, pairs, Draw(np.random.default_rng([abs(seed), index]), level), SWAPS)
        compared.append(replace(point, difference=difference, reason=difference.change.reason))
    adjusted = holm_adjusted([None if point.difference is None else point.difference.p for point in compared])
    return [
        point if point.difference is None else replace(point, difference=replace(point.difference, p_holm=p))
        for point, p in zip(compared, adjusted, strict=True)
    ]
