"""The variants of a sweep compared: a metric, its paired difference to the first, cost, the Pareto frontier."""

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
    """Whether each point is on the frontier of low prices and high gains; points without either are not.

    A point is beaten by one that is as cheap and as good, and better in one of the two.
    """
    known = [
        (price, gain) if price is not None and gain is not None else None
        for price, gain in zip(prices, gains, strict=True)
    ]
    return tuple(
        one is not None
        and not any(
            other is not None and other[0] <= one[0] and other[1] >= one[1] and (other[0] < one[0] or other[1] > one[1])
            for other in known
        )
        for one in known
    )


AXES = ("cost", "calls", "latency")


@dataclass(frozen=True, slots=True)
class VariantRun:
    """A variant that has run: its name, its plan, its run's directory and facts."""

    name: str
    plan: Plan
    folder: Path
    facts: RunFacts


@dataclass(frozen=True, slots=True)
class Point:
    """A variant's place: its figure, what it is by itself, and its difference from the first (None: it is the first,
    or nothing can be compared, for the `reason`)."""

    ran: VariantRun
    figure: MetricValue
    alone: StandaloneCost
    change: Difference | None = None
    test: Significance | None = None
    reason: str = ""
    frontier: bool = False


@dataclass(frozen=True, slots=True)
class SweepResult:
    """A sweep: `metric` is `evaluation.figure`, `axis` what the frontier is drawn against."""

    metric: str
    lower_is_better: bool
    axis: str
    points: tuple[Point, ...]


def best_variant(plans: Sequence[tuple[str, Plan]], metric: str | None) -> tuple[str, str | None]:
    """The evaluation and the figure of it that variants are compared by; None: the first that it has.

    UsageError where a variant has no such evaluation.
    """
    first = plans[0][1]
    name, _, figure = (metric or "").rpartition(".")
    if metric and not name and metric in first.evaluations:
        name, figure = metric, ""
    if not name:
        name = next(
            (
                key
                for key, one in first.evaluations.items()
                if not figure or one.metrics is None or figure in one.metrics
            ),
            next(iter(first.evaluations), ""),
        )
    if figure and find_metric(figure) is None:
        from verdict_cli.language.document.error_messages import nearest_spelling

        raise UsageError(f"--metric: there is no figure {figure!r}", hint=nearest_spelling(figure, METRICS))
    for label, plan in plans:
        if name not in plan.evaluations:
            known = ", ".join(plan.evaluations) or "none"
            raise UsageError(
                f"{label}: there is no evaluation {name!r} to compare variants by"
                if name
                else f"{label}: the pipeline has no `evaluate`, so variants have no figure",
                hint=f"its evaluations are {known}" if plan.evaluations else "say what is measured there",
            )
    return name, figure or None


def compare_variants(
    ran: Sequence[VariantRun], name: str, figure: str | None, *, axis: str | None, recorded: bool, seed: int = 0
) -> SweepResult:
    """The variants' places. Raises DataError where rows cannot be paired or measured, UsageError where the first
    variant has no such figure."""
    metric = figure or main_figure(ran[0], name, seed)
    clock = ReplyLatencies()
    points = []
    for one in ran:
        evaluation = _only(one.plan.evaluations[name], metric)
        found = measure({name: evaluation}, one.folder / "results.parquet", seed=seed)[name].values
        by_itself = standalone_costs(one.plan, one.folder / "calls.parquet", clock, recorded=recorded)
        points.append(Point(one, found[metric], by_itself))
    points = _against_first(points, name, metric, seed)
    known = find_metric(metric)
    lower = known is not None and known.lower_is_better
    against = axis or _axis(points)
    gains = [None if point.figure.value is None else point.figure.value * (-1 if lower else 1) for point in points]
    on = frontier([price(point, against) for point in points], gains)
    placed = tuple(replace(point, frontier=is_on) for point, is_on in zip(points, on, strict=True))
    return SweepResult(f"{name}.{metric}", lower, against, placed)


def price(point: Point, axis: str) -> float | None:
    """Where the point stands on the axis: dollars, calls or the median seconds of a row."""
    if axis == "cost":
        return point.alone.cost_usd
    return point.alone.row_s if axis == "latency" else float(point.alone.calls)


def _axis(points: Sequence[Point]) -> str:
    """The cost, where it is known of all variants and tells any apart; else the calls."""
    costs = [point.alone.cost_usd for point in points]
    return "cost" if None not in costs and len(set(costs)) > 1 else "calls"


def _only(evaluation: Evaluation, metric: str) -> Evaluation:
    return evaluation.model_copy(update={"metrics": (metric,), "by": (), "gold": None})


def main_figure(first: VariantRun, name: str, seed: int) -> str:
    """The first figure that the evaluation has."""
    evaluation = first.plan.evaluations[name].model_copy(update={"by": (), "gold": None})
    found = measure({name: evaluation}, first.folder / "results.parquet", seed=seed)[name].values
    usual = [metric for metric in found if metric != "confusion"]
    if not usual:
        raise UsageError(f"`evaluate.{name}` gives no figure", hint="name one with --metric")
    return next((metric for metric in usual if found[metric].value is not None), usual[0])


def _against_first(points: list[Point], name: str, metric: str, seed: int) -> list[Point]:
    first = points[0].ran
    made = points[:1]
    for point in points[1:]:
        both = (_only(first.plan.evaluations[name], metric), _only(point.ran.plan.evaluations[name], metric))
        runs = (first.folder / "results.parquet", point.ran.folder / "results.parquet")
        one = compare_runs({name: both}, runs, seed=seed).evaluations[name]
        difference = one.whole.differences.get(metric)
        reason = one.reason or ("" if difference is None else difference.change.reason)
        made.append(replace(point, change=difference, test=one.whole.test, reason=reason))
    tests = holm([point.test for point in made])
    return [replace(point, test=test) for point, test in zip(made, tests, strict=True)]
