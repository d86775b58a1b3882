"""Metrics of labels: functions of the confusion matrix."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from verdict_cli.language.metric_registry import AVERAGED
from verdict_cli.stats.columns.column import Floats, Ints
from verdict_cli.stats.metrics.label_averages import (
    FEW_ROWS_OF_LABEL,
    FEW_ROWS_OF_MEAN,
    LabelRows,
    label_share,
    positive_statistics,
)
from verdict_cli.stats.metrics.statistic import (
    HarmonicMean,
    Proportion,
    Statistic,
    Sums,
    proportion,
    ratio,
    statistic_of,
)

MOST_DISTINCT_LABELS = 256
"""More distinct labels than this are not classes: the matrix would be mostly empty, and take 8 bytes a cell in each resample."""

ONE_CLASS = "undefined: only one class is predicted, or only one is a target"
CONSTANT_LABELS = "undefined: predictions and targets are all one class, so chance agreement is certain"

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
    return _mean_where(ratio(_diagonal(counts), counts.sum(axis=2)), counts.sum(axis=2) > 0)


def _mean_where(values: Floats, kept: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> Floats:
    return ratio(np.where(kept, values, 0.0).sum(axis=1), kept.sum(axis=1).astype(float))


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
) -> dict[str, Statistic]:
    """The metrics of labels `0 … labels - 1` at each atom. `missing`: the last label stands for "no prediction"."""
    found = np.union1d(targets, predictions)
    table = ConfusionTable(np.searchsorted(found, targets), np.searchsorted(found, predictions), len(found))
    scored = len(found) - (missing and labels - 1 in found)
    differs = (targets != predictions).astype(float)

    def of(
        name: str,
        formula: Callable[[CountTables], Floats],
        undefined: str = "no rows",
        *,
        shares: Callable[[], list[Proportion | HarmonicMean]] | None = None,
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
            classes=(targets.astype(np.float64),)
            if shares
            else (targets.astype(np.float64), predictions.astype(np.float64)),
            least_rows=FEW_ROWS_OF_MEAN if shares else FEW_ROWS_OF_LABEL,
            labels_count_alike=shares is not None and average != "weighted",
            **({} if shares or name not in AVERAGED else {"interval": "agreement"}),
        )

    given = {
        "balanced_accuracy": of(
            "balanced_accuracy",
            balanced_accuracy,
            shares=lambda: [label_share("recall", targets == code, predictions == code) for code in np.unique(targets)],
        ),
        "mcc": of("mcc", mcc, ONE_CLASS),
        "cohen_kappa": of("cohen_kappa", cohen_kappa, CONSTANT_LABELS),
        "gwet_ac1": of("gwet_ac1", lambda counts: gwet_ac1(counts, labels), "there is one label only"),
        "krippendorff_alpha": of("krippendorff_alpha", nominal_alpha, CONSTANT_LABELS),
        "accuracy": proportion("accuracy", 1 - differs, np.ones(len(differs))),
    }
    rows = LabelRows(targets, predictions, found[:scored], average)
    if positive is not None:
        return given | positive_statistics(rows, positive, beta)

    def averaged(name: str) -> Statistic:
        shares = rows.shares_of(name, beta)
        return rows.proportion_of(name, differs) or of(
            name, lambda counts: rows.averaged(name, counts, beta), shares=shares
        )

    return given | {name: averaged(name) for name in AVERAGED}


def _with_disagreement(counts: CountTables, rows: float) -> CountTables:
    """The tables with this many more rows that disagree, their sides as frequent as the agreeing rows' labels."""
    agreed = _diagonal(counts)
    pairs = agreed[:, :, None] * agreed[:, None, :] * (1 - np.eye(counts.shape[1]))
    more: CountTables = counts + rows * pairs * ratio(np.ones(len(counts)), pairs.sum(axis=(1, 2)))[:, None, None]
    return more
