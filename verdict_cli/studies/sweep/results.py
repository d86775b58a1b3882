"""Compare the variants of a sweep: a metric, its paired difference from the first variant, cost, the Pareto frontier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from verdict_cli.errors import UsageError
from verdict_cli.language.evaluations import Evaluation
from verdict_cli.language.metric_registry import METRICS, find_metric
from verdict_cli.messages import RunFacts
from verdict_cli.plan.node import Plan
from verdict_cli.stats.call_stats import ReplyLatencies, StandaloneCost, standalone_costs
from verdict_cli.stats.compare import Significance, compare_runs, holm
from verdict_cli.stats.intervals.interval_methods import MetricValue
from verdict_cli.stats.measure import measure
from verdict_cli.stats.paired import Difference


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

    `difference` is None for the first variant, and where nothing can be compared, for the `reason`.
    """

    run: VariantRun
    metric: MetricValue
    standalone: StandaloneCost
    difference: Difference | None = None
    test: Significance | None = None
    reason: str = ""
    on_frontier: bool = False


@dataclass(frozen=True, slots=True)
class SweepResult:
    """The points of a sweep: `metric` is `evaluation.metric`, `axis` what the frontier is drawn against."""

    metric: str
    lower_is_better: bool
    axis: str
    points: tuple[SweepPoint, ...]


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
    points = _with_differences(points, evaluation, metric, seed)
    known = find_metric(metric)
    lower = known is not None and known.lower_is_better
    axis = axis or _default_axis(points)
    gains = [None if point.metric.value is None else point.metric.value * (-1 if lower else 1) for point in points]
    on_frontier = frontier([price(point, axis) for point in points], gains)
    points = [replace(point, on_frontier=each) for point, each in zip(points, on_frontier, strict=True)]
    return SweepResult(f"{evaluation}.{metric}", lower, axis, tuple(points))


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


def _with_differences(points: list[SweepPoint], evaluation: str, metric: str, seed: int) -> list[SweepPoint]:
    first = points[0].run
    compared = points[:1]
    for point in points[1:]:
        runs = (first, point.run)
        pair = [_with_metric(run.plan.evaluations[evaluation], metric) for run in runs]
        results = [run.folder / "results.parquet" for run in runs]
        comparison = compare_runs({evaluation: (pair[0], pair[1])}, (results[0], results[1]), seed=seed).evaluations[
            evaluation
        ]
        difference = comparison.whole.differences.get(metric)
        reason = comparison.reason or ("" if difference is None else difference.change.reason)
        compared.append(replace(point, difference=difference, test=comparison.whole.test, reason=reason))
    tests = holm([point.test for point in compared])
    return [replace(point, test=test) for point, test in zip(compared, tests, strict=True)]
