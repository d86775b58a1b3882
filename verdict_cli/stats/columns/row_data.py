"""The rows of one evaluation as metrics see them, and which metrics fit their kinds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from verdict_cli.errors import DataError, Problem
from verdict_cli.language.evaluations import Evaluation, EvaluationKind
from verdict_cli.stats.columns.collect import LONGER, Collected
from verdict_cli.stats.columns.column import MISSING, Column, Floats, Ints, key_text
from verdict_cli.stats.metrics.confusion import LabelSet

_PROBABILITY: tuple[str, ...] = ("auroc", "average_precision", "brier", "log_loss", "ece")
_PANEL: tuple[str, ...] = ("krippendorff_alpha", "pairwise_kappa", "effective_judges")
_NUMBERS: tuple[str, ...] = ("krippendorff_alpha", "pearson", "spearman", "kendall", "mae", "rmse")

FITTING: dict[EvaluationKind, tuple[str, ...]] = {
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


def infer_kind(evaluation: Evaluation, columns: Sequence[Column]) -> EvaluationKind:
    """The kind that `kind:` sets, else the one that the types say of predictions (or a panel's votes) and targets."""
    if evaluation.kind is not None:
        return evaluation.kind
    types = frozenset().union(*(column.types for column in columns))
    if "list" in types:
        return "ranking"
    labels = LabelSet.of(*columns).values if "str" in types else ()
    if labels and set(labels) <= {"A", "B", "tie"} and evaluation.positive is None:
        return "pairwise"
    if "str" in types or evaluation.positive is not None or not types:
        return "classification"
    if "float" in types:
        return "numeric"
    return "classification" if "bool" in types else "ordinal"


def fitting(evaluation: Evaluation, kind: EvaluationKind | None, value: Column | None) -> tuple[str, ...]:
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


@dataclass(frozen=True, slots=True)
class EvaluationData:
    """The rows of an evaluation: codes of labels, numbers, and what they mean.

    `target`, `prediction` and each judge's `votes` are places in `labels`, MISSING where there is none; `wrong` says
    that a missing prediction counts as a label of its own. Numbers are NaN where a value is missing or no number.
    `panel` is empty where there is no panel of judges.
    """

    kind: EvaluationKind
    labels: tuple[Any, ...]
    target: Ints
    prediction: Ints
    targets: Column
    predictions: Column
    probability: Column
    value: Column
    consistent: Column
    longer: Column
    panel: tuple[Column, ...]
    votes: tuple[Ints, ...]
    positive: int | None
    wrong: bool
    cluster: Ints | None

    @staticmethod
    def of(evaluation: Evaluation, collected: Collected) -> EvaluationData:
        """The rows of a collected evaluation."""
        none = _nothing(collected.rows)
        columns = collected.columns
        targets, predictions = columns.get("target", none), columns.get("prediction", none)
        positive = () if evaluation.positive is None else (evaluation.positive,)
        panel = tuple(column for key, column in columns.items() if key.startswith("panel["))
        found = LabelSet.of(targets, predictions, *panel, also=positive)
        return EvaluationData(
            kind=infer_kind(evaluation, (predictions, targets, *panel)),
            labels=found.values,
            target=found.codes(targets),
            prediction=found.codes(predictions),
            targets=targets,
            predictions=predictions,
            probability=columns.get("probability", none),
            value=columns.get("value", none),
            consistent=columns.get("consistent", none),
            longer=columns.get(LONGER, none),
            panel=panel,
            votes=tuple(found.codes(column) for column in panel),
            positive=found.place(evaluation.positive) if positive else None,
            wrong=evaluation.missing == "wrong",
            cluster=collected.cluster.codes.astype(np.int64) if collected.cluster else None,
        )

    @property
    def is_positive(self) -> Floats | None:
        """1 where the target is positive, else 0; None where nothing says which target is."""
        place = self.positive
        if place is None and self.targets.types == {"bool"}:
            place = next((at for at, label in enumerate(self.labels) if label is True), len(self.labels))
        return None if place is None else (self.target == place).astype(np.float64)


def _nothing(rows: int) -> Column:
    return Column(np.full(rows, np.nan), np.full(rows, MISSING, dtype=np.int32), (), frozenset())


def check_labels(name: str, data: EvaluationData, results: Path) -> None:
    """Raises DataError when one side is all text and the other all numbers: nothing can ever be equal."""
    if not data.targets.types or not data.predictions.types or data.kind == "ranking":
        return
    if data.targets.numeric == data.predictions.numeric or (
        np.intersect1d(data.target[data.target != MISSING], data.prediction).size
    ):
        return
    spelled = []
    for side, column, codes in (
        ("predictions", data.predictions, data.prediction),
        ("targets", data.targets, data.target),
    ):
        example = data.labels[int(codes[codes != MISSING][0])]
        kind = ("booleans" if column.types == {"bool"} else "numbers") if column.numeric else "text"
        spelled.append(f"{side} are {kind} such as {_spelled(example)}")
    message = f"no prediction can ever equal a target: {' and '.join(spelled)}"
    hint = (
        "convert one of them in its expression, such as `'yes' if output.score else 'no'` or `source.label | int`; "
        "`verdict validate CONFIG DATA` says which fits these labels"
    )
    raise DataError(Problem("label-types", message, hint, file=str(results), path=f"evaluate.{name}"))


def _spelled(label: Any) -> str:
    return key_text(label) if isinstance(label, bool) else repr(label)


def check_positive(name: str, evaluation: Evaluation, data: EvaluationData, results: Path) -> None:
    """Raises DataError where nothing says which target a probability is of."""
    if evaluation.probability is None or not data.targets.types or data.is_positive is not None:
        return
    example = key_text(data.labels[int(data.target[data.target != MISSING][0])])
    message = "`probability` needs `positive`, the target whose probability it is: only booleans need none"
    hint = f"such as `positive: {example}`"
    raise DataError(Problem("positive", message, hint, file=str(results), path=f"evaluate.{name}"))
