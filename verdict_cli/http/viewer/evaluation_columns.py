"""The columns that an evaluation adds to the table of a run, and the values of cells."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from verdict_cli.report.chat import chat_preview
from verdict_cli.report.compress import encoded
from verdict_cli.stats.evaluation_results import RowScores

MOST_CELL = 300
"""Characters of a text in a cell; longer texts are cut."""
_MOST_ANSWERS = 20


@dataclass(frozen=True, slots=True)
class EvaluationColumns:
    """The columns that the first evaluation adds to the table, with one value per row.

    `answers` are the distinct predictions and targets, empty if there are many. `error` says why there are no columns.
    """

    columns: Mapping[str, Any]
    name: str = ""
    answers: tuple[Any, ...] = ()
    error: str = ""


def shorten(value: Any) -> Any:
    """The value of a cell: long texts are cut, lists and mappings become text."""
    value = chat_preview(value)
    if isinstance(value, list | dict):
        value = encoded(value).decode()
    return f"{value[:MOST_CELL]}…" if isinstance(value, str) and len(value) > MOST_CELL else value


def evaluation_columns(scored: RowScores, rows: int, failed: Any) -> EvaluationColumns:
    """Spread the scores of an evaluation over all rows; `failed` marks the rows that failed."""
    prediction: list[Any] = [None] * rows
    target: list[Any] = [None] * rows
    score: list[float | None] = [None] * rows
    for index, row in enumerate(scored.at.tolist()):
        prediction[row], target[row] = _cut(scored.prediction(index)), _cut(scored.target(index))
        value = float(scored.scores[index])
        score[row] = value if math.isfinite(value) else None
    columns = {"prediction": _array(prediction)}
    if scored.labelled:
        columns["target"] = _array(target)
        columns["score"] = pa.array(score, pa.float64())
    if scored.labels and scored.labelled:
        outcomes = {None: "none", 1.0: "right", 0.0: "wrong"}
        outcome = [
            "failed" if is_failed else outcomes[value] for value, is_failed in zip(score, failed.tolist(), strict=True)
        ]
        del columns["score"]
        columns = {"outcome": pa.array(outcome, pa.string()), **columns}
    return EvaluationColumns(columns, scored.name, _answers(scored))


def _answers(scored: RowScores) -> tuple[Any, ...]:
    answers = {
        (type(value).__name__, value): value
        for row in range(min(len(scored.at), 10_000))
        for value in (scored.prediction(row), scored.target(row))
        if isinstance(value, str | int | float)
    }
    return tuple(sorted(answers.values(), key=str)) if len(answers) <= _MOST_ANSWERS else ()


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
