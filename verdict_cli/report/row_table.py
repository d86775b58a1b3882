"""The table of rows on a page, the rows that it shows, and the details that it opens, within a budget of bytes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from msgspec import Struct

from verdict_cli.plural import plural
from verdict_cli.report.compress import encoded, packed, packed_bytes
from verdict_cli.report.document import RowBrowser, TableColumn
from verdict_cli.report.report_context import ReportContext, first_prediction
from verdict_cli.report.row_columns import (
    MOST_CELL,
    failed_rows,
    is_explanation,
    read_cells,
    scored_columns,
    shown_columns,
    stored_columns,
)
from verdict_cli.report.row_details import row_details
from verdict_cli.stats.columns.column import Ints
from verdict_cli.stats.row_scores import RowScores

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


def row_table(context: ReportContext) -> RowBrowser:
    """The table of a run's rows."""
    selection = select_rows(context)
    details, detail_index = _packed_details(context, selection.details)
    columns = _columns(context, selection)
    cells_of = [values for _, values in columns]
    pieces = []
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
    pending = []
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
    rows = selection.rows
    stored = stored_columns(context.results)
    scored = scored_columns(context.study.scored, rows, np.isin(rows, selection.failed).tolist())
    names = shown_columns(
        stored,
        list(scored),
        context.text_columns,
        first_prediction(context.plan, context.study.scored),
        failures=bool(len(selection.failed)),
    )
    read = [name for name in names if name in stored]
    wide = sum(3 if is_explanation(name) else stored[name].wide for name in read)
    most = max(60, min(MOST_CELL, TEXT_CHARACTERS // max(1, len(rows) * wide)))
    cells = read_cells(context.results, rows, read, most)
    return [scored[name] if name in scored else (stored[name], cells[name]) for name in names]


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
    is_failed = failed_rows(context.results)
    failed = np.flatnonzero(is_failed)
    evaluation = next(iter(context.study.scored), None)
    bad, wrong = failed, np.zeros(0, dtype=np.int64)
    if evaluation is not None and evaluation.labelled:
        order, wrong = _worst_first(evaluation)
        bad = np.concatenate([failed, order[~is_failed[order]]])
    is_bad, is_shown = np.zeros_like(is_failed), np.zeros_like(is_failed)
    is_bad[bad] = True
    draw = cache(lambda: np.random.default_rng([abs(context.seed), _DRAW_KEY]))
    rows = _sample(bad, np.flatnonzero(~is_bad), MOST_ROWS_SHOWN, draw)
    is_shown[rows] = True
    details = _sample(bad[is_shown[bad]], np.flatnonzero(is_shown & ~is_bad), MOST_DETAILS, draw)
    return RowSelection(rows, details, failed, wrong, len(is_failed))


def _worst_first(evaluation: RowScores) -> tuple[Ints, Ints]:
    """Rows that are wrong, or off their target, the worst first; and those that are wrong labels."""
    scores = evaluation.scores
    rows = np.flatnonzero(np.isfinite(scores) & (scores < (1 if evaluation.labels else 0)))
    worst = evaluation.at[rows[np.argsort(scores[rows], kind="stable")]]
    return worst, worst if evaluation.labels else worst[:0]


def _sample(bad: Ints, rest: Ints, most: int, draw: Callable[[], np.random.Generator]) -> Ints:
    """At most `most` indices: the first of `bad`, then a sample of `rest`, each in its order."""
    first = bad[: max(int(most * BAD_SHARE), most - len(rest))]
    room = most - len(first)
    if len(rest) > room:
        rest = np.sort(draw().choice(rest, room, replace=False))
    return np.concatenate([first, rest])
