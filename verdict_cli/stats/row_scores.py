"""The score of each row of a run: what a comparison tests, a page sorts by, and a search selects by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from verdict_cli.language.evaluations import Evaluation
from verdict_cli.stats.columns.collect import collect
from verdict_cli.stats.columns.column import MISSING, NUMERIC, Column, Floats, Ints
from verdict_cli.stats.columns.evaluation_kind import requested_metrics
from verdict_cli.stats.columns.row_data import EvaluationData, reduce_groups
from verdict_cli.stats.metrics.metric_families import by_input


def scores_of(data: EvaluationData, metrics: Sequence[str]) -> Floats:
    """The score of each row, higher is better: 1 right and 0 wrong, minus the distance, or the value itself."""
    of = by_input(metrics, data).keys()
    if "numbers" in of and data.kind in ("ordinal", "numeric"):
        return -np.abs(data.predictions.numbers - data.targets.numbers)
    if of & {"labels", "ranking", "numbers"}:
        scores = (data.target == data.prediction).astype(np.float64)
        known = data.target != MISSING
        return np.where(known if data.wrong else known & (data.prediction != MISSING), scores, np.nan)
    positive = data.is_positive
    if "probability" in of and positive is not None:
        return np.where(data.target == MISSING, np.nan, -((data.probability.numbers - positive) ** 2))
    return data.value.numbers


def score_meaning(data: EvaluationData, metrics: Sequence[str]) -> str:
    """What `scores_of` scores, in words: what a test of these scores is of."""
    of = by_input(metrics, data).keys()
    if "numbers" in of and data.kind in ("ordinal", "numeric"):
        return "distances to the target"
    if of & {"labels", "ranking", "numbers"}:
        return "right and wrong rows"
    return "squared errors" if "probability" in of and data.is_positive is not None else "values"


def predictions(data: EvaluationData) -> Column:
    """The run's answers: its predictions, else its probabilities, else its values."""
    for column in (data.predictions, data.probability):
        if column.types:
            return column
    return data.value


def outcome_cell(column: Column, row: int) -> Any:
    """One value of a column in its own type; None where there is none."""
    code = column.codes[row]
    if code == MISSING:
        return None
    if code != NUMERIC:
        return column.words[code]
    number = float(column.numbers[row])
    if column.types == {"bool"}:
        return bool(number)
    return int(number) if number.is_integer() and "float" not in column.types else number


MOST_SCORED = 3
"""The evaluations whose rows are kept: more would hold a large run's columns several times in memory."""


@dataclass(frozen=True, slots=True)
class RowScores:
    """The rows of one evaluation: `at` are their indices in the file, in order.

    `scores` are 1 for right and 0 for wrong where `labels`, else minus the distance from the target, else the value;
    NaN where a row has none.
    """

    name: str
    at: Ints
    data: EvaluationData
    scores: Floats
    labels: bool

    @property
    def labelled(self) -> bool:
        """Whether there is a target."""
        return bool(self.data.targets.types)

    def prediction(self, row: int) -> Any:
        """The run's answer to the row at this index of `at`."""
        return outcome_cell(predictions(self.data), row)

    def target(self, row: int) -> Any:
        """Its target."""
        return outcome_cell(self.data.targets, row)


def scored_rows(evaluations: Mapping[str, Evaluation], results: Path) -> tuple[RowScores, ...]:
    """The rows of the first few evaluations, without any metric. Raises what `measure` does."""
    first = dict(
        sorted(
            ((name, each) for name, each in evaluations.items() if each.group is None and each.items is None),
            key=lambda pair: pair[1].target is None,
        )[:MOST_SCORED]
    )
    found = collect(first, results)
    kept = []
    for name, evaluation in first.items():
        collected = reduce_groups(name, evaluation, found.pop(name), results)
        data = EvaluationData.of(evaluation, collected)
        if collected.at is not None:
            value = None if evaluation.value is None else data.value
            kind = data.kind if evaluation.prediction else None
            metrics = requested_metrics(evaluation, kind, value, words=data.words)
            kept.append(row_scores(name, collected.at, data, metrics))
    return tuple(sorted(kept, key=lambda each: not each.labelled))


def row_scores(name: str, at: Ints, data: EvaluationData, metrics: Sequence[str]) -> RowScores:
    scores = scores_of(data, [metric for metric in metrics if metric != "confusion"] or metrics)
    labels = bool(data.targets.types and data.predictions.types) and _right_or_wrong(scores)
    return RowScores(name, at, data, scores, labels)


def _right_or_wrong(scores: Floats) -> bool:
    known = scores[np.isfinite(scores)]
    return bool(np.all((known == 0) | (known == 1)))
