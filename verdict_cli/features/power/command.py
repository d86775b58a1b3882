"""`verdict plan CONFIG DATA --half-width 0.02`: the rows and repeats that an interval or a difference needs, and what they cost,
from what is expected or from pilots.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from verdict_cli.cli.console import print_json, print_report
from verdict_cli.cli.model_options import PipelineOptions
from verdict_cli.cli.open_dataset import check_data, open_dataset
from verdict_cli.cli.options import AllowHost, AsJson, Config, Data, MetricOption, Seed
from verdict_cli.cli.variant_runs import choose_metric
from verdict_cli.errors import UsageError
from verdict_cli.features.power.sample_size import (
    WORST,
    Parts,
    alike_tests,
    discordant,
    gold_labels,
    is_share,
    pilot,
    repeated,
    rows_for_change,
    rows_for_difference,
    rows_for_share,
    rows_with_repeats,
    spread_of_change,
)
from verdict_cli.language.evaluations import Evaluation
from verdict_cli.plan.node import Plan
from verdict_cli.plural import plural
from verdict_cli.report.formatting import money
from verdict_cli.run.estimate import Line, estimate_run, total
from verdict_cli.run.load_run import load_run
from verdict_cli.storage.datasets.read import stream_rows

MOST_REPEATS = 9


@dataclass(frozen=True, kw_only=True)
class PrecisionOptions:
    """The precision that is required, and what is known beforehand."""

    half_width: Annotated[
        float | None, typer.Option("--half-width", help="The wanted half-width of the interval, e.g. 0.02.")
    ] = None
    mde: Annotated[
        float | None,
        typer.Option(
            "--mde", help="The minimum detectable effect: a difference from another run, or a drop below a gate."
        ),
    ] = None
    power: Annotated[float, typer.Option("--power", help="With --mde: the probability of detecting it.")] = 0.8
    confidence: Annotated[
        float, typer.Option("--confidence", help="The confidence level of the interval and the test.")
    ] = 0.95
    expect: Annotated[
        float | None, typer.Option("--expect", help="The expected value of the metric. [default: 0.5, the worst case]")
    ] = None
    discordant: Annotated[
        float | None,
        typer.Option(
            "--discordant",
            help="With --mde: the share of rows that only one of the two runs gets right. [default: assumes independent errors]",
        ),
    ] = None
    pilot: Annotated[
        list[Path] | None,
        typer.Option(
            "--pilot",
            metavar="RUN",
            help="Take variances from this run; given twice, from the difference between two runs.",
        ),
    ] = None

    def check(self) -> None:
        """Raises UsageError for options that make no sense."""
        if self.half_width is None and self.mde is None:
            raise UsageError(
                "nothing is wanted: neither an interval nor a difference",
                hint="--half-width 0.02 plans an interval, --mde 0.03 a comparison or a gate",
            )
        for option, value in (("--half-width", self.half_width), ("--mde", self.mde)):
            if value is not None and value <= 0:
                raise UsageError(f"{option} {value:g} is not above 0")
        for option in ("--power", "--confidence", "--expect", "--discordant"):
            value = getattr(self, option.removeprefix("--"))
            if value is not None and not 0 < value < 1:
                raise UsageError(f"{option} {value:g} is not between 0 and 1")
        if len(self.pilot or ()) > 2:
            raise UsageError("--pilot is given more than twice", hint="one run, or two to compare")
        if self.pilot and self.expect is not None:
            raise UsageError("--expect says what --pilot shows", hint="leave one of them out")
        if self.mde is not None and self.discordant is not None and self.discordant < self.mde:
            raise UsageError(f"--discordant {self.discordant:g} is less than --mde {self.mde:g}, which it contains")


@dataclass(frozen=True, kw_only=True)
class RequirementOptions(PrecisionOptions):
    """The precision that is required of one metric of an evaluation. `tests` is the number of independent tests for which
    `verdict compare` adjusts, as its metrics and evaluations are alike."""

    name: str
    metric: str
    seed: int
    tests: float

    @property
    def test_level(self) -> float:
        """The level of one metric's test in `verdict compare`, which adjusts for all metrics and evaluations."""
        return 1 - (1 - self.confidence) / self.tests


def first_metric(evaluation: Evaluation) -> str:
    """The metric of an evaluation that is meant if none is named."""
    return evaluation.metrics[0] if evaluation.metrics else ("accuracy" if evaluation.target else "mean")


