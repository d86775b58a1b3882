"""The comparison of a sweep's variants, and its document: their costs without a cache, the frontier, and the differences from the first.

The intervals of the differences hold for all variants together (max-T), and their p-values are adjusted (Holm). The best
variant is the best of what chance showed, so it has an interval that holds for all variants at once, and a probability
of being the best.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from verdict_cli.cli.study import compare_arms, main_metric
from verdict_cli.language.metric_registry import find_metric
from verdict_cli.llm.model_families import is_local
from verdict_cli.llm.providers.price_book import cost_usd
from verdict_cli.messages import JsonObject, NamedValues, Usage
from verdict_cli.model import Model
from verdict_cli.plan.node import Plan
from verdict_cli.plural import plural
from verdict_cli.report import formatting, run_notes
from verdict_cli.report.charts import ChartPoint, Dots, PlanePoint, Scatter, Series
from verdict_cli.report.conclusions import change_text, is_significant, listed_names
from verdict_cli.report.document import (
    PAGE_FORMATS,
    TEXT_FORMATS,
    Group,
    Links,
    Note,
    Only,
    ReportDocument,
    Section,
    Table,
)
from verdict_cli.report.report import PublishedComparison, metric_json, optional_json
from verdict_cli.run.load_run import RunResult
from verdict_cli.run.preflight import models_in_use
from verdict_cli.stats.columns.column import Floats
from verdict_cli.stats.intervals.interval_methods import MetricValue, student
from verdict_cli.stats.intervals.intervals import CONFIDENCE_LEVEL
from verdict_cli.stats.measure import measure
from verdict_cli.stats.paired import Difference
from verdict_cli.stats.permutation import holm_adjusted
from verdict_cli.stats.simultaneous import JointEstimates
from verdict_cli.storage.tables.reader import table_rows

_CALL_COLUMNS = (
    "row", "unit", "model", "reply", "prompt_tokens", "completion_tokens", "cost_usd", "latency_s", "cached",
)  # fmt: skip


class StandaloneCost(Struct, frozen=True):
    """A run without a cache: its calls, their cost (None: unknown), and the median and the 95th percentile of the seconds of a row
    (None: unknown).

    A reply from the cache counts with the price of its tokens, and the latency that it had when the model was called. A
    row takes as long as the longest chain of its units.
    """

    calls: int
    cost_usd: float | None
    row_s: float | None
    row_p95_s: float | None = None


def standalone_costs(plan: Plan, calls: Path, *, recorded: bool) -> StandaloneCost:
    """Calls, cost and seconds of the run with this `calls.parquet`. A recording (`recorded`) has no latency, and a cost
    only if it has tokens."""
    models = {(node.id, model.name): model for node, model, _ in models_in_use(plan)}
    prices = []
    rows: dict[int, dict[str, float]] = {}
    for values in table_rows(calls, _CALL_COLUMNS):
        call = dict(zip(_CALL_COLUMNS, values, strict=True))
        unit = call["unit"]
        prices.append(_price(call, models.get((unit, call["model"])), recorded))
        units = rows.setdefault(call["row"], {})
        units[unit] = units.get(unit, 0.0) + (call["latency_s"] or 0.0)
    amounts = [price for price in prices if price is not None]
    cost = math.fsum(amounts) if len(amounts) == len(prices) else None
    if recorded or not rows:
        return StandaloneCost(len(prices), cost, None)
    middle, high = np.quantile([_row_seconds(plan, units) for units in rows.values()], (0.5, 0.95))
    return StandaloneCost(len(prices), cost, float(middle), float(high))


def _price(call: NamedValues, model: Model | None, recorded: bool) -> float | None:
    if is_local(call["model"]) or call["reply"] is None:
        return 0.0
    if not recorded and not call["cached"]:
        paid: float | None = call["cost_usd"]
        return paid
    tokens = call["prompt_tokens"] or 0, call["completion_tokens"] or 0
    return None if model is None or not sum(tokens) else cost_usd(model, Usage(*tokens))


def _row_seconds(plan: Plan, units: Mapping[str, float]) -> float:
    """How long the longest chain of units of a row takes."""
    ends: list[float] = []
    for node in plan.nodes:
        start = max((ends[parent] for parent in node.parents), default=0.0)
        ends.append(start + units.get(node.id, 0.0))
    return max(ends)


ROUNDING = 1e-12
"""A variance below this part of the estimates' squares and variances is rounding."""


