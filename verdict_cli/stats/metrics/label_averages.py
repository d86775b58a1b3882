"""Precision, recall, specificity, F1 and F-beta: of one label, or averaged over the labels. Oracle: scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from verdict_cli.stats.columns.column import Floats, Ints
from verdict_cli.stats.metrics.statistic import HarmonicMean, Proportion, Statistic, proportion, ratio, statistic_of

FEW_ROWS_OF_LABEL, FEW_ROWS_OF_MEAN = 10, 5
"""The rows of the rarest label below which agreement, and a mean over the labels, have a warning (measured)."""
LabelMask = npt.NDArray[np.bool_]


def label_share(
    name: str, is_target: LabelMask, is_predicted: LabelMask, weight: Floats | None = None, beta: float = 1.0
) -> Proportion | HarmonicMean:
    """The share of rows that a metric of one label is, or of which F1 is a function; F-beta is one of two shares."""
    both = (is_target & is_predicted).astype(float)
    if name == "f1":
        return Proportion(both, (is_target | is_predicted).astype(float), _f1_of_jaccard, weight)
    if name == "specificity":
        return Proportion((~is_target & ~is_predicted).astype(float), (~is_target).astype(float), None, weight)
    precision, recall = (Proportion(both, side.astype(float), None, weight) for side in (is_predicted, is_target))
    if name == "f_beta":
        return HarmonicMean(precision, recall, 1 / (1 + beta**2), weight)
    return precision if name == "precision" else recall


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


def positive_statistics(rows: LabelRows, positive: int, beta: float) -> dict[str, Statistic]:
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
    return {
        name: proportion(name, share.hits, share.trials, lacks[name], share.transform)
        if isinstance(share, Proportion)
        else _f_beta_of_label(share, rows, lacks[name], beta)
        for name, share in shares.items()
    }


def _f_beta_of_label(share: HarmonicMean, rows: LabelRows, undefined: str, beta: float) -> Statistic:
    right, targets, predictions = share.recall.hits, share.recall.trials, share.precision.trials

    def f_beta(weights: Floats) -> Floats:
        n = weights.sum(axis=1)
        return ratio(*_parts("f_beta", weights @ right, weights @ targets, weights @ predictions, n, beta))

    return statistic_of(
        "f_beta",
        f_beta,
        undefined,
        shares=partial(list, (share,)),
        differs=(rows.targets != rows.predictions).astype(float),
        classes=(targets,),
        least_rows=FEW_ROWS_OF_MEAN,
    )


@dataclass(frozen=True, slots=True)
class LabelRows:
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
        each = np.nan_to_num(ratio(over, under))
        weights = targets if self.average == "weighted" else (targets + predictions > 0).astype(float)
        return ratio((each * weights).sum(axis=1), weights.sum(axis=1))

    def shares_of(self, name: str, beta: float) -> Callable[[], list[Proportion | HarmonicMean]] | None:
        """The labels' shares whose mean the metric is; None for pooled decisions."""
        if self.average == "micro":
            return None
        weighted = self.average == "weighted"
        sides = [(self.targets == code, self.predictions == code) for code in self.labels]
        return lambda: [
            label_share(name, target, predicted, target.astype(float) if weighted else None, beta)
            for target, predicted in sides
        ]

    def proportion_of(self, name: str, differs: Floats) -> Statistic | None:
        """The metric as one share of rows, where it is one: of the pooled decisions, and recall by the targets' shares."""
        if self.average == "macro":
            return None
        rows, scored = np.ones(len(differs)), np.isin(self.predictions, self.labels)
        if name == "recall" or (self.average == "micro" and scored.all() and name in ("precision", "f1", "f_beta")):
            return proportion(name, 1 - differs, rows)
        if self.average == "weighted" or name in ("f1", "f_beta"):
            return None
        if name == "precision":
            return proportion(name, 1 - differs, scored.astype(float), "no label is predicted")
        others = len(self.labels) - 1
        if not others:
            return None
        # A wrong row is a false positive of one label, and every row a negative of all labels but its target.
        return proportion(name, 1 - differs * scored, rows, transform=lambda share: 1 - (1 - share) / others)
