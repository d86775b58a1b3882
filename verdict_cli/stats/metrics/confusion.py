"""Metrics of labels: functions of the confusion matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from verdict_cli.stats.columns.column import Floats, Ints
from verdict_cli.stats.metrics.statistic import Proportion, Statistic, Sums, proportion, ratio, statistic_of

MOST_DISTINCT_LABELS = 256
"""More distinct labels than this are not classes: the matrix would be mostly empty, and take 8 bytes a cell in each resample."""

FEW_ROWS_OF_LABEL, FEW_ROWS_OF_MEAN = 10, 5
"""The rows of the rarest label below which agreement, and a mean over the labels, have a warning (measured)."""

ONE_CLASS = "undefined: only one class is predicted, or only one is a target"
CONSTANT_LABELS = "undefined: predictions and targets are all one class, so chance agreement is certain"

Counts = Floats
"""(resamples, targets, predictions)"""


class ConfusionTable:
    """The confusion matrices of resamples, from the target's and prediction's label of each atom."""

    def __init__(self, targets: Ints, predictions: Ints, labels: int) -> None:
        self.labels = labels
        self._sums = Sums(targets * labels + predictions)

    def __call__(self, weights: Floats) -> Counts:
        flat = np.zeros((len(weights), self.labels * self.labels))
        flat[:, self._sums.keys] = self._sums(weights)
        return flat.reshape(len(weights), self.labels, self.labels)


def _diagonal(counts: Counts) -> Floats:
    return np.diagonal(counts, axis1=1, axis2=2)


def _sides(counts: Counts) -> tuple[Floats, Floats]:
    """How often each label is the target, and how often the prediction."""
    return counts.sum(axis=2), counts.sum(axis=1)


def accuracy(counts: Counts) -> Floats:
    """The share of rows whose prediction is the target."""
    return ratio(_diagonal(counts).sum(axis=1), counts.sum(axis=(1, 2)))


def balanced_accuracy(counts: Counts) -> Floats:
    """The mean recall of the labels that occur as targets."""
    return _mean_where(ratio(_diagonal(counts), counts.sum(axis=2)), counts.sum(axis=2) > 0)


def _mean_where(values: Floats, kept: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> Floats:
    return ratio(np.where(kept, values, 0.0).sum(axis=1), kept.sum(axis=1).astype(float))


def _macro(over: Floats, under: Floats, counts: Counts, scored: int) -> Floats:
    targets, predictions = _sides(counts)
    kept = (targets + predictions > 0)[:, :scored]
    return _mean_where(np.nan_to_num(ratio(over, under)[:, :scored]), kept)


def mcc(counts: Counts) -> Floats:
    """Matthews' correlation, for many labels by Gorodkin (2004)."""
    targets, predictions = _sides(counts)
    n = counts.sum(axis=(1, 2))
    both = _diagonal(counts).sum(axis=1) * n - (targets * predictions).sum(axis=1)
    spread = (n**2 - (targets**2).sum(axis=1)) * (n**2 - (predictions**2).sum(axis=1))
    return ratio(both, np.sqrt(spread))


def cohen_kappa(counts: Counts) -> Floats:
    """Agreement beyond chance (Cohen, 1960), chance by each side's own shares."""
    targets, predictions = _sides(counts)
    n = counts.sum(axis=(1, 2))
    chance = (targets * predictions).sum(axis=1)
    return ratio(_diagonal(counts).sum(axis=1) * n - chance, n**2 - chance)


def gwet_ac1(counts: Counts, labels: int) -> Floats:
    """Agreement beyond chance (Gwet, 2008): chance by the mean shares, over all `labels` of the evaluation."""
    targets, predictions = _sides(counts)
    n = counts.sum(axis=(1, 2))
    if labels < 2:
        return np.full(len(counts), np.nan)
    shares = ratio(targets + predictions, 2 * n[:, None])
    chance = (shares * (1 - shares)).sum(axis=1) / (labels - 1)
    return ratio(accuracy(counts) - chance, 1 - chance)