def probability_best(
    joint: JointEstimates, rng: np.random.Generator, *, lower_is_better: bool
) -> Floats:
    """How likely each variant is the best; equal ones share.

    The estimates are shrunk to their mean by what their spread shows beyond their errors (empirical Bayes: Efron and
    Morris, 1973). Without that the best estimate of equal variants seems the best variant, because it was chosen.
    """
    count = len(joint.values)
    away = (joint.values - joint.values.mean()) * (-1.0 if lower_is_better else 1.0)
    centre = np.eye(count) - 1 / count
    spread = max(
        (float(away @ away) - float(np.trace(centre @ joint.covariance))) / max(count - 1, 1), 0.0
    )
    # Variants that agree differ by rounding only, and the matrix below would be singular.
    if spread <= ROUNDING * (
        float(joint.values @ joint.values) + float(np.trace(joint.covariance))
    ):
        return np.full(count, 1 / count)
    weights = spread * np.linalg.inv(spread * np.eye(count) + joint.covariance)
    shrunk = replace(joint, values=weights @ away, covariance=spread * (np.eye(count) - weights))
    drawn = shrunk.values + shrunk.draws(rng)
    best = drawn >= drawn.max(axis=1, keepdims=True) - 1e-12
    shares: Floats = (best / best.sum(axis=1, keepdims=True)).mean(axis=0)
    return shares


