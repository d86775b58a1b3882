"""`--vary PATH=V1,V2`: the variants of a pipeline, and their comparison: a metric, its paired difference from the first variant,
cost, the Pareto frontier.

The intervals of the differences hold for all variants together (max-T), and their p-values are adjusted (Holm). The best
variant is the best of what chance showed, so it has an interval that holds for all variants at once, and a probability
of being the best.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from verdict_cli.cli.variant_runs import VariantRun, main_metric
from verdict_cli.errors import SpecError, UsageError
from verdict_cli.features.sweep.standalone_costs import ReplyLatencies, StandaloneCost, standalone_costs
from verdict_cli.language.document.document import parse_document
from verdict_cli.language.document.overrides import find_target, parts_of
from verdict_cli.language.document.source_positions import Document
from verdict_cli.language.evaluations import Evaluation
from verdict_cli.language.metric_registry import find_metric
from verdict_cli.stats.columns.column import Floats
from verdict_cli.stats.intervals.interval_methods import MetricValue
from verdict_cli.stats.intervals.intervals import CONFIDENCE_LEVEL
from verdict_cli.stats.measure import measure
from verdict_cli.stats.paired import Difference, RunRows, compare_with_reference, pair, run_rows
from verdict_cli.stats.permutation import SWAPS, holm_adjusted
from verdict_cli.stats.simultaneous import JointEstimates
from verdict_cli.storage.tables.reader import read_table

SWITCH = ("on", "off")
MOST_VALUE_LENGTH = 60


@dataclass(frozen=True, slots=True)
class SweepVariant:
    """One pipeline of a sweep: `settings` are as `--set` takes them, `off` the paths that are left out."""

    name: str
    settings: tuple[str, ...] = ()
    off: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Choice:
    """One value of one path."""

    name: str
    setting: str = ""
    off: str = ""


def variants(document: Document, vary: Sequence[str], *, together: bool = False) -> tuple[SweepVariant, ...]:
    """Every combination of the values, the last path changing fastest; `together` takes the first values of all
    paths, then the second ones, and so on.

    Values are items of a YAML list. For a path to a mapping or a list, `on` keeps it and `off` leaves it out; elsewhere
    they are texts. UsageError if a path or its values cannot be read.
    """
    axes = [_axis(document, text) for text in vary]
    paths = [axis[0] for axis in axes]
    if len(set(paths)) < len(paths):
        duplicate = next(path for path in paths if paths.count(path) > 1)
        raise UsageError(f"--vary has {duplicate} twice", hint="give all values of a path at once")
    short = _short_names(paths)
    choices = [
        [_choice(path, name, text, value, switched) for text, value in values]
        for (path, values, switched), name in zip(axes, short, strict=True)
    ]
    if together:
        if len({len(settings) for settings in choices}) > 1:
            counts = ", ".join(f"{path} has {len(settings)}" for path, settings in zip(paths, choices, strict=True))
            raise UsageError(f"--together needs as many values of each path: {counts}")
        combined: list[tuple[_Choice, ...]] = list(zip(*choices, strict=True))
    else:
        combined = list(product(*choices))
    combinations = [
        SweepVariant(
            " ".join(choice.name for choice in choices_of_variant),
            tuple(choice.setting for choice in choices_of_variant if choice.setting),
            tuple(choice.off for choice in choices_of_variant if choice.off),
        )
        for choices_of_variant in combined
    ]
    names = [variant.name for variant in combinations]
    if len(set(names)) < len(names):
        duplicate = next(name for name in names if names.count(name) > 1)
        raise UsageError(f"--vary has the variant {duplicate} twice", hint="values must differ")
    return tuple(combinations)


def _axis(document: Document, vary: str) -> tuple[str, list[tuple[str, Any]], bool]:
    """The path, its values as text and parsed, and whether they are `on` and `off` of a container."""
    path, given, text = vary.partition("=")
    if not given or not path:
        raise UsageError(f"--vary {vary!r} is not of the form PATH=V1,V2", hint="--vary 'pipeline[0].repeat=1,3,5'")
    parts_of(path)
    values = _values(text, vary)
    target = find_target(document.data, path)
    words = {value for value in values if isinstance(value, str)}
    switched = (
        len(words) == len(values)
        and words <= set(SWITCH)
        and target is not None
        and isinstance(target.value, dict | list)
    )
    return path, [(_text(value), value) for value in values], switched


def _values(text: str, vary: str) -> list[Any]:
    try:
        parsed = parse_document(f"value: [{text}]".encode(), "--vary").data
    except (SpecError, UnicodeEncodeError):
        parsed = {}
    values = parsed.get("value") if parsed.keys() == {"value"} else None
    if not isinstance(values, list) or not values:
        raise UsageError(
            f"--vary {vary!r}: the values are not YAML, separated by commas",
            hint="put texts with commas or special characters in quotes; a list is written [a, b]",
        )
    return values


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = " ".join(text.split())
    return text if len(text) <= MOST_VALUE_LENGTH else f"{text[: MOST_VALUE_LENGTH - 1]}…"


def _choice(path: str, name: str, text: str, value: Any, switched: bool) -> _Choice:
    if not switched:
        return _Choice(f"{name}={text}", setting=f"{path}={json.dumps(value)}")
    return _Choice(f"{name}={text}", off=path if value == "off" else "")


def _short_names(paths: Sequence[str]) -> list[str]:
    """The last key of each path where it is unique; else, and for a path that ends in an index, the whole path."""
    last = [path.rpartition(".")[2] if "." in path and not path.endswith("]") else path for path in paths]
    return [short if last.count(short) == 1 else path for short, path in zip(last, paths, strict=True)]


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
    level: float = CONFIDENCE_LEVEL


def compare_variants(
    runs: Sequence[VariantRun],
    evaluation: str,
    metric: str | None,
    *,
    axis: str | None,
    recorded: bool,
    seed: int = 0,
    level: float = CONFIDENCE_LEVEL,
) -> SweepResult:
    """Measure the variants and compare each with the first; `level` is that of all intervals.

    DataError if rows cannot be paired or measured, UsageError if the first variant has no such metric.
    """
    metric = metric or main_metric(runs[0], evaluation, seed)
    clock = ReplyLatencies()
    points = []
    for run in runs:
        only = _with_metric(run.plan.evaluations[evaluation], metric)
        measured = measure({evaluation: only}, run.folder / "results.parquet", seed=seed, level=level)[
            evaluation
        ].values
        standalone = standalone_costs(run.plan, run.folder / "calls.parquet", clock, recorded=recorded)
        points.append(SweepPoint(run, measured[metric], standalone))
    known = find_metric(metric)
    lower = known is not None and known.lower_is_better
    pairs = pair(*(_rows(run, evaluation, metric) for run in runs))
    joint = None
    if isinstance(pairs, str):
        points = [points[0], *(replace(point, reason=pairs) for point in points[1:])]
    else:
        against = compare_with_reference((metric,), pairs, [1] * len(runs), level, [abs(seed)], SWAPS)[metric]
        joint = against.joint
        points = _with_differences(points, against.differences)
    axis = axis or _default_axis(points)
    gains = [None if point.metric.value is None else point.metric.value * (-1 if lower else 1) for point in points]
    on_frontier = frontier([price(point, axis) for point in points], gains)
    points = [replace(point, on_frontier=is_best) for point, is_best in zip(points, on_frontier, strict=True)]
    return SweepResult(
        f"{evaluation}.{metric}",
        lower,
        axis,
        tuple(_with_chances(points, joint, lower, seed, level)),
        _best(points, joint, evaluation, metric, gains, seed, level),
        level,
    )


def _rows(run: VariantRun, evaluation: str, metric: str) -> RunRows:
    """The variant's rows; their index identifies them, since all variants read the same dataset."""
    results = run.folder / "results.parquet"
    ids = [str(row) for batch in read_table(results, ["row"]) for row in batch["row"]]
    return run_rows({evaluation: _with_metric(run.plan.evaluations[evaluation], metric)}, results, ids)[evaluation]


