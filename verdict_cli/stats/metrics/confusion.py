"""Metrics of labels: functions of the confusion matrix, and precision, recall, specificity, F1 and F-beta of one label, or
averaged over the labels. Oracle: scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from msgspec import Struct

from verdict_cli.language.metric_registry import AVERAGED
from verdict_cli.stats.columns.column import Floats, Ints, RowMask
from verdict_cli.stats.metrics.statistic import (
    Proportion,
    Statistic,
    Statistics,
    Sums,
    proportion,
    ratio,
    statistic_of,
)


def label_share(
    name: str, is_target: RowMask, is_predicted: RowMask, beta: float = 1.0
) -> Proportion:
    """The share of rows that a metric of one label is, or of which F1 is a function."""
    target, predicted = is_target.astype(float), is_predicted.astype(float)
    both = target * predicted
    if name == "f1":
        return Proportion(both, np.maximum(target, predicted), _f1_of_jaccard)
    if name == "specificity":
        return Proportion((1 - target) * (1 - predicted), 1 - target)
    if name == "f_beta":  # rows right, of these, misses and false alarms, which count by beta
        return Proportion(both, (beta**2 * target + predicted) / (1 + beta**2))
    return Proportion(both, predicted if name == "precision" else target)


def _f1_of_jaccard(share: Any) -> Any:
    """F1 of the rows with the positive label on both sides among those with it on either."""
    return 2 * share / (1 + share)


def _parts(
    name: str, right: Floats, targets: Floats, predictions: Floats, n: Floats, beta: float
) -> tuple[Floats, Floats]:
    """What the metric divides, and by what, of counts: rows right, targets, predictions and all rows."""
    if name == "specificity":
        return n - targets - predictions + right, n - targets
    if name in ("precision", "recall"):
        return right, predictions if name == "precision" else targets
    square = 1.0 if name == "f1" else beta**2
    return (1 + square) * right, square * targets + predictions


def positive_statistics(rows: LabelRows, positive: int, beta: float) -> Statistics:
    """The metrics of the positive label."""
    is_target, is_predicted = rows.targets == positive, rows.predictions == positive
    lacks = {
        "precision": "the positive label is never predicted",
        "recall": "the positive label is never the target",
        "specificity": "the positive label is always the target",
        "f1": "the positive label does not occur",
        "f_beta": "the positive label does not occur",
    }
    shares = {name: label_share(name, is_target, is_predicted, beta=beta) for name in lacks}
    made = {
        name: proportion(name, share.hits, share.trials, lacks[name], share.transform)
        for name, share in shares.items()
    }
    # Misses and false alarms count differently: the rows are no independent trials of one share.
    hits, trials = shares["f_beta"].hits, shares["f_beta"].trials
    made["f_beta"] = statistic_of(
        "f_beta",
        made["f_beta"].at,
        lacks["f_beta"],
        differs=(is_target != is_predicted).astype(float),
        with_disagreement=lambda counts, rows: float(counts @ hits / (counts @ trials + rows / 2)),
        classes=(is_target.astype(float),),
    )
    return made


class LabelRows(Struct, frozen=True):
    """The target and prediction at each atom, the labels that are averaged over, and how."""

    targets: Ints
    predictions: Ints
    labels: Ints
    average: str

    def averaged(self, name: str, counts: Floats, beta: float) -> Floats:
        """The average of the metric over the labels, from confusion matrices whose first rows are the labels."""
        k = len(self.labels)
        n = counts.sum(axis=(1, 2))[:, None]
        sides = (np.diagonal(counts, axis1=1, axis2=2), counts.sum(axis=2), counts.sum(axis=1))
        right, targets, predictions = (side[:, :k] for side in sides)
        over, under = _parts(name, right, targets, predictions, n, beta)
        if self.average == "micro":
            return ratio(over.sum(axis=1), under.sum(axis=1))
        values = np.nan_to_num(ratio(over, under))
        weights = (
            targets if self.average == "weighted" else (targets + predictions > 0).astype(float)
        )
        return ratio((values * weights).sum(axis=1), weights.sum(axis=1))

    def proportion_of(self, name: str, differs: Floats) -> Statistic | None:
        """The metric as one share of rows, where it is one: of the pooled decisions, and recall by the targets' shares."""
        if self.average == "macro":
            return None
        rows, scored = np.ones(len(differs)), np.isin(self.predictions, self.labels)
        if name == "recall" or (
            self.average == "micro" and scored.all() and name in ("precision", "f1", "f_beta")
        ):
            return proportion(name, 1 - differs, rows)
        if self.average == "weighted" or name in ("f1", "f_beta"):
            return None
        if name == "precision":
            return proportion(name, 1 - differs, scored.astype(float), "no label is predicted")
        others = len(self.labels) - 1
        if not others:
            return None
        # A wrong row is a false positive of one label, and every row a negative of all labels but its target.
        return proportion(
            name, 1 - differs * scored, rows, transform=lambda share: 1 - (1 - share) / others
        )