def indistinct(
    joint: JointEstimates, level: float, rng: np.random.Generator
) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Which pairs of variants are not significantly different, all pairs together."""
    count = len(joint.values)
    first, second = np.triu_indices(count, 1)
    contrasts = np.eye(count)[first] - np.eye(count)[second]
    reach = student(joint.level(level, contrasts, rng), joint.freedom)
    variances = np.einsum("ij,jk,ik->i", contrasts, joint.covariance, contrasts)
    errors = np.sqrt(np.maximum(variances, 0))
    apart = (errors > 1e-12) & (np.abs(contrasts @ joint.values) > reach * errors)
    same = np.ones((count, count), dtype=bool)
    same[first, second] = same[second, first] = ~apart
    return same


def frontier(prices: Sequence[float | None], gains: Sequence[float | None]) -> tuple[bool, ...]:
    """Whether each point is on the Pareto frontier of low prices and high gains; a point without either is not.

    A point is dominated by one that is as cheap and as good, and better in one of the two.
    """
    points = [*zip(prices, gains, strict=True)]
    complete_points = [
        (price, gain) for price, gain in points if price is not None and gain is not None
    ]
    return tuple(
        point in complete_points and not any(_dominates(other, point) for other in complete_points)
        for point in points
    )


def _dominates(other: tuple[float, float], point: tuple[Any, Any]) -> bool:
    return other[0] <= point[0] and other[1] >= point[1] and other != point


class SweepPoint(Struct, frozen=True):
    """A variant's metric, its standalone cost, and its difference from the first variant.

    `difference` is None for the first variant, and where nothing can be compared, for the `reason`. `p_best` is the
    probability that no other variant is better; `like_frontier` names the variants on the frontier from which the rows
    cannot tell this one, all variants together.
    """

    name: str
    run: RunResult
    metric: MetricValue
    standalone: StandaloneCost
    more: Mapping[str, MetricValue] = {}
    """Its other metrics, and `ECE`, the calibration error of its probabilities, where it has some."""
    difference: Difference | None = None
    reason: str = ""
    on_frontier: bool = False
    p_best: float | None = None
    like_frontier: tuple[str, ...] = ()


class SweepResult(Struct, frozen=True):
    """The points of a sweep: `metric` is `evaluation.metric`, `axis` what the frontier is drawn against.

    `best` is the variant with the best metric, with an interval that allows for its having been chosen.
    """

    metric: str
    lower_is_better: bool
    axis: str
    points: tuple[SweepPoint, ...]
    best: tuple[str, MetricValue] | None = None
    level: float = CONFIDENCE_LEVEL
    published: PublishedComparison | None = None
    """Published values of the metric."""


def compare_variants(
    runs: Mapping[str, RunResult],
    metrics: Sequence[tuple[str, str | None]],
    *,
    axis: str | None,
    recorded: bool,
    seed: int = 0,
    level: float = CONFIDENCE_LEVEL,
    published: PublishedComparison | None = None,
) -> SweepResult:
    """Measure the variants and compare each with the first by the first of the metrics; the others are shown.

    Args:
        metrics: Evaluation and metric; None stands for the first metric of the evaluation.
        axis: What the frontier is drawn against.
        recorded: Whether a recording answered, which has no latency.
        seed: That of all draws.
        level: That of all intervals.
        published: The published values of the first metric's evaluation.

    DataError if rows cannot be paired or measured, UsageError if the first variant has no such metric.
    """
    first = next(iter(runs.values()))
    (evaluation, metric), *more_metrics = [
        (name, metric or main_metric(first, name, seed)) for name, metric in metrics
    ]
    points = [
        SweepPoint(
            name,
            run,
            _measured(run, evaluation, metric, seed, level),
            standalone_costs(run.plan, run.directory.calls, recorded=recorded),
            _more_metrics(run, more_metrics, seed, level),
        )
        for name, run in runs.items()
    ]
    definition = find_metric(metric)
    lower = definition is not None and definition.lower_is_better
    axis = axis or _default_axis(points)
    on_frontier = frontier_on(points, axis, lower=lower)
    points = [
        replace(point, on_frontier=is_best)
        for point, is_best in zip(points, on_frontier, strict=True)
    ]
    best = None
    against = compare_arms([*runs.values()], evaluation, metric, seed=seed, level=level)
    if isinstance(against, str):
        points = [points[0], *(replace(point, reason=against) for point in points[1:])]
    else:
        points = _with_differences(points, against.differences)
        joint = against.joint
        if joint is not None and len(points) > 1:
            points = _with_chances(points, joint, lower, seed, level)
            rng = np.random.default_rng([abs(seed), 2])
            together = joint.level(level, np.eye(len(points)), rng)
            winner = _best(points, lower=lower)
            if winner is not None:
                best = winner.name, _measured(winner.run, evaluation, metric, seed, together)
    return SweepResult(
        f"{evaluation}.{metric}",
        lower,
        axis,
        tuple(points),
        best,
        level,
        published if published is not None and published.metric == metric else None,
    )


def _measured(run: RunResult, evaluation: str, metric: str, seed: int, level: float) -> MetricValue:
    only = {evaluation: run.plan.evaluations[evaluation].alone(metric)}
    return measure(only, run.directory.results, seed=seed, level=level)[evaluation].values[metric]


def _more_metrics(
    run: RunResult, metrics: Sequence[tuple[str, str]], seed: int, level: float
) -> dict[str, MetricValue]:
    """The other metrics, and the calibration error of the first evaluation with a probability, where a row has one."""
    measured = {
        f"{name}.{metric}": _measured(run, name, metric, seed, level) for name, metric in metrics
    }
    for name, evaluation in run.plan.evaluations.items():
        if evaluation.probability is not None:
            error = _measured(run, name, "ece", seed, level)
            if error.value is not None:
                measured["ECE"] = error
            break
    return measured


def _with_chances(
    points: list[SweepPoint], joint: JointEstimates, lower: bool, seed: int, level: float
) -> list[SweepPoint]:
    """The points with their chances of being the best, and the frontier's that they cannot be told from."""
    rng = np.random.default_rng([abs(seed), 1])
    chances = probability_best(joint, rng, lower_is_better=lower)
    same = indistinct(joint, level, rng)
    best = [(index, point.name) for index, point in enumerate(points) if point.on_frontier]
    chosen = []
    for index, point in enumerate(points):
        alike = tuple(name for position, name in best if same[index, position])
        alike = () if point.on_frontier else alike
        chosen.append(replace(point, p_best=float(chances[index]), like_frontier=alike))
    return chosen


def price(point: SweepPoint, axis: str) -> float | None:
    """The point's coordinate on the axis: US dollars, calls or the median seconds of a row."""
    if axis == "cost":
        return point.standalone.cost_usd
    return point.standalone.row_s if axis == "latency" else float(point.standalone.calls)


def _gain(point: SweepPoint, *, lower: bool) -> float | None:
    value: float | None = point.metric.value
    return -value if lower and value is not None else value


def frontier_on(points: Sequence[SweepPoint], axis: str, *, lower: bool) -> tuple[bool, ...]:
    """Whether each point is on the frontier against this axis."""
    return frontier(
        [price(point, axis) for point in points], [_gain(point, lower=lower) for point in points]
    )


def _best(points: Sequence[SweepPoint], *, lower: bool) -> SweepPoint | None:
    defined = [point for point in points if point.metric.value is not None]
    return max(defined, key=lambda point: _gain(point, lower=lower) or 0.0, default=None)


def _default_axis(points: Sequence[SweepPoint]) -> str:
    """The cost, if it is known for all variants and differs between them; else the calls."""
    costs = [point.standalone.cost_usd for point in points]
    return "cost" if None not in costs and len(set(costs)) > 1 else "calls"


