"""What a change does to the verdicts, row by row, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from verdict_cli.errors import ReplyError
from verdict_cli.language.evaluations import Evaluation
from verdict_cli.plan.node import LLMNode, Plan
from verdict_cli.stats.columns.collect import collect
from verdict_cli.stats.columns.column import Floats
from verdict_cli.stats.evaluation_results import outcome_cell
from verdict_cli.stats.intervals.interval_methods import MetricValue, wilson
from verdict_cli.stats.intervals.intervals import CONFIDENCE_LEVEL, Draw, metrics_with_intervals
from verdict_cli.stats.metrics.ranks import mean_of_clusters
from verdict_cli.stats.paired import pair, paired_difference, run_rows
from verdict_cli.stats.re_extract import recorded_replies

TIE_VERDICT = "tie"


@dataclass(frozen=True, slots=True)
class Effect:
    """What one change does, over the rows that have a verdict with it and without.

    `changed`: the share of rows whose verdict is another. `beyond_noise`: that minus the share that changes when the
    same is asked again. `shift`: by how much verdicts move, in the unit that `shift_of` names. `figure`: the change of
    the pipeline's own figure. `success`: of the rows whose verdict was not the attacker's, the share whose is now.
    """

    name: str
    cause: str
    n: int
    changed: MetricValue | None = None
    beyond_noise: MetricValue | None = None
    shift: MetricValue | None = None
    shift_of: str = ""
    figure: MetricValue | None = None
    success: MetricValue | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Noise:
    """How much one question's verdicts differ among askings: each row's share of pairs that disagree (NaN: fewer than
    two), and for numbers the mean variance within a row and its share of all variance."""

    askings: int
    rows: Floats
    disagreement: MetricValue
    variance: MetricValue | None = None
    share: float | None = None


def verdicts(results: Path, text: str) -> list[Any]:
    """The verdict of each row of a run, in its order; None where there is none."""
    found = collect({"verdict": Evaluation(value=text, metrics=("mean",))}, results)["verdict"]
    column = found.columns["value"]
    return [outcome_cell(column, row) for row in range(found.rows)]


def share(hits: int, of: int) -> MetricValue:
    """A share with Wilson's interval."""
    if not of:
        return MetricValue(None, None, None, 0, "no rows")
    return MetricValue(hits / of, *wilson(hits, of, CONFIDENCE_LEVEL), of)


def mean_verdict(values: Floats, seed: int) -> MetricValue:
    """The mean of the values that are there, with its interval: Wilson's where each is 0 or 1."""
    known = values[np.isfinite(values)]
    if len(known) and np.isin(known, (0, 1)).all():
        return share(int(known.sum()), len(known))
    return mean_change(values, seed)


def mean_change(values: Floats, seed: int) -> MetricValue:
    """The mean of numbers that are no shares, such as differences, with its interval."""
    sample, statistic = mean_of_clusters(np.asarray(values, dtype=np.float64))
    return metrics_with_intervals({"mean": statistic}, sample, Draw(np.random.default_rng(abs(seed))))["mean"]


def noise(askings: Sequence[Sequence[Any]], seed: int) -> Noise | None:
    """How much several askings of the same rows differ; None where no row has two verdicts."""
    rows = [[said for said in row if said is not None] for row in zip(*askings, strict=True)]
    apart = np.array(
        [np.mean([one != other for one, other in combinations(row, 2)]) if len(row) > 1 else np.nan for row in rows]
    )
    if not np.isfinite(apart).any():
        return None
    numbers = [row for row in rows if len(row) > 1 and all(isinstance(said, int | float) for said in row)]
    variance, part = None, None
    if numbers and not all(isinstance(said, bool) for row in numbers for said in row):
        within = np.array([np.var(row, ddof=1) for row in numbers])
        everything = float(np.var([float(said) for row in numbers for said in row], ddof=1))
        variance = mean_change(within, seed)
        part = float(within.mean()) / everything if everything > 0 else None
    return Noise(len(askings), apart, mean_verdict(apart, seed), variance, part)


def effect(
    name: str, cause: str, before: Sequence[Any], after: Sequence[Any], goal: Any, floor: Noise | None, seed: int
) -> Effect:
    """What the change did to the verdicts. `goal` is the verdict that the changed text's author would like."""
    both = [
        (place, one, other)
        for place, (one, other) in enumerate(zip(before, after, strict=True))
        if one is not None and other is not None
    ]
    if not both:
        return Effect(name, cause, 0, note="no row has a verdict with the change and without")
    moved = np.array([one != other for _, one, other in both])
    beyond = None
    if floor is not None:
        expected = floor.rows[[place for place, _, _ in both]]
        beyond = mean_change(moved - expected, seed)
    shift, unit = _shift([(one, other) for _, one, other in both], goal, seed)
    return Effect(name, cause, len(both), share(int(moved.sum()), len(moved)), beyond, shift, unit)