def needed(
    want: RequirementOptions, evaluation: Evaluation
) -> tuple[list[dict[str, Any]], tuple[str, Parts] | None, list[str]]:
    """What is needed, the repeated unit of the pilot with the parts of its variance, and what else is to be said."""
    runs = [load_run(path) for path in want.pilot or ()]
    for path, (_, _, its) in zip(want.pilot or (), runs, strict=True):
        if want.name not in its.evaluations:
            raise UsageError(f"{path} has no evaluation {want.name!r}", hint="choose another pilot or --metric")
    needs: list[dict[str, Any]] = []
    notes: list[str] = []
    parts = None
    if want.half_width is not None:
        needs.append(_interval(want, evaluation, runs))
    if want.mde is not None:
        needs.append(_difference(want, runs))
    if runs and want.half_width is not None:
        directory, facts, its = runs[0]
        gold = gold_labels(its.evaluations[want.name], want.name, directory.results, want.half_width, facts.seed)
        if gold is not None:
            few = f"{gold.needed:,}" if gold.needed is not None else "more than the pilot's rows"
            notes.append(
                f"what people would say of all rows (`gold`), to ±{want.half_width:g} with 95%: {few} labels with the judge on "
                f"{plural(gold.rows, 'row')} (`ppi`), {gold.alone:,} without it"
            )
        repeats = repeated(its, its.evaluations[want.name], want.name, want.metric, directory.results)
        if isinstance(repeats, str):
            notes.append(f"rows against repeats: {repeats}")
        else:
            parts = repeats
            notes.append(
                f"a row's score varies by {repeats[1].between:.4g} among rows and {repeats[1].within:.4g} among askings of "
                f"{repeats[0]}; the table is for the mean of the askings' scores, not for a vote"
            )
    return needs, parts, notes


def _interval(want: RequirementOptions, evaluation: Evaluation, runs: list[Any]) -> dict[str, Any]:
    assert want.half_width is not None
    what = f"±{want.half_width:g} with {want.confidence:.0%} confidence"
    if not runs:
        if not is_share(want.metric):
            raise UsageError(
                f"how much {want.metric} varies is not known beforehand", hint="give a small run with --pilot RUN"
            )
        p = want.expect if want.expect is not None else WORST
        why = f"a share of {p:g}" + ("" if want.expect is not None else ", the worst case")
        if evaluation.cluster is not None:
            why += "; rows in clusters need more: give --pilot RUN"
        return {"for": what, "from": why, "rows": rows_for_share(p, want.half_width, want.confidence)}
    directory, facts, its = runs[0]
    pilot_run = pilot(its.evaluations[want.name], want.name, want.metric, directory.results, facts.seed)
    estimate = pilot_run.metric
    if estimate.low is None or estimate.high is None or (not pilot_run.share and estimate.high <= estimate.low):
        raise UsageError(
            f"{directory.path}: {want.metric} has no interval there: {estimate.reason or 'no row differs'}",
            hint="a larger pilot has one",
        )
    rows, safe = pilot_run.rows(want.half_width, want.confidence)
    why = f"{want.metric} {estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}] of {plural(estimate.n, 'row')} in the pilot"
    return {"for": what, "from": why, "rows": rows, "rows_at_worst": safe}


def _difference(want: RequirementOptions, runs: list[Any]) -> dict[str, Any]:
    assert want.mde is not None
    what = f"a difference of {want.mde:g} found by `verdict compare` with power {want.power:.0%}, at {1 - want.confidence:.2g}"
    if len(runs) == 2:
        both = (runs[0][2].evaluations[want.name], runs[1][2].evaluations[want.name])
        paths = (runs[0][0].results, runs[1][0].results)
        spread_and_count = spread_of_change(both, want.name, want.metric, paths, want.seed)
        if isinstance(spread_and_count, str):
            raise UsageError(f"the two pilots cannot be compared: {spread_and_count}")
        spread, count = spread_and_count
        rows = rows_for_change(spread, want.mde, want.test_level, want.power)
        return {
            "for": what,
            "from": f"a row's difference spreads {spread:.3g} over {plural(count, 'row')} of the pilots",
            "rows": rows,
        }
    if not is_share(want.metric):
        raise UsageError(
            f"how much a difference of {want.metric} varies is not known beforehand",
            hint="give two small runs with --pilot RUN --pilot RUN",
        )
    p = want.expect if want.expect is not None else WORST
    if runs:
        directory, facts, its = runs[0]
        p = pilot(its.evaluations[want.name], want.name, want.metric, directory.results, facts.seed).metric.value
        p = WORST if p is None else float(p)
    apart, why = want.discordant, "given"
    if apart is None:
        other = p - want.mde if p >= want.mde else p + want.mde
        apart, why = max(discordant(p, other), want.mde), f"independent errors at {p:.3g} and {other:.3g}"
    rows = rows_for_difference(want.mde, apart, want.test_level, want.power)
    return {"for": what, "from": f"{apart:.3g} of the rows right in only one of the two ({why})", "rows": rows}


def cost(lines: tuple[Line, ...]) -> dict[str, Any]:
    """The calls and the cost of all units together."""
    summed = total(lines, "", "")
    return {"calls": summed.calls, "least_calls": summed.least, "cost_usd": summed.cost_usd}


