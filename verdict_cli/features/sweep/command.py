"""`verdict sweep CONFIG DATA --vary PATH=V1,V2`, and its document: the variants, the frontier, and the differences from the first.

The intervals of the differences hold for all variants together (max-T), and their p-values are adjusted (Holm). The best
variant is the best of what chance showed, so it has an interval that holds for all variants at once, and a probability
of being the best.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from msgspec import Struct, structs

from verdict_cli.cli.console import print_error, print_message
from verdict_cli.cli.model_options import RowOptions
from verdict_cli.cli.multi_run import execute_all_or_exit, stopping, tell_cost
from verdict_cli.cli.open_dataset import check_data, open_dataset
from verdict_cli.cli.options import AsJson, Config, Data, IntervalLevel, MetricOption, Yes
from verdict_cli.cli.show_report import show_study
from verdict_cli.cli.variant_runs import VariantRun, choose_metric, main_metric
from verdict_cli.errors import SpecError, UsageError, VerdictError
from verdict_cli.features.sweep.best_variant import indistinct, probability_best
from verdict_cli.features.sweep.standalone_costs import ReplyLatencies, StandaloneCost, standalone_costs
from verdict_cli.language.document.document import parse_document, read_document
from verdict_cli.language.document.overrides import apply_override, find_target, parts_of
from verdict_cli.language.document.source_positions import Document
from verdict_cli.language.evaluations import Evaluation
from verdict_cli.language.metric_registry import find_metric
from verdict_cli.language.package_files import configs, file_or_named
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
    Part,
    ReportDocument,
    Section,
    Table,
)
from verdict_cli.report.plan_graph import calls_a_row
from verdict_cli.report.report import metric_json
from verdict_cli.report.write_report import write_report
from verdict_cli.run.job import Stop
from verdict_cli.run.session import open_run
from verdict_cli.stats.intervals.interval_methods import MetricValue
from verdict_cli.stats.intervals.intervals import CONFIDENCE_LEVEL
from verdict_cli.stats.measure import measure
from verdict_cli.stats.paired import Difference, RunRows, compare_with_reference, pair, run_rows
from verdict_cli.stats.permutation import SWAPS, holm_adjusted
from verdict_cli.stats.simultaneous import JointEstimates
from verdict_cli.storage.tables.reader import read_table

if TYPE_CHECKING:
    from verdict_cli.llm.providers.recording import Recording
    from verdict_cli.plan.node import Plan


SWITCH = ("on", "off")
MOST_VALUE_LENGTH = 60


class SweepVariant(Struct, frozen=True):
    """One pipeline of a sweep: `settings` are as `--set` takes them, `off` the paths that are left out."""

    name: str
    settings: tuple[str, ...] = ()
    off: tuple[str, ...] = ()


class _Choice(Struct, frozen=True):
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


class SweepPoint(Struct, frozen=True):
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
        points = [points[0], *(structs.replace(point, reason=pairs) for point in points[1:])]
    else:
        against = compare_with_reference((metric,), pairs, [1] * len(runs), level, [abs(seed)], SWAPS)[metric]
        joint = against.joint
        points = _with_differences(points, against.differences)
    axis = axis or _default_axis(points)
    gains = [None if point.metric.value is None else point.metric.value * (-1 if lower else 1) for point in points]
    on_frontier = frontier([price(point, axis) for point in points], gains)
    points = [structs.replace(point, on_frontier=is_best) for point, is_best in zip(points, on_frontier, strict=True)]
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
        structs.replace(
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
            structs.replace(point, difference=replace(difference, p_adjusted=p), reason=difference.change.reason)
            for point, difference, p in zip(points[1:], differences, adjusted, strict=True)
        ),
    ]


AXIS_UNITS = {"cost": "US dollars", "calls": "model calls", "latency": "seconds a row (median)"}
PAIRED = "Differences are paired, against the first variant."


def sweep_document(title: str, sweep: SweepResult, facts: Mapping[str, Any]) -> ReportDocument:
    """The document of a sweep; `facts` are its directory, pipeline, dataset and options, as its JSON has them."""
    better = " (lower is better)" if sweep.lower_is_better else ""
    lead = f"{sweep.metric}{better}, frontier against {sweep.axis}"
    differences = _differences_table(sweep)
    variants: list[Part] = [
        Only(TEXT_FORMATS, [Note(lead)]),
        *_notices(sweep),
        _variants_table(sweep),
        *([differences] if differences.rows else []),
        *_best_notes(sweep),
        Only(("terminal",), [Note(f"► on the frontier: no other variant is as good for less. {PAIRED}")]),
        Only(
            ("markdown", "html"),
            [Note(f"Bold rows are on the frontier: no other variant is as good for less. {PAIRED}")],
        ),
        *_notes(sweep),
    ]
    folders = [point.run.folder for point in sweep.points]
    reports = [f"{folder.parent.name}/{folder.name}/report.html" for folder in folders]
    sections = [
        Section("", variants, listed=False, essential=True),
        Section("Frontier", [Group([_frontier_chart(sweep), *_difference_chart(sweep)])], formats=PAGE_FORMATS),
        Section("Runs", [Links(reports)], formats=PAGE_FORMATS),
    ]
    return ReportDocument(
        title,
        sections,
        "Verdict sweep",
        lead,
        "in sweep.html",
        data=lambda: sweep_json(sweep, facts),
        conclusion=sweep_conclusion(sweep),
    )


def sweep_conclusion(sweep: SweepResult) -> str:
    """The variant that is significantly better than the first, or that none is; intervals and p-values are of all together."""
    base, sign = sweep.points[0].run.name, -1 if sweep.lower_is_better else 1
    gains = {
        point.run.name: (sign * point.difference.change.value, point.difference)
        for point in sweep.points[1:]
        if point.difference is not None and point.difference.change.value is not None
    }
    if not gains:
        return f"no variant could be compared with {base}" if sweep.points[1:] else ""
    decided = [name for name, (_, gain) in gains.items() if is_significant(gain, sweep.level)]
    better = sorted((name for name in decided if gains[name][0] > 0), key=lambda name: -gains[name][0])
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
    differing = [index for index in range(len(words[0])) if len({parts[index] for parts in words}) > 1]
    kept = [[parts[index] for index in differing] for parts in words]
    keys = {parts[0].partition("=")[0] for parts in kept if parts}
    if len(differing) == len(keys) == 1 and all("=" in parts[0] for parts in kept):
        return [parts[0].partition("=")[2] for parts in kept]
    return [" ".join(parts) for parts in kept]


def sweep_json(sweep: SweepResult, facts: Mapping[str, Any]) -> dict[str, Any]:
    """The document of `verdict sweep --json`, and `sweep.json`."""
    return {
        **facts,
        "metric": sweep.metric,
        "lower_is_better": sweep.lower_is_better,
        "frontier_against": sweep.axis,
        "level": sweep.level,
        "variants": [_point_json(point) for point in sweep.points],
        "frontier": [point.run.name for point in _frontier(sweep)],
        "best": None if sweep.best is None else {"name": sweep.best[0], **metric_json(sweep.best[1])},
    }


def _point_json(point: SweepPoint) -> dict[str, Any]:
    metric, run = point.metric, point.run.facts
    change = None if point.difference is None else point.difference.change
    return {
        "name": point.run.name,
        "run": str(point.run.folder),
        "rows": run.rows,
        "failed": run.failed,
        "figure": metric_json(metric),
        "difference": None if change is None else metric_json(change),
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
        "frontier": point.on_frontier,
        "floors": list(run.floors),
    }


def _frontier(sweep: SweepResult) -> list[SweepPoint]:
    return sorted(
        (point for point in sweep.points if point.on_frontier), key=lambda point: price(point, sweep.axis) or 0.0
    )


def _variants_table(sweep: SweepResult) -> Table:
    rows = [
        (
            point.run.name,
            formatting.format_number(point.metric.value),
            formatting.interval(point.metric.low, point.metric.high) or point.metric.reason,
            f"{point.standalone.calls:,}",
            formatting.money(point.standalone.cost_usd),
            "–" if point.standalone.row_s is None else f"{point.standalone.row_s:.3g} s",
        )
        for point in sweep.points
    ]
    strong = [index for index, point in enumerate(sweep.points) if point.on_frontier]
    return Table(
        ("variant", "metric", formatting.interval_header(sweep.level), "calls", "cost", "row p50"),
        rows,
        (1, 3, 4, 5),
        strong=strong,
    )


def _differences_table(sweep: SweepResult) -> Table:
    rows = [
        (
            point.run.name,
            "" if point.difference is None else formatting.format_number(point.difference.change.value),
            point.reason
            if point.difference is None
            else formatting.interval(point.difference.change.low, point.difference.change.high),
            ""
            if point.difference is None or point.difference.p_adjusted is None
            else f"{point.difference.p_adjusted:.3g}",
        )
        for point in sweep.points[1:]
    ]
    return Table(
        ("variant", "difference", formatting.interval_header(sweep.level, "together"), "p (Holm)"), rows, (1, 3)
    )


def _best_notes(sweep: SweepResult) -> list[Note]:
    """The best variant with an interval for having been chosen, and the variants that chance alone may put below it."""
    notes = []
    if sweep.best is not None:
        name, best = sweep.best
        chance = next((point.p_best for point in sweep.points if point.run.name == name), None)
        probability = "" if chance is None else f"; the best of all with probability {chance:.2f}"
        interval = formatting.interval(best.low, best.high) or best.reason
        notes.append(f"best: {name} {formatting.format_number(best.value)} {interval} (chosen from all){probability}")
    alike = [point for point in sweep.points if point.like_frontier]
    if alike:
        names = ", ".join(formatting.visible_text(point.run.name, 60) for point in alike)
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
        f"{formatting.visible_text(point.run.name, 60)} {point.run.facts.failed:,}"
        for point in sweep.points
        if point.run.facts.failed
    ]
    if failed:
        notes.append(f"failed rows: {', '.join(failed)}")
    return [Note(note) for note in notes]


def _labels(sweep: SweepResult) -> dict[str, str]:
    """The label of each variant in charts."""
    names = [point.run.name for point in sweep.points]
    return dict(zip(names, short_labels(names), strict=True))


def _frontier_chart(sweep: SweepResult) -> Scatter:
    labels = _labels(sweep)
    others = [point for point in sweep.points if not point.on_frontier]
    series = [
        Series("frontier", _plane_points(_frontier(sweep), sweep.axis, labels), joined=True, named=True),
        Series("other variants", _plane_points(others, sweep.axis, labels), named=True),
    ]
    return Scatter(
        f"{sweep.metric.rpartition('.')[2]} against {sweep.axis}",
        [line for line in series if line.points],
        AXIS_UNITS[sweep.axis],
        sweep.metric,
        caption=f"Bars are {formatting.interval_header(sweep.level)}s. The line joins the variants on the frontier.",
    )


def _plane_points(points: Sequence[SweepPoint], axis: str, labels: Mapping[str, str]) -> list[PlanePoint]:
    return [
        PlanePoint(x, point.metric.value, point.metric.low, point.metric.high, label=labels[point.run.name])
        for point in points
        if (x := price(point, axis)) is not None and point.metric.value is not None
    ]


def _difference_chart(sweep: SweepResult) -> list[Dots]:
    labels = _labels(sweep)
    points = [
        ChartPoint(labels[point.run.name], change.value, change.low, change.high, strong=point.on_frontier)
        for point in sweep.points
        if point.difference is not None and (change := point.difference.change).value is not None
    ]
    title = f"Difference from {sweep.points[0].run.name}"
    return [Dots(title, points, sweep.metric, reference=0, caption="Paired, row by row.")] if points else []


class Axis(StrEnum):
    """The axis of the frontier (`--against`)."""

    COST = "cost"
    CALLS = "calls"
    LATENCY = "latency"


def sweep(
    config: Config,
    data: Data,
    vary: Annotated[
        list[str],
        typer.Option(
            "--vary",
            metavar="PATH=V1,V2",
            help="The values of a setting, e.g. 'pipeline[0].repeat=1,3,5' or 'pipeline[0]=on,off'. Given several times: all combinations.",
        ),
    ],
    together: Annotated[
        bool,
        typer.Option("--together", help="Pair the values of all --vary by position, instead of every combination."),
    ] = False,
    metric: MetricOption = None,
    against: Annotated[
        Axis | None,
        typer.Option("--against", help="What the metric is plotted against. [default: cost if known, else calls]"),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="The sweep's directory. [default: sweeps/NAME]")] = None,
    *,
    how: RowOptions,
    level: IntervalLevel = None,
    as_json: AsJson = False,
    yes: Yes = False,
) -> None:
    """Compare variants of a pipeline on the same rows: metric, cost, calls and latency of each, and the Pareto frontier.

    The first variant is the baseline of the comparison. Rerun the same command to resume. Variants always share replies;
    --no-cache keeps them out of the shared cache.

    Example: verdict sweep early_stopping answers_sample --model baseline/random --vary 'pipeline[0].repeat=1,3,5' --set 'pipeline[0].until=null'
    """
    how = how.with_level(level)
    chosen = _variants(config, how, vary, together=together)
    plans = _planned(config, how, chosen)
    names = [variant.name for variant, _ in plans]
    name, figure = choose_metric([(f"variant {variant.name}", plan) for variant, plan in plans], metric)
    recording = _answering([(variant.name, plan) for variant, plan in plans], how)
    stop = Stop()
    folder = out or Path("sweeps") / plans[0][1].name
    warned: dict[str, None] = {}
    with tempfile.TemporaryDirectory(prefix="verdict-") as spool_to, stopping(stop):
        sessions = []
        source = data
        for (_, plan), slug in zip(plans, _slugs(names), strict=True):
            dataset = open_dataset(plan, source, Path(spool_to))
            if source == "-":
                source = str(dataset.files[0])
            rows = check_data(
                plan,
                dataset,
                limit=how.limit,
                sample=how.sample,
                seed=how.seed,
                quiet=how.quiet,
                warn=partial(_warn_once, warned),
            )
            options = how.run_options(
                plan, dataset, rows, (str(config), data), recording, out=folder / "variants" / slug
            )
            sessions.append(open_run(options))
        if not tell_cost(sessions, yes=yes, quiet=how.quiet) and not how.quiet:
            _announce([(session.options.plan, session.options.data.rows) for session in sessions])
        results = execute_all_or_exit(sessions, folder, stop, how)
    reports = [write_report(run, warn=print_error) for run in results]
    ran = [VariantRun(name, run.plan, run.directory.path, run.facts) for name, run in zip(names, results, strict=True)]
    result = compare_variants(
        ran,
        name,
        figure,
        axis=None if against is None else against.value,
        recorded=how.replay is not None,
        seed=how.seed,
        level=plans[0][1].interval_level,
    )
    title = plans[0][1].name
    settings = {"sweep": str(folder), "pipeline": title, "config": str(config), "dataset": data, "vary": vary}
    chart = "" if how.quiet else f"chart: {folder / 'sweep.html'}"
    show_study(sweep_document(title, result, settings), folder, "sweep", as_json=as_json, message=chart)
    if not all(report.passed for report in reports):
        raise typer.Exit(1)
    raise typer.Exit(3 if any(run.facts.failed for run in results) else 0)


def _variants(config: Path, how: RowOptions, vary: list[str], *, together: bool) -> tuple[SweepVariant, ...]:
    chosen = variants(
        apply_override(read_document(file_or_named(config, configs)), how.settings or ()), vary, together=together
    )
    if how.model is not None and any(axis.split("=")[0] == "model" for axis in vary):
        raise UsageError("--model and --vary model= cannot be combined", hint="remove one of them")
    return chosen


def _planned(config: Path, how: RowOptions, chosen: tuple[SweepVariant, ...]) -> list[tuple[SweepVariant, Plan]]:
    """The plan of every variant. SpecError with the problems of all variants."""
    plans, problems = [], []
    warned: set[Any] = set()
    for variant in chosen:
        try:
            built = replace(how, settings=[*(how.settings or ()), *variant.settings]).built(config, off=variant.off)
        except SpecError as error:
            problems += [
                structs.replace(problem, message=f"variant {variant.name}: {problem.message}")
                for problem in error.problems
            ]
            continue
        except UsageError as error:
            raise UsageError(f"variant {variant.name}: {error.message}", hint=error.hint) from None
        for warning in built.warnings:
            if warning not in warned:
                warned.add(warning)
                print_error(f"warning: variant {variant.name}: {warning}")
        plans.append((variant, built.plan))
    if problems:
        raise SpecError(problems)
    return plans


def _answering(plans: list[tuple[str, Plan]], how: RowOptions) -> Recording | None:
    """The recording of `--replay`, once the models or recordings of all variants are checked."""
    recorded = None
    for name, plan in plans:
        try:
            recorded = how.recording(plan)
        except VerdictError as error:
            error.message = f"variant {name}: {error.message}"
            raise
    return recorded


def _warn_once(warned: dict[str, None], message: str) -> None:
    """Print a warning that no earlier variant has given."""
    if message not in warned:
        warned[message] = None
        print_error(message)


def _announce(runs: list[tuple[Plan, int]]) -> None:
    """Print how many calls are made, at most."""
    calls = sum(rows * calls_a_row(plan) for plan, rows in runs)
    print_message(
        f"{plural(len(runs), 'variant')} of {plural(runs[0][1], 'row')}: at most {calls:,} model calls, equal ones shared"
    )


def _slugs(names: list[str]) -> list[str]:
    """A folder name for each variant, without duplicates."""
    slugs: list[str] = []
    for name in names:
        slug = re.sub(r"[^A-Za-z0-9._=-]+", "-", name).strip("-.")[:80] or "variant"
        count = 1
        unique = slug
        while unique in slugs:
            count += 1
            unique = f"{slug}-{count}"
        slugs.append(unique)
    return slugs
