"""`verdict plan CONFIG DATA --half-width 0.02`."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from verdict_cli.cli.console import document, print_report
from verdict_cli.cli.options import AllowCode, AsJson, Config, ModelOption, Seed, SetOption
from verdict_cli.studies.power.requirements import RequirementOptions, check_options, cost, first_metric, needed, trade

if TYPE_CHECKING:
    from verdict_cli.run.estimate import Line


def plan(
    config: Config,
    data: Annotated[str, typer.Argument(help="JSONL, JSON, CSV, TSV or Parquet: a file, a directory, a glob, or -.")],
    half_width: Annotated[
        float | None, typer.Option("--half-width", help="How far the interval may reach to each side, e.g. 0.02.")
    ] = None,
    mde: Annotated[
        float | None,
        typer.Option("--mde", help="The least difference from another run, or drop of a gate, to be found."),
    ] = None,
    power: Annotated[float, typer.Option("--power", help="With --mde: the share of runs in which it is found.")] = 0.8,
    confidence: Annotated[float, typer.Option("--confidence", help="Of the interval and the test.")] = 0.95,
    expect: Annotated[
        float | None, typer.Option("--expect", help="The share that is expected. [default: 0.5, the worst]")
    ] = None,
    discordant: Annotated[
        float | None,
        typer.Option(
            "--discordant",
            help="With --mde: the share of rows that only one of the two gets right. [default: as if errors were independent]",
        ),
    ] = None,
    pilot: Annotated[
        list[Path] | None,
        typer.Option("--pilot", metavar="RUN", help="A run to learn from; two: the difference between them."),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option("--metric", metavar="NAME", help="EVALUATION.FIGURE, or one of both. [default: the first]"),
    ] = None,
    model: ModelOption = None,
    settings: SetOption = None,
    seed: Seed = 0,
    allow_code: AllowCode = None,
    as_json: AsJson = False,
) -> None:
    """Say how many rows, labels and repeats a wanted interval or difference needs, and what they cost. Nothing is asked.

    Example: verdict plan jury answers_sample --half-width 0.02 --expect 0.9
    """
    from verdict_cli.cli.load_pipeline import load_plan_for_command
    from verdict_cli.cli.open_dataset import checked, open_dataset
    from verdict_cli.run.estimate import estimate_run
    from verdict_cli.storage.datasets.read import stream_rows
    from verdict_cli.studies.sweep.results import choose_metric

    check_options(half_width, mde, power, confidence, expect, discordant, pilot or [])
    pipeline = load_plan_for_command(config, settings or [], model, allow_code=allow_code or ()).plan
    name, figure = choose_metric([(str(config), pipeline)], metric)
    evaluation = pipeline.evaluations[name]
    figure = figure or first_metric(evaluation)
    want = RequirementOptions(name, figure, half_width, mde, power, confidence, expect, discordant, seed)
    needs, repeats, notes = needed(want, evaluation, pilot or [])
    with tempfile.TemporaryDirectory(prefix="verdict-") as spool_to:
        dataset = open_dataset(pipeline, data, Path(spool_to))
        found = checked(pipeline, dataset)
        there = found.rows

        def costs(count: int) -> tuple[Line, ...]:
            return estimate_run(pipeline, stream_rows(dataset, found.selection), count, seed)

        lines = [{**one, **cost(costs(one["rows"]))} for one in needs]
        table = trade(want, repeats, pipeline, costs(there), there)
    for one in lines:
        one["labels"] = one["rows"] if evaluation.target is not None else 0
        one["enough"] = there >= one["rows"]
    content = {
        "pipeline": pipeline.name,
        "dataset": data,
        "rows_there": there,
        "metric": f"{name}.{figure}",
        "confidence": confidence,
        "needs": lines,
        "repeats": table,
        "notes": notes,
    }
    if as_json:
        document(content)
    else:
        print_report(_text(content))


def _text(content: dict[str, Any]) -> str:
    from verdict_cli.report.formatting import money

    lines = [f"{content['metric']}; the dataset has {content['rows_there']:,} rows"]
    for one in content["needs"]:
        worst = one.get("rows_at_worst", one["rows"])
        more = "" if worst == one["rows"] else f" ({worst:,} at the worst end of the pilot's interval)"
        calls = (
            f"{one['least_calls']:,} to {one['calls']:,}" if one["least_calls"] < one["calls"] else f"{one['calls']:,}"
        )
        lines += [
            "",
            one["for"],
            f"  rows    {one['rows']:,}{more}" + ("" if one["enough"] else ": more than there are"),
            f"  labels  {one['labels']:,}",
            f"  calls   {calls}",
            f"  cost    {money(one['cost_usd'])}",
            f"  from    {one['from']}",
        ]
    if content["repeats"]:
        lines += ["", "repeats  rows  calls  cost"]
        fewest = min(one["calls"] for one in content["repeats"])
        lines += [
            f"{one['repeats']:>7}  {one['rows']:,}  {one['calls']:,}  {money(one['cost_usd'])}"
            + ("  fewest calls" if one["calls"] == fewest else "")
            for one in content["repeats"]
        ]
    return "\n".join([*lines, *(f"- {note}" for note in content["notes"])]) + "\n"
