"""Whether a probe changed the verdicts more than a repeat does, as a randomised experiment.

A repeat is the control of a probe: the same row without the change. If the judge does not see the change,
the probe's verdict and the repeats' are exchangeable, so the effect is computed again with any one of them in the
probe's place (all rows of a cluster alike). The p-value is the share of such draws with an effect as large. Probes are one
family, corrected by Holm's procedure (1979).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from verdict_cli.features.audit.effects import Effect, mean_change
from verdict_cli.stats.columns.column import Floats, Ints
from verdict_cli.stats.compare import holm_adjusted
from verdict_cli.stats.intervals.interval_methods import MetricValue

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
