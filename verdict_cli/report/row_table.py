"""The table of rows on a page, the rows that it shows, and the details that it opens, within a budget of bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from verdict_cli.plural import plural
from verdict_cli.report.chat import CHAT_TEXT, chat_preview
from verdict_cli.report.compress import NESTED, encoded, packed, packed_bytes
from verdict_cli.report.document import RowBrowser, TableColumn
from verdict_cli.report.report_context import ReportContext
from verdict_cli.report.row_details import row_details
from verdict_cli.stats.columns.column import Ints
from verdict_cli.stats.row_scores import RowScores
from verdict_cli.storage.tables.arrow_vectors import scalar, truths
from verdict_cli.storage.tables.reader import read_arrow, read_rows, table_columns
from verdict_cli.storage.tables.run_columns import RESULT_COLUMNS

ROWS_BYTES = 1_000_000
"""Of the packed table: with the details and the scripts a page stays below 3 MB."""
DETAILS_BYTES = 1_400_000
"""Of the packed details."""
UNPACKED_BYTES = 8_000_000
"""Of the details before they are packed, because packing takes time."""
TEXT_CHARACTERS = 1_500_000
"""Characters of the dataset's texts in the table, over all rows."""
DETAILS_PER_PIECE = 25
"""Details packed together: the script unpacks so many to show one."""
ROWS_PER_PIECE = 1000
MOST_TEXTS = 2
MOST_TABLE_FIELDS = 3
_LONG = frozenset({str, *NESTED})
_TITLED = [column for column in RESULT_COLUMNS if column.title]
MANY_COLUMNS = 6
"""So many columns leave room for one text."""


def row_table(context: ReportContext) -> RowBrowser:
    """The table of a run's rows."""
    selection = select_rows(context)
    details, detail_index = _packed_details(context, selection.details)
    columns = _columns(context, selection)
    cells_of = [values for _, values in columns]
    pieces: list[str] = []
    shown = size = 0
    for start in range(0, len(selection.rows), ROWS_PER_PIECE):
        if size > ROWS_BYTES:
            break
        indices = selection.rows[start : start + ROWS_PER_PIECE].tolist()
        cells = zip(*(values[start : start + ROWS_PER_PIECE] for values in cells_of), strict=True)
        pieces.append(
            packed(
                [[*row, detail_index.get(index)] for row, index in zip(cells, indices, strict=True)]
            )
        )
        size += len(pieces[-1])
        shown += len(indices)
    note = _note(selection, shown, len(detail_index))
    return RowBrowser(
        [column for column, _ in columns], pieces, details, DETAILS_PER_PIECE, shown, note
    )


def _note(selection: RowSelection, shown: int, detailed: int) -> str:
    """The note that says which rows and details the page leaves out."""
    total = selection.total
    if shown == detailed == total:
        return ""
    rows = (
        f"all {plural(total, 'row')}" if shown == total else f"{shown:,} of {plural(total, 'row')}"
    )
    order = "" if shown == total else " (failed and wrong ones first, then a sample of the rest)"
    details = f"the details of {detailed:,} of them"
    bad = len(selection.failed) + len(selection.wrong)
    if bad and detailed >= bad:
        details += ", including every failed or wrong one"
    return (
        f"This file has {rows}{order} and {details}; the search covers the first characters of each text. "
        "`verdict view RUN` shows and searches everything."
    )


def _packed_details(context: ReportContext, indices: Ints) -> tuple[list[str], dict[int, int]]:
    """Packed details within the budget, and the number of each row's."""
    pieces: list[str] = []
    detail_index: dict[int, int] = {}
    pending: list[bytes] = []
    unpacked = size = 0
    for index, details in row_details(context.results, context.calls, indices):
        if unpacked > UNPACKED_BYTES or size > DETAILS_BYTES:
            break
        detail_index[index] = len(detail_index)
        pending.append(encoded(details))
        unpacked += len(pending[-1])
        if len(pending) == DETAILS_PER_PIECE:
            size += _pack(pieces, pending)
    if pending:
        _pack(pieces, pending)
    return pieces, detail_index


