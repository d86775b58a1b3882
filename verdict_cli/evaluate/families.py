"""Families of figures: which columns each is made of, which rows it counts, and when it cannot be made."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from verdict_cli.evaluate.column import MISSING, Ints
from verdict_cli.evaluate.metrics import Statistic, labels, numbers, probability, ranks
from verdict_cli.evaluate.rows import Data
from verdict_cli.spec.evaluate import OF_PROBABILITY, OF_RANKING, OF_VALUE, WITHIN, Kind

Mask = npt.NDArray[np.bool_]
OF_LABELS = {
    "accuracy",
    "balanced_accuracy",
    "precision",
    "recall",
    "f1",
    "mcc",
    "cohen_kappa",
    "gwet_ac1",
    "confusion",
}


def family(metric: str, kind: Kind) -> str:
    """Which columns a figure is made of: labels, numbers, ranking, probability or value; or `within` clusters."""
    if metric in WITHIN:
        return "within"
    if metric in OF_PROBABILITY:
        return "probability"
    if metric in OF_VALUE:
        return "value"
    if kind == "ranking" or metric in OF_RANKING:
        return "ranking"
    if metric in OF_LABELS or (metric == "krippendorff_alpha" and kind in ("classification", "pairwise")):
        return "labels"
    return "numbers"


def usable(name: str, data: Data) -> Mask:
    """The rows that a family's figures count."""
    if data.wrong and name in {"labels", "ranking"}:
        return _labelled(data)
    return np.logical_and(_labelled(data), _said(name, data)) if name != "value" else _said(name, data)


def _labelled(data: Data) -> Mask:
    return np.not_equal(data.target, MISSING)


def _said(name: str, data: Data) -> Mask:
    """The rows on which the pipeline said what a family needs."""
    if name in {"value", "probability"}:
        return (data.value if name == "value" else data.probability).present
    return np.not_equal(data.prediction, MISSING)


def keys(name: str, data: Data) -> tuple[npt.NDArray[np.generic], ...]:
    """The columns whose distinct rows are a family's atoms."""
    if name == "value":
        return (data.value.numbers,)
    if name == "probability":
        positive = data.is_positive
        return (data.probability.numbers, positive if positive is not None else data.target)
    if name == "numbers":
        return (data.targets.numbers, data.predictions.numbers)
    return (data.target, data.prediction)


def refusal(name: str, data: Data) -> str:
    """Why a family's figures cannot be made of these rows' types, "" when they can."""
    if name == "value":
        return (
            ""
            if data.value.numeric
            else "the value is text: write an expression that gives a number or true/false"
        )
    if name == "probability":
        if not data.probability.numeric:
            return "the probability is no number"
        return "" if data.is_positive is not None else "nothing says which target is positive: set `positive`"
    if name in {"numbers", "within"}:
        for side, column in (("predictions", data.predictions), ("targets", data.targets)):
            if not column.numeric:
                return f"it needs numbers, and the {side} are text"
    return ""


def unscored(name: str, data: Data, rows: Ints) -> str:
    """Why a family that knows no wrong rows has no figures under `missing: wrong`, "" when it has."""
    of = np.ones(len(rows), bool) if name == "value" else _labelled(data)[rows]
    lacking = np.count_nonzero(of & ~_said(name, data)[rows])
    if not data.wrong or not lacking:
        return ""
    return f"{lacking} rows have no prediction, and `missing: wrong` has no meaning for this figure"


def statistics(name: str, data: Data, at: Ints) -> dict[str, Statistic] | str:
    """A family's statistics with these rows as atoms, or why there are none."""
    if name == "value":
        return numbers.values(data.value.numbers[at], data.value.types == {"bool"})
    if name == "probability":
        positive = data.is_positive
        assert positive is not None
        return probability.statistics(data.probability.numbers[at], positive[at])
    if name == "numbers":
        x, y = data.predictions.numbers[at], data.targets.numbers[at]
        return numbers.pairs(x, y) | ranks.pairs(x, y)
    spelled = (*data.labels, None)
    if name == "ranking":
        given = ranks.rankings(
            [spelled[c] for c in data.target[at]], [spelled[c] for c in data.prediction[at]]
        )
        if data.wrong and not isinstance(given, str) and (data.prediction[at] == MISSING).any():
            return {"accuracy": given["accuracy"]}
        return given
    prediction = np.where(data.prediction[at] == MISSING, len(data.labels), data.prediction[at])
    lacking = bool((prediction == len(data.labels)).any())
    return labels.statistics(data.target[at], prediction, len(data.labels) + lacking, data.positive, lacking)
