"""Measure what a change does to the verdicts, row by row, with intervals."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from verdict_cli.errors import ReplyError
from verdict_cli.language.evaluations import Evaluation
from verdict_cli.plan.node import LLMNode, Plan
from verdict_cli.run.re_extract import recorded_replies
from verdict_cli.stats.columns.collect import collect
from verdict_cli.stats.columns.column import Floats, Ints
from verdict_cli.stats.intervals.interval_methods import MetricValue, wilson
from verdict_cli.stats.intervals.intervals import CONFIDENCE_LEVEL, Draw, metrics_with_intervals
from verdict_cli.stats.metrics.by_cluster import mean_of_clusters
from verdict_cli.stats.paired import pair, paired_difference, run_rows
from verdict_cli.stats.permutation import sign_flip_test
from verdict_cli.stats.row_scores import outcome_cell

TIE_VERDICT = "tie"


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of one change, over the rows that have a verdict with and without it.

    - `changed`: the share of rows whose verdict differs.
    - `beyond_noise`: that share minus the share that differs between repeats of the same calls.
    - `shift`: the mean change of the verdict, in the unit that `shift_of` names.
    - `metric_change`: the change of the pipeline's own metric.
    - `success`: of the rows whose verdict was not the attacker's goal, the share whose verdict is now.
    - `success_beyond_noise`: that share minus the share that is at the goal in a repeat.
    - `p`: of the change against the repeats (`probe_tests.py`), `p_holm` the same among all probes.
    """

    name: str
    cause: str
    n: int
    changed: MetricValue | None = None
    beyond_noise: MetricValue | None = None
    shift: MetricValue | None = None
    shift_of: str = ""
    metric_change: MetricValue | None = None
    success: MetricValue | None = None
    note: str = ""
    success_beyond_noise: MetricValue | None = None
    p: float | None = None
    p_holm: float | None = None


@dataclass(frozen=True, slots=True)
class Noise:
    """How much the verdicts of a row differ between repeats.

    `rows` is each row's share of pairs of repeats that differ (NaN with fewer than two verdicts). For numeric verdicts,
    `variance` is the mean variance within a row, and `share` its share of the total variance.
    """

    repeats: int
    rows: Floats
    disagreement: MetricValue
    variance: MetricValue | None = None
    share: float | None = None


def read_verdicts(results: Path, expression: str) -> list[Any]:
    """The verdict of each row of a run, in its order; None for a row without one."""
    outcomes = collect({"verdict": Evaluation(value=expression, metrics=("mean",))}, results)["verdict"]
    column = outcomes.columns["value"]
    return [outcome_cell(column, row) for row in range(outcomes.rows)]


def wilson_rate(hits: int, n: int) -> MetricValue:
    """A share with Wilson's interval."""
    if not n:
        return MetricValue(None, None, None, 0, "no rows")
    return MetricValue(hits / n, *wilson(hits, n, CONFIDENCE_LEVEL), n)


def mean_share(values: Floats, seed: int) -> MetricValue:
    """The mean of the values that are not NaN, with its interval: Wilson's if each is 0 or 1."""
    known = values[np.isfinite(values)]
    if len(known) and np.isin(known, (0, 1)).all():
        return wilson_rate(int(known.sum()), len(known))
    return mean_change(values, seed)


def mean_change(values: Floats, seed: int, cluster: Ints | None = None) -> MetricValue:
    """The mean of values that are not shares, such as differences, with its interval, by the rows' clusters if given."""
    values = np.asarray(values, dtype=np.float64)
    sample, statistic = mean_of_clusters(values)
    if cluster is not None:
        sample = replace(sample, cluster=np.unique(cluster[np.isfinite(values)], return_inverse=True)[1])
    return metrics_with_intervals({"mean": statistic}, sample, Draw(np.random.default_rng(abs(seed))))["mean"]


def measure_noise(repeats: Sequence[Sequence[Any]], seed: int) -> Noise | None:
    """How much repeats of the same rows differ; None if no row has two verdicts."""
    rows = [[verdict for verdict in row if verdict is not None] for row in zip(*repeats, strict=True)]
    differing = np.array(
        [np.mean([one != other for one, other in combinations(row, 2)]) if len(row) > 1 else np.nan for row in rows]
    )
    if not np.isfinite(differing).any():
        return None
    numeric = [row for row in rows if len(row) > 1 and all(isinstance(verdict, int | float) for verdict in row)]
    variance, share = None, None
    if numeric and not all(isinstance(verdict, bool) for row in numeric for verdict in row):
        within = np.array([np.var(row, ddof=1) for row in numeric])
        total = float(np.var([float(verdict) for row in numeric for verdict in row], ddof=1))
        variance = mean_change(within, seed)
        share = float(within.mean()) / total if total > 0 else None
    return Noise(len(repeats), differing, mean_share(differing, seed), variance, share)


def measure_effect(
    name: str, cause: str, before: Sequence[Any], after: Sequence[Any], goal: Any, noise: Noise | None, seed: int
) -> Effect:
    """The effect of a change on the verdicts. `goal` is the verdict that the author of the changed text would prefer."""
    pairs = [
        (row, one, other)
        for row, (one, other) in enumerate(zip(before, after, strict=True))
        if one is not None and other is not None
    ]
    if not pairs:
        return Effect(name, cause, 0, note="no row has a verdict both with and without the change")
    changed = np.array([one != other for _, one, other in pairs])
    excess = None
    if noise is not None:
        expected = noise.rows[[row for row, _, _ in pairs]]
        excess = mean_change(changed - expected, seed)
    shift, unit = _shift([(one, other) for _, one, other in pairs], goal, seed)
    return Effect(name, cause, len(pairs), wilson_rate(int(changed.sum()), len(changed)), excess, shift, unit)