MOST_DISTINCT_LABELS = 256
"""More distinct labels than this are not classes: the matrix would be mostly empty, and take 8 bytes a cell in each resample."""

ONE_CLASS = "undefined: only one class is predicted, or only one is a target"
CONSTANT_LABELS = (
    "undefined: predictions and targets are all one class, so chance agreement is certain"
)

CountTables = Floats
"""(resamples, targets, predictions)"""


class ConfusionTable:
    """The confusion matrices of resamples, from the target's and prediction's label of each atom."""

    def __init__(self, targets: Ints, predictions: Ints, labels: int) -> None:
        self.labels = labels
        self._sums = Sums(targets * labels + predictions)

    def __call__(self, weights: Floats) -> CountTables:
        flat = np.zeros((len(weights), self.labels * self.labels))
        flat[:, self._sums.keys] = self._sums(weights)
        return flat.reshape(len(weights), self.labels, self.labels)


def contingency(first: Ints, second: Ints) -> tuple[Ints, Ints]:
    """The labels that occur, and how often each of the first occurs with each of the second."""
    used = np.union1d(first, second)
    k = len(used)
    cell = np.searchsorted(used, first) * k + np.searchsorted(used, second)
    return used, np.bincount(cell, minlength=k * k).reshape(k, k)


def _diagonal(counts: CountTables) -> Floats:
    return np.diagonal(counts, axis1=1, axis2=2)


def _sides(counts: CountTables) -> tuple[Floats, Floats]:
    """How often each label is the target, and how often the prediction."""
    return counts.sum(axis=2), counts.sum(axis=1)


def accuracy(counts: CountTables) -> Floats:
    """The share of rows whose prediction is the target."""
    return ratio(_diagonal(counts).sum(axis=1), counts.sum(axis=(1, 2)))


def balanced_accuracy(counts: CountTables) -> Floats:
    """The mean recall of the labels that occur as targets."""
    rows = counts.sum(axis=2)
    return ratio(
        np.nan_to_num(ratio(_diagonal(counts), rows)).sum(axis=1),
        (rows > 0).sum(axis=1).astype(float),
    )


def mcc(counts: CountTables) -> Floats:
    """Matthews' correlation, for many labels by Gorodkin (2004)."""
    targets, predictions = _sides(counts)
    n = counts.sum(axis=(1, 2))
    both = _diagonal(counts).sum(axis=1) * n - (targets * predictions).sum(axis=1)
    spread = (n**2 - (targets**2).sum(axis=1)) * (n**2 - (predictions**2).sum(axis=1))
    return ratio(both, np.sqrt(spread))


def cohen_kappa(counts: CountTables) -> Floats:
    """Agreement beyond chance (Cohen, 1960), chance by each side's own shares."""
    targets, predictions = _sides(counts)
    n = counts.sum(axis=(1, 2))
    chance = (targets * predictions).sum(axis=1)
    return ratio(_diagonal(counts).sum(axis=1) * n - chance, n**2 - chance)


