"""Filter, search and sort the rows of a table, batch by batch from Parquet."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from msgspec.structs import replace

from verdict_cli.errors import UsageError
from verdict_cli.messages import JsonObject, NamedValues, is_number
from verdict_cli.report.compress import encoded
from verdict_cli.report.document import TableColumn
from verdict_cli.report.evaluation_section import MOST_LABELS_IN_MATRIX
from verdict_cli.report.row_columns import OUTCOMES, scored_columns
from verdict_cli.stats.columns.column import MISSING, RowMask
from verdict_cli.stats.measure import confusion_counts
from verdict_cli.stats.row_scores import RowScores
from verdict_cli.storage.datasets.arrow_vectors import truths
from verdict_cli.storage.tables.column_types import array
from verdict_cli.storage.tables.reader import read_arrow

_MOST_ANSWERS = 20


class EvaluationColumns(Struct, frozen=True):
    """The columns that evaluations add to the table, and their values, one per row.

    Of the first evaluation, `answers` are the distinct predictions and targets in the order of their scale, empty if there are many,
    `prediction` is the expression, and `matrix` counts the rows by target and prediction. `order` ranks the rows by `OUTCOMES`.
    `error` says why there are no columns.
    """

    columns: Mapping[str, TableColumn]
    values: NamedValues
    name: str = ""
    answers: tuple[Any, ...] = ()
    error: str = ""
    prediction: str = ""
    order: Any = None
    matrix: NamedValues | None = None

    def outcomes(self) -> dict[str, int]:
        """How many rows have each outcome."""
        if self.order is None:
            return {}
        counts = np.bincount(self.order, minlength=len(OUTCOMES)).tolist()
        return {name: count for name, count in zip(OUTCOMES, counts, strict=True) if count}

    def wrong_rows(self) -> Any:
        """True for each row that failed or differs from its target; None if no row can."""
        wrong = None if self.order is None else self.order <= OUTCOMES.index("wrong")
        if "error" not in self.values:
            return wrong
        differs = truths(pc.greater(self.values["error"], 0))
        return differs if wrong is None else differs | wrong


def evaluation_columns(
    scored: Sequence[RowScores], failed: RowMask, prediction: str
) -> EvaluationColumns:
    """The columns of these evaluations; `failed` marks the rows that failed."""
    columns = scored_columns(scored, np.arange(len(failed)), failed.tolist())
    order = None
    if "outcome" in columns:
        order = np.array([OUTCOMES.index(cell) for cell in columns["outcome"][1]], np.int8)
    evaluation = EvaluationColumns(
        {name: column for name, (column, _) in columns.items()},
        {name: _array(cells) for name, (_, cells) in columns.items()},
        order=order,
    )
    if not scored:
        return evaluation
    return replace(
        evaluation,
        name=scored[0].name,
        answers=_answers(scored[0]),
        prediction=prediction,
        matrix=_matrix(scored[0]),
    )


def _matrix(scored: RowScores) -> JsonObject | None:
    """Labels and counts; None for an evaluation without labels, and where they are too many for a page."""
    data = scored.data
    rows = np.flatnonzero(data.target != MISSING)
    if (
        not scored.labelled
        or not data.predictions.types
        or not len(rows)
        or len(data.labels) >= MOST_LABELS_IN_MATRIX
    ):
        return None
    return confusion_counts(data, rows)


def _answers(scored: RowScores) -> tuple[Any, ...]:
    answers = {
        (type(value).__name__, value): value
        for column in (scored.answers, scored.data.targets)
        for value in column.values(range(min(len(scored.at), 10_000)))
        if isinstance(value, str | int | float)
    }
    declared = _declared(scored)
    answers |= {(type(value).__name__, value): value for value in declared}
    if len(answers) > _MOST_ANSWERS:
        return ()
    rank = {
        str(label): index
        for index, label in reversed([*enumerate([*declared, *scored.data.labels])])
    }
    return tuple(
        sorted(answers.values(), key=lambda value: (rank.get(str(value), len(rank)), str(value)))
    )


def _declared(scored: RowScores) -> list[Any]:
    """The values that the scale of the predictions lists, or its integers from end to end."""
    column = scored.data.predictions
    if column.declared is None:
        return []
    if column.declared.values or column.types != {"int"} or column.bounds is None:
        return [value for value in column.declared.values if isinstance(value, str | int | float)]
    low, high = column.bounds
    return [*range(int(low), int(high) + 1)] if high - low < _MOST_ANSWERS else []


def _array(values: list[Any]) -> Any:
    """Store numbers as numbers, and anything else as text."""
    if all(value is None or (is_number(value)) for value in values):
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    return pa.array([to_text(value) for value in values], pa.string())


def to_text(value: Any) -> str | None:
    """The text of a value; None for None. Arrow cannot encode lone surrogates, so they are escaped."""
    if value is None:
        return None
    text = value if isinstance(value, str) else encoded(value).decode()
    return text.encode("utf-8", "backslashreplace").decode()


OPERATIONS = ("is", "not", "has", "least", "most", "none", "some")
LONGEST_QUERY_S = 60.0
_BATCH = 20_000
_SORTED_CHARACTERS = 100
_MOST_FILTERS = 20
_MOST_WORDS = 10

RowPositions = npt.NDArray[np.uint32]


class QueryTimeout(Exception):
    """The query took longer than `LONGEST_QUERY_S`."""


class Filter(Struct, frozen=True):
    """A comparison of `column` with `value`; `operation` is one of `OPERATIONS`."""

    column: str
    operation: str
    value: str = ""


class Query(Struct, frozen=True):
    """Rows that pass every filter and contain every word, in the order of a column or of the file."""

    filters: tuple[Filter, ...] = ()
    words: tuple[str, ...] = ()
    sort: str = ""
    down: bool = False

    @property
    def everything(self) -> bool:
        """Whether the query returns all rows in file order."""
        return not (self.filters or self.words or self.sort)

    @staticmethod
    def parse(
        filters_json: Sequence[str], text: str, sort: str, down: bool, columns: Sequence[str]
    ) -> Query:
        """Parse the parameters of a URL. Each filter is JSON: `[column, operation, value]`. Raises UsageError."""
        filters = []
        for text_of_filter in filters_json[:_MOST_FILTERS]:
            try:
                column, operation, *operands = json.loads(text_of_filter)
            except (ValueError, TypeError, RecursionError):
                raise UsageError(
                    "a filter is not a JSON list of column, operation and value"
                ) from None
            if operation not in OPERATIONS:
                raise UsageError(f"unknown operation of a filter; use {', '.join(OPERATIONS)}")
            filters.append(Filter(str(column), operation, str(operands[0]) if operands else ""))
        for column in [*(condition.column for condition in filters), *([sort] if sort else [])]:
            if column not in columns:
                raise UsageError(f"this run has no column {column[:100]!r}")
        return Query(tuple(filters), tuple(text.split()[:_MOST_WORDS]), sort, down)


def find_rows(
    results: Path, texts: Sequence[str], virtual: NamedValues, query: Query
) -> RowPositions:
    """Find the positions of the matching rows, in the order of the query.

    `texts` are the columns that are searched for words. `virtual` are columns that are not in the file: a `pyarrow.Array`
    each, with one value per row. Raises QueryTimeout, and UsageError if a number is compared with something else.
    """
    until = monotonic() + LONGEST_QUERY_S
    needed = {condition.column for condition in query.filters} | (
        {query.sort} if query.sort else set()
    )
    needed |= set(texts) if query.words else set()
    stored = sorted(needed - virtual.keys()) or ["row"]
    parts = []
    order = []
    start = 0
    for batch in read_arrow(results, stored, _BATCH):
        if monotonic() > until:
            raise QueryTimeout
        columns = {name: _as_text(batch.column(name)) for name in stored}
        columns |= {
            name: virtual[name].slice(start, batch.num_rows) for name in needed if name in virtual
        }
        mask = np.ones(batch.num_rows, bool)
        for filter_ in query.filters:
            mask &= _passes(columns[filter_.column], filter_)
        for word in query.words:
            if mask.any():
                mask &= _contains([columns[name] for name in texts], word, batch.num_rows)
        in_batch = np.flatnonzero(mask)
        parts.append((in_batch + start).astype(np.uint32))
        if query.sort:
            order.append(_sortable(columns[query.sort]).take(pa.array(in_batch)))
        start += batch.num_rows
    positions = np.concatenate(parts) if parts else np.empty(0, np.uint32)
    if not query.sort or not len(positions):
        return positions
    kinds = {part.type for part in order if not pa.types.is_null(part.type)}
    if len(kinds) != 1:
        order = [part.cast(pa.string()) for part in order]
    sequence = pc.sort_indices(
        pa.chunked_array([part for part in order if len(part)]),
        sort_keys=[("", "descending" if query.down else "ascending")],
    )
    ordered: RowPositions = positions[np.from_dlpack(sequence)]
    return ordered


def _as_text(column: Any) -> Any:
    """The column; lists and mappings as JSON text, which is searched and compared."""
    return array(column.to_pylist(), "json") if pa.types.is_nested(column.type) else column


def _sortable(column: Any) -> Any:
    if pa.types.is_string(column.type):
        return pc.utf8_lower(pc.utf8_slice_codeunits(column, 0, _SORTED_CHARACTERS))
    return column.cast(pa.int8()) if pa.types.is_boolean(column.type) else column


def _passes(column: Any, filter_: Filter) -> RowMask:
    if filter_.operation in ("none", "some"):
        missing = truths(pc.is_null(column))
        return missing if filter_.operation == "none" else ~missing
    if pa.types.is_null(column.type):
        return np.full(len(column), filter_.operation == "not")
    numeric = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    if filter_.operation == "has":
        text = column if pa.types.is_string(column.type) else column.cast(pa.string())
        return truths(pc.match_substring(text, filter_.value, ignore_case=True))
    if filter_.operation in ("least", "most") or numeric:
        try:
            value = float(filter_.value)
        except ValueError:
            raise UsageError(
                f"{filter_.value[:100]!r} is not a number, but {filter_.column} is compared by size"
            ) from None
        if not numeric:
            raise UsageError(f"{filter_.column} has no numbers: compare it with is, not or has")
        compare = {"least": pc.greater_equal, "most": pc.less_equal}.get(
            filter_.operation, pc.equal
        )
        same = truths(compare(column.cast(pa.float64(), safe=False), value))
    elif pa.types.is_boolean(column.type):
        same = truths(pc.equal(column, filter_.value.lower() == "true"))
    else:
        same = truths(pc.equal(column, filter_.value))
    return ~same if filter_.operation == "not" else same


def _contains(columns: Sequence[Any], word: str, rows: int) -> RowMask:
    mask = np.zeros(rows, bool)
    for column in columns:
        if pa.types.is_null(column.type):
            continue
        text = column if pa.types.is_string(column.type) else column.cast(pa.string())
        mask |= truths(pc.match_substring(text, word, ignore_case=True))
    return mask
