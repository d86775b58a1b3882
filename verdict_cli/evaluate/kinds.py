"""What predictions and targets are, and which figures fit them.

| predictions and targets | kind |
| --- | --- |
| a list on either side | ranking |
| only the words A, B and tie | pairwise |
| a word on either side, or only booleans (0 and 1 beside them count as booleans), or `positive:` is given | classification |
| a float on either side | numeric |
| integers | ordinal |
"""

from __future__ import annotations

from collections.abc import Sequence

from verdict_cli.evaluate.column import Column
from verdict_cli.evaluate.labels import Labels
from verdict_cli.spec.evaluate import Evaluation, Kind

_PROBABILITY: tuple[str, ...] = ("auroc", "average_precision", "brier", "log_loss", "ece")
_PANEL: tuple[str, ...] = ("krippendorff_alpha", "pairwise_kappa", "effective_judges")
_NUMBERS: tuple[str, ...] = ("krippendorff_alpha", "pearson", "spearman", "kendall", "mae", "rmse")

FITTING: dict[Kind, tuple[str, ...]] = {
    "classification": (
        *("accuracy", "balanced_accuracy", "precision", "recall", "f1", "mcc"),
        *("cohen_kappa", "gwet_ac1", "krippendorff_alpha", "confusion"),
    ),
    "pairwise": ("accuracy", "cohen_kappa", "gwet_ac1", "krippendorff_alpha", "confusion"),
    "ordinal": ("accuracy", "cohen_kappa", "weighted_kappa", "gwet_ac1", *_NUMBERS, "confusion"),
    "numeric": _NUMBERS,
    "ranking": ("accuracy", "top1", "spearman", "kendall", "kendall_distance", "ndcg"),
}
"""The figures of each kind that are given when `metrics:` names none."""


def infer(evaluation: Evaluation, columns: Sequence[Column]) -> Kind:
    """The kind that `kind:` sets, else the one that the types say of predictions (or a panel's votes) and targets."""
    if evaluation.kind is not None:
        return evaluation.kind
    types = frozenset().union(*(column.types for column in columns))
    if "list" in types:
        return "ranking"
    labels = Labels.of(*columns).values if "str" in types else ()
    if labels and set(labels) <= {"A", "B", "tie"} and evaluation.positive is None:
        return "pairwise"
    if "str" in types or evaluation.positive is not None or not types:
        return "classification"
    if "float" in types:
        return "numeric"
    return "classification" if "bool" in types else "ordinal"


def fitting(evaluation: Evaluation, kind: Kind | None, value: Column | None) -> tuple[str, ...]:
    """The figures that `metrics:` names, else all that fit."""
    if evaluation.metrics is not None:
        return evaluation.metrics
    if evaluation.panel is not None:
        return _PANEL
    found: tuple[str, ...] = FITTING[kind] if kind and evaluation.target is not None else ()
    if kind == "pairwise" and evaluation.gold is None:
        found += ("first_position_rate",)
    if evaluation.consistent is not None:
        found += ("consistency",)
    if evaluation.options is not None:
        found += ("longer_preference",)
    if evaluation.probability is not None:
        found += _PROBABILITY
    if value is not None:
        found += ("mean",) if value.types == {"bool"} else ("mean", "median", "variance")
    return found
