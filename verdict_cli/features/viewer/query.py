"""Filter, search and sort the rows of a table, batch by batch from Parquet."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from verdict_cli.errors import UsageError
from verdict_cli.storage.tables.arrow_vectors import truths
from verdict_cli.storage.tables.reader import read_arrow

OPERATIONS = ("is", "not", "has", "least", "most", "none", "some")
LONGEST_QUERY_S = 60.0
_BATCH = 20_000
_SORTED_CHARACTERS = 100
_MOST_FILTERS = 20
_MOST_WORDS = 10

RowPositions = npt.NDArray[np.uint32]


class QueryTimeout(Exception):
    """The query took longer than `LONGEST_QUERY_S`."""


@dataclass(frozen=True, slots=True)
class Filter:
    """A comparison of `column` with `value`; `operation` is one of `OPERATIONS`."""

    column: str
    operation: str
    value: str = ""


@dataclass(frozen=True, slots=True)
class Query:
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
    def parse(filters_json: Sequence[str], text: str, sort: str, down: bool, columns: Sequence[str]) -> Query:
        """Parse the parameters of a URL. Each filter is JSON: `[column, operation, value]`. Raises UsageError."""
        filters = []
        for text_of_filter in filters_json[:_MOST_FILTERS]:
            try:
                column, operation, *rest = json.loads(text_of_filter)
            except (ValueError, TypeError, RecursionError):
                raise UsageError("a filter is not a JSON list of column, operation and value") from None
            if operation not in OPERATIONS:
                raise UsageError(f"unknown operation of a filter; use {', '.join(OPERATIONS)}")
            filters.append(Filter(str(column), operation, str(rest[0]) if rest else ""))
        for column in [*(each.column for each in filters), *([sort] if sort else [])]:
            if column not in columns:
                raise UsageError(f"this run has no column {column[:100]!r}")
        return Query(tuple(filters), tuple(text.split()[:_MOST_WORDS]), sort, down)


def find_rows(results: Path, texts: Sequence[str], virtual: Mapping[str, Any], query: Query) -> RowPositions:
    """Find the positions of the matching rows, in the order of the query.

    `texts` are the columns that are searched for words. `virtual` are columns that are not in the file: a `pyarrow.Array`
    each, with one value per row. Raises QueryTimeout, and UsageError if a number is compared with something else.
    """
    until = monotonic() + LONGEST_QUERY_S
    needed = {each.column for each in query.filters} | ({query.sort} if query.sort else set())
    needed |= set(texts) if query.words else set()
    stored = sorted(needed - virtual.keys()) or ["row"]
    parts: list[RowPositions] = []
    order: list[Any] = []
    start = 0
    for batch in read_arrow(results, stored, _BATCH):
        if monotonic() > until:
            raise QueryTimeout
        columns = {name: batch.column(name) for name in stored}
        columns |= {name: virtual[name].slice(start, batch.num_rows) for name in needed if name in virtual}
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
    kinds = {each.type for each in order if not pa.types.is_null(each.type)}
    if len(kinds) != 1:
        order = [each.cast(pa.string()) for each in order]
    sequence = pc.sort_indices(
        pa.chunked_array([each for each in order if len(each)]),
        sort_keys=[("", "descending" if query.down else "ascending")],
    )
    ordered: RowPositions = positions[np.from_dlpack(sequence)]
    return ordered


def _sortable(column: Any) -> Any:
    if pa.types.is_string(column.type):
        return pc.utf8_lower(pc.utf8_slice_codeunits(column, 0, _SORTED_CHARACTERS))
    return column.cast(pa.int8()) if pa.types.is_boolean(column.type) else column


def _passes(column: Any, filter_: Filter) -> npt.NDArray[np.bool_]:
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
        compare = {"least": pc.greater_equal, "most": pc.less_equal}.get(filter_.operation, pc.equal)
        same = truths(compare(column.cast(pa.float64(), safe=False), value))
    elif pa.types.is_boolean(column.type):
        same = truths(pc.equal(column, filter_.value.lower() == "true"))
    else:
        same = truths(pc.equal(column, filter_.value))
    return ~same if filter_.operation == "not" else same


def _contains(columns: Sequence[Any], word: str, rows: int) -> npt.NDArray[np.bool_]:
    mask = np.zeros(rows, bool)
    for column in columns:
        if pa.types.is_null(column.type):
            continue
        text = column if pa.types.is_string(column.type) else column.cast(pa.string())
        mask |= truths(pc.match_substring(text, word, ignore_case=True))
    return mask
