"""`verdict plan CONFIG DATA --half-width 0.02`."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from verdict_cli.cli.options import AllowCode, AsJson, Config, Model, Seed, Settings
from verdict_cli.cli.streams import document, show
from verdict_cli.errors import UsageError

if TYPE_CHECKING:
    from verdict_cli.evaluate.needed import Parts
    from verdict_cli.plan import Plan
    from verdict_cli.runtime.estimate import Line
    from verdict_cli.spec.evaluate import Evaluation

MOST_REPEATS = 9


def plan(
    config: Config,
    data: Annotated[
        str, typer.Argument(help="JSONL, JSON, CSV, TSV or Parquet: a file, a directory, a glob, or -.")
    ],
    half_width: Annotated[
        float | None,
        typer.Option("--half-width", help="How far the interval may reach to each side, e.g. 0.02."),
    ] = None,
    mde: Annotated[
        float | None,
        typer.Option("--mde", help="The least difference from another run, or drop of a gate, to be found."),
    ] = None,
    power: Annotated[
        float, typer.Option("--power", help="With --mde: the share of runs in which it is found.")
    ] = 0.8,
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
        typer.Option(
            "--metric", metavar="NAME", help="EVALUATION.FIGURE, or one of both. [default: the first]"
        ),
    ] = None,
    model: Model = None,
    settings: Settings = None,
    seed: Seed = 0,
    allow_code: AllowCode = None,
    as_json: AsJson = False,
) -> None:
    """Say how many rows, labels and repeats a wanted interval or difference needs, and what they cost. Nothing is asked.

    Example: verdict plan configs/jury.yaml datasets/summaries_sample.jsonl --half-width 0.02 --expect 0.9
    """
    from verdict_cli.cli.dataset import opened
    from verdict_cli.cli.pipeline import planned
    from verdict_cli.data import rows, scan
    from verdict_cli.evaluate.swept import chosen
    from verdict_cli.runtime.estimate import estimate

    _check(half_width, mde, power, confidence, expect, discordant, pilot or [])
    pipeline = planned(config, settings or [], model, allow_code=allow_code or ()).plan
    name, figure = chosen([(str(config), pipeline)], metric)
    evaluation = pipeline.evaluations[name]
    figure = figure or _figure(evaluation)
    want = _Wanted(name, figure, half_width, mde, power, confidence, expect, discordant, seed)
    needs, repeats, notes = _needs(want, evaluation, pilot or [])
    with tempfile.TemporaryDirectory(prefix="verdict-") as spool_to:
        dataset = opened(pipeline, data, Path(spool_to))
        found = scan(dataset)
        there = found.rows

        def costs(count: int) -> tuple[Line, ...]:
            return estimate(pipeline, rows(dataset, found.selection), count, seed)

        lines = [{**one, **_cost(costs(one["rows"]))} for one in needs]
        trade = _trade(want, repeats, pipeline, costs(there), there)
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
        "repeats": trade,
        "notes": notes,
    }
    if as_json:
        document(content)
    else:
        show(_text(content))


@dataclass(frozen=True)
class _Wanted:
    """What is to be known, of which figure."""

    name: str
    figure: str
    half_width: float | None
    mde: float | None
    power: float
    confidence: float
    expect: float | None
    discordant: float | None
    seed: int


def _check(
    half_width: float | None,
    mde: float | None,
    power: float,
    confidence: float,
    expect: float | None,
    discordant: float | None,
    pilots: list[Path],
) -> None:
    if half_width is None and mde is None:
        raise UsageError(
            "nothing is wanted: neither an interval nor a difference",
            hint="--half-width 0.02 plans an interval, --mde 0.03 a comparison or a gate",
        )
    for option, value in (("--half-width", half_width), ("--mde", mde)):
        if value is not None and value <= 0:
            raise UsageError(f"{option} {value:g} is not above 0")
    for option, value in (
        ("--power", power),
        ("--confidence", confidence),
        ("--expect", expect),
        ("--discordant", discordant),
    ):
        if value is not None and not 0 < value < 1:
            raise UsageError(f"{option} {value:g} is not between 0 and 1")
    if len(pilots) > 2:
        raise UsageError("--pilot is given more than twice", hint="one run, or two to compare")
    if pilots and expect is not None:
        raise UsageError("--expect says what --pilot shows", hint="leave one of them out")
    if mde is not None and discordant is not None and discordant < mde:
        raise UsageError(f"--discordant {discordant:g} is less than --mde {mde:g}, which it contains")


def _figure(evaluation: Evaluation) -> str:
    return evaluation.metrics[0] if evaluation.metrics else ("accuracy" if evaluation.target else "mean")


def _needs(
    want: _Wanted, evaluation: Evaluation, pilots: list[Path]
) -> tuple[list[dict[str, Any]], tuple[str, Parts] | None, list[str]]:
    """What is needed, the repeated unit of the pilot with the parts of its variance, and what else is to be said."""
    from verdict_cli.engines.saved import saved
    from verdict_cli.evaluate.pilot import gold_labels, repeated

    runs = [saved(path) for path in pilots]
    for path, (_, _, its) in zip(pilots, runs, strict=True):
        if want.name not in its.evaluations:
            raise UsageError(
                f"{path} has no evaluation {want.name!r}", hint="choose another pilot or --metric"
            )
    needs: list[dict[str, Any]] = []
    notes: list[str] = []
    parts = None
    if want.half_width is not None:
        needs.append(_interval(want, evaluation, runs))
    if want.mde is not None:
        needs.append(_difference(want, runs))
    if runs and want.half_width is not None:
        directory, facts, its = runs[0]
        gold = gold_labels(
            its.evaluations[want.name], want.name, directory.results, want.half_width, facts.seed
        )
        if gold is not None:
            few = f"{gold.needed:,}" if gold.needed is not None else "more than the pilot's rows"
            notes.append(
                f"what people would say of all rows (`gold`), to ±{want.half_width:g} with 95%: {few} labels with the judge on "
                f"{gold.rows:,} rows (`ppi`), {gold.alone:,} without it"
            )
        found = repeated(its, its.evaluations[want.name], want.name, want.figure, directory.results)
        if isinstance(found, str):
            notes.append(f"rows against repeats: {found}")
        else:
            parts = found
            notes.append(
                f"a row's score varies by {found[1].between:.4g} among rows and {found[1].within:.4g} among askings of "
                f"{found[0]}; the table is for the mean of the askings' scores, not for a vote"
            )
    return needs, parts, notes


def _interval(want: _Wanted, evaluation: Evaluation, runs: list[Any]) -> dict[str, Any]:
    from verdict_cli.evaluate.needed import WORST, rows_for_share
    from verdict_cli.evaluate.pilot import SHARES, pilot

    assert want.half_width is not None
    what = f"±{want.half_width:g} with {want.confidence:.0%} confidence"
    if not runs:
        if want.figure not in SHARES:
            raise UsageError(
                f"how much {want.figure} varies is not known beforehand",
                hint="give a small run with --pilot RUN",
            )
        p = want.expect if want.expect is not None else WORST
        why = f"a share of {p:g}" + ("" if want.expect is not None else ", the worst case")
        if evaluation.cluster is not None:
            why += "; rows in clusters need more: give --pilot RUN"
        return {"for": what, "from": why, "rows": rows_for_share(p, want.half_width, want.confidence)}
    directory, facts, its = runs[0]
    made = pilot(its.evaluations[want.name], want.name, want.figure, directory.results, facts.seed)
    figure = made.figure
    if figure.low is None or figure.high is None or (not made.share and figure.high <= figure.low):
        raise UsageError(
            f"{directory.path}: {want.figure} has no interval there: {figure.reason or 'no row differs'}",
            hint="a larger pilot has one",
        )
    rows, safe = made.rows(want.half_width, want.confidence)
    why = f"{want.figure} {figure.value:.3f} [{figure.low:.3f}, {figure.high:.3f}] of {figure.n:,} rows in the pilot"
    return {"for": what, "from": why, "rows": rows, "rows_at_worst": safe}


def _difference(want: _Wanted, runs: list[Any]) -> dict[str, Any]:
    from verdict_cli.evaluate.needed import WORST, discordant, rows_for_change, rows_for_difference
    from verdict_cli.evaluate.pilot import SHARES, pilot, spread_of_change

    assert want.mde is not None
    what = (
        f"a difference of {want.mde:g} found with power {want.power:.0%}, tested at {1 - want.confidence:.2g}"
    )
    if len(runs) == 2:
        both = (runs[0][2].evaluations[want.name], runs[1][2].evaluations[want.name])
        paths = (runs[0][0].results, runs[1][0].results)
        found = spread_of_change(both, want.name, want.figure, paths, want.seed)
        if isinstance(found, str):
            raise UsageError(f"the two pilots cannot be compared: {found}")
        spread, count = found
        rows = rows_for_change(spread, want.mde, want.confidence, want.power)
        return {
            "for": what,
            "from": f"a row's difference spreads {spread:.3g} over {count:,} rows of the pilots",
            "rows": rows,
        }
    if want.figure not in SHARES:
        raise UsageError(
            f"how much a difference of {want.figure} varies is not known beforehand",
            hint="give two small runs with --pilot RUN --pilot RUN",
        )
    p = want.expect if want.expect is not None else WORST
    if runs:
        directory, facts, its = runs[0]
        p = pilot(
            its.evaluations[want.name], want.name, want.figure, directory.results, facts.seed
        ).figure.value
        p = WORST if p is None else float(p)
    apart, why = want.discordant, "given"
    if apart is None:
        other = p - want.mde if p >= want.mde else p + want.mde
        apart, why = max(discordant(p, other), want.mde), f"independent errors at {p:.3g} and {other:.3g}"
    rows = rows_for_difference(want.mde, apart, want.confidence, want.power)
    return {
        "for": what,
        "from": f"{apart:.3g} of the rows right in only one of the two ({why})",
        "rows": rows,
    }


def _cost(lines: tuple[Line, ...]) -> dict[str, Any]:
    from verdict_cli.runtime.estimate import total

    summed = total(lines, "", "")
    return {"calls": summed.calls, "least_calls": summed.least, "cost_usd": summed.cost_usd}


def _trade(
    want: _Wanted, repeats: tuple[str, Parts] | None, pipeline: Plan, lines: tuple[Line, ...], there: int
) -> list[dict[str, Any]]:
    """Rows, calls and cost for each number of repeats of the unit that the pilot repeats."""
    from verdict_cli.evaluate.needed import rows_with_repeats
    from verdict_cli.runtime.estimate import total

    if repeats is None or want.half_width is None or not there:
        return []
    unit, parts = repeats
    copies = [node.id for node in pipeline.nodes if node.name == unit]
    own = total([line for line in lines if line.unit in copies], "", "")
    rest = total([line for line in lines if line.unit not in copies], "", "")
    if not copies:
        return []
    made = []
    for count in range(1, MOST_REPEATS + 1):
        rows = rows_with_repeats(parts, count, want.half_width, want.confidence)
        known = own.cost_usd is not None and rest.cost_usd is not None
        cost = (
            ((own.cost_usd or 0) / len(copies) * count + (rest.cost_usd or 0)) / there * rows
            if known
            else None
        )
        calls = round((own.calls / len(copies) * count + rest.calls) / there * rows)
        made.append({"repeats": count, "rows": rows, "calls": calls, "cost_usd": cost})
    return made


def _text(content: dict[str, Any]) -> str:
    from verdict_cli.report.words import money

    lines = [f"{content['metric']}; the dataset has {content['rows_there']:,} rows"]
    for one in content["needs"]:
        worst = one.get("rows_at_worst", one["rows"])
        more = "" if worst == one["rows"] else f" ({worst:,} at the worst end of the pilot's interval)"
        calls = (
            f"{one['least_calls']:,} to {one['calls']:,}"
            if one["least_calls"] < one["calls"]
            else f"{one['calls']:,}"
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
