"""The difference of two runs' `ppi` over the rows that both judged: how much better people would find the second run.

Each run is corrected by its own labels, with their weights. What a row adds to the difference is what it adds to the second
estimate minus what it adds to the first, so rows that the two judges see alike, and rows with a label in both runs, cancel
as in a paired test; with slopes of 1 and the same labelled rows it is the mean difference of the judges plus the weighted
mean of what the labels' differences are from theirs. Clusters add up before they are squared. Repeated runs of one
pipeline count as their mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from verdict_cli.language.evaluations import GoldScope
from verdict_cli.stats.columns.column import Floats, Ints
from verdict_cli.stats.columns.gold_pairs import GoldPairs
from verdict_cli.stats.intervals.interval_methods import NO_VARIATION, MetricValue, student
from verdict_cli.stats.prediction_powered import tuned
from verdict_cli.stats.weighted_labels import (
    design_effect,
    label_warnings,
    labelled_freedom,
    unseen_error,
    weighted_influence,
    weighted_slope,
)

CORRECTED = "ppi"
"""The corrected estimate that has a difference between runs."""
NO_GOLD = "the {side} run's evaluation has no `gold`"
FEW_LABELS_OF_RUN = (
    "fewer than two rows of the {side} run have a label; a label counts for the run that it was given in"
)
LABELS_OF_RUN = "{side} run: {warning}"
SIDES = ("first", "second")

GoldOrReason = GoldPairs | str | None
"""A run's answers and labels, why they cannot be compared, or None without `gold`."""
CorrectedPair = tuple[float | None, float | None, MetricValue, float | None]
"""Both estimates, the second minus the first, and its p-value."""


def corrected_difference(
    golds: Sequence[GoldOrReason], rows: Sequence[Ints], level: float, first: int = 1
) -> CorrectedPair:
    """The difference over these rows, whose indices in each run are `rows`: the mean of the runs after the `first` ones minus
    that of these. Clusters are the last run's."""
    if not all(isinstance(found, GoldPairs) for found in golds):
        side = SIDES[all(isinstance(found, GoldPairs) for found in golds[:first])]
        return _undefined(next((why for why in golds if isinstance(why, str)), NO_GOLD.format(side=side)), 0)
    shared = shared_pairs(golds, rows)
    for index, found in enumerate(shared):
        if int(found.labelled.sum()) < 2:
            return _undefined(FEW_LABELS_OF_RUN.format(side=SIDES[index >= first]), len(found.judge))
    return _difference(shared[:first], shared[first:], level)


def shared_pairs(golds: Sequence[GoldOrReason], rows: Sequence[Ints]) -> list[GoldPairs]:
    """Each run's answers and labels of the rows that all runs answer, with the last run's clusters."""
    known = [(found, at) for found, at in zip(golds, rows, strict=True) if isinstance(found, GoldPairs)]
    kept = np.logical_and.reduce([found.answered[at] for found, at in known])
    shared = [found.take(at[kept]) for found, at in known]
    return [replace(found, cluster=shared[-1].cluster) for found in shared]


def corrected_influence(found: GoldPairs, of: GoldScope) -> tuple[float, Floats]:
    """A run's estimate, and what each row adds to it."""
    value, influence = weighted_influence(found, _slope(found), of)
    return found.clip(value), influence


def _undefined(reason: str, n: int) -> CorrectedPair:
    return None, None, MetricValue(None, None, None, n, reason), None


def _difference(old: Sequence[GoldPairs], new: Sequence[GoldPairs], level: float) -> CorrectedPair:
    from scipy.special import stdtr

    last, of = new[-1], new[-1].of
    sides = [[corrected_influence(found, of) for found in side] for side in (old, new)]
    first, second = (float(np.mean([value for value, _ in side])) for side in sides)
    before, after = (np.mean([influence for _, influence in side], axis=0) for side in sides)
    change, influence = second - first, after - before
    variance = float((influence**2).sum()) * design_effect(last, influence)
    # Repeated runs have the same labels: an error that these do not show is in all of them.
    variance += sum(float(np.mean([unseen_error(found, of) for found in side])) for side in (old, new))
    freedom = min(labelled_freedom(found) for found in (*old, *new))
    value = MetricValue(change, None, None, len(last.judge), NO_VARIATION, method="paired PPI", level=level)
    p = None
    if variance > 0:
        error = math.sqrt(variance)
        low, high = (change + sign * student(level, freedom) * error for sign in (-1, 1))
        widest = widest_difference(old[-1], last)
        value = replace(value, low=max(low, -widest), high=min(high, widest), reason="", se=error, df=freedom)
        p = float(2 * stdtr(freedom, -abs(change) / error))
    warnings = (
        LABELS_OF_RUN.format(side=side, warning=warning)
        for side, runs in zip(SIDES, (old, new), strict=True)
        for found in runs
        for warning in label_warnings(found)
    )
    return first, second, value.warned(*warnings), p


def widest_difference(old: GoldPairs, new: GoldPairs) -> float:
    """The most by which two estimates can differ."""
    return min(old.range, new.range) if old.binary == new.binary else math.inf


def _slope(found: GoldPairs) -> float:
    """The slope on the judge's mean of all rows; PPI++ weighs that of the rows without a label."""
    if found.inclusion is not None:
        return weighted_slope(found)
    others = int(np.logical_not(found.labelled).sum())
    return tuned(found.judge, found.truth) * len(found.judge) / others if others else 0.0
