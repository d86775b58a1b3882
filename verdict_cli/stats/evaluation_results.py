"""A run's metrics, and the per-row scores behind a report, from one pass over its results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from verdict_cli.errors import VerdictError
from verdict_cli.language.evaluations import Evaluation
from verdict_cli.stats.columns.collect import collect
from verdict_cli.stats.columns.column import MISSING, NUMBER, Column, Floats, Ints
from verdict_cli.stats.columns.distributions import Distributions, distributions_of
from verdict_cli.stats.columns.reduce import reduced
from verdict_cli.stats.columns.row_data import EvaluationData, fitting
from verdict_cli.stats.figures import Measures
from verdict_cli.stats.measure import measuring
from verdict_cli.stats.metrics.metric_families import OF_LABELS, metric_family


def scores_of(data: EvaluationData, metrics: Sequence[str]) -> Floats:
    """How well each row is scored, more is better: 1 right and 0 wrong, minus the distance, or the value itself."""
    of = {metric_family(metric, data) for metric in metrics}
    if "numbers" in of and data.kind in ("ordinal", "numeric") and not set(metrics) <= OF_LABELS:
        return -np.abs(data.predictions.numbers - data.targets.numbers)
    if of & {"labels", "ranking", "numbers"}:
        scores = (data.target == data.prediction).astype(np.float64)
        known = data.target != MISSING
        return np.where(known if data.wrong else known & (data.prediction != MISSING), scores, np.nan)
    positive = data.is_positive
    if "probability" in of and positive is not None:
        return np.where(data.target == MISSING, np.nan, -((data.probability.numbers - positive) ** 2))
    return data.value.numbers


def predictions(data: EvaluationData) -> Column:
    """What the run says of each row: its predictions, else its probabilities, else its values."""
    for column in (data.predictions, data.probability):
        if column.types:
            return column
    return data.value


def outcome_cell(column: Column, row: int) -> Any:
    """One value of a column as it was given; None where there is none."""
    code = column.codes[row]
    if code == MISSING:
        return None
    if code != NUMBER:
        return column.words[code]
    number = float(column.numbers[row])
    if column.types == {"bool"}:
        return bool(number)
    return int(number) if number.is_integer() and "float" not in column.types else number


MOST_SCORED = 3
"""Evaluations whose rows are kept: more would hold a large run's columns several times."""


@dataclass(frozen=True, slots=True)
class RowScores:
    """The rows of one evaluation: `at` are their places in the file, in order.

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
        """What the run says of the row at this place of `at`."""
        return outcome_cell(predictions(self.data), row)

    def target(self, row: int) -> Any:
        """What is true of it."""
        return outcome_cell(self.data.targets, row)


@dataclass(frozen=True, slots=True)
class EvaluationResults:
    """The figures of each evaluation, their shapes, and the rows of the first few; those with a target come first."""

    measures: Mapping[str, Measures]
    pictured: Mapping[str, Distributions]
    scored: tuple[RowScores, ...]


def evaluate_run(evaluations: Mapping[str, Evaluation], results: Path, *, seed: int = 0) -> EvaluationResults:
    """The study of a run's `results.parquet`. Raises what `measure` does."""
    measures: dict[str, Measures] = {}
    shapes: dict[str, Distributions] = {}
    kept: list[RowScores] = []
    for name, one, data, at in measuring(evaluations, results, seed=seed):
        measures[name] = one
        shapes[name] = Distributions()
        try:
            shapes[name] = distributions_of(data)
            if at is not None:
                kept.append(_scored(name, at, data, list(one.figures)))
        except VerdictError:
            raise
        except Exception as error:  # what only the page shows must not cost the figures
            said = f"internal error in verdict (please report it): {type(error).__name__}: {error}"[:500]
            warning = f"charts and rows of this evaluation are missing from the report: {said}"
            measures[name] = replace(one, warnings=(*one.warnings, warning))
        kept.sort(key=lambda each: not each.labelled)
        del kept[MOST_SCORED:]
    return EvaluationResults(measures, shapes, tuple(kept))


def scored_rows(evaluations: Mapping[str, Evaluation], results: Path) -> tuple[RowScores, ...]:
    """The rows alone of the first few evaluations, without any figure. Raises what `measure` does."""
    some = dict(
        sorted(
            ((name, one) for name, one in evaluations.items() if one.group is None),
            key=lambda pair: pair[1].target is None,
        )[:MOST_SCORED]
    )
    found = collect(some, results)
    kept = []
    for name, evaluation in some.items():
        collected = reduced(name, evaluation, found.pop(name), results)
        data = EvaluationData.of(evaluation, collected)
        if collected.at is not None:
            value = data.value if evaluation.value is not None else None
            kind = data.kind if evaluation.prediction is not None else None
            kept.append(_scored(name, collected.at, data, list(fitting(evaluation, kind, value))))
    return tuple(sorted(kept, key=lambda each: not each.labelled))


def _scored(name: str, at: Ints, data: EvaluationData, figures: list[str]) -> RowScores:
    metrics = [metric for metric in figures if metric != "confusion"] or figures
    scores = scores_of(data, metrics)
    labels = bool(data.targets.types and data.predictions.types) and _right_or_wrong(scores)
    return RowScores(name, at, data, scores, labels)


def _right_or_wrong(scores: Floats) -> bool:
    known = scores[np.isfinite(scores)]
    return bool(np.all((known == 0) | (known == 1)))