def probability_best(joint: JointEstimates, rng: np.random.Generator, *, lower_is_better: bool) -> Floats:
    """How likely each variant is the best; equal ones share.

    The estimates are shrunk to their mean by what their spread shows beyond their errors (empirical Bayes: Efron and
    Morris, 1973). Without that the best estimate of equal variants seems the best variant, because it was chosen.
    """
    count = len(joint.values)
    away = (joint.values - joint.values.mean()) * (-1.0 if lower_is_better else 1.0)
    centre = np.eye(count) - 1 / count
    spread = max((float(away @ away) - float(np.trace(centre @ joint.covariance))) / max(count - 1, 1), 0.0)
    if not spread:
        return np.full(count, 1 / count)
    weights = spread * np.linalg.inv(spread * np.eye(count) + joint.covariance)
    shrunk = replace(joint, values=weights @ away, covariance=spread * (np.eye(count) - weights))
    drawn = shrunk.values + shrunk.draws(rng)
    best = drawn >= drawn.max(axis=1, keepdims=True) - 1e-12
    found: Floats = (best / best.sum(axis=1, keepdims=True)).mean(axis=0)
    return found


def indistinct(
    joint: JointEstimates, level: float, rng: np.random.Generator
) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Which pairs of variants are not significantly different, all pairs together."""
    count = len(joint.values)
    pairs = np.array([(i, j) for i in range(count) for j in range(i)]).reshape(-1, 2)
    contrasts = np.eye(count)[pairs[:, 0]] - np.eye(count)[pairs[:, 1]]
    errors = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", contrasts, joint.covariance, contrasts), 0))
    known = errors > 1e-12
    same = np.eye(count, dtype=bool)
    quantile = np.inf
    if known.any():
        largest = np.abs(joint.draws(rng) @ contrasts[known].T / errors[known]).max(axis=1)
        quantile = float(np.quantile(largest, level))
    apart = known & (np.abs(contrasts @ joint.values) > quantile * np.where(known, errors, 1.0))
    for (i, j), differs in zip(pairs, apart, strict=True):
        same[i, j] = same[j, i] = not differs
    return same


def _with_chances(
    points: list[SweepPoint], joint: JointEstimates | None, lower: bool, seed: int, level: float
) -> list[SweepPoint]:
    """The points with their chances of being the best, and the frontier's that they cannot be told from."""
    if joint is None or len(points) < 2:
        return points
    rng = np.random.default_rng([abs(seed), 1])
    chances = probability_best(joint, rng, lower_is_better=lower)
    same = indistinct(joint, level, rng)
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
    level: float,
) -> tuple[str, MetricValue] | None:
    """The best variant with the interval that holds for all variants together; None where it is not known."""
    if joint is None or len(points) < 2 or all(gain is None for gain in gains):
        return None
    index = max(
        range(len(points)),
        key=lambda index_of_point: -np.inf if gains[index_of_point] is None else float(gains[index_of_point] or 0.0),
    )
    level = joint.level(level, np.eye(len(points)), np.random.default_rng([abs(seed), 2]))
    run = points[index].run
    only = _with_metric(run.plan.evaluations[evaluation], metric)
    measures = measure({evaluation: only}, run.folder / "results.parquet", seed=seed, level=level)[evaluation]
    return run.name, measures.values[metric]


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


def _with_differences(points: list[SweepPoint], differences: Sequence[Difference]) -> list[SweepPoint]:
    adjusted = holm_adjusted([difference.p for difference in differences])
    return [
        points[0],
        *(
            replace(point, difference=replace(difference, p_adjusted=p), reason=difference.change.reason)
            for point, difference, p in zip(points[1:], differences, adjusted, strict=True)
        ),
    ]
