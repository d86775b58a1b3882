"""The difference of two runs' `ppi` over the rows that both judged: how much better people would find the second run.

Each run is corrected by its own labels, with their weights. What a row adds to the difference is what it adds to the second
estimate minus what it adds to the first, so rows that the two judges see alike, and rows with a label in both runs, cancel
as in a paired test; with slopes of 1 and the same labelled rows it is the mean difference of the judges plus the weighted
mean of what the labels' differences are from theirs. Clusters add up before they are squared.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from verdict_cli.stats.columns.column import Ints
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

CorrectedPair = tuple[float | None, float | None, MetricValue, float | None]
"""Both estimates, the second minus the first, and its p-value."""


def corrected_difference(
    golds: tuple[GoldPairs | str | None, GoldPairs | str | None], rows: tuple[Ints, Ints], level: float
) -> CorrectedPair:
    """The difference over these pairs of rows; `rows` are their indices in each run. Clusters are the second run's."""
    first, second = golds
    if not isinstance(first, GoldPairs) or not isinstance(second, GoldPairs):
        side = SIDES[isinstance(first, GoldPairs)]
        return _undefined(next((why for why in golds if isinstance(why, str)), NO_GOLD.format(side=side)), 0)
    kept = first.answered[rows[0]] & second.answered[rows[1]]
    new = second.take(rows[1][kept])
    old = replace(first.take(rows[0][kept]), cluster=new.cluster)
    for side, found in zip(SIDES, (old, new), strict=True):
        if int(found.labelled.sum()) < 2:
            return _undefined(FEW_LABELS_OF_RUN.format(side=side), len(new.judge))
    return _difference(old, new, level)


def _undefined(reason: str, n: int) -> CorrectedPair:
    return None, None, MetricValue(None, None, None, n, reason), None


def _difference(old: GoldPairs, new: GoldPairs, level: float) -> CorrectedPair:
    from scipy.special import stdtr

    of = new.of
    (first, before), (second, after) = (weighted_influence(found, _slope(found), of) for found in (old, new))
    first, second = old.clip(first), new.clip(second)
    change, influence = second - first, after - before
    variance = float((influence**2).sum()) * design_effect(new, influence)
    variance += unseen_error(old, of) + unseen_error(new, of)
    freedom = min(labelled_freedom(old), labelled_freedom(new))
    value = MetricValue(change, None, None, len(new.judge), NO_VARIATION, method="paired PPI", level=level)
    p = None
    if variance > 0:
        error = math.sqrt(variance)
        low, high = (change + sign * student(level, freedom) * error for sign in (-1, 1))
        widest = min(old.range, new.range) if old.binary == new.binary else math.inf
        value = replace(value, low=max(low, -widest), high=min(high, widest), reason="", se=error, df=freedom)
        p = float(2 * stdtr(freedom, -abs(change) / error))
    warnings = (
        LABELS_OF_RUN.format(side=side, warning=warning)
        for side, found in zip(SIDES, (old, new), strict=True)
        for warning in label_warnings(found)
    )
    return first, second, value.warned(*warnings), p


def _slope(found: GoldPairs) -> float:
    """The slope on the judge's mean of all rows; PPI++ weighs that of the rows without a label."""
    if found.inclusion is not None:
        return weighted_slope(found)
    others = int(np.logical_not(found.labelled).sum())
    return tuned(found.judge, found.truth) * len(found.judge) / others if others else 0.0