def _shift(pairs: Sequence[tuple[Any, Any]], goal: Any, seed: int) -> tuple[MetricValue | None, str]:
    if all(isinstance(verdict, int | float) and not isinstance(verdict, bool) for pair in pairs for verdict in pair):
        return mean_change(np.array([float(other) - float(one) for one, other in pairs]), seed), "verdict"
    if goal is None:
        return None, ""
    differences = np.array([float(other == goal) - float(one == goal) for one, other in pairs])
    return mean_change(differences, seed), f"share of {goal}"


def attack_success(before: Sequence[Any], after: Sequence[Any], goal: Any) -> MetricValue:
    """Of the rows whose verdict was not the attacker's goal, the share whose verdict is now."""
    attackable = [
        bool(other == goal)
        for one, other in zip(before, after, strict=True)
        if one is not None and other is not None and one != goal
    ]
    return wilson_rate(sum(attackable), len(attackable))


def metric_change(
    name: str, evaluations: tuple[Evaluation, Evaluation], metric: str, runs: tuple[Path, Path], rows: int, seed: int
) -> MetricValue | None:
    """The change of the pipeline's own metric, rows paired by their index; None if it is undefined in both runs."""
    ids = [str(row) for row in range(rows)]
    outcomes = [
        run_rows({name: evaluation.model_copy(update={"metrics": (metric,), "by": (), "gold": None})}, run, ids)[name]
        for evaluation, run in zip(evaluations, runs, strict=True)
    ]
    pairs = pair(outcomes[0], outcomes[1])
    if isinstance(pairs, str):
        return None
    change = paired_difference(metric, pairs, Draw(np.random.default_rng(abs(seed)))).change
    return None if change.value is None else change


@dataclass(frozen=True, slots=True)
class PositionEffect:
    """`flips` is the share of pairs whose verdict changes with the order; `first` is how far the share of choices of
    the option in the first position exceeds one half (ties excluded)."""

    flips: MetricValue
    first: MetricValue | None
    p: float | None = None


def measure_position(plan: Plan, calls: Path, seed: int) -> dict[str, PositionEffect]:
    """Position effects by unit name, of the pairwise judges that were called in both orders (calls 0 and 1)."""
    judges = {
        node.id: node for node in plan.nodes if isinstance(node.work, LLMNode) and "consistent" in node.output.fields
    }
    choices: dict[tuple[int, str], dict[int, Any]] = {}
    for request, reply in recorded_replies(calls, seed):
        node = judges.get(request.node)
        if node is None or not isinstance(node.work, LLMNode):
            continue
        try:
            response = node.work.reading.read(reply, request)
        except ReplyError:
            continue
        choices.setdefault((request.row.index, request.node), {})[request.call] = response.get("choice")
    effects = {}
    for name in dict.fromkeys(node.name for node in judges.values()):
        pairs = [
            (orders[0], orders[1])
            for (_, judge), orders in choices.items()
            if judges[judge].name == name and orders.keys() >= {0, 1}
        ]
        # Letters are positions: a judge that keeps to one option gives A in one order and B in the other.
        flips = [not (one == other == TIE_VERDICT or {one, other} == {"A", "B"}) for one, other in pairs]
        firsts = [((one == "A") + (other == "A")) / 2 - 0.5 for one, other in pairs if TIE_VERDICT not in (one, other)]
        first = mean_change(np.array(firsts), seed) if firsts else None
        p = sign_flip_test(np.array(firsts), None, np.random.default_rng(abs(seed))) if firsts else None
        effects[name] = PositionEffect(wilson_rate(sum(flips), len(flips)), first, p)
    return effects


def self_preference(
    verdicts: Sequence[Any], families: Sequence[Any], targets: Sequence[Any], own: str, goal: Any
) -> tuple[MetricValue, str]:
    """How much higher the judge scores its own family than the others, and the unit of that difference.

    If there are targets, each is subtracted from its verdict. The interval is Welch's.
    """
    from scipy.stats import ttest_ind

    groups: dict[bool, list[float]] = {True: [], False: []}
    labelled = any(target is not None for target in targets)
    for verdict, family, target in zip(verdicts, families, targets, strict=True):
        if verdict is None or family is None or (labelled and target is None):
            continue
        value = _number(verdict, goal)
        if value is not None:
            groups[str(family) == own].append(value - (_number(target, goal) or 0.0 if labelled else 0.0))
    unit = "verdict minus target" if labelled else "verdict"
    mine, others = groups[True], groups[False]
    n = len(mine) + len(others)
    if min(len(mine), len(others)) < 2:
        reason = f"too few rows: {len(mine)} of the judge's own family, {len(others)} of others"
        return MetricValue(None, None, None, n, reason), unit
    difference = float(np.mean(mine) - np.mean(others))
    if np.var(mine) + np.var(others) == 0:
        return MetricValue(difference, None, None, n, "no variance within either group"), unit
    with warnings.catch_warnings():
        # scipy takes a group without variance for a loss of precision.
        warnings.simplefilter("ignore", RuntimeWarning)
        ends = ttest_ind(mine, others, equal_var=False).confidence_interval(CONFIDENCE_LEVEL)
    return MetricValue(difference, float(ends.low), float(ends.high), n), unit


def _number(verdict: Any, goal: Any) -> float | None:
    if isinstance(verdict, int | float):
        return float(verdict)
    return None if goal is None or verdict is None else float(verdict == goal)
