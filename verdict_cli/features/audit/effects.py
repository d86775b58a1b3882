"""Measure what a change does to the verdicts, row by row, with intervals; and whether the judge notices planted errors: how much
more often its verdict is worse than in repeats of the same rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from verdict_cli.cli.study import ArmRun, main_metric
from verdict_cli.errors import ReplyError
from verdict_cli.features.audit.extraction import re_extract
from verdict_cli.features.audit.probes import (
    DEGRADE,
    PLANTED,
    AuditOptions,
    Probe,
    ProbeVerdict,
    Rank,
    verdict_rank,
)
from verdict_cli.language.evaluations import Evaluation
from verdict_cli.language.extractors import EXTRACTORS
from verdict_cli.language.units.choice import label_letters
from verdict_cli.plan.node import LLMNode, Plan
from verdict_cli.plural import plural
from verdict_cli.report import formatting
from verdict_cli.run.recorded_replies import recorded_replies
from verdict_cli.stats.columns.collect import collect
from verdict_cli.stats.columns.column import Floats, Ints
from verdict_cli.stats.intervals.interval_methods import MetricValue, clopper_pearson
from verdict_cli.stats.intervals.intervals import CONFIDENCE_LEVEL, Draw, metrics_with_intervals
from verdict_cli.stats.metrics.metric_families import mean_of_clusters
from verdict_cli.stats.paired import pair, paired_difference, run_rows
from verdict_cli.stats.permutation import holm_adjusted, sign_flip_test
from verdict_cli.stats.row_scores import outcome_cell

_DRAWS = 1999
"""With the observed one 2,000 effects, so that twelve probes together can be significant at 0.006."""
STEP = 200
_TOLERANCE = 1e-9

RowScore = Callable[[Any, Any], float]
"""The verdict of the baseline and another one of the same row -> what the effect is the mean of."""


def controlled_differences(
    before: Sequence[Any], after: Sequence[Any], repeats: Sequence[Sequence[Any]], score: RowScore
) -> Floats:
    """(rows, 1 + repeats): what each verdict would differ from the mean of the others of its row, if it were the
    probe's; the first column is the probe's own. NaN where it, or all others, are missing."""
    values = np.full((len(before), 1 + len(repeats)), np.nan)
    for column, verdicts in enumerate((after, *repeats)):
        for row, (old, new) in enumerate(zip(before, verdicts, strict=True)):
            if old is not None and new is not None:
                values[row, column] = score(old, new)
    known = np.isfinite(values).sum(axis=1, keepdims=True)
    total = np.nansum(values, axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        values_left: Floats = np.where(known > 1, (known * values - total) / (known - 1), np.nan)
    values_left[~np.isfinite(values_left[:, 0])] = np.nan
    return values_left


def exchange_test(
    differences: Floats, cluster: Ints | None, rng: np.random.Generator, *, larger: bool = False
) -> float | None:
    """The two-sided p-value of the mean of the first column, or that of its being `larger`; None where there is no row."""
    kept = np.isfinite(differences[:, 0])
    if not kept.any():
        return None
    rows = differences[kept]
    unit = (
        np.arange(len(rows))
        if cluster is None
        else np.unique(cluster[kept], return_inverse=True)[1]
    )
    known = np.isfinite(rows)
    first = np.take_along_axis(
        rows, np.argsort(~known, axis=1, kind="stable"), 1
    )  # known ones first, in their order
    counts, at = known.sum(axis=1), np.arange(len(rows))
    size = (lambda sums: sums) if larger else np.abs
    seen = float(size(rows[:, 0].sum()))
    extreme = 0
    for start in range(0, _DRAWS, STEP):
        drawn = rng.random((min(STEP, _DRAWS - start), int(unit.max()) + 1))[:, unit]
        sums = first[at, (drawn * counts).astype(np.int64)].sum(axis=1)
        extreme += int((size(sums) >= seen - _TOLERANCE * max(1.0, abs(seen))).sum())
    return (extreme + 1) / (_DRAWS + 1)


def probe_p(
    before: Sequence[Any],
    after: Sequence[Any],
    repeats: Sequence[Sequence[Any]],
    goal: Any,
    cluster: Ints | None,
    seed: int,
) -> float | None:
    """The p-value of a change: of verdicts that differ more often than between repeats, and of where they go, the smaller
    twice. None without a repeat."""
    if not repeats:
        return None
    rng = np.random.default_rng([abs(seed), 5])
    scores: list[RowScore] = [lambda old, new: float(old != new)]
    verdicts = [verdict for verdict in (*before, *after) if verdict is not None]
    if all(
        isinstance(verdict, int | float) and not isinstance(verdict, bool) for verdict in verdicts
    ):
        scores.append(lambda old, new: float(new))
    elif goal is not None:
        scores.append(lambda old, new: float(new == goal))
    p_values = [
        exchange_test(
            controlled_differences(before, after, repeats, score), cluster, rng, larger=not index
        )
        for index, score in enumerate(scores)
    ]
    known = [p for p in p_values if p is not None]
    return min(1.0, len(known) * min(known)) if known else None


def attack_p(
    before: Sequence[Any],
    after: Sequence[Any],
    repeats: Sequence[Sequence[Any]],
    goal: Any,
    cluster: Ints | None,
    seed: int,
) -> tuple[MetricValue | None, float | None]:
    """How much more often rows that were not at the goal are there after the attack than in the repeats, and its
    p-value; None without a repeat."""
    if not repeats:
        return None, None
    start = [None if old == goal else old for old in before]
    differences = controlled_differences(start, after, repeats, lambda old, new: float(new == goal))
    p = exchange_test(differences, cluster, np.random.default_rng([abs(seed), 6]), larger=True)
    return None if p is None else mean_change(differences[:, 0], seed), p


def with_family(effects: Sequence[Effect]) -> list[Effect]:
    """The effects with p-values as of one family (Holm)."""
    adjusted = holm_adjusted([effect.p for effect in effects])
    return [replace(effect, p_holm=p) for effect, p in zip(effects, adjusted, strict=True)]


NO_CONTROL = "no repeats: a judge that varies lowers some verdicts without an error"


def notice_effect(
    name: str,
    before: Sequence[Any],
    after: Sequence[Any],
    repeats: Sequence[Sequence[Any]],
    rank: Rank,
    cluster: Ints | None,
    seed: int,
) -> tuple[Effect, Floats]:
    """The share of planted errors after which the verdict is worse, less that share of the repeats; and each row's part.

    Rows whose verdict is already the worst of all are left out: nothing can lower it.
    """
    ranks = [
        None if old is None else rank(old)
        for verdicts in (before, after, *repeats)
        for old in verdicts
    ]
    worst = min((known for known in ranks if known is not None and np.isfinite(known)), default=0.0)
    start = [None if old is None or not rank(old) > worst else old for old in before]

    def lowered(old: Any, new: Any) -> float:
        return float(rank(new) < rank(old))

    known = [
        lowered(old, new)
        for old, new in zip(start, after, strict=True)
        if old is not None and new is not None
    ]
    share = exact_rate(int(sum(known)), len(known))
    if not repeats:
        parts = np.full(len(before), np.nan)
        return Effect(name, DEGRADE, len(known), success=share, note=NO_CONTROL), parts
    differences = controlled_differences(start, after, repeats, lowered)
    p = exchange_test(differences, cluster, np.random.default_rng([abs(seed), 7]), larger=True)
    noticed = None if p is None else mean_change(differences[:, 0], seed, cluster)
    return Effect(
        name, DEGRADE, len(known), success=share, success_beyond_noise=noticed, p=p
    ), differences[:, 0]


def all_noticed(
    parts: Mapping[str, Floats], effects: Sequence[Effect], cluster: Ints | None, seed: int
) -> Effect | None:
    """All planted errors together: the mean over rows of the share of their errors that was noticed."""
    planted = sum(effect.n for effect in effects)
    if not planted:
        return None
    stacked = np.stack(list(parts.values()))
    counts = np.isfinite(stacked).sum(axis=0)
    means = np.where(counts > 0, np.nansum(stacked, axis=0) / np.maximum(counts, 1), np.nan)
    noticed = mean_change(means, seed, cluster) if counts.any() else None
    return Effect("all planted errors", DEGRADE, planted, success_beyond_noise=noticed)


def conclusion(effects: Sequence[Effect]) -> str:
    """What the judge notices of planted errors, in a sentence; "" without any."""
    kinds = [
        effect
        for effect in effects
        if effect.cause == DEGRADE and effect.success is not None and effect.n
    ]
    whole = next(
        (effect for effect in effects if effect.cause == DEGRADE and effect.success is None), None
    )
    if not kinds or whole is None:
        return ""
    noticed = [effect for effect in kinds if (effect.p_holm or 1.0) <= 0.05 and effect.beats_noise]
    missed = [effect.name.removeprefix(PLANTED) for effect in kinds if effect not in noticed]
    share = whole.success_beyond_noise
    if share is None or share.value is None:
        return f"{whole.n:,} planted errors; without repeats there is no control"
    text = (
        f"the judge noticed {share_text(share)} of {whole.n:,} planted errors, more than repeats do"
    )
    if not noticed:
        return f"{text}; no kind significantly"
    return (
        f"{text}; not significantly: {', '.join(missed)}"
        if missed
        else f"{text}; every kind significantly"
    )


def share_text(metric: MetricValue) -> str:
    """`12% [5%, 24%]`; a share beyond that of repeats may be below 0, and is shown as 0%."""
    ends = (
        ""
        if metric.low is None or metric.high is None
        else f" [{max(0.0, metric.low):.0%}, {max(0.0, metric.high):.0%}]"
    )
    return f"{max(0.0, metric.value):.0%}{ends}"


TIE_VERDICT = "tie"


class Effect(Struct, frozen=True):
    """The effect of one change, over the rows that have a verdict with and without it.

    - `changed`: the share of rows whose verdict differs.
    - `beyond_noise`: that share minus the share that differs between repeats of the same calls.
    - `shift`: the mean change of the verdict, in the unit that `shift_of` names.
    - `metric_change`: the change of the pipeline's own metric.
    - `success`: of the rows whose verdict was not the attacker's goal, the share whose verdict is now.
    - `success_beyond_noise`: that share minus the share that is at the goal in a repeat.
    - `p`: of the change against the repeats, `p_holm` the same among all probes.
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

    @property
    def beats_noise(self) -> bool:
        """Whether it succeeds more often than repeats of the same rows do."""
        return (
            self.success_beyond_noise is not None and (self.success_beyond_noise.value or 0.0) > 0
        )