def gwet_ac1(counts: CountTables, labels: int) -> Floats:
    """Agreement beyond chance (Gwet, 2008): chance by the mean shares, over all `labels` of the evaluation."""
    targets, predictions = _sides(counts)
    n = counts.sum(axis=(1, 2))
    if labels < 2:
        return np.full(len(counts), np.nan)
    shares = ratio(targets + predictions, 2 * n[:, None])
    chance = (shares * (1 - shares)).sum(axis=1) / (labels - 1)
    return ratio(accuracy(counts) - chance, 1 - chance)


def nominal_alpha(counts: CountTables) -> Floats:
    """Krippendorff's alpha of two observers with nominal distances (Krippendorff, 2011)."""
    targets, predictions = _sides(counts)
    uses = targets + predictions
    n = uses.sum(axis=1)
    expected = n * (n - 1) - (uses * (uses - 1)).sum(axis=1)
    observed = (n - 2 * _diagonal(counts).sum(axis=1)) * (n - 1)
    return 1 - ratio(observed, expected)


def label_statistics(
    targets: Ints,
    predictions: Ints,
    labels: int,
    positive: int | None,
    missing: bool,
    average: str = "macro",
    beta: float = 1.0,
) -> Statistics:
    """The metrics of labels `0 … labels - 1` at each atom. `missing`: the last label stands for "no prediction"."""
    used = np.union1d(targets, predictions)
    table = ConfusionTable(
        np.searchsorted(used, targets), np.searchsorted(used, predictions), len(used)
    )
    scored = len(used) - (missing and labels - 1 in used)
    differs = (targets != predictions).astype(float)

    # A label that is only predicted has the rows in which it is.
    label = np.where(np.isin(predictions, targets), targets, predictions).astype(np.float64)
    sides = (targets.astype(np.float64), predictions.astype(np.float64))

    def of(
        name: str, formula: Callable[[CountTables], Floats], undefined: str = "no rows"
    ) -> Statistic:
        def disagreeing(weights: Floats, rows: float) -> float:
            return float(formula(_with_disagreement(table(weights[None, :]), rows))[0])

        is_mean = name == "balanced_accuracy" or name in AVERAGED
        return statistic_of(
            name,
            lambda weights: formula(table(weights)),
            undefined,
            differs=differs,
            with_disagreement=disagreeing,
            classes=(label, sides[1]) if name == "precision" else (label,) if is_mean else sides,
            labels_count_alike=is_mean and average != "weighted",
            width=len(used) ** 2,
        )

    statistics = {
        "balanced_accuracy": of("balanced_accuracy", balanced_accuracy),
        "mcc": of("mcc", mcc, ONE_CLASS),
        "cohen_kappa": of("cohen_kappa", cohen_kappa, CONSTANT_LABELS),
        "gwet_ac1": of(
            "gwet_ac1", lambda counts: gwet_ac1(counts, labels), "there is one label only"
        ),
        "krippendorff_alpha": of("krippendorff_alpha", nominal_alpha, CONSTANT_LABELS),
        "accuracy": proportion("accuracy", 1 - differs, np.ones(len(differs))),
    }
    rows = LabelRows(targets, predictions, used[:scored], average)
    if positive is not None:
        return statistics | positive_statistics(rows, positive, beta)

    def averaged(name: str) -> Statistic:
        share = rows.proportion_of(name, differs)
        return share or of(name, lambda counts: rows.averaged(name, counts, beta))

    return statistics | {name: averaged(name) for name in AVERAGED}


def _with_disagreement(counts: CountTables, rows: float) -> CountTables:
    """The tables with this many more rows that disagree, their sides as frequent as the agreeing rows' labels."""
    agreed = _diagonal(counts)
    pairs = agreed[:, :, None] * agreed[:, None, :] * (1 - np.eye(counts.shape[1]))
    more: CountTables = (
        counts + rows * pairs * ratio(np.ones(len(counts)), pairs.sum(axis=(1, 2)))[:, None, None]
    )
    return more
