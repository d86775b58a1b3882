"""Which rows of a table are meant: filtered, searched and sorted batch by batch, straight from Parquet."""

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


class TooLong(Exception):
    """The search took longer than a request may."""


@dataclass(frozen=True, slots=True)
class Filter:
    """`column` compared with `value` as `operation` says."""

    column: str
    operation: str
    value: str = ""


@dataclass(frozen=True, slots=True)
class Query:
    """The rows that pass every filter and hold every word, in the order of a column or of the file."""

    filters: tuple[Filter, ...] = ()
    words: tuple[str, ...] = ()
    sort: str = ""
    down: bool = False

    @property
    def everything(self) -> bool:
        """Whether it is the file as it is."""
        return not (self.filters or self.words or self.sort)

    @staticmethod
    def read(given: Sequence[str], text: str, sort: str, down: bool, columns: Sequence[str]) -> Query:
        """The query that an address spells: each filter is JSON, `[column, operation, value]`. UsageError when it is none."""
        filters = []
        for one in given[:_MOST_FILTERS]:
            try:
                column, operation, *rest = json.loads(one)
            except (ValueError, TypeError, RecursionError):
                raise UsageError("a filter is to be a JSON list: column, operation, value") from None
            if operation not in OPERATIONS:
                raise UsageError(f"a filter compares by {', '.join(OPERATIONS)}")
            filters.append(Filter(str(column), operation, str(rest[0]) if rest else ""))
        for column in [*(one.column for one in filters), *([sort] if sort else [])]:
            if column not in columns:
                raise UsageError(f"this run has no column {column[:100]!r}")
        return Query(tuple(filters), tuple(text.split()[:_MOST_WORDS]), sort, down)


def matching(results: Path, texts: Sequence[str], virtual: Mapping[str, Any], query: Query) -> RowPositions:
    """The places of the rows in the file, in the order that is asked for.

    `texts` are the columns in which words are searched; `virtual` are columns that the file has not, each a
    `pyarrow.Array` with a value a row. Raises TooLong, and UsageError for a comparison with what is no number.
    """
    until = monotonic() + LONGEST_QUERY_S
    wanted = {one.column for one in query.filters} | ({query.sort} if query.sort else set())
    wanted |= set(texts) if query.words else set()
    own = sorted(wanted - virtual.keys()) or ["row"]
    found: list[RowPositions] = []
    order: list[Any] = []
    start = 0
    for batch in read_arrow(results, own, _BATCH):
        if monotonic() > until:
            raise TooLong
        columns = {name: batch.column(name) for name in own}
        columns |= {name: virtual[name].slice(start, batch.num_rows) for name in wanted if name in virtual}
        mask = np.ones(batch.num_rows, bool)
        for one in query.filters:
            mask &= _passes(columns[one.column], one)
        for word in query.words:
            if mask.any():
                mask &= _holds([columns[name] for name in texts], word, batch.num_rows)
        here = np.flatnonzero(mask)
        found.append((here + start).astype(np.uint32))
        if query.sort:
            order.append(_sortable(columns[query.sort]).take(pa.array(here)))
        start += batch.num_rows
    places = np.concatenate(found) if found else np.empty(0, np.uint32)
    if not query.sort or not len(places):
        return places
    kinds = {each.type for each in order if not pa.types.is_null(each.type)}
    if len(kinds) != 1:
        order = [each.cast(pa.string()) for each in order]
    sequence = pc.sort_indices(
        pa.chunked_array([each for each in order if len(each)]),
        sort_keys=[("", "descending" if query.down else "ascending")],
    )
    ordered: RowPositions = places[np.from_dlpack(sequence)]
    return ordered


def _sortable(column: Any) -> Any:
    if pa.types.is_string(column.type):
        return pc.utf8_lower(pc.utf8_slice_codeunits(column, 0, _SORTED_CHARACTERS))
    return column.cast(pa.int8()) if pa.types.is_boolean(column.type) else column


def _passes(column: Any, one: Filter) -> npt.NDArray[np.bool_]:
    if one.operation in ("none", "some"):
        missing = truths(pc.is_null(column))
        return missing if one.operation == "none" else ~missing
    if pa.types.is_null(column.type):
        return np.full(len(column), one.operation == "not")
    numeric = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    if one.operation == "has":
        text = column if pa.types.is_string(column.type) else column.cast(pa.string())
        return truths(pc.match_substring(text, one.value, ignore_case=True))
    if one.operation in ("least", "most") or numeric:
        try:
            value = float(one.value)
        except ValueError:
            raise UsageError(f"{one.value[:100]!r} is no number, and {one.column} is compared by size") from None
        if not numeric:
            raise UsageError(f"{one.column} holds no numbers: compare it with is, not or has")
        compare = {"least": pc.greater_equal, "most": pc.less_equal}.get(one.operation, pc.equal)
        same = truths(compare(column.cast(pa.float64(), safe=False), value))
    elif pa.types.is_boolean(column.type):
        same = truths(pc.equal(column, one.value.lower() == "true"))
    else:
        same = truths(pc.equal(column, one.value))
    return ~same if one.operation == "not" else same


def _holds(columns: Sequence[Any], word: str, rows: int) -> npt.NDArray[np.bool_]:
    found = np.zeros(rows, bool)
    for column in columns:
        if pa.types.is_null(column.type):
            continue
        text = column if pa.types.is_string(column.type) else column.cast(pa.string())
        found |= truths(pc.match_substring(text, word, ignore_case=True))
    return found
