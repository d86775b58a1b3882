"""`verdict sweep CONFIG DATA --vary PATH=V1,V2`, and its document: the variants, the frontier, and the differences from the first."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from verdict_cli.cli.console import print_error, print_message
from verdict_cli.cli.model_options import RowOptions
from verdict_cli.cli.multi_run import execute_all_or_exit
from verdict_cli.cli.open_dataset import check_data, open_dataset
from verdict_cli.cli.options import AsJson, Config, Data, IntervalLevel, MetricOption, Yes
from verdict_cli.cli.show_report import show_study
from verdict_cli.cli.signals import stopping
from verdict_cli.cli.spending import tell_cost
from verdict_cli.cli.variant_runs import VariantRun, choose_metric
from verdict_cli.errors import SpecError, UsageError, VerdictError
from verdict_cli.features.sweep.variants import SweepPoint, SweepResult, compare_variants, price, variants
from verdict_cli.language.document.document import read_document
from verdict_cli.language.document.overrides import apply_override
from verdict_cli.language.package_files import configs, file_or_named
from verdict_cli.plural import plural
from verdict_cli.report import formatting
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

if TYPE_CHECKING:
    from verdict_cli.features.sweep.variants import SweepVariant
    from verdict_cli.llm.providers.recording import Recording
    from verdict_cli.plan.node import Plan


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
        name, found = sweep.best
        chance = next((point.p_best for point in sweep.points if point.run.name == name), None)
        probability = "" if chance is None else f"; the best of all with probability {chance:.2f}"
        interval = formatting.interval(found.low, found.high) or found.reason
        notes.append(f"best: {name} {formatting.format_number(found.value)} {interval} (chosen from all){probability}")
    alike = [point for point in sweep.points if point.like_frontier]
    if alike:
        names = ", ".join(formatting.visible_text(point.run.name, 60) for point in alike)
        notes.append(f"not distinguishable from a variant on the frontier: {names}")
    return [Note(note) for note in notes]


def _notices(sweep: SweepResult) -> list[Note]:
    models = dict.fromkeys(model for point in sweep.points for model in point.run.facts.floors)
    return [Note(formatting.baseline_notice(model), warning=True) for model in models]


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
                replace(problem, message=f"variant {variant.name}: {problem.message}") for problem in error.problems
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