def _with_differences(
    points: list[SweepPoint], differences: Sequence[Difference]
) -> list[SweepPoint]:
    first, *other_points = points
    adjusted = holm_adjusted([difference.p for difference in differences])
    compared = [first]
    for point, difference, p in zip(other_points, differences, adjusted, strict=True):
        reason = difference.change.reason
        compared.append(replace(point, difference=replace(difference, p_adjusted=p), reason=reason))
    return compared


AXIS_UNITS = {"cost": "US dollars", "calls": "model calls", "latency": "seconds a row (median)"}
PAIRED = "Differences are paired, against the first variant."


def sweep_document(
    title: str, sweep: SweepResult, facts: NamedValues, notes: Sequence[str] = ()
) -> ReportDocument:
    """The document of a sweep; `facts` are its directory, pipeline, dataset and options, as its JSON has them, `notes` what
    must be known before its values are compared."""
    better = " (lower is better)" if sweep.lower_is_better else ""
    lead = f"{sweep.metric}{better}, frontier against {sweep.axis}"
    differences = _differences_table(sweep)
    variants = [
        Only(TEXT_FORMATS, [Note(lead)]),
        *_notices(sweep),
        *(Note(note, warning=True) for note in notes),
        _variants_table(sweep),
        *([differences] if differences.rows else []),
        *_best_notes(sweep),
        Only(
            ("terminal",),
            [Note(f"► on the frontier: no other variant is as good for less. {PAIRED}")],
        ),
        Only(
            ("markdown", "html"),
            [
                Note(
                    f"Bold rows are on the frontier: no other variant is as good for less. {PAIRED}"
                )
            ],
        ),
        *_notes(sweep),
    ]
    folders = [point.run.directory.path for point in sweep.points]
    reports = [f"{folder.parent.name}/{folder.name}/report.html" for folder in folders]
    sections = [
        Section("", variants, essential=True),
        Section(
            "Frontier",
            [
                Group(
                    [
                        *_frontier_charts(sweep),
                        *_published_chart(sweep),
                        *_difference_chart(sweep),
                    ]
                )
            ],
            formats=PAGE_FORMATS,
        ),
        *_published_section(sweep),
        Section("Runs", [Links(reports)], formats=PAGE_FORMATS),
    ]
    return ReportDocument(
        title,
        sections,
        "Verdict sweep",
        lead,
        "in sweep.html",
        data=lambda: sweep_json(sweep, facts, notes),
        conclusion=sweep_conclusion(sweep),
    )


def sweep_conclusion(sweep: SweepResult) -> str:
    """The variant that is significantly better than the first, or that none is; intervals and p-values are of all together."""
    base, sign = sweep.points[0].name, -1 if sweep.lower_is_better else 1
    gains = {
        point.name: (sign * point.difference.change.value, point.difference)
        for point in sweep.points[1:]
        if point.difference is not None and point.difference.change.value is not None
    }
    if not gains:
        return f"no variant could be compared with {base}" if sweep.points[1:] else ""
    decided = [name for name, (_, gain) in gains.items() if is_significant(gain, sweep.level)]
    better = sorted(
        (name for name in decided if gains[name][0] > 0), key=lambda name: -gains[name][0]
    )
    worse = [name for name in decided if gains[name][0] < 0]
    best = better[0] if better else max(gains, key=lambda name: gains[name][0])
    change = change_text(gains[best][1])
    if better:
        text = f"best: {best}, better than {base} on {sweep.metric}: {change}"
        text += f"; also better: {listed_names(better[1:])}" if better[1:] else ""
    else:
        text = f"no variant is significantly better than {base} on {sweep.metric}"
        text += f"; the best of the others is {best}: {change}" if gains[best][0] > 0 else ""
    return f"{text}; significantly worse: {listed_names(worse)}" if worse else text


def short_labels(names: Sequence[str]) -> list[str]:
    """The names of variants without the settings that all of them share, and without the key of the only one that differs.

    `model=a repeat=3` and `model=b repeat=3` give `a` and `b`.
    """
    words = [name.split(" ") for name in names]
    if len({len(parts) for parts in words}) > 1 or len(names) < 2:
        return list(names)
    differing = [
        index for index in range(len(words[0])) if len({parts[index] for parts in words}) > 1
    ]
    differing_parts = [[parts[index] for index in differing] for parts in words]
    keys = {parts[0].partition("=")[0] for parts in differing_parts if parts}
    if len(differing) == len(keys) == 1 and all("=" in parts[0] for parts in differing_parts):
        return [parts[0].partition("=")[2] for parts in differing_parts]
    return [" ".join(parts) for parts in differing_parts]


