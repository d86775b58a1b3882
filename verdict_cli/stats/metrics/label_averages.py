"""Precision, recall, specificity, F1 and F-beta: of one label, or averaged over the labels. Oracle: scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from verdict_cli.stats.columns.column import Floats, Ints
from verdict_cli.stats.metrics.statistic import Proportion, Statistic, proportion, ratio

AVERAGED = ("precision", "recall", "specificity", "f1", "f_beta")
"""The metrics of one label that are averaged over the labels where none is positive."""
LabelMask = npt.NDArray[np.bool_]


def label_share(
    name: str, is_target: LabelMask, is_predicted: LabelMask, weight: Floats | None = None, beta: float = 1.0
) -> Proportion:
    """The share of rows that a metric of one label is, or of which F1 is a function. Of F-beta's rows the false positives
    and false negatives count as parts of one."""
    both = (is_target & is_predicted).astype(float)
    if name == "f1":
        return Proportion(both, (is_target | is_predicted).astype(float), _f1_of_jaccard, weight)
    if name == "f_beta":
        missed, wrong = (is_target & ~is_predicted).astype(float), (is_predicted & ~is_target).astype(float)
        return Proportion(both, both + (beta**2 * missed + wrong) / (1 + beta**2), None, weight)
    if name == "specificity":
        return Proportion((~is_target & ~is_predicted).astype(float), (~is_target).astype(float), None, weight)
    return Proportion(both, (is_predicted if name == "precision" else is_target).astype(float), None, weight)


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
    found = {}
    for name, undefined in lacks.items():
        share = label_share(name, is_target, is_predicted, beta=beta)
        found[name] = proportion(name, share.hits, share.trials, undefined, share.transform)
    # A false positive counts as a small part of a row: a few of them show little of a rare label.
    return found | {"f_beta": replace(found["f_beta"], classes=(is_target.astype(float),))}


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

    def shares_of(self, name: str, beta: float) -> Callable[[], list[Proportion]] | None:
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