def _shift(both: Sequence[tuple[Any, Any]], goal: Any, seed: int) -> tuple[MetricValue | None, str]:
    if all(isinstance(said, int | float) and not isinstance(said, bool) for pair in both for said in pair):
        return mean_change(np.array([float(other) - float(one) for one, other in both]), seed), "verdict"
    if goal is None:
        return None, ""
    return mean_change(
        np.array([float(other == goal) - float(one == goal) for one, other in both]), seed
    ), f"share of {goal}"


def success(before: Sequence[Any], after: Sequence[Any], goal: Any) -> MetricValue:
    """Of the rows whose verdict was not the attacker's goal, the share whose verdict is now."""
    open_to = [
        bool(other == goal)
        for one, other in zip(before, after, strict=True)
        if one is not None and other is not None and one != goal
    ]
    return share(sum(open_to), len(open_to))


def figure_change(
    name: str, evaluations: tuple[Evaluation, Evaluation], metric: str, runs: tuple[Path, Path], count: int, seed: int
) -> MetricValue | None:
    """The change of the pipeline's own figure, rows paired by their place; None where it has none in either run."""
    only = [one.model_copy(update={"metrics": (metric,), "by": (), "gold": None}) for one in evaluations]
    ids = [str(place) for place in range(count)]
    found = [run_rows({name: one}, run, ids)[name] for one, run in zip(only, runs, strict=True)]
    pairs = pair(found[0], found[1])
    if isinstance(pairs, str):
        return None
    change = paired_difference(metric, pairs, Draw(np.random.default_rng(abs(seed)))).change
    return None if change.value is None else change


@dataclass(frozen=True, slots=True)
class PositionEffect:
    """What both orders of a pair say: the share of pairs whose verdict changes with the order, and how much more often
    than half the option in the first place is chosen."""

    flips: MetricValue
    first: MetricValue | None


def position_effect(plan: Plan, calls: Path, seed: int) -> dict[str, PositionEffect]:
    """By unit name: position effects of the pairwise judges that were asked in both orders (calls 0 and 1)."""
    judges = {
        node.id: node for node in plan.nodes if isinstance(node.work, LLMNode) and "consistent" in node.output.fields
    }
    said: dict[tuple[int, str], dict[int, Any]] = {}
    for request, reply in recorded_replies(calls, seed):
        node = judges.get(request.node)
        if node is None or not isinstance(node.work, LLMNode):
            continue
        try:
            read = node.work.reading.read(reply, request)
        except ReplyError:
            continue
        said.setdefault((request.row.index, request.node), {})[request.call] = read.get("choice")
    found = {}
    for name in dict.fromkeys(node.name for node in judges.values()):
        pairs = [
            (orders[0], orders[1])
            for (_, judge), orders in said.items()
            if judges[judge].name == name and orders.keys() >= {0, 1}
        ]
        flips = [not (one == other == TIE_VERDICT or {one, other} == {"A", "B"}) for one, other in pairs]
        firsts = [((one == "A") + (other == "A")) / 2 - 0.5 for one, other in pairs if TIE_VERDICT not in (one, other)]
        first = mean_change(np.array(firsts), seed) if firsts else None
        found[name] = PositionEffect(share(sum(flips), len(flips)), first)
    return found


def preference(
    said: Sequence[Any], families: Sequence[Any], targets: Sequence[Any], own: str, goal: Any
) -> tuple[MetricValue, str]:
    """How much better the judge's own family is judged than the others, beyond what people say where they say it: the
    difference of the means with Welch's interval."""
    from scipy.stats import ttest_ind

    groups: dict[bool, list[float]] = {True: [], False: []}
    labelled = any(target is not None for target in targets)
    for one, family, target in zip(said, families, targets, strict=True):
        if one is None or family is None or (labelled and target is None):
            continue
        value = _number(one, goal)
        if value is not None:
            groups[str(family) == own].append(value - (_number(target, goal) or 0.0 if labelled else 0.0))
    unit = "verdict beyond target" if labelled else "verdict"
    mine, others = groups[True], groups[False]
    if min(len(mine), len(others)) < 2:
        why = f"{len(mine)} rows of the judge's own family and {len(others)} of others: too few"
        return MetricValue(None, None, None, len(mine) + len(others), why), unit
    value = float(np.mean(mine) - np.mean(others))
    if np.var(mine) + np.var(others) == 0:
        return MetricValue(value, None, None, len(mine) + len(others), "no verdict differs within a family"), unit
    ends = ttest_ind(mine, others, equal_var=False).confidence_interval(CONFIDENCE_LEVEL)
    return MetricValue(value, float(ends.low), float(ends.high), len(mine) + len(others)), unit


def _number(said: Any, goal: Any) -> float | None:
    if isinstance(said, int | float):
        return float(said)
    return None if goal is None or said is None else float(said == goal)