def sweep_json(sweep: SweepResult, facts: NamedValues, notes: Sequence[str] = ()) -> JsonObject:
    """The document of `verdict sweep --json`, and `sweep.json`."""
    published = [] if sweep.published is None else sweep.published.others
    return {
        **facts,
        **({"notes": list(notes)} if notes else {}),
        "metric": sweep.metric,
        "lower_is_better": sweep.lower_is_better,
        "frontier_against": sweep.axis,
        "level": sweep.level,
        "variants": [_point_json(point) for point in sweep.points],
        "frontier": [point.name for point in _frontier(sweep)],
        "best": None
        if sweep.best is None
        else {"name": sweep.best[0], **metric_json(sweep.best[1])},
        "published": [
            {"judge": row.judge, "value": row.value, "own": row.own} for row in published
        ],
    }


def _point_json(point: SweepPoint) -> JsonObject:
    metric, run = point.metric, point.run.facts
    change = None if point.difference is None else point.difference.change
    return {
        "name": point.name,
        "run": str(point.run.directory.path),
        "rows": run.rows,
        "failed": run.failed,
        "figure": metric_json(metric),
        "difference": optional_json(change),
        "p": None if point.difference is None else point.difference.p,
        "p_holm": None if point.difference is None else point.difference.p_adjusted,
        "p_best": point.p_best,
        "like_frontier": list(point.like_frontier),
        "reason": point.reason or metric.reason,
        "calls": point.standalone.calls,
        "cost_usd": point.standalone.cost_usd,
        "paid_usd": run.cost_usd,
        "cached": run.cached,
        "row_s_median": point.standalone.row_s,
        "row_s_p95": point.standalone.row_p95_s,
        "ece": optional_json(point.more.get("ECE")),
        "metrics": {
            name: metric_json(value) for name, value in point.more.items() if name != "ECE"
        },
        "frontier": point.on_frontier,
        "floors": list(run.floors),
    }


def _frontier(sweep: SweepResult) -> list[SweepPoint]:
    return sorted(
        (point for point in sweep.points if point.on_frontier),
        key=lambda point: price(point, sweep.axis) or 0.0,
    )


def _variants_table(sweep: SweepResult) -> Table:
    more = list(dict.fromkeys(name for point in sweep.points for name in point.more))
    rows = [_variant_cells(point, more) for point in sweep.points]
    strong = [index for index, point in enumerate(sweep.points) if point.on_frontier]
    interval = formatting.interval_header(sweep.level)
    names = [name.rpartition(".")[2] for name in more]
    headers = ("variant", "metric", interval, *names, "calls", "cost", "row p50", "row p95")
    return Table(headers, rows, (1, *range(3, len(headers))), strong=strong)


def _variant_cells(point: SweepPoint, more: Sequence[str]) -> tuple[str, ...]:
    values = [point.more.get(name) for name in more]
    return (
        point.name,
        formatting.format_number(point.metric.value),
        formatting.interval(point.metric) or point.metric.reason,
        *("–" if value is None else formatting.format_number(value.value) for value in values),
        f"{point.standalone.calls:,}",
        formatting.money(point.standalone.cost_usd),
        _seconds_text(point.standalone.row_s),
        _seconds_text(point.standalone.row_p95_s),
    )


def _seconds_text(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds:.3g} s"


def _differences_table(sweep: SweepResult) -> Table:
    headers = (
        "variant",
        "difference",
        formatting.interval_header(sweep.level, "together"),
        "p (Holm)",
    )
    rows = []
    for point in sweep.points[1:]:
        cells = ("", point.reason, "")
        if point.difference is not None:
            change, p = point.difference.change, point.difference.p_adjusted
            p_text = "" if p is None else formatting.p_value(p)
            cells = (*formatting.number_cells(change), p_text)
        rows.append((point.name, *cells))
    return Table(headers, rows, (1, 3))


def _best_notes(sweep: SweepResult) -> list[Note]:
    """The best variant with an interval for having been chosen, and the variants that chance alone may put below it."""
    notes = []
    if sweep.best is not None:
        name, best = sweep.best
        chance = next((point.p_best for point in sweep.points if point.name == name), None)
        probability = "" if chance is None else f"; the best of all with probability {chance:.2f}"
        interval = formatting.interval(best) or best.reason
        notes.append(
            f"best: {name} {formatting.format_number(best.value)} {interval} (chosen from all){probability}"
        )
    alike = [point for point in sweep.points if point.like_frontier]
    if alike:
        names = ", ".join(formatting.visible_text(point.name, 60) for point in alike)
        notes.append(f"not distinguishable from a variant on the frontier: {names}")
    return [Note(note) for note in notes]


