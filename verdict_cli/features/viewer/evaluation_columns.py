"""The columns that an evaluation adds to the table of a run, and the values of cells."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from verdict_cli.report.chat import chat_preview
from verdict_cli.report.compress import encoded
from verdict_cli.report.evaluation_section import MOST_LABELS_IN_MATRIX
from verdict_cli.stats.columns.column import MISSING
from verdict_cli.stats.evaluation_results import RowScores
from verdict_cli.stats.measure import confusion_counts
from verdict_cli.storage.tables.arrow_vectors import truths

MOST_CELL = 300
"""Characters of a text in a cell; longer texts are cut."""
MOST_EXPLANATION = 1_000
"""Characters of an explanation in a cell, where it is folded."""
_MOST_ANSWERS = 20
OUTCOMES = ("failed", "wrong", "none", "right")
"""In the order in which rows are listed."""


@dataclass(frozen=True, slots=True)
class EvaluationColumns:
    """The columns that the first evaluation adds to the table, with one value per row.

    `answers` are the distinct predictions and targets in the order of their scale, empty if there are many. `order` ranks the rows of
    an evaluation with outcomes, by `OUTCOMES`. `prediction` is the evaluation's expression. `matrix` counts the rows by target and prediction. `error` says why
    there are no columns.
    """

    columns: Mapping[str, Any]
    name: str = ""
    answers: tuple[Any, ...] = ()
    error: str = ""
    prediction: str = ""
    order: Any = None
    matrix: Mapping[str, Any] | None = None

    def wrong_rows(self) -> Any:
        """True for each row that failed or differs from its target; None for an evaluation without a target."""
        if self.order is not None:
            return self.order <= OUTCOMES.index("wrong")
        return truths(pc.less(self.columns["score"], 0)) if "score" in self.columns else None


def is_explanation(name: str) -> bool:
    """Whether a column of the results holds a judge's reasons."""
    return name.endswith(".explanation")


def shorten(value: Any, column: str = "") -> Any:
    """The value of a cell: long texts are cut, lists and mappings become text."""
    most = MOST_EXPLANATION if is_explanation(column) else MOST_CELL
    value = chat_preview(value)
    if isinstance(value, list | dict):
        value = encoded(value).decode()
    return f"{value[:most]}…" if isinstance(value, str) and len(value) > most else value


def evaluation_columns(scored: RowScores, rows: int, failed: Any) -> EvaluationColumns:
    """Spread the scores of an evaluation over all rows; `failed` marks the rows that failed."""
    prediction: list[Any] = [None] * rows
    target: list[Any] = [None] * rows
    score: list[float | None] = [None] * rows
    for index, row in enumerate(scored.at.tolist()):
        prediction[row], target[row] = _cut(scored.prediction(index)), _cut(scored.target(index))
        value = float(scored.scores[index]) + 0.0  # no negative zero
        score[row] = value if math.isfinite(value) else None
    columns = {"prediction": _array(prediction)}
    if scored.labelled:
        columns["target"] = _array(target)
        columns["score"] = pa.array(score, pa.float64())
    order = None
    if scored.labels and scored.labelled:
        outcomes = {None: "none", 1.0: "right", 0.0: "wrong"}
        outcome = [
            "failed" if is_failed else outcomes[value] for value, is_failed in zip(score, failed.tolist(), strict=True)
        ]
        del columns["score"]
        columns = {"outcome": pa.array(outcome, pa.string()), **columns}
        order = np.array([OUTCOMES.index(each) for each in outcome], np.int8)
    return EvaluationColumns(columns, scored.name, _answers(scored), order=order, matrix=_matrix(scored))


def _matrix(scored: RowScores) -> dict[str, Any] | None:
    """Labels and counts; None for an evaluation without labels, and where they are too many for a page."""
    data = scored.data
    rows = np.flatnonzero(data.target != MISSING)
    if not scored.labelled or not data.predictions.types or not len(rows) or len(data.labels) >= MOST_LABELS_IN_MATRIX:
        return None
    return confusion_counts(data, rows)


def _answers(scored: RowScores) -> tuple[Any, ...]:
    answers = {
        (type(value).__name__, value): value
        for row in range(min(len(scored.at), 10_000))
        for value in (scored.prediction(row), scored.target(row))
        if isinstance(value, str | int | float)
    }
    declared = _declared(scored)
    answers |= {(type(value).__name__, value): value for value in declared}
    if len(answers) > _MOST_ANSWERS:
        return ()
    place = {str(label): index for index, label in reversed([*enumerate([*declared, *scored.data.labels])])}
    return tuple(sorted(answers.values(), key=lambda value: (place.get(str(value), len(place)), str(value))))


def _declared(scored: RowScores) -> list[Any]:
    """The values that the scale of the predictions lists, or its integers from end to end."""
    column = scored.data.predictions
    if column.declared is None:
        return []
    if column.declared.values or column.types != {"int"} or column.bounds is None:
        return [value for value in column.declared.values if isinstance(value, str | int | float)]
    low, high = column.bounds
    return [*range(int(low), int(high) + 1)] if high - low < _MOST_ANSWERS else []


def _cut(value: Any) -> Any:
    return value[:MOST_CELL] if isinstance(value, str) else value


def _array(values: list[Any]) -> Any:
    """Store numbers as numbers, and anything else as text."""
    if all(value is None or (isinstance(value, int | float) and not isinstance(value, bool)) for value in values):
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    return pa.array([to_text(value) for value in values], pa.string())


def to_text(value: Any) -> str | None:
    """The text of a value; None for None. Arrow cannot encode lone surrogates, so they are escaped."""
    if value is None:
        return None
    text = value if isinstance(value, str) else encoded(value).decode()
    return text.encode("utf-8", "backslashreplace").decode()


def column_kind(data_type: Any) -> str:
    """How the viewer treats a column: `text`, `number` or `truth`."""
    if pa.types.is_boolean(data_type):
        return "truth"
    return "number" if pa.types.is_integer(data_type) or pa.types.is_floating(data_type) else "text"
