"""Families of figures: which columns each is made of, which rows it counts, and when it cannot be made."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from verdict_cli.language.metric_names import OF_CHOICE, OF_PROBABILITY, OF_RANKING, OF_VALUE, WITHIN, Metric, foreign
from verdict_cli.stats.columns.column import MISSING, Floats, Ints
from verdict_cli.stats.columns.row_data import EvaluationData
from verdict_cli.stats.metrics import confusion, numbers, panel, probability, ranks
from verdict_cli.stats.metrics.plugin_metric import from_package
from verdict_cli.stats.metrics.statistic import Statistic

RowMask = npt.NDArray[np.bool_]
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
NOMINAL = ("classification", "pairwise")
OPTIONS, TIE = ("A", "B"), "tie"
WITHOUT_TARGET = {"value", "panel", *OF_CHOICE}


def metric_family(metric: str, data: EvaluationData) -> str:
    """Which columns a figure is made of: labels, numbers, ranking, probability, value or panel; `within` clusters; or
    its own name, where it is of what a pairwise judge prefers."""
    if data.panel:
        return "panel"
    if (offered := foreign(metric)) is not None:
        return offered.of
    if metric in OF_CHOICE:
        return metric
    if metric in WITHIN:
        return "within"
    if metric in OF_PROBABILITY:
        return "probability"
    if metric in OF_VALUE:
        return "value"
    if data.kind == "ranking" or metric in OF_RANKING:
        return "ranking"
    if metric in OF_LABELS or (metric == "krippendorff_alpha" and data.kind in NOMINAL):
        return "labels"
    return "numbers"


def usable(name: str, data: EvaluationData) -> RowMask:
    """The rows that a family's figures count."""
    if data.wrong and name in {"labels", "ranking"}:
        return _labelled(data)
    said = _said(name, data)
    if name in ("first_position_rate", "longer_preference"):
        said = said & ~_labels_in(data.prediction, data, (TIE,))
    if name == "longer_preference":
        said = said & data.longer.present & (data.longer.numbers != 0)
    return said if name in WITHOUT_TARGET else np.logical_and(_labelled(data), said)


def _labelled(data: EvaluationData) -> RowMask:
    return np.not_equal(data.target, MISSING)


def _said(name: str, data: EvaluationData) -> RowMask:
    """The rows on which the pipeline said what a family needs."""
    if name == "panel":
        return judged_rows(data)
    if name == "consistency":
        return data.consistent.present
    if name in {"value", "probability"}:
        return (data.value if name == "value" else data.probability).present
    return np.not_equal(data.prediction, MISSING)


def _labels_in(codes: Ints, data: EvaluationData, labels: tuple[str, ...]) -> RowMask:
    return np.isin(codes, [place for place, label in enumerate(data.labels) if label in labels])


def judged_rows(data: EvaluationData) -> RowMask:
    """The rows on which two or more judges of a panel have a vote."""
    votes: Ints = np.sum([np.not_equal(each, MISSING) for each in data.votes], axis=0)
    return np.greater(votes, 1)


def family_keys(name: str, data: EvaluationData) -> tuple[npt.NDArray[np.generic], ...]:
    """The columns whose distinct rows are a family's atoms."""
    if name == "panel":
        return (*data.votes, data.target)
    if name == "consistency":
        return (data.consistent.numbers,)
    if name == "longer_preference":
        return (data.prediction, data.longer.numbers)
    if name == "value":
        return (data.value.numbers,)
    if name == "probability":
        positive = data.is_positive
        return (data.probability.numbers, positive if positive is not None else data.target)
    if name == "numbers":
        return (data.targets.numbers, data.predictions.numbers)
    return (data.target, data.prediction)


def family_refusal(name: str, data: EvaluationData) -> str:
    """Why a family's figures cannot be made of these rows' types, "" when they can."""
    if name == "panel":
        return "" if data.kind != "ranking" else "a panel's votes are labels or numbers, not rankings"
    if name == "consistency":
        return "" if data.consistent.types == {"bool"} else "`consistent` is not true or false"
    if name in OF_CHOICE:
        found = {data.labels[place] for place in np.unique(data.prediction) if place != MISSING}
        return "" if found <= {*OPTIONS, TIE} else "it needs choices between A and B"
    if name == "value":
        return "" if data.value.numeric else "the value is text: write an expression that gives a number or true/false"
    if name == "probability":
        if not data.probability.numeric:
            return "the probability is no number"
        return "" if data.is_positive is not None else "nothing says which target is positive: set `positive`"
    if name in {"numbers", "within"}:
        for side, column in (("predictions", data.predictions), ("targets", data.targets)):
            if not column.numeric:
                return f"it needs numbers, and the {side} are text"
    return ""