def _pack(pieces: list[str], pending: list[bytes]) -> int:
    """Pack the pending details; returns the size of the piece."""
    pieces.append(packed_bytes(b"[" + b",".join(pending) + b"]"))
    pending.clear()
    return len(pieces[-1])


def _columns(
    context: ReportContext, selection: RowSelection
) -> list[tuple[TableColumn, list[Any]]]:
    """Each column of the table with its cells, in the order of the rows."""
    cells = _result_cells(context, selection.rows)
    own = {column.name: cells.pop(column.name) for column in _TITLED}
    columns: list[tuple[TableColumn, list[Any]]] = [(TableColumn("id", "Row"), own.pop("id"))]
    status = cells.pop("status")
    outcome = ["none" if value == "ok" else value for value in status]
    for number, evaluation in enumerate(context.study.scored):
        prediction, target, scores = _score_cells(evaluation, selection.rows)
        if number or not evaluation.labelled:
            if len(context.study.measures) > len(context.study.scored):
                continue
            columns.append(
                (_column(f"prediction{number}", evaluation.name, prediction), prediction)
            )
            continue
        title = "Prediction" if evaluation.data.predictions.types else "Probability"
        columns += [
            (_column("prediction", title, prediction), prediction),
            (_column("target", "Target", target), target),
        ]
        if evaluation.labels:
            outcome = [
                known if known != "none" or score is None else "right" if score else "wrong"
                for known, score in zip(outcome, scores, strict=True)
            ]
        else:
            error = [None if score is None else -score for score in scores]
            columns.append((TableColumn("error", "Error", "number"), error))
    if set(outcome) != {"none"}:
        columns.insert(0, (TableColumn("outcome", "Outcome", "outcome"), outcome))
    for column in _TITLED:
        values = own.get(column.name, [])
        if any(value is not None for value in values):
            columns.append((_column(column.name, column.title, values), values))
    for name, values in cells.items():
        if (
            name.startswith("output.")
            and len(columns) < MANY_COLUMNS
            and not _nested(context, name)
            and not any(values == other for _, other in columns)
        ):
            columns.append((_column(name, name, values), values))
    texts = [(name, values) for name, values in cells.items() if name.startswith("source.")]
    columns += [
        (TableColumn(name, name.removeprefix("source."), "text", wide=True), values)
        for name, values in texts[: MOST_TEXTS if len(columns) < MANY_COLUMNS else 1]
    ]
    return columns


def _nested(context: ReportContext, name: str) -> bool:
    """Whether an output holds objects or lists, which a cell has no room for."""
    node = context.plan.output_node
    kind = None if node is None else node.result.fields.get(name.removeprefix("output."))
    return kind is not None and kind.json_schema().get("type") in ("object", "array")


def _column(key: str, title: str, values: Sequence[Any]) -> TableColumn:
    numeric = all(value is None or type(value) in (int, float) for value in values)
    return TableColumn(key, title, "number" if numeric else "text")