class Noise(Struct, frozen=True):
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
    outcomes = collect({"verdict": Evaluation(value=expression, metrics=("mean",))}, results)[
        "verdict"
    ]
    column = outcomes.columns["value"]
    return [outcome_cell(column, row) for row in range(outcomes.rows)]


def exact_rate(hits: int, n: int) -> MetricValue:
    """A share with its exact interval."""
    if not n:
        return MetricValue(None, None, None, 0, "no rows")
    return MetricValue(hits / n, *clopper_pearson(hits, n, CONFIDENCE_LEVEL), n)


def mean_share(values: Floats, seed: int) -> MetricValue:
    """The mean of the values that are not NaN, with its interval: exact if each is 0 or 1."""
    known = values[np.isfinite(values)]
    if len(known) and np.isin(known, (0, 1)).all():
        return exact_rate(int(known.sum()), len(known))
    return mean_change(values, seed)


def mean_change(values: Floats, seed: int, cluster: Ints | None = None) -> MetricValue:
    """The mean of values that are not shares, such as differences, with its interval, by the rows' clusters if given."""
    values = np.asarray(values, dtype=np.float64)
    sample, statistic = mean_of_clusters(values)
    if cluster is not None:
        sample = replace(
            sample, cluster=np.unique(cluster[np.isfinite(values)], return_inverse=True)[1]
        )
    return metrics_with_intervals(
        {"mean": statistic}, sample, Draw(np.random.default_rng(abs(seed)))
    )["mean"]


