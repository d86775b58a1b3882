"""Whether a judge notices planted errors: how much more often its verdict is worse than in repeats of the same rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from verdict_cli.features.audit.effects import Effect, mean_change, wilson_rate
from verdict_cli.language.fields.types import ScaleType
from verdict_cli.plan.node import Plan
from verdict_cli.stats.columns.column import Floats, Ints
from verdict_cli.stats.intervals.interval_methods import MetricValue
from verdict_cli.stats.permutation import holm_adjusted

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
        for row, (one, other) in enumerate(zip(before, verdicts, strict=True)):
            if one is not None and other is not None:
                values[row, column] = score(one, other)
    known = np.isfinite(values).sum(axis=1, keepdims=True)
    total = np.nansum(values, axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Floats = np.where(known > 1, (known * values - total) / (known - 1), np.nan)
    found[~np.isfinite(found[:, 0])] = np.nan
    return found


def exchange_test(
    differences: Floats, cluster: Ints | None, rng: np.random.Generator, *, larger: bool = False
) -> float | None:
    """The two-sided p-value of the mean of the first column, or that of its being `larger`; None where there is no row."""
    kept = np.isfinite(differences[:, 0])
    if not kept.any():
        return None
    rows = differences[kept]
    unit = np.arange(len(rows)) if cluster is None else np.unique(cluster[kept], return_inverse=True)[1]
    known = np.isfinite(rows)
    first = np.take_along_axis(rows, np.argsort(~known, axis=1, kind="stable"), 1)  # known ones first, in their order
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
    scores: list[RowScore] = [lambda one, other: float(one != other)]
    verdicts = [verdict for verdict in (*before, *after) if verdict is not None]
    if all(isinstance(verdict, int | float) and not isinstance(verdict, bool) for verdict in verdicts):
        scores.append(lambda one, other: float(other))
    elif goal is not None:
        scores.append(lambda one, other: float(other == goal))
    found = [
        exchange_test(controlled_differences(before, after, repeats, score), cluster, rng, larger=not place)
        for place, score in enumerate(scores)
    ]
    known = [p for p in found if p is not None]
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
    start = [None if one == goal else one for one in before]
    differences = controlled_differences(start, after, repeats, lambda one, other: float(other == goal))
    p = exchange_test(differences, cluster, np.random.default_rng([abs(seed), 6]), larger=True)
    return None if p is None else mean_change(differences[:, 0], seed), p


def with_family(effects: Sequence[Effect]) -> list[Effect]:
    """The effects with p-values as of one family (Holm)."""
    adjusted = holm_adjusted([effect.p for effect in effects])
    return [replace(effect, p_holm=p) for effect, p in zip(effects, adjusted, strict=True)]


DEGRADE, PLANTED = "degrade", "planted: "
"""The cause of such a probe, and what its name begins with before the kind of error."""
NO_CONTROL = "no repeats: a judge that varies lowers some verdicts without an error"
Rank = Callable[[Any], float]


def verdict_rank(plan: Plan, field: str, goal: Any) -> Rank | None:
    """How good a verdict is, by its scale; for another `goal` than the scale's best value, or without an order, how near it
    is to the goal. None where no verdict is better than another."""
    for node in reversed(plan.nodes):
        kind = node.result.fields.get(field)
        if isinstance(kind, ScaleType) and kind.scale.best() is not None and goal in (None, kind.scale.best()):
            values, best, bounds = kind.scale.values(), kind.scale.best(), kind.scale.bounds()
            if bounds is not None and not isinstance(best, bool | str):
                sign = 1.0 if best == bounds[1] else -1.0
                return lambda value: sign * float(value)
            return lambda value: float(values.index(value)) if value in values else np.nan
    if goal is None:
        return None
    if isinstance(goal, int | float) and not isinstance(goal, bool):
        return lambda value: -abs(float(value) - goal)
    return lambda value: float(value == goal)


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
    ranks = [None if one is None else rank(one) for verdicts in (before, after, *repeats) for one in verdicts]
    worst = min((each for each in ranks if each is not None and np.isfinite(each)), default=0.0)
    start = [None if one is None or not rank(one) > worst else one for one in before]

    def lowered(one: Any, other: Any) -> float:
        return float(rank(other) < rank(one))

    known = [
        lowered(one, other) for one, other in zip(start, after, strict=True) if one is not None and other is not None
    ]
    share = wilson_rate(int(sum(known)), len(known))
    if not repeats:
        parts = np.full(len(before), np.nan)
        return Effect(name, DEGRADE, len(known), success=share, note=NO_CONTROL), parts
    differences = controlled_differences(start, after, repeats, lowered)
    p = exchange_test(differences, cluster, np.random.default_rng([abs(seed), 7]), larger=True)
    noticed = None if p is None else mean_change(differences[:, 0], seed, cluster)
    return Effect(name, DEGRADE, len(known), success=share, success_beyond_noise=noticed, p=p), differences[:, 0]


def all_noticed(
    parts: Mapping[str, Floats], effects: Sequence[Effect], cluster: Ints | None, seed: int
) -> Effect | None:
    """All planted errors together: the mean over rows of the share of their errors that was noticed."""
    planted = sum(effect.n for effect in effects)
    if not planted:
        return None
    found = np.stack(list(parts.values()))
    counts = np.isfinite(found).sum(axis=0)
    means = np.where(counts > 0, np.nansum(found, axis=0) / np.maximum(counts, 1), np.nan)
    noticed = mean_change(means, seed, cluster) if counts.any() else None
    return Effect("all planted errors", DEGRADE, planted, success_beyond_noise=noticed)


def conclusion(effects: Sequence[Effect]) -> str:
    """What the judge notices of planted errors, in a sentence; "" without any."""
    kinds = [effect for effect in effects if effect.cause == DEGRADE and effect.success is not None and effect.n]
    whole = next((effect for effect in effects if effect.cause == DEGRADE and effect.success is None), None)
    if not kinds or whole is None:
        return ""
    noticed = [effect for effect in kinds if (effect.p_holm or 1.0) <= 0.05 and _more(effect)]
    missed = [_kind(effect) for effect in kinds if effect not in noticed]
    share = whole.success_beyond_noise
    if share is None or share.value is None:
        return f"{whole.n:,} planted errors; without repeats there is no control"
    ends = ""
    if share.low is not None and share.high is not None:
        ends = f" [{max(0.0, share.low):.0%}, {max(0.0, share.high):.0%}]"
    text = f"the judge noticed {max(0.0, share.value):.0%}{ends} of {whole.n:,} planted errors, more than repeats do"
    if not noticed:
        return f"{text}; no kind significantly"
    return f"{text}; not significantly: {', '.join(missed)}" if missed else f"{text}; every kind significantly"


def _more(effect: Effect) -> bool:
    return effect.success_beyond_noise is not None and (effect.success_beyond_noise.value or 0.0) > 0


def _kind(effect: Effect) -> str:
    return effect.name.removeprefix(PLANTED)
