"""What a wanted interval or difference needs: rows, repeats, and what they cost, from what is expected or from pilots."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verdict_cli.errors import UsageError

if TYPE_CHECKING:
    from verdict_cli.features.power.sample_size import Parts
    from verdict_cli.language.evaluations import Evaluation
    from verdict_cli.plan.node import Plan
    from verdict_cli.run.estimate import Line

MOST_REPEATS = 9
ADJUSTED = 1.15
"""By how much max-T raises the p-value of one of an evaluation's default metrics, which are nearly copies of each other: 1.0
with two labels, 1.0 to 1.3 with three (measured)."""


@dataclass(frozen=True)
class RequirementOptions:
    """The precision that is required, and of which metric."""

    name: str
    metric: str
    half_width: float | None
    mde: float | None
    power: float
    confidence: float
    expect: float | None
    discordant: float | None
    seed: int
    evaluations: int = 1

    @property
    def test_level(self) -> float:
        """The level of one metric's test in `verdict compare`, which adjusts for all metrics and evaluations."""
        return 1 - (1 - self.confidence) / (self.evaluations * ADJUSTED)


def check_options(
    half_width: float | None,
    mde: float | None,
    power: float,
    confidence: float,
    expect: float | None,
    discordant: float | None,
    pilots: list[Path],
) -> None:
    """Raises UsageError for options that make no sense."""
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


def first_metric(evaluation: Evaluation) -> str:
    """The metric of an evaluation that is meant if none is named."""
    return evaluation.metrics[0] if evaluation.metrics else ("accuracy" if evaluation.target else "mean")


def needed(
    want: RequirementOptions, evaluation: Evaluation, pilots: list[Path]
) -> tuple[list[dict[str, Any]], tuple[str, Parts] | None, list[str]]:
    """What is needed, the repeated unit of the pilot with the parts of its variance, and what else is to be said."""
    from verdict_cli.features.power.sample_size import gold_labels, repeated
    from verdict_cli.run.load_run import load_run

    runs = [load_run(path) for path in pilots]
    for path, (_, _, its) in zip(pilots, runs, strict=True):
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
                f"{gold.rows:,} rows (`ppi`), {gold.alone:,} without it"
            )
        found = repeated(its, its.evaluations[want.name], want.name, want.metric, directory.results)
        if isinstance(found, str):
            notes.append(f"rows against repeats: {found}")
        else:
            parts = found
            notes.append(
                f"a row's score varies by {found[1].between:.4g} among rows and {found[1].within:.4g} among askings of "
                f"{found[0]}; the table is for the mean of the askings' scores, not for a vote"
            )
    return needs, parts, notes


def _interval(want: RequirementOptions, evaluation: Evaluation, runs: list[Any]) -> dict[str, Any]:
    from verdict_cli.features.power.sample_size import WORST, is_share, pilot, rows_for_share

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
    made = pilot(its.evaluations[want.name], want.name, want.metric, directory.results, facts.seed)
    found = made.metric
    if found.low is None or found.high is None or (not made.share and found.high <= found.low):
        raise UsageError(
            f"{directory.path}: {want.metric} has no interval there: {found.reason or 'no row differs'}",
            hint="a larger pilot has one",
        )
    rows, safe = made.rows(want.half_width, want.confidence)
    why = f"{want.metric} {found.value:.3f} [{found.low:.3f}, {found.high:.3f}] of {found.n:,} rows in the pilot"
    return {"for": what, "from": why, "rows": rows, "rows_at_worst": safe}


def _difference(want: RequirementOptions, runs: list[Any]) -> dict[str, Any]:
    from verdict_cli.features.power.sample_size import (
        WORST,
        discordant,
        is_share,
        pilot,
        rows_for_change,
        rows_for_difference,
        spread_of_change,
    )

    assert want.mde is not None
    what = f"a difference of {want.mde:g} found by `verdict compare` with power {want.power:.0%}, at {1 - want.confidence:.2g}"
    if len(runs) == 2:
        both = (runs[0][2].evaluations[want.name], runs[1][2].evaluations[want.name])
        paths = (runs[0][0].results, runs[1][0].results)
        found = spread_of_change(both, want.name, want.metric, paths, want.seed)
        if isinstance(found, str):
            raise UsageError(f"the two pilots cannot be compared: {found}")
        spread, count = found
        rows = rows_for_change(spread, want.mde, want.test_level, want.power)
        return {
            "for": what,
            "from": f"a row's difference spreads {spread:.3g} over {count:,} rows of the pilots",
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
    from verdict_cli.run.estimate import total

    summed = total(lines, "", "")
    return {"calls": summed.calls, "least_calls": summed.least, "cost_usd": summed.cost_usd}


def trade(
    want: RequirementOptions, repeats: tuple[str, Parts] | None, pipeline: Plan, lines: tuple[Line, ...], there: int
) -> list[dict[str, Any]]:
    """Rows, calls and cost for each number of repeats of the unit that the pilot repeats."""
    from verdict_cli.features.power.sample_size import rows_with_repeats
    from verdict_cli.run.estimate import total

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
        usd = ((own.cost_usd or 0) / len(copies) * count + (rest.cost_usd or 0)) / there * rows if known else None
        calls = round((own.calls / len(copies) * count + rest.calls) / there * rows)
        made.append({"repeats": count, "rows": rows, "calls": calls, "cost_usd": usd})
    return made
