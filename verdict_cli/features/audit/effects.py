"""Measure what a change does to the verdicts, row by row, with intervals; and whether the judge notices planted errors: how much
more often its verdict is worse than in repeats of the same rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from verdict_cli.cli.study import main_metric, paired_arms
from verdict_cli.features.audit.extraction import re_extract, read_reply
from verdict_cli.features.audit.options import DEGRADE, AuditOptions
from verdict_cli.features.audit.probes import (
    PLANTED,
    Probe,
    ProbeVerdict,
    Rank,
    verdict_rank,
)
from verdict_cli.language.evaluations import Evaluation
from verdict_cli.language.extractors import EXTRACTORS
from verdict_cli.language.units.base import TIE
from verdict_cli.language.units.choice import label_letters
from verdict_cli.messages import is_number
from verdict_cli.plan.node import Plan
from verdict_cli.plural import plural
from verdict_cli.report import formatting
from verdict_cli.run.load_run import RunResult
from verdict_cli.run.recorded_replies import recorded_replies
from verdict_cli.stats.columns.collect import collect
from verdict_cli.stats.columns.column import Floats, Ints
from verdict_cli.stats.intervals.interval_methods import MetricValue, clopper_pearson
from verdict_cli.stats.intervals.intervals import CONFIDENCE_LEVEL, Draw, metrics_with_intervals
from verdict_cli.stats.metrics.metric_families import mean_of_clusters
from verdict_cli.stats.paired import paired_difference
from verdict_cli.stats.permutation import holm_adjusted, sign_flip_test

_DRAWS = 1999
"""With the observed one 2,000 effects, so that twelve probes together can be significant at 0.006."""
STEP = 200
_TOLERANCE = 1e-9

Verdicts = Sequence[Any]
"""The verdict of each row, None where it has none."""
RowScore = Callable[[Any, Any], float]
"""The verdict of the baseline and another one of the same row -> what the effect is the mean of."""


class Control(Struct, frozen=True):
    """The verdicts without a change, asked once (`before`) and again (`repeats`), and the rows' clusters."""

    before: Verdicts
    repeats: Sequence[Verdicts] = ()
    cluster: Ints | None = None
    seed: int = 0

    def scores(self, after: Verdicts, score: RowScore, before: Verdicts | None = None) -> Floats:
        """(rows, 1 + repeats): the score of each row after the change, and of each repeat in its place. NaN where
        either verdict is missing. `before` has the rows that count."""
        before = self.before if before is None else before
        scores = np.full((len(before), 1 + len(self.repeats)), np.nan)
        for column, verdicts in enumerate((after, *self.repeats)):
            for row, (old, new) in enumerate(zip(before, verdicts, strict=True)):
                if old is not None and new is not None:
                    scores[row, column] = score(old, new)
        return scores

    def exchanged(self, scores: Floats, rng: np.random.Generator, *, larger: bool) -> float | None:
        """The p-value of `exchange_test` of these scores."""
        differences = controlled_differences(scores)
        return exchange_test(differences, self.cluster, rng, larger=larger)