def measure_noise(repeats: Sequence[Sequence[Any]], seed: int) -> Noise | None:
    """How much repeats of the same rows differ; None if no row has two verdicts."""
    rows = [
        [verdict for verdict in row if verdict is not None] for row in zip(*repeats, strict=True)
    ]
    differing = np.array(
        [
            np.mean([left != right for left, right in combinations(row, 2)])
            if len(row) > 1
            else np.nan
            for row in rows
        ]
    )
    if not np.isfinite(differing).any():
        return None
    numeric = [
        row
        for row in rows
        if len(row) > 1 and all(isinstance(verdict, int | float) for verdict in row)
    ]
    variance, share = None, None
    if numeric and not all(isinstance(verdict, bool) for row in numeric for verdict in row):
        within = np.array([np.var(row, ddof=1) for row in numeric])
        total = float(np.var([float(verdict) for row in numeric for verdict in row], ddof=1))
        variance = mean_change(within, seed)
        share = float(within.mean()) / total if total > 0 else None
    return Noise(len(repeats), differing, mean_share(differing, seed), variance, share)


def measure_effect(
    name: str,
    cause: str,
    before: Sequence[Any],
    after: Sequence[Any],
    goal: Any,
    noise: Noise | None,
    seed: int,
) -> Effect:
    """The effect of a change on the verdicts. `goal` is the verdict that the author of the changed text would prefer."""
    pairs = [
        (row, old, new)
        for row, (old, new) in enumerate(zip(before, after, strict=True))
        if old is not None and new is not None
    ]
    if not pairs:
        return Effect(name, cause, 0, note="no row has a verdict both with and without the change")
    changed = np.array([old != new for _, old, new in pairs])
    excess = None
    if noise is not None:
        expected = noise.rows[[row for row, _, _ in pairs]]
        excess = mean_change(changed - expected, seed)
    shift, unit = _shift([(old, new) for _, old, new in pairs], goal, seed)
    return Effect(
        name, cause, len(pairs), exact_rate(int(changed.sum()), len(changed)), excess, shift, unit
    )


