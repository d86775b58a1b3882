"""The columns of a table of rows and their cells, the same in a report and in the viewer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from verdict_cli.report.chat import chat_preview, is_plain
from verdict_cli.report.compress import NESTED, encoded
from verdict_cli.report.document import TableColumn
from verdict_cli.stats.columns.column import Column, Ints, RowMask
from verdict_cli.stats.row_scores import RowScores
from verdict_cli.storage.datasets.parquet import open_parquet
from verdict_cli.storage.tables.reader import read_rows, table_rows
from verdict_cli.storage.tables.run_columns import RESULT_COLUMNS

OUTCOMES = ("failed", "wrong", "none", "right")
"""In the order in which rows are listed."""
MOST_CELL = 300
"""Characters of a text in a cell. An explanation, which is folded, has three times as many."""
MOST_TEXTS = 2
_MOST_OUTPUTS = 3
_TITLES = {column.name: column.title for column in RESULT_COLUMNS if column.title} | {
    "outcome": "Outcome",
    "prediction": "Prediction",
    "target": "Target",
    "error": "Error",
    "output.explanation": "Explanation",
    "human.label": "Label",
    "human.note": "Note",
    "status": "Status",
    "calls": "Calls",
    "cost_usd": "Cost",
}
_TITLED = [column.name for column in RESULT_COLUMNS if column.title and column.name != "id"]
_KINDS = {"outcome": "outcome", "cost_usd": "money"}


def is_explanation(name: str) -> bool:
    """Whether a column of the results holds a judge's reasons."""
    return name.endswith(".explanation")


def table_column(name: str, kind: str, title: str = "") -> TableColumn:
    """The column of this name in the results, or of what an evaluation or a person adds to them."""
    wide = name.startswith("source.") or name == "human.note" or is_explanation(name)
    title = title or _TITLES.get(name, name.removeprefix("source."))
    return TableColumn(name, title, _KINDS.get(name, kind), wide)


def stored_columns(results: Path) -> dict[str, TableColumn]:
    """The columns of the results, without the row's number."""
    with open_parquet(results) as file:
        kinds = {field.name: column_kind(field.type) for field in file.schema_arrow}
    return {name: table_column(name, kind) for name, kind in kinds.items() if name != "row"}


def failed_rows(results: Path) -> RowMask:
    """Whether each row failed."""
    return np.array([status == "failed" for (status,) in table_rows(results, ["status"])], bool)


def column_kind(data_type: Any) -> str:
    """How a table treats a column of this Arrow type: `text`, `number` or `truth`."""
    import pyarrow as pa

    if pa.types.is_boolean(data_type):
        return "truth"
    is_number = pa.types.is_integer(data_type) or pa.types.is_floating(data_type)
    return "number" if is_number else "text"


ScoredColumn = tuple[TableColumn, list[Any]]
"""A column that evaluations add to the table, and a cell for each row."""


def scored_columns(
    scored: Sequence[RowScores], rows: Ints, failed: Sequence[bool]
) -> dict[str, ScoredColumn]:
    """What evaluations say of these rows: outcome, prediction, target and error by the first, predictions by the others.

    A column without a value is left out. `failed` marks the rows that failed.
    """
    columns = {}

    def add(name: str, cells: list[Any], title: str = "") -> None:
        if any(cell is not None for cell in cells):
            columns[name] = (table_column(name, _kind(cells), title), cells)

    first = scored[0] if scored else None
    has_outcomes = first is not None and first.labels and first.labelled
    if first is not None:
        places = _places(first, rows)
        finite = np.isfinite(first.scores)
        scores = [
            None if place is None or not finite[place] else float(first.scores[place])
            for place in places
        ]
    if has_outcomes or any(failed):
        right = scores if has_outcomes else [None] * len(rows)
        add("outcome", [_outcome(*row) for row in zip(failed, right, strict=True)])
    if first is not None:
        add("prediction", _cells(places, first.answers), _prediction_title(first))
        if first.labelled:
            add("target", _cells(places, first.data.targets))
        if first.labelled and not has_outcomes:
            add("error", [None if score is None else 0.0 - score for score in scores])
    for number, evaluation in enumerate(scored[1:], 1):
        cells = _cells(_places(evaluation, rows), evaluation.answers)
        add(f"prediction{number}", cells, evaluation.name)
    return columns


def _outcome(is_failed: bool, score: float | None) -> str:
    if is_failed:
        return "failed"
    if score is None:
        return "none"
    return "right" if score else "wrong"


def _prediction_title(evaluation: RowScores) -> str:
    if not evaluation.labelled:
        return evaluation.name
    return "Prediction" if evaluation.data.predictions.types else "Probability"


def _kind(cells: Sequence[Any]) -> str:
    return "number" if {*map(type, cells)} <= {int, float, type(None)} else "text"


def _places(evaluation: RowScores, rows: Ints) -> list[int | None]:
    """The place of each of these rows in the evaluation, None where it has no such row."""
    places = {row: place for place, row in enumerate(evaluation.at.tolist())}
    return [places.get(row) for row in rows.tolist()]


def _cells(places: Sequence[int | None], column: Column) -> list[Any]:
    return [short_cell(value) for value in column.values(places)]


def shown_columns(
    stored: Mapping[str, TableColumn],
    scored: Sequence[str],
    texts: Sequence[str],
    prediction: str,
    *,
    failures: bool,
) -> list[str]:
    """The columns that a table shows at first: what the judge said and why, beside the beginning of what it judged.

    `scored` are those that evaluations add, the outcome first; `texts` those that prompts show; `prediction` is the first evaluation's expression.
    """
    outcome = [name for name in scored if name == "outcome"]
    titled = [name for name in _TITLED if name in stored and (failures or name != "failure.kind")]
    names = [*outcome, "id", *scored[len(outcome) :], *titled]
    explanations = [name for name in stored if is_explanation(name)]
    outputs = [name for name in stored if name.startswith("output.") and name not in explanations]
    if "prediction" in scored:  # it usually repeats one of the outputs
        numbers = [name for name in outputs if stored[name].kind == "number"]
        outputs = [name for name in numbers if name != prediction][:1]
    of_output = [name for name in explanations if name.startswith("output.")]
    explanations = of_output[:1] or explanations[:MOST_TEXTS]
    texts = texts[: 1 if explanations else MOST_TEXTS]
    return [*names, *outputs[:_MOST_OUTPUTS], *explanations, *texts]


def read_cells(
    results: Path, rows: Ints, names: Sequence[str], most: int = MOST_CELL
) -> dict[str, list[Any]]:
    """The cells of these columns of the results, in the order of `rows`; texts have at most `most` characters."""
    cells: dict[str, list[Any]] = {name: [] for name in names}
    order = np.argsort(rows, kind="stable")
    for batch in read_rows(results, rows[order].tolist(), names):
        for name, values in batch.items():
            limit = 3 * most if is_explanation(name) else most
            cells[name] += [short_cell(value, limit) for value in values]
    back = np.argsort(order, kind="stable").tolist()
    return {name: [values[index] for index in back] for name, values in cells.items()}


def short_cell(value: Any, most: int = MOST_CELL) -> Any:
    """The value of a cell: long texts are cut, lists and mappings become text."""
    if is_plain(value, most):
        return value
    value = chat_preview(value)
    if isinstance(value, NESTED):
        value = encoded(value).decode()
    return f"{value[:most]}…" if isinstance(value, str) and len(value) > most else value