def controlled_differences(scores: Floats) -> Floats:
    """What each score differs from the mean of the others of its row, if it were the probe's; the first column is the
    probe's own. NaN where it, or all others, are missing."""
    counts = np.isfinite(scores).sum(axis=1, keepdims=True)
    total = np.nansum(scores, axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        differences = np.where(counts > 1, (counts * scores - total) / (counts - 1), np.nan)
    differences[~np.isfinite(differences[:, 0])] = np.nan
    return differences


def exchange_test(
    differences: Floats, cluster: Ints | None, rng: np.random.Generator, *, larger: bool = False
) -> float | None:
    """The two-sided p-value of the mean of the first column, or that of its being `larger`; None where there is no row."""
    finite_rows = np.isfinite(differences[:, 0])
    if not finite_rows.any():
        return None
    rows = differences[finite_rows]
    unit = np.arange(len(rows))
    if cluster is not None:
        unit = np.unique(cluster[finite_rows], return_inverse=True)[1]
    finite = np.isfinite(rows)
    finite_first = np.argsort(~finite, axis=1, kind="stable")
    ordered = np.take_along_axis(rows, finite_first, 1)
    counts, row_index = finite.sum(axis=1), np.arange(len(rows))
    size = (lambda sums: sums) if larger else np.abs
    observed_size = float(size(rows[:, 0].sum()))
    extreme = 0
    for start in range(0, _DRAWS, STEP):
        drawn = rng.random((min(STEP, _DRAWS - start), int(unit.max()) + 1))[:, unit]
        sums = ordered[row_index, (drawn * counts).astype(np.int64)].sum(axis=1)
        extreme += int(
            (size(sums) >= observed_size - _TOLERANCE * max(1.0, abs(observed_size))).sum()
        )
    return (extreme + 1) / (_DRAWS + 1)


def differs(old: Any, new: Any) -> float:
    """1 where the verdict is another one."""
    return float(old != new)


def shift_score(verdicts: Verdicts, goal: Any) -> tuple[RowScore, str] | None:
    """Where verdicts go, and its unit: the change of numbers, or of the share of labels that are the goal."""
    if all(is_number(verdict) for verdict in verdicts if verdict is not None):
        return lambda old, new: float(new - old), "verdict"
    if goal is None:
        return None
    return lambda old, new: float(new == goal) - float(old == goal), f"share of {goal}"


def probe_p(control: Control, after: Verdicts, goal: Any) -> float | None:
    """The p-value of a change: of verdicts that differ more often than between repeats, and of where they go, the smaller
    twice. None without a repeat."""
    if not control.repeats:
        return None
    rng = np.random.default_rng([abs(control.seed), 5])
    p_values = [control.exchanged(control.scores(after, differs), rng, larger=True)]
    shift = shift_score([*control.before, *after], goal)
    if shift is not None:
        p_values.append(control.exchanged(control.scores(after, shift[0]), rng, larger=False))
    numbers = [p for p in p_values if p is not None]
    return min(1.0, len(numbers) * min(numbers)) if numbers else None


def with_success(
    effect: Effect,
    control: Control,
    after: Verdicts,
    start: Verdicts,
    reached: RowScore,
    salt: int,
) -> tuple[Effect, Floats | None]:
    """The effect with the share of rows that the change brings where it aims, how much larger that is than in the repeats, and
    the p-value of that; and each row's part of the difference, None without a repeat.

    `start` has the rows that are not there yet, `reached` is 1 for a verdict that is.
    """
    scores = control.scores(after, reached, start)
    successes = scores[np.isfinite(scores[:, 0]), 0]
    effect = replace(effect, success=exact_rate(int(successes.sum()), len(successes)), p=None)
    if not control.repeats:
        return effect, None
    parts = controlled_differences(scores)[:, 0]
    p = control.exchanged(scores, np.random.default_rng([abs(control.seed), salt]), larger=True)
    beyond = None if p is None else mean_change(parts, control.seed, control.cluster)
    return replace(effect, success_beyond_noise=beyond, p=p), parts


def attack_success(effect: Effect, control: Control, after: Verdicts, goal: Any) -> Effect:
    """The effect with how many of the rows whose verdict was not the attacker's goal have it now."""
    start = [None if old == goal else old for old in control.before]
    return with_success(effect, control, after, start, lambda old, new: float(new == goal), 6)[0]


def with_family(effects: Sequence[Effect]) -> list[Effect]:
    """The effects with p-values as of one family (Holm)."""
    adjusted = holm_adjusted([effect.p for effect in effects])
    return [replace(effect, p_holm=p) for effect, p in zip(effects, adjusted, strict=True)]


NO_CONTROL = "no repeats: a judge that varies lowers some verdicts without an error"


def notice_effect(
    name: str, control: Control, after: Verdicts, rank: Rank
) -> tuple[Effect, Floats | None]:
    """The share of planted errors after which the verdict is worse, less that share of the repeats; and each row's part.

    Rows whose verdict is already the worst of all are left out: nothing can lower it.
    """
    verdicts = {
        verdict for column in (control.before, after, *control.repeats) for verdict in column
    }
    ranks = [rank(verdict) for verdict in verdicts - {None}]
    worst = min(filter(np.isfinite, ranks), default=0.0)
    start = [None if old is None or not rank(old) > worst else old for old in control.before]
    note = "" if control.repeats else NO_CONTROL
    effect, parts = with_success(
        Effect(name, DEGRADE, 0, note=note),
        control,
        after,
        start,
        lambda old, new: float(rank(new) < rank(old)),
        7,
    )
    return replace(effect, n=effect.success.n if effect.success else 0), parts


def all_noticed(
    parts: Sequence[Floats], effects: Sequence[Effect], control: Control
) -> Effect | None:
    """All planted errors together: the mean over rows of the share of their errors that was noticed."""
    planted = sum(effect.n for effect in effects)
    if not planted:
        return None
    noticed = None
    if parts and np.isfinite(parts).any():
        with np.errstate(invalid="ignore"):
            means = np.nansum(parts, axis=0) / np.isfinite(parts).sum(axis=0)
        noticed = mean_change(means, control.seed, control.cluster)
    return Effect("all planted errors", DEGRADE, planted, success_beyond_noise=noticed)


def conclusion(effects: Sequence[Effect]) -> str:
    """What the judge notices of planted errors, in a sentence; "" without any."""
    planted = [effect for effect in effects if effect.cause == DEGRADE]
    kinds = [effect for effect in planted if effect.success is not None and effect.n]
    whole = next((effect for effect in planted if effect.success is None), None)
    if not kinds or whole is None:
        return ""
    share = whole.success_beyond_noise
    if not is_known(share):
        return f"{whole.n:,} planted errors; without repeats there is no control"
    text = (
        f"the judge noticed {share_text(share)} of {whole.n:,} planted errors, more than repeats do"
    )
    missed = [
        effect.name.removeprefix(PLANTED)
        for effect in kinds
        if not effect.beats_noise or (effect.p_holm or 1.0) > 0.05
    ]
    if not missed:
        return f"{text}; every kind significantly"
    if len(missed) == len(kinds):
        return f"{text}; no kind significantly"
    return f"{text}; not significantly: {', '.join(missed)}"


def value_of(metric: MetricValue | None) -> float:
    """The metric's value; 0 where it is not known."""
    return 0.0 if metric is None else metric.value or 0.0


def is_known(metric: MetricValue | None) -> TypeGuard[MetricValue]:
    """Whether there is a metric, and it is defined."""
    return metric is not None and metric.value is not None


def share_text(metric: MetricValue) -> str:
    """`12% [5%, 24%]`; a share beyond that of repeats may be below 0, and is shown as 0%."""
    share = f"{max(0.0, metric.value):.0%}"
    if metric.low is None or metric.high is None:
        return share
    return f"{share} [{max(0.0, metric.low):.0%}, {max(0.0, metric.high):.0%}]"


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
        return value_of(self.success_beyond_noise) > 0


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


def read_verdicts(run: RunResult, expression: str) -> list[Any]:
    """The verdict of each row of a run, in its order; None for a row without one."""
    evaluation = Evaluation(value=expression, metrics=("mean",))
    outcomes = collect({"verdict": evaluation}, run.directory.results)["verdict"]
    column = outcomes.columns["value"]
    return [column.value(row) for row in range(outcomes.rows)]


def exact_rate(hits: int, n: int) -> MetricValue:
    """A share with its exact interval."""
    if not n:
        return MetricValue(None, None, None, 0, "no rows")
    return MetricValue(hits / n, *clopper_pearson(hits, n, CONFIDENCE_LEVEL), n)


def mean_share(values: Floats, seed: int) -> MetricValue:
    """The mean of the values that are not NaN, with its interval: exact if each is 0 or 1."""
    finite = values[np.isfinite(values)]
    if np.isin(finite, (0, 1)).all():
        return exact_rate(int(finite.sum()), len(finite))
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


def measure_noise(repeats: Sequence[Verdicts], seed: int) -> Noise | None:
    """How much repeats of the same rows differ; None if no row has two verdicts."""
    rows = [
        [verdict for verdict in row if verdict is not None] for row in zip(*repeats, strict=True)
    ]
    differing = np.array([_disagreement(row) for row in rows])
    if not np.isfinite(differing).any():
        return None
    disagreement = mean_share(differing, seed)
    numeric = [row for row in rows if len(row) > 1 and all(map(is_number, row))]
    if not numeric:
        return Noise(len(repeats), differing, disagreement)
    within = np.array([np.var(row, ddof=1) for row in numeric])
    total = float(np.var(np.concatenate(numeric), ddof=1))
    share = float(within.mean()) / total if total > 0 else None
    return Noise(len(repeats), differing, disagreement, mean_change(within, seed), share)


def _disagreement(row: Verdicts) -> float:
    """The share of the pairs of a row's verdicts that differ; NaN without a pair."""
    if len(row) < 2:
        return np.nan
    return float(np.mean([left != right for left, right in combinations(row, 2)]))


def measure_effect(
    name: str, cause: str, control: Control, after: Verdicts, goal: Any, noise: Noise | None
) -> Effect:
    """The effect of a change on the verdicts. `goal` is the verdict that the author of the changed text would prefer."""
    seed = control.seed
    changed = control.scores(after, differs)[:, 0]
    rate = mean_share(changed, seed)
    if not rate.n:
        return Effect(name, cause, 0, note="no row has a verdict both with and without the change")
    effect = Effect(name, cause, rate.n, rate, p=probe_p(control, after, goal))
    if noise is not None:
        effect = replace(effect, beyond_noise=mean_change(changed - noise.rows, seed))
    shift = shift_score([*control.before, *after], goal)
    if shift is None:
        return effect
    score, unit = shift
    change = mean_change(control.scores(after, score)[:, 0], seed)
    return replace(effect, shift=change, shift_of=unit)


def measure_position(plan: Plan, calls: Path, seed: int) -> list[Effect]:
    """The effect of the order by unit, of the pairwise judges that were called in both orders (calls 0 and 1)."""
    judges = {
        node.id: (node.name, work, label_letters(node.output.fields["choice"]))
        for node, work in plan.llm_nodes
        if "consistent" in node.output.fields
    }
    choices: dict[str, dict[tuple[int, str], dict[int, Any]]] = {
        name: {} for name, _, _ in judges.values()
    }
    for request, reply in recorded_replies(calls, seed):
        if request.node not in judges:
            continue
        name, work, letters = judges[request.node]
        response = read_reply(work.reading, reply, request)
        if response is not None:
            choice = response.get("choice")
            orders = choices[name].setdefault((request.row.index, request.node), {})
            orders[request.call] = letters.get(choice, choice)
    effects = []
    for name, rows in choices.items():
        pairs = [(orders[0], orders[1]) for orders in rows.values() if orders.keys() >= {0, 1}]
        effects.append(_position_effect(f"position: {name}", pairs, seed))
    return effects


def _position_effect(name: str, pairs: Sequence[tuple[Any, Any]], seed: int) -> Effect:
    """From the choices of each pair in one order and in the other: the share of pairs whose verdict changes with it, and how far
    the share of choices of the option in the first position exceeds one half (ties excluded).

    Letters are positions: a judge that keeps to one option gives A in one order and B in the other.
    """
    consistent = [("A", "B"), ("B", "A"), (TIE, TIE)]
    flips = exact_rate(sum(pair not in consistent for pair in pairs), len(pairs))
    firsts = np.array([pair.count("A") / 2 - 0.5 for pair in pairs if TIE not in pair])
    unit = "share of first position minus one half"
    effect = Effect(name, "position", flips.n, flips, shift_of=unit)
    if not len(firsts):
        return effect
    p = sign_flip_test(firsts, None, np.random.default_rng(abs(seed)))
    return replace(effect, shift=mean_change(firsts, seed), p=p)


def self_preference(
    verdicts: Verdicts,
    families: Sequence[Any],
    targets: Sequence[Any],
    judge_family: str,
    goal: Any,
) -> tuple[MetricValue, str]:
    """How much higher the judge scores its own family than the others, and the unit of that difference.

    If there are targets, each is subtracted from its verdict. The interval is Welch's.
    """
    from scipy.stats import ttest_ind

    unit, values = "verdict", _numbers(verdicts, goal)
    if any(target is not None for target in targets):
        unit, values = "verdict minus target", values - _numbers(targets, goal)
    complete = np.isfinite(values) & np.array([family is not None for family in families])
    of_own = np.array([str(family) == judge_family for family in families])
    mine, other_scores = values[complete & of_own], values[complete & ~of_own]
    n = len(mine) + len(other_scores)
    if min(len(mine), len(other_scores)) < 2:
        reason = (
            f"too few rows: {len(mine)} of the judge's own family, {len(other_scores)} of others"
        )
        return MetricValue(None, None, None, n, reason), unit
    difference = float(mine.mean() - other_scores.mean())
    if mine.var() + other_scores.var() == 0:
        return MetricValue(difference, None, None, n, "no variance within either group"), unit
    with warnings.catch_warnings():
        # scipy takes a group without variance for a loss of precision.
        warnings.simplefilter("ignore", RuntimeWarning)
        ends = ttest_ind(mine, other_scores, equal_var=False).confidence_interval(CONFIDENCE_LEVEL)
    return MetricValue(difference, float(ends.low), float(ends.high), n), unit


def _numbers(verdicts: Verdicts, goal: Any) -> Floats:
    """Numbers as they are, labels as whether they are the goal; NaN for a missing one, and for labels without a goal."""
    numbers = np.full(len(verdicts), np.nan)
    for row, verdict in enumerate(verdicts):
        if isinstance(verdict, int | float):
            numbers[row] = verdict
        elif verdict is not None and goal is not None:
            numbers[row] = verdict == goal
    return numbers


def measure_probes(
    baseline: RunResult,
    probed: Sequence[tuple[Probe, RunResult]],
    verdict: ProbeVerdict,
    options: AuditOptions,
    seed: int,
) -> tuple[list[Effect], dict[str, str]]:
    """The effects in the order of the probes and their finished runs, and the reason for each that could not be measured."""
    before = read_verdicts(baseline, verdict.text)
    repeats = [read_verdicts(run, verdict.text) for probe, run in probed if probe.repeat]
    control = Control(before, repeats, _clusters(baseline), seed)
    noise = measure_noise([before, *repeats], seed) if repeats else None
    left_out = {}
    effects = [] if noise is None else [_noise_effect(noise)]
    if repeats and noise is None:
        left_out["repeated"] = "no row has two verdicts"
    # The run that calls judges in both orders: a probe's, or the baseline if it does so itself.
    both = next((run for probe, run in probed if probe.cause == "position"), baseline)
    effects += measure_position(both.plan, both.directory.calls, seed)
    parts = []
    for probe, run in probed:
        if not probe.repeat and probe.cause != "position":
            effect, of_rows = _probe_effect(baseline, probe, run, verdict, control, noise)
            effects.append(effect)
            parts += [] if of_rows is None else [of_rows]
    whole = all_noticed(parts, [effect for effect in effects if effect.cause == DEGRADE], control)
    effects += [] if whole is None else [whole]
    effects += _extraction_effects(baseline, left_out, seed)
    effects += _self_preference(baseline, before, verdict, options)
    return with_family(effects), left_out


def _probe_effect(
    baseline: RunResult,
    probe: Probe,
    run: RunResult,
    verdict: ProbeVerdict,
    control: Control,
    noise: Noise | None,
) -> tuple[Effect, Floats | None]:
    """The effect of a probe that changes something, and each row's part in it where that is an error that was planted."""
    unchanged = _unchanged_rows(baseline, probe, len(control.before))
    verdicts = zip(read_verdicts(run, verdict.text), unchanged, strict=True)
    after = [None if same else new for new, same in verdicts]
    parts = None
    why = "whose text the change leaves as it is"
    rank = verdict_rank(baseline.plan, verdict.field, probe.goal)
    if probe.cause == DEGRADE and rank is not None:
        effect, parts = notice_effect(probe.name, control, after, rank)
        why = "where this cannot be planted"
    else:
        effect = measure_effect(probe.name, probe.cause, control, after, probe.goal, noise)
    if probe.cause == "attack":
        effect = attack_success(effect, control, after, probe.goal)
    notes = [effect.note] if effect.note else []
    if run.facts.failed:
        notes.append(f"{plural(run.facts.failed, 'row')} failed")
    if unchanged and all(unchanged):
        notes = ["the change leaves every text as it is", *notes[bool(effect.note) :]]
    elif any(unchanged):
        notes.append(f"{plural(sum(unchanged), 'row')} left out, {why}")
    change = _metric_change(baseline, run, control.seed)
    return replace(effect, note=", ".join(notes), metric_change=change), parts


def _unchanged_rows(baseline: RunResult, probe: Probe, rows: int) -> list[bool]:
    """Whether the probe leaves each row's text as it is: such rows say nothing of the change."""
    if probe.change is None:
        return [False] * rows
    texts = read_verdicts(baseline, f"source.{probe.column}")
    return [isinstance(text, str) and probe.change(text) == text for text in texts]


def _clusters(baseline: RunResult) -> Ints | None:
    """The rows' clusters by the first evaluation that has any; None: rows are independent."""
    for evaluation in baseline.plan.evaluations.values():
        if evaluation.cluster is not None:
            names = read_verdicts(baseline, evaluation.cluster)
            return np.unique(list(map(str, names)), return_inverse=True)[1].astype(np.int64)
    return None


def _noise_effect(noise: Noise) -> Effect:
    note = f"{noise.repeats} repeats; pairs of them that differ"
    if noise.variance is not None:
        note += f"; variance within a row {formatting.metric_text(noise.variance)}"
        note += "" if noise.share is None else f", {noise.share:.1%} of the total"
    return Effect("repeated", "repeated", noise.disagreement.n, noise.disagreement, note=note)


def _metric_change(baseline: RunResult, run: RunResult, seed: int) -> MetricValue | None:
    """The change of the pipeline's own metric, rows paired by their index; None if it is undefined in both runs."""
    name = next(iter(baseline.plan.evaluations), None)
    if name is None or name not in run.plan.evaluations:
        return None
    metric = main_metric(baseline, name, seed)
    pairs = paired_arms((baseline, run), name, metric)
    if isinstance(pairs, str):
        return None
    change = paired_difference(metric, pairs, Draw(np.random.default_rng(abs(seed)))).change
    return None if change.value is None else change


def _extraction_effects(baseline: RunResult, left_out: dict[str, str], seed: int) -> list[Effect]:
    # post_hoc calls a model, so it cannot read a recorded reply.
    names = [name for name in EXTRACTORS if name != "post_hoc"]
    effects = []
    refused = {}
    for reading in re_extract(baseline.plan, baseline.directory.calls, names, seed):
        if reading.refused:
            refused[reading.extractor] = reading.refused
            continue
        name = f"{reading.unit} by {reading.extractor}"
        note = f"{reading.readable:,} of {plural(reading.replies, 'reply|replies')} read"
        if reading.both:
            changed = exact_rate(reading.both - reading.agreed, reading.both)
            effects.append(Effect(name, "extraction", reading.both, changed, note=note))
        else:
            reason = f"{note}, none of them also by the unit's own extractor"
            left_out[f"extraction of {name}"] = reason
    if not effects and refused:
        left_out["extraction"] = "; ".join(f"{name}: {reason}" for name, reason in refused.items())
    return effects


def _self_preference(
    baseline: RunResult, before: Verdicts, verdict: ProbeVerdict, options: AuditOptions
) -> list[Effect]:
    if options.family is None or options.judge_family is None:
        return []
    expressions = [evaluation.target for evaluation in baseline.plan.evaluations.values()]
    target = next(filter(None, expressions), None)
    targets = [None] * len(before) if target is None else read_verdicts(baseline, target)
    families = read_verdicts(baseline, options.family)
    judge_family = options.judge_family
    difference, unit = self_preference(before, families, targets, judge_family, verdict.best)
    cause = "self-preference"
    return [Effect(cause, cause, difference.n, shift=difference, shift_of=unit)]


def replay_obstacle(probe: Probe, units: Sequence[str], plan: Plan) -> str:
    """Why a recording of these units cannot answer the probe; "" if it can."""
    if probe.cause == "position":
        return ""
    renamed = probe.node_renaming(plan)
    if renamed is None:
        return "a recording has no reply to a changed text: run the audit with a model"
    if any(renamed(node.id) in units for node in plan.nodes):
        return ""
    return "the recording has no further sample of any unit"