def _shift(
    pairs: Sequence[tuple[Any, Any]], goal: Any, seed: int
) -> tuple[MetricValue | None, str]:
    if all(
        isinstance(verdict, int | float) and not isinstance(verdict, bool)
        for pair in pairs
        for verdict in pair
    ):
        return mean_change(
            np.array([float(new) - float(old) for old, new in pairs]), seed
        ), "verdict"
    if goal is None:
        return None, ""
    differences = np.array([float(new == goal) - float(old == goal) for old, new in pairs])
    return mean_change(differences, seed), f"share of {goal}"


def attack_success(before: Sequence[Any], after: Sequence[Any], goal: Any) -> MetricValue:
    """Of the rows whose verdict was not the attacker's goal, the share whose verdict is now."""
    attackable = [
        bool(new == goal)
        for old, new in zip(before, after, strict=True)
        if old is not None and new is not None and old != goal
    ]
    return exact_rate(sum(attackable), len(attackable))


class PositionEffect(Struct, frozen=True):
    """`flips` is the share of pairs whose verdict changes with the order; `first` is how far the share of choices of
    the option in the first position exceeds one half (ties excluded)."""

    flips: MetricValue
    first: MetricValue | None
    p: float | None = None


def measure_position(plan: Plan, calls: Path, seed: int) -> dict[str, PositionEffect]:
    """Position effects by unit name, of the pairwise judges that were called in both orders (calls 0 and 1)."""
    judges = {
        node.id: node
        for node in plan.nodes
        if isinstance(node.work, LLMNode) and "consistent" in node.output.fields
    }
    letters = {name: label_letters(node.output.fields["choice"]) for name, node in judges.items()}
    choices: dict[tuple[int, str], dict[int, Any]] = {}
    for request, reply in recorded_replies(calls, seed):
        node = judges.get(request.node)
        if node is None or not isinstance(node.work, LLMNode):
            continue
        try:
            response = node.work.reading.read(reply, request)
        except ReplyError:
            continue
        choices.setdefault((request.row.index, request.node), {})[request.call] = letters[
            request.node
        ].get(response.get("choice"), response.get("choice"))
    effects = {}
    for name in dict.fromkeys(node.name for node in judges.values()):
        pairs = [
            (orders[0], orders[1])
            for (_, judge), orders in choices.items()
            if judges[judge].name == name and orders.keys() >= {0, 1}
        ]
        # Letters are positions: a judge that keeps to one option gives A in one order and B in the other.
        flips = [
            not (straight == swapped == TIE_VERDICT or {straight, swapped} == {"A", "B"})
            for straight, swapped in pairs
        ]
        firsts = [
            ((straight == "A") + (swapped == "A")) / 2 - 0.5
            for straight, swapped in pairs
            if TIE_VERDICT not in (straight, swapped)
        ]
        first = mean_change(np.array(firsts), seed) if firsts else None
        p = (
            sign_flip_test(np.array(firsts), None, np.random.default_rng(abs(seed)))
            if firsts
            else None
        )
        effects[name] = PositionEffect(exact_rate(sum(flips), len(flips)), first, p)
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
            groups[str(family) == own].append(
                value - (_number(target, goal) or 0.0 if labelled else 0.0)
            )
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


