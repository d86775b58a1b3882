"""`verdict plan CONFIG DATA --half-width 0.02`: the rows and repeats that an interval or a difference needs, and what they cost,
from what is expected or from pilots.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from verdict_cli.cli.model_options import PipelineOptions
from verdict_cli.cli.open_dataset import check_data, opened_dataset
from verdict_cli.cli.options import AllowHost, AsJson, Config, Data, MetricOption, Seed
from verdict_cli.cli.show_report import print_document
from verdict_cli.errors import UsageError
from verdict_cli.messages import JsonObject
from verdict_cli.plural import plural
from verdict_cli.report.formatting import money
from verdict_cli.run.estimate import Line, estimate_run
from verdict_cli.storage.datasets.read import stream_rows

if TYPE_CHECKING:
    from verdict_cli.report.document import ReportDocument


@dataclass(frozen=True, kw_only=True)
class PrecisionOptions:
    """The precision that is required, and what is known beforehand."""

    half_width: Annotated[
        float | None,
        typer.Option("--half-width", help="The wanted half-width of the interval, e.g. 0.02."),
    ] = None
    mde: Annotated[
        float | None,
        typer.Option(
            "--mde",
            help="The minimum detectable effect: a difference from another run, or a drop below a gate.",
        ),
    ] = None
    power: Annotated[
        float, typer.Option("--power", help="With --mde: the probability of detecting it.")
    ] = 0.8
    confidence: Annotated[
        float,
        typer.Option("--confidence", help="The confidence level of the interval and the test."),
    ] = 0.95
    expect: Annotated[
        float | None,
        typer.Option(
            "--expect", help="The expected value of the metric. [default: 0.5, the worst case]"
        ),
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
            if value is not None and not 0 < value < math.inf:
                raise UsageError(f"{option} {value:g} is not a number above 0")
        for option in ("--power", "--confidence", "--expect", "--discordant"):
            value = getattr(self, option.removeprefix("--"))
            if value is not None and not 0 < value < 1:
                raise UsageError(f"{option} {value:g} is not between 0 and 1")
        if len(self.pilot or ()) > 2:
            raise UsageError("--pilot is given more than twice", hint="one run, or two to compare")
        if self.pilot and self.expect is not None:
            raise UsageError("--expect says what --pilot shows", hint="leave one of them out")
        if self.mde is not None and self.discordant is not None and self.discordant < self.mde:
            raise UsageError(
                f"--discordant {self.discordant:g} is less than --mde {self.mde:g}, which it contains"
            )


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
    from verdict_cli.cli.study import choose_metric
    from verdict_cli.features.power.sample_size import alike_tests, cost, needed, trade

    precision.check()
    pipeline = options.plan(config)
    name, metric_name = choose_metric([(str(config), pipeline)], metric)
    evaluation = pipeline.evaluations[name]
    if evaluation.items is not None:
        raise UsageError(
            f"{name!r} counts entries of {evaluation.items!r}, and how many a row has is not known before the run",
            hint="name a metric of rows: `--metric EVALUATION.METRIC`",
        )
    if metric_name is None:
        usual = "mean" if evaluation.target is None else "accuracy"
        metric_name = evaluation.metrics[0] if evaluation.metrics else usual
    with opened_dataset(pipeline, data) as dataset:
        facts = check_data(pipeline, dataset)
        available = facts.rows
        rows = stream_rows(dataset, facts.selection)
        tests = len(pipeline.evaluations) * alike_tests(
            evaluation, rows if precision.mde is not None else ()
        )
        requested = RequirementOptions(
            **vars(precision), name=name, metric=metric_name, seed=seed, tests=tests
        )
        needs, repeats, notes = needed(requested, evaluation)

        def costs(count: int) -> tuple[Line, ...]:
            return estimate_run(pipeline, stream_rows(dataset, facts.selection), count, seed)

        lines = [{**need, **cost(costs(need["rows"]))} for need in needs]
        table = trade(requested, repeats, pipeline, costs(available), available)
    for line in lines:
        line["labels"] = line["rows"] if evaluation.target is not None else 0
        line["enough"] = available >= line["rows"]
    content = {
        "pipeline": pipeline.name,
        "dataset": data,
        "rows_there": available,
        "metric": f"{name}.{metric_name}",
        "confidence": precision.confidence,
        "needs": lines,
        "repeats": table,
        "notes": notes,
    }
    print_document(_document(content, _conclusion(lines, available)), as_json=as_json)


def _conclusion(needs: list[JsonObject], available: int) -> str:
    """`868 rows for ±0.02 with 95% confidence; the dataset has 8`: what the largest of the needs asks of the dataset."""
    wanted = "; ".join(f"{plural(need['rows'], 'row')} for {need['for']}" for need in needs)
    most = max(need["rows"] for need in needs)
    if available >= most:
        return f"{wanted}: the dataset has enough, {available:,}"
    return f"{wanted}: the dataset has {available:,}, {most - available:,} too few"


def _document(content: JsonObject, conclusion: str) -> ReportDocument:
    from verdict_cli.report.document import Note, ReportDocument, Section, Table

    needs = Table(
        ("for", "rows", "labels", "calls", "cost", "from"),
        [_need_cells(need) for need in content["needs"]],
        (1, 2, 3, 4),
        records=True,
    )
    every = content["repeats"]
    fewest = min((row["calls"] for row in every), default=0)
    rows = [
        (
            str(row["repeats"]),
            f"{row['rows']:,}",
            f"{row['calls']:,}",
            money(row["cost_usd"]),
            "fewest calls" if row["calls"] == fewest else "",
        )
        for row in every
    ]
    repeats = [Table(("repeats", "rows", "calls", "cost", ""), rows, (0, 1, 2, 3))] if rows else []
    there = Note(f"{content['metric']}; the dataset has {plural(content['rows_there'], 'row')}")
    parts = [there, needs, *repeats, *map(Note, content["notes"])]
    return ReportDocument(
        content["pipeline"],
        [Section("", parts)],
        "Verdict plan",
        data=lambda: content,
        conclusion=conclusion,
    )


def _need_cells(need: JsonObject) -> tuple[str, ...]:
    rows, calls = f"{need['rows']:,}", f"{need['calls']:,}"
    if need.get("rows_at_worst", need["rows"]) != need["rows"]:
        rows += f" ({need['rows_at_worst']:,} at the worst end of the pilot's interval)"
    if not need["enough"]:
        rows += ": more than the dataset has"
    if need["least_calls"] < need["calls"]:
        calls = f"{need['least_calls']:,} to {calls}"
    return need["for"], rows, f"{need['labels']:,}", calls, money(need["cost_usd"]), need["from"]