def _notices(sweep: SweepResult) -> list[Note]:
    models = dict.fromkeys(model for point in sweep.points for model in point.run.facts.floors)
    return [Note(run_notes.baseline_notice(model), warning=True) for model in models]


def _notes(sweep: SweepResult) -> list[Note]:
    notes = []
    cached = sum(point.run.facts.cached - point.run.facts.shared for point in sweep.points)
    if cached:
        costs = [point.run.facts.cost_usd for point in sweep.points]
        paid = None if None in costs else sum(cost for cost in costs if cost is not None)
        notes.append(
            f"{plural(cached, 'reply|replies')} came from the cache: {formatting.money(paid)} paid for this sweep. "
            "Calls and cost above are those of each variant by itself."
        )
    failed = [
        f"{formatting.visible_text(point.name, 60)} {point.run.facts.failed:,}"
        for point in sweep.points
        if point.run.facts.failed
    ]
    if failed:
        notes.append(f"failed rows: {', '.join(failed)}")
    return [Note(note) for note in notes]


def _frontier_charts(sweep: SweepResult) -> list[Scatter]:
    """The frontier, and the metric against latency where it is known and another axis than the frontier's."""
    charts = [_frontier_chart(sweep, sweep.axis)]
    timed = any(point.standalone.row_s is not None for point in sweep.points)
    if timed and sweep.axis != "latency":
        charts.append(_frontier_chart(sweep, "latency"))
    return charts


def _frontier_chart(sweep: SweepResult, axis: str) -> Scatter:
    labels = short_labels([point.name for point in sweep.points])
    on_frontier = frontier_on(sweep.points, axis, lower=sweep.lower_is_better)
    lines: dict[bool, list[PlanePoint]] = {True: [], False: []}
    for point, label, is_best in zip(sweep.points, labels, on_frontier, strict=True):
        x, metric = price(point, axis), point.metric
        if x is not None and metric.value is not None:
            place = PlanePoint(x, metric.value, metric.low, metric.high, label=label)
            lines[is_best].append(place)
    series = [
        Series("frontier", sorted(lines[True], key=lambda place: place.x), joined=True, named=True),
        Series("other variants", lines[False], named=True),
    ]
    return Scatter(
        f"{sweep.metric.rpartition('.')[2]} against {axis}",
        [line for line in series if line.points],
        AXIS_UNITS[axis],
        sweep.metric,
        caption=f"Bars are {formatting.interval_header(sweep.level)}s. The line joins the variants on the frontier.",
    )


def _published_chart(sweep: SweepResult) -> list[Dots]:
    """The variants among the published values, which have no cost and no interval."""
    if sweep.published is None:
        return []
    points = [ChartPoint.of(point.name, point.metric, strong=True) for point in sweep.points]
    points += [
        ChartPoint(row.judge, row.value, note="the paper's own" if row.own else "published")
        for row in sweep.published.others
    ]
    sign = 1 if sweep.lower_is_better else -1
    points.sort(key=lambda point: (point.value is None, sign * (point.value or 0.0)))
    title = f"Beside {sweep.published.source}, {sweep.published.place}"
    return [
        Dots(title, points, sweep.metric, caption="Published values have no costs or intervals.")
    ]


def _published_section(sweep: SweepResult) -> list[Section]:
    if sweep.published is None:
        return []
    (chart,) = _published_chart(sweep)
    caveat = [Note(sweep.published.caveat, warning=True)] if sweep.published.caveat else []
    table = Only(TEXT_FORMATS, [chart.table(folded=False)])
    return [Section("Published values", [*caveat, Note(chart.title), table])]


def _difference_chart(sweep: SweepResult) -> list[Dots]:
    labels = short_labels([point.name for point in sweep.points])
    points = []
    for point, label in zip(sweep.points, labels, strict=True):
        change = None if point.difference is None else point.difference.change
        if change is not None and change.value is not None:
            points.append(ChartPoint.of(label, change, strong=point.on_frontier))
    title = f"Difference from {sweep.points[0].name}"
    chart = Dots(title, points, sweep.metric, reference=0, caption="Paired, row by row.")
    return [chart] if points else []