class ProbeResult(Struct, frozen=True):
    """The finished run of a probe: its plan, its directory and the number of its failed rows."""

    probe: Probe
    plan: Plan
    folder: Path
    failed: int


def measure_probes(
    baseline: ArmRun,
    probed: Sequence[ProbeResult],
    verdict: ProbeVerdict,
    options: AuditOptions,
    seed: int,
) -> tuple[list[Effect], dict[str, str]]:
    """The effects in the order of the probes, and the reason for each that could not be measured."""
    before = read_verdicts(_results(baseline.folder), verdict.text)
    after = {
        result.probe.name: read_verdicts(_results(result.folder), verdict.text) for result in probed
    }
    repeats = [after[result.probe.name] for result in probed if result.probe.repeat]
    noise = measure_noise([before, *repeats], seed) if repeats else None
    left_out: dict[str, str] = {}
    effects = [] if noise is None else [_noise_effect(noise)]
    if repeats and noise is None:
        left_out["repeated"] = "no row has two verdicts"
    effects += _position_effects(baseline, probed, seed)
    controls, cluster = (
        [after[result.probe.name] for result in probed if result.probe.repeat],
        _clusters(baseline),
    )
    parts: dict[str, Floats] = {}
    for result in probed:
        probe = result.probe
        if probe.repeat or probe.cause == "position":
            continue
        unchanged = _unchanged_rows(baseline, probe, len(before))
        verdicts = [
            None if same else verdict
            for verdict, same in zip(after[probe.name], unchanged, strict=True)
        ]
        effect = measure_effect(probe.name, probe.cause, before, verdicts, probe.goal, noise, seed)
        rank = (
            verdict_rank(baseline.plan, verdict.field, probe.goal)
            if probe.cause == DEGRADE
            else None
        )
        if rank is not None:
            effect, parts[probe.name] = notice_effect(
                probe.name, before, verdicts, controls, rank, cluster, seed
            )
        elif probe.attack:
            success = attack_success(before, verdicts, probe.goal)
            beyond, p = attack_p(before, verdicts, controls, probe.goal, cluster, seed)
            effect = replace(effect, success=success, success_beyond_noise=beyond, p=p)
        else:
            effect = replace(
                effect, p=probe_p(before, verdicts, controls, probe.goal, cluster, seed)
            )
        notes = [effect.note, f"{plural(result.failed, 'row')} failed" if result.failed else ""]
        if all(unchanged) and unchanged:
            notes[0] = "the change leaves every text as it is"
        elif any(unchanged):
            why = (
                "where this cannot be planted"
                if rank is not None
                else "whose text the change leaves as it is"
            )
            notes.append(f"{plural(sum(unchanged), 'row')} left out, {why}")
        note = ", ".join(part for part in notes if part)
        effects.append(
            replace(
                effect, note=note, metric_change=_metric_change(baseline, result, len(before), seed)
            )
        )
    whole = all_noticed(
        parts, [effect for effect in effects if effect.cause == DEGRADE], cluster, seed
    )
    effects += [] if whole is None else [whole]
    effects += _extraction_effects(baseline, left_out, seed)
    effects += _self_preference(baseline, before, verdict, options, seed)
    return with_family(effects), left_out


def _unchanged_rows(baseline: ArmRun, probe: Probe, rows: int) -> list[bool]:
    """Whether the probe leaves each row's text as it is: such rows say nothing of the change."""
    if probe.change is None:
        return [False] * rows
    texts = read_verdicts(_results(baseline.folder), f"source.{probe.column}")
    return [isinstance(text, str) and probe.change(text) == text for text in texts]


def _clusters(baseline: ArmRun) -> Ints | None:
    """The rows' clusters by the first evaluation that has any; None: rows are independent."""
    for evaluation in baseline.plan.evaluations.values():
        if evaluation.cluster is not None:
            names = read_verdicts(_results(baseline.folder), evaluation.cluster)
            return np.unique([str(name) for name in names], return_inverse=True)[1].astype(np.int64)
    return None


def _results(folder: Path) -> Path:
    return folder / "results.parquet"


