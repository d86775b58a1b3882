"""Whether a judge notices planted errors: how much more often its verdict is worse than in repeats of the same rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from verdict_cli.features.audit.effects import Effect, mean_change, wilson_rate
from verdict_cli.features.audit.probe_tests import controlled_differences, exchange_test
from verdict_cli.language.fields.types import ScaleType
from verdict_cli.plan.node import Plan
from verdict_cli.stats.columns.column import Floats, Ints

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