def trade(
    want: RequirementOptions, repeats: tuple[str, Parts] | None, pipeline: Plan, lines: tuple[Line, ...], there: int
) -> list[dict[str, Any]]:
    """Rows, calls and cost for each number of repeats of the unit that the pilot repeats."""
    if repeats is None or want.half_width is None or not there:
        return []
    unit, parts = repeats
    copies = [node.id for node in pipeline.nodes if node.name == unit]
    own = total([line for line in lines if line.unit in copies], "", "")
    rest = total([line for line in lines if line.unit not in copies], "", "")
    if not copies:
        return []
    table = []
    for count in range(1, MOST_REPEATS + 1):
        rows = rows_with_repeats(parts, count, want.half_width, want.confidence)
        known = own.cost_usd is not None and rest.cost_usd is not None
        usd = ((own.cost_usd or 0) / len(copies) * count + (rest.cost_usd or 0)) / there * rows if known else None
        calls = round((own.calls / len(copies) * count + rest.calls) / there * rows)
        table.append({"repeats": count, "rows": rows, "calls": calls, "cost_usd": usd})
    return table


def plan(
    config: Config,
    data: Data,
    precision: PrecisionOptions,
    metric: MetricOption = None,
    seed: Seed = 0,
    *,
    options: PipelineOptions,
    allow_host: AllowHost = None,
    as_json: AsJson = False,
) -> None:
    """Compute how many rows, labels and repeats an interval or a difference needs, and what they cost. No model is called.

    Example: verdict plan jury answers_sample --half-width 0.02 --expect 0.9
    """
    precision.check()
    pipeline = options.plan(config)
    name, metric_name = choose_metric([(str(config), pipeline)], metric)
    evaluation = pipeline.evaluations[name]
    if evaluation.items is not None:
        raise UsageError(
            f"{name!r} counts entries of {evaluation.items!r}, and how many a row has is not known before the run",
            hint="name a metric of rows: `--metric EVALUATION.METRIC`",
        )
    metric_name = metric_name or first_metric(evaluation)
    with tempfile.TemporaryDirectory(prefix="verdict-") as spool_to:
        dataset = open_dataset(pipeline, data, Path(spool_to))
        facts = check_data(pipeline, dataset)
        available = facts.rows
        rows = stream_rows(dataset, facts.selection)
        tests = len(pipeline.evaluations) * alike_tests(evaluation, rows if precision.mde is not None else ())
        requested = RequirementOptions(**vars(precision), name=name, metric=metric_name, seed=seed, tests=tests)
        needs, repeats, notes = needed(requested, evaluation)

        def costs(count: int) -> tuple[Line, ...]:
            return estimate_run(pipeline, stream_rows(dataset, facts.selection), count, seed)

        lines = [{**need, **cost(costs(need["rows"]))} for need in needs]
        table = trade(requested, repeats, pipeline, costs(available), available)
    for line in lines:
        line["labels"] = line["rows"] if evaluation.target is not None else 0
        line["enough"] = available >= line["rows"]
    content = {
        "conclusion": _conclusion(lines, available),
        "pipeline": pipeline.name,
        "dataset": data,
        "rows_there": available,
        "metric": f"{name}.{metric_name}",
        "confidence": precision.confidence,
        "needs": lines,
        "repeats": table,
        "notes": notes,
    }
    if as_json:
        print_json(content)
    else:
        print_report(_text(content))


def _conclusion(needs: list[dict[str, Any]], available: int) -> str:
    """`868 rows for ±0.02 with 95% confidence; the dataset has 8`: what the largest of the needs asks of the dataset."""
    wanted = "; ".join(f"{plural(need['rows'], 'row')} for {need['for']}" for need in needs)
    most = max(need["rows"] for need in needs)
    if available >= most:
        return f"{wanted}: the dataset has enough, {available:,}"
    return f"{wanted}: the dataset has {available:,}, {most - available:,} too few"


def _text(content: dict[str, Any]) -> str:
    lines = [content["conclusion"], f"{content['metric']}; the dataset has {plural(content['rows_there'], 'row')}"]
    for need in content["needs"]:
        worst = need.get("rows_at_worst", need["rows"])
        more = "" if worst == need["rows"] else f" ({worst:,} at the worst end of the pilot's interval)"
        calls = (
            f"{need['least_calls']:,} to {need['calls']:,}"
            if need["least_calls"] < need["calls"]
            else f"{need['calls']:,}"
        )
        lines += [
            "",
            need["for"],
            f"  rows    {need['rows']:,}{more}" + ("" if need["enough"] else ": more than the dataset has"),
            f"  labels  {need['labels']:,}",
            f"  calls   {calls}",
            f"  cost    {money(need['cost_usd'])}",
            f"  from    {need['from']}",
        ]
    if content["repeats"]:
        lines += ["", "repeats  rows  calls  cost"]
        fewest = min(row["calls"] for row in content["repeats"])
        lines += [
            f"{row['repeats']:>7}  {row['rows']:,}  {row['calls']:,}  {money(row['cost_usd'])}"
            + ("  fewest calls" if row["calls"] == fewest else "")
            for row in content["repeats"]
        ]
    return "\n".join([*lines, *(f"- {note}" for note in content["notes"])]) + "\n"