def _noise_effect(noise: Noise) -> Effect:
    note = f"{noise.repeats} repeats; pairs of them that differ"
    if noise.variance is not None:
        note += f"; variance within a row {formatting.metric_text(noise.variance)}"
        note += "" if noise.share is None else f", {noise.share:.1%} of the total"
    return Effect(
        "repeated", "repeated", noise.disagreement.n, changed=noise.disagreement, note=note
    )


def _position_effects(baseline: ArmRun, probed: Sequence[ProbeResult], seed: int) -> list[Effect]:
    """From the run that calls judges in both orders: a probe's, or the baseline if it does so itself."""
    runs = [(result.plan, result.folder) for result in probed if result.probe.cause == "position"]
    plan, folder = runs[0] if runs else (baseline.plan, baseline.folder)
    return [
        Effect(
            f"position: {name}",
            "position",
            effect.flips.n,
            changed=effect.flips,
            shift=effect.first,
            shift_of="share of first position minus one half",
            p=effect.p,
        )
        for name, effect in measure_position(plan, folder / "calls.parquet", seed).items()
    ]


def _metric_change(
    baseline: ArmRun, result: ProbeResult, rows: int, seed: int
) -> MetricValue | None:
    """The change of the pipeline's own metric, rows paired by their index; None if it is undefined in both runs."""
    name = next(iter(baseline.plan.evaluations), None)
    if name is None or name not in result.plan.evaluations:
        return None
    metric = main_metric(baseline, name, seed)
    ids = [str(row) for row in range(rows)]
    before, after = (
        run_rows({name: run.plan.evaluations[name].alone(metric)}, _results(run.folder), ids)[name]
        for run in (baseline, result)
    )
    pairs = pair(before, after)
    if isinstance(pairs, str):
        return None
    change = paired_difference(metric, pairs, Draw(np.random.default_rng(abs(seed)))).change
    return None if change.value is None else change


def _extraction_effects(baseline: ArmRun, left_out: dict[str, str], seed: int) -> list[Effect]:
    # post_hoc calls a model, so it cannot read a recorded reply.
    names = [name for name in EXTRACTORS if name != "post_hoc"]
    readings = re_extract(baseline.plan, baseline.folder / "calls.parquet", names, seed)
    effects: list[Effect] = []
    refused: dict[str, str] = {}
    for reading in readings:
        if reading.refused:
            refused[reading.extractor] = reading.refused
            continue
        note = f"{reading.readable:,} of {plural(reading.replies, 'reply|replies')} read"
        if reading.both:
            changed = exact_rate(reading.both - reading.agreed, reading.both)
            name = f"{reading.unit} by {reading.extractor}"
            effects.append(Effect(name, "extraction", reading.both, changed=changed, note=note))
        else:
            reason = f"{note}, none of them also by the unit's own extractor"
            left_out[f"extraction of {reading.unit} by {reading.extractor}"] = reason
    if not effects and refused:
        left_out["extraction"] = "; ".join(f"{name}: {reason}" for name, reason in refused.items())
    return effects


def _self_preference(
    baseline: ArmRun,
    before: Sequence[Any],
    verdict: ProbeVerdict,
    options: AuditOptions,
    seed: int,
) -> list[Effect]:
    if options.family is None or options.judge_family is None:
        return []
    families = read_verdicts(_results(baseline.folder), options.family)
    target = next(
        (
            evaluation.target
            for evaluation in baseline.plan.evaluations.values()
            if evaluation.target is not None
        ),
        None,
    )
    targets: Sequence[Any] = [None] * len(before)
    if target is not None:
        targets = read_verdicts(_results(baseline.folder), target)
    difference, unit = self_preference(
        before, families, targets, options.judge_family, verdict.best
    )
    return [
        Effect("self-preference", "self-preference", difference.n, shift=difference, shift_of=unit)
    ]


def replay_obstacle(probe: Probe, units: Sequence[str], plan: Plan) -> str:
    """Why a recording of these units cannot answer the probe; "" if it can."""
    if probe.cause == "position":
        return ""
    if not probe.repeat:
        return "a recording has no reply to a changed text: run the audit with a model"
    renamed = probe.node_renaming(plan)
    names = [renamed(node.id) for node in plan.nodes] if renamed is not None else []
    return (
        ""
        if any(name in units for name in names)
        else "the recording has no further sample of any unit"
    )
