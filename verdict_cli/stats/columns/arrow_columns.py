"""Evaluations whose expressions are columns of the results as they are, read without a Python loop over rows.

Most evaluations compare `output.score` with `source.label` in clusters of `source.id`. What is more than a column (a condition,
a mapping, entries of a list) is read row by row (`collect.py`), with the same result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from verdict_cli.language.expressions.expression import Expression
from verdict_cli.stats.columns.column import EXACT, MISSING, NUMERIC, Column, Factorized, Floats, Ints, RowMask
from verdict_cli.storage.tables.arrow_vectors import floats, integers, scalar, truths
from verdict_cli.storage.tables.column_types import DeclaredType
from verdict_cli.storage.tables.reader import read_arrow

if TYPE_CHECKING:
    import pyarrow as pa


def plain_column(expression: Expression) -> str | None:
    """The column of the results that the expression is; None where it is more than a column."""
    match expression.path:
        case ("source" | "output" as root, str(name)):
            return f"{root}.{name}"
        case ("nodes", str(node), str(name)):
            return f"{node}.{name}"
    return None


@dataclass(frozen=True, slots=True)
class PlainTable:
    """The columns of a run's results that plain evaluations name, whether each row failed, and its number."""

    columns: Mapping[str, pa.ChunkedArray]
    failed: RowMask
    row: Ints

    @staticmethod
    def read(results: Path, names: Sequence[str]) -> PlainTable:
        """The columns of the file."""
        import pyarrow as pa

        wanted = list(dict.fromkeys(("row", "status", *names)))
        batches = list(read_arrow(results, wanted, 100_000))
        table = pa.Table.from_batches(batches).combine_chunks() if batches else None
        if table is None:
            return PlainTable({}, np.zeros(0, bool), np.zeros(0, np.int64))
        import pyarrow.compute as pc

        failed = ~truths(pc.equal(_one(table["status"]), scalar("ok", "str")))
        return PlainTable({name: _one(table[name]) for name in wanted}, failed, integers(_one(table["row"])))

    def is_exact(self, name: str) -> bool:
        """Whether floats tell the column's numbers apart."""
        import pyarrow as pa
        import pyarrow.compute as pc

        column = self.columns[name]
        if not pa.types.is_integer(column.type):
            return True
        ends = pc.min_max(column).as_py()
        return ends["min"] is None or bool(-EXACT <= ends["min"] <= ends["max"] <= EXACT)


def _one(column: Any) -> Any:
    import pyarrow as pa

    return pa.concat_arrays(column.chunks) if column.num_chunks != 1 else column.chunk(0)


@dataclass(slots=True)
class PlainColumns:
    """One evaluation's columns from a table; columns that are compared share the codes of their `words`."""

    table: PlainTable
    words: dict[Any, int] = field(default_factory=dict)
    unreadable: dict[str, tuple[int, str]] = field(default_factory=dict)

    def column(self, key: str, name: str, text: str, declared: DeclaredType | None, *, output: bool) -> Column:
        """The values of a column; of an `output`, a failed row has none, and others that have none are counted."""
        import pyarrow as pa

        found = self.table.columns[name]
        present = truths(found.is_valid())
        if output:
            present &= ~self.table.failed
        codes = np.full(len(present), MISSING, dtype=np.int32)
        numbers: Floats = np.full(len(present), np.nan)
        unread, reason = np.zeros(len(present), bool), "is null"
        if pa.types.is_string(found.type) or pa.types.is_large_string(found.type):
            kind = "str"
            encoded = found.dictionary_encode()
            known = [self.words.setdefault(word, len(self.words)) for word in encoded.dictionary.to_pylist()]
            table = np.array([*known, MISSING], dtype=np.int32)
            indices = integers(encoded.indices.fill_null(len(known)))
            codes = np.where(present, table[indices], MISSING).astype(np.int32)
        else:
            kind = "bool" if pa.types.is_boolean(found.type) else "int" if pa.types.is_integer(found.type) else "float"
            values = floats(found)
            finite = present & np.isfinite(values)
            unread = present & ~finite
            codes[finite], numbers[finite] = NUMERIC, values[finite]
            present = finite
        if output:
            self._count(key, text, found, unread | (~present & ~self.table.failed), reason)
        types = frozenset({kind}) if present.any() else frozenset()
        return Column(numbers, codes, (), types, declared)

    def _count(self, key: str, text: str, found: Any, unread: RowMask, reason: str) -> None:
        """Count the rows that did not fail and have no value, as reading row by row does."""
        if not unread.any():
            return
        first = int(np.flatnonzero(unread)[0])
        value = found[first].as_py()
        why = reason if value is None else f"is {value}, which is not a finite number"
        self.unreadable[key] = (int(unread.sum()), f"row {int(self.table.row[first])}: `{text}` {why}")

    def keys(self, name: str) -> Factorized:
        """The keys of a column, coded in the order of their first row; a failed row without an output has none."""
        found = self.table.columns[name]
        encoded = found.dictionary_encode(null_encoding="encode")
        codes = integers(encoded.indices).astype(np.int32)
        if not name.startswith("source."):
            codes[self.table.failed & ~truths(found.is_valid())] = MISSING
        return Factorized(codes, tuple(encoded.dictionary.to_pylist()))

    def with_words(self, columns: Mapping[str, Column]) -> dict[str, Column]:
        """The columns with the words of all of them."""
        words = tuple(self.words)
        return {
            key: Column(column.numbers, column.codes, words, column.types, column.declared)
            for key, column in columns.items()
        }