def _result_cells(context: ReportContext, indices: Ints) -> dict[str, list[Any]]:
    """The columns of the results that the table shows, in the order of the indices."""
    known = table_columns(context.results)
    texts = context.text_columns()[:MOST_TEXTS]
    node = context.plan.output_node
    outputs = [] if node is None else [f"output.{name}" for name in node.result.fields]
    names = [
        "status",
        *(column.name for column in _TITLED),
        *[name for name in outputs if name in known][:MOST_TABLE_FIELDS],
        *texts,
    ]
    most = max(60, min(300, TEXT_CHARACTERS // max(1, len(indices) * len(texts))))
    cells: dict[str, list[Any]] = {name: [] for name in names}
    order = np.argsort(indices, kind="stable")
    for batch in read_rows(context.results, indices[order].tolist(), names):
        for name, values in batch.items():
            cells[name] += (
                values if _LONG.isdisjoint(map(type, values)) else _shortened(values, most)
            )
    back = np.argsort(order, kind="stable").tolist()
    return {name: [values[index] for index in back] for name, values in cells.items()}


def _shortened(values: Sequence[Any], most: int) -> list[Any]:
    """The values as cells. Most are short texts that stay as they are: no call is made for those."""
    return [
        value
        if type(value) is str and len(value) <= most and not value.startswith(CHAT_TEXT)
        else short_cell(value, most)
        for value in values
    ]


def short_cell(value: Any, most: int) -> Any:
    """The value of a cell: long texts are cut, lists and mappings become text."""
    value = chat_preview(value)
    if isinstance(value, NESTED):
        value = encoded(value).decode()
    return f"{value[:most]}…" if isinstance(value, str) and len(value) > most else value


def _score_cells(evaluation: RowScores, indices: Ints) -> tuple[list[Any], list[Any], list[Any]]:
    """Prediction, target and score of each of these rows of the file; None if the evaluation has no such row."""
    at = np.searchsorted(evaluation.at, indices)
    count = len(evaluation.at)
    # No row has a position below 0, so an evaluation without rows knows none of them.
    present = (
        (at < count) & (evaluation.at[np.minimum(at, count - 1)] == indices) if count else at < 0
    )
    predictions: list[Any] = []
    targets: list[Any] = []
    scores: list[Any] = []
    for row, known in zip(at.tolist(), present.tolist(), strict=True):
        score = float(evaluation.scores[row]) if known else float("nan")
        predictions.append(short_cell(evaluation.prediction(row), 200) if known else None)
        targets.append(short_cell(evaluation.target(row), 200) if known else None)
        scores.append(None if math.isnan(score) else score)
    return predictions, targets, scores


MOST_ROWS_SHOWN = 10_000
MOST_DETAILS = 1_000
BAD_SHARE = 0.8
"""The share of the shown rows that failed and wrong ones may take: some good ones are always shown."""
_DRAW_KEY = 7
"""Part of the seed, so that this draw is not that of another sample of the same run."""


class RowSelection(Struct, frozen=True):
    """Indices into `results.parquet`: `rows` in the order in which they are shown, `details` some of them.

    `failed` are all failed rows, `wrong` all that the first labelled evaluation scores as wrong; `total` counts the rows.
    """

    rows: Ints
    details: Ints
    failed: Ints
    wrong: Ints
    total: int


def select_rows(context: ReportContext) -> RowSelection:
    """Select the rows to show, from their statuses and the scores of the first evaluation."""
    is_failed = _is_failed(context)
    failed = np.flatnonzero(is_failed)
    evaluation = next(iter(context.study.scored), None)
    bad, wrong = failed, np.zeros(0, dtype=np.int64)
    if evaluation is not None and evaluation.labelled:
        order, wrong = _worst_first(evaluation)
        bad = np.concatenate([failed, order[~is_failed[order]]])
    draw = np.random.default_rng([abs(context.seed), _DRAW_KEY])
    rest = np.setdiff1d(np.arange(len(is_failed)), bad, assume_unique=True)
    rows = _sample(bad, rest, MOST_ROWS_SHOWN, draw)
    shown = np.isin(bad, rows)
    details = _sample(bad[shown], np.intersect1d(rest, rows), MOST_DETAILS, draw)
    return RowSelection(rows, details, failed, wrong, len(is_failed))


def _is_failed(context: ReportContext) -> npt.NDArray[np.bool_]:
    """Whether each row failed."""
    import pyarrow.compute as pc

    parts = [
        truths(pc.equal(batch.column("status"), scalar("failed", "str")))
        for batch in read_arrow(context.results, ["status"])
    ]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=bool)


def _worst_first(evaluation: RowScores) -> tuple[Ints, Ints]:
    """Rows that are wrong, or off their target, the worst first; and those that are wrong labels."""
    scores = evaluation.scores
    rows = np.flatnonzero(np.isfinite(scores) & (scores < (1 if evaluation.labels else 0)))
    rows = rows[np.argsort(scores[rows], kind="stable")]
    return evaluation.at[rows], evaluation.at[rows] if evaluation.labels else np.zeros(
        0, dtype=np.int64
    )


def _sample(bad: Ints, rest: Ints, most: int, draw: np.random.Generator) -> Ints:
    """At most `most` indices: the first of `bad`, then a sample of `rest`, each in its order."""
    first = bad[: max(int(most * BAD_SHARE), most - len(rest))]
    room = most - len(first)
    if len(rest) > room:
        rest = np.sort(draw.choice(rest, room, replace=False))
    return np.concatenate([first, rest])