def nominal_alpha(counts: Counts) -> Floats:
    """Krippendorff's alpha of two observers with nominal distances (Krippendorff, 2011)."""
    targets, predictions = _sides(counts)
    uses = targets + predictions
    n = uses.sum(axis=1)
    expected = n * (n - 1) - (uses * (uses - 1)).sum(axis=1)
    observed = (n - 2 * _diagonal(counts).sum(axis=1)) * (n - 1)
    return 1 - ratio(observed, expected)


def label_statistics(
    targets: Ints, predictions: Ints, labels: int, positive: int | None, missing: bool
) -> dict[str, Statistic]:
    """The metrics of labels `0 … labels - 1` at each atom. `missing`: the last label stands for "no prediction"."""
    found = np.union1d(targets, predictions)
    table = ConfusionTable(np.searchsorted(found, targets), np.searchsorted(found, predictions), len(found))
    scored = len(found) - (missing and labels - 1 in found)
    differs = (targets != predictions).astype(float)

    def of(
        name: str,
        formula: Callable[[Counts], Floats],
        undefined: str = "no rows",
        *,
        shares: Callable[[], list[Proportion]] | None = None,
    ) -> Statistic:
        # With MOVER a rare label keeps its own wide interval, agreement beyond chance has no such part.
        return statistic_of(
            name,
            lambda weights: formula(table(weights)),
            undefined,
            differs=differs,
            with_disagreement=lambda weights, rows: float(
                formula(_with_disagreement(table(weights[None, :]), rows))[0]
            ),
            shares=shares,
            classes=(targets.astype(np.float64),),
            least_rows=FEW_ROWS_OF_MEAN if shares else FEW_ROWS_OF_LABEL,
        )

    def of_label(code: int, name: str) -> Proportion:
        is_target, is_predicted = (targets == code).astype(float), (predictions == code).astype(float)
        both = is_target * is_predicted
        if name == "f1":
            return Proportion(both, is_target + is_predicted - both, _f1_of_jaccard)
        return Proportion(both, is_predicted if name == "precision" else is_target)

    given = {
        "balanced_accuracy": of(
            "balanced_accuracy",
            balanced_accuracy,
            shares=lambda: [of_label(code, "recall") for code in np.unique(targets)],
        ),
        "mcc": of("mcc", mcc, ONE_CLASS),
        "cohen_kappa": of("cohen_kappa", cohen_kappa, CONSTANT_LABELS),
        "gwet_ac1": of("gwet_ac1", lambda counts: gwet_ac1(counts, labels), "there is one label only"),
        "krippendorff_alpha": of("krippendorff_alpha", nominal_alpha, CONSTANT_LABELS),
        "accuracy": proportion("accuracy", 1 - differs, np.ones(len(differs))),
    }
    if positive is not None:
        is_target, is_predicted = (targets == positive).astype(float), (predictions == positive).astype(float)
        both = is_target * is_predicted
        either = is_target + is_predicted - both
        return given | {
            "precision": proportion("precision", both, is_predicted, "the positive label is never predicted"),
            "recall": proportion("recall", both, is_target, "the positive label is never the target"),
            "f1": proportion("f1", both, either, "the positive label does not occur", _f1_of_jaccard),
        }

    def macro(name: str, formula: Callable[[Floats, Floats, Floats], tuple[Floats, Floats]]) -> Statistic:
        def value(counts: Counts) -> Floats:
            return _macro(*formula(_diagonal(counts), *_sides(counts)), counts, scored)

        return of(name, value, shares=lambda: [of_label(code, name) for code in found[:scored]])

    return given | {
        "precision": macro("precision", lambda right, targets, predictions: (right, predictions)),
        "recall": macro("recall", lambda right, targets, predictions: (right, targets)),
        "f1": macro("f1", lambda right, targets, predictions: (2 * right, targets + predictions)),
    }


def _with_disagreement(counts: Counts, rows: float) -> Counts:
    """The tables with this many more rows that disagree, their sides as frequent as the agreeing rows' labels."""
    agreed = _diagonal(counts)
    pairs = agreed[:, :, None] * agreed[:, None, :] * (1 - np.eye(counts.shape[1]))
    more: Counts = counts + rows * pairs * ratio(np.ones(len(counts)), pairs.sum(axis=(1, 2)))[:, None, None]
    return more


def _f1_of_jaccard(share: Any) -> Any:
    """F1 of the rows with the positive label on both sides among those with it on either."""
    return 2 * share / (1 + share)