def unscored(name: str, data: EvaluationData, rows: Ints) -> str:
    """Why a family that knows no wrong rows has no figures under `missing: wrong`, "" when it has."""
    of = np.ones(len(rows), bool) if name in WITHOUT_TARGET else _labelled(data)[rows]
    lacking = np.count_nonzero(of & ~_said(name, data)[rows])
    if not data.wrong or not lacking:
        return ""
    return f"{lacking} rows have no prediction, and `missing: wrong` has no meaning for this figure"


def family_statistics(name: str, data: EvaluationData, at: Ints) -> dict[str, Statistic] | str:
    """A family's statistics with these rows as atoms, or why there are none."""
    if name == "panel":
        return _of_panel(data, at)
    if name in OF_CHOICE:
        return {name: confusion.proportion(_chosen(name, data, at), np.ones(len(at)), "no rows")}
    if name == "value":
        return numbers.number_values(data.value.numbers[at], data.value.types == {"bool"})
    if name == "probability":
        positive = data.is_positive
        assert positive is not None
        return probability.probability_statistics(data.probability.numbers[at], positive[at])
    if name == "numbers":
        x, y = data.predictions.numbers[at], data.targets.numbers[at]
        return numbers.number_pairs(x, y) | ranks.rank_pairs(x, y)
    spelled = (*data.labels, None)
    if name == "ranking":
        given = ranks.rankings([spelled[c] for c in data.target[at]], [spelled[c] for c in data.prediction[at]])
        if data.wrong and not isinstance(given, str) and (data.prediction[at] == MISSING).any():
            return {"accuracy": given["accuracy"]}
        return given
    prediction = np.where(data.prediction[at] == MISSING, len(data.labels), data.prediction[at])
    lacking = bool((prediction == len(data.labels)).any())
    return confusion.label_statistics(data.target[at], prediction, len(data.labels) + lacking, data.positive, lacking)


def metrics_offered(metric: Metric, name: str, data: EvaluationData, at: Ints) -> Statistic:
    """The statistic of an installed package's figure with these rows as atoms."""
    if metric.of == "numbers":
        return from_package(metric, name, data.predictions.numbers[at], data.targets.numbers[at])
    if metric.of == "value":
        return from_package(metric, name, data.value.numbers[at])
    if metric.of == "probability":
        positive = data.is_positive
        assert positive is not None
        return from_package(metric, name, data.probability.numbers[at], positive[at].astype(float))
    spelled = np.array([*data.labels, None], object)  # no prediction is the last place, -1
    return from_package(metric, name, spelled[data.prediction[at]], spelled[data.target[at]])


def _of_panel(data: EvaluationData, at: Ints) -> dict[str, Statistic]:
    nominal = data.kind in NOMINAL
    votes = [codes[at] for codes in data.votes]
    values = [column.numbers[at] for column in data.panel]
    target = data.target[at]
    errors: list[Floats] | None = None
    if data.targets.types and nominal:
        errors = [_or_nan(said != target, (said != MISSING) & (target != MISSING)) for said in votes]
    elif data.targets.types:
        errors = [said - data.targets.numbers[at] for said in values]
    elif not nominal:
        errors = values
    elif len(data.labels) <= 2:
        errors = [_or_nan(said == 0, said != MISSING) for said in votes]
    return panel.panel_statistics(votes, values, errors, nominal)


def _or_nan(holds: RowMask, known: RowMask) -> Floats:
    return np.where(known, holds.astype(np.float64), np.nan)


def _chosen(name: str, data: EvaluationData, at: Ints) -> Floats:
    """1 where the judge is consistent, chooses the first option, or the longer one; else 0."""
    if name == "consistency":
        return data.consistent.numbers[at]
    first = _labels_in(data.prediction[at], data, OPTIONS[:1])
    return (first if name == "first_position_rate" else first == (data.longer.numbers[at] > 0)).astype(float)
