"""The rows of a run as columns: what each expression of an evaluation gives, read once and kept small.

Most evaluations compare `output.score` with `source.label` in clusters of `source.id`: expressions that are columns as they are
are read by pyarrow, without a loop over rows. What is more than a column (a condition, a mapping, entries of a list) is read row
by row, with the same result.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from verdict_cli.errors import DataError, Problem, RowError
from verdict_cli.language.evaluations import Evaluation
from verdict_cli.language.expressions.expression import Expression, compile_expression
from verdict_cli.language.expressions.paths import ExpressionError
from verdict_cli.stats.columns.column import (
    EXACT,
    INCLUSION,
    MISSING,
    NUMERIC,
    Column,
    ColumnBuilder,
    Factorized,
    Floats,
    Ints,
    KeyBuilder,
    RowMask,
)
from verdict_cli.stats.columns.saved_rows import (
    SAVED_ROW_ROOTS,
    SKIPPED,
    SavedRowPath,
    entry_type,
    observations,
    row_paths,
    saved_rows,
)
from verdict_cli.storage.datasets.dataset import missing_column
from verdict_cli.storage.tables.arrow_vectors import floats, integers, scalar, truths
from verdict_cli.storage.tables.column_types import DeclaredType
from verdict_cli.storage.tables.reader import column_kinds, declared_types, read_arrow, read_table, table_columns

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


class PlainTable(Struct, frozen=True):
    """The columns of a run's results that plain evaluations name, whether each row failed, and its number."""

    columns: Mapping[str, pa.Array]
    failed: RowMask
    row: Ints

    @staticmethod
    def read(results: Path, names: Sequence[str]) -> PlainTable:
        """The columns of the file."""
        import pyarrow as pa
        import pyarrow.compute as pc

        wanted = list(dict.fromkeys(("row", "status", *names)))
        batches = list(read_arrow(results, wanted, 100_000))
        if not batches:
            return PlainTable({}, np.zeros(0, bool), np.zeros(0, np.int64))
        table = pa.Table.from_batches(batches)
        columns = {name: table[name].combine_chunks() for name in wanted}
        failed = ~truths(pc.equal(columns["status"], scalar("ok", "str")))
        return PlainTable(columns, failed, integers(columns["row"]))

    def is_exact(self, name: str) -> bool:
        """Whether floats tell the column's numbers apart."""
        import pyarrow as pa
        import pyarrow.compute as pc

        column = self.columns[name]
        if not pa.types.is_integer(column.type):
            return True
        ends = pc.min_max(column).as_py()
        return ends["min"] is None or bool(-EXACT <= ends["min"] <= ends["max"] <= EXACT)


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
        unread = np.zeros(len(present), bool)
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
            self._count(key, text, found, unread | (~present & ~self.table.failed))
        types = frozenset({kind}) if present.any() else frozenset()
        return Column(numbers, codes, (), types, declared)

    def _count(self, key: str, text: str, found: Any, unread: RowMask) -> None:
        """Count the rows that did not fail and have no value, as reading row by row does."""
        if not unread.any():
            return
        first = int(np.flatnonzero(unread)[0])
        value = found[first].as_py()
        why = "is null" if value is None else f"is {value}, which is not a finite number"
        self.unreadable[key] = (int(unread.sum()), f"row {int(self.table.row[first])}: `{text}` {why}")

    def keys(self, name: str) -> Factorized:
        """The keys of a column, coded in the order of their first row; a failed row without an output has none."""
        found = self.table.columns[name]
        encoded = found.dictionary_encode(null_encoding="encode")
        codes = integers(encoded.indices).astype(np.int32)
        if not name.startswith("source."):
            codes[self.table.failed & ~truths(found.is_valid())] = MISSING
        return Factorized(codes, tuple(encoded.dictionary.to_pylist()))


OUTPUT_KEYS = ("prediction", "probability", "value", "consistent")
"""The expressions whose value may be missing, since they depend on the pipeline's output."""
LONGER = "longer"
"""The column computed from `options`: by how much option A is longer than B."""


class Collected(Struct, frozen=True):
    """The selected rows of one evaluation. `by` has a key column for each expression.

    `unreadable` is expression key -> (rows whose expression failed, the first message); `undecided` counts failed
    rows that are left out because `where` needs their missing output, `skipped` those that `when` skipped. `at` are the
    rows' indices in the file, None for groups and entries. `unreached` counts the failed rows whose entries (`items`)
    are not known.
    """

    rows: int
    columns: Mapping[str, Column]
    by: tuple[Factorized, ...]
    cluster: Factorized | None
    group: Factorized | None
    ids: Factorized | None
    unreadable: Mapping[str, tuple[int, str]]
    undecided: int = 0
    skipped: int = 0
    at: Ints | None = None
    unreached: int = 0


def collect(
    evaluations: Mapping[str, Evaluation],
    results: Path,
    *,
    ids: Sequence[str] | None = None,
    only: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Collected]:
    """Each evaluation's columns from `results.parquet`, in one pass; `only` is evaluation -> path -> required value.

    `ids` has a key for each row of the file, which the selected rows keep. What follows a null character in a name
    distinguishes several selections of one evaluation.
    Raises DataError for a row on which `target`, `where`, `by`, `cluster` or `group` cannot be computed.
    """
    declared = declared_types(results)
    readers = {
        name: _Reader(
            name.partition("\0")[0], evaluation, results, ids is not None, (only or {}).get(name, {}), declared
        )
        for name, evaluation in evaluations.items()
    }
    found = _collect_plain(readers, results, ids, declared)
    others = {name: reader for name, reader in readers.items() if name not in found}
    paths = [path for reader in others.values() for path in reader.paths]
    for at, (row, failed, row_id, values) in enumerate(saved_rows(results, paths, ids) if others else ()):
        for reader in others.values():
            reader.read(at, row, failed, row_id, values)
    return {name: found[name] if name in found else reader.collected() for name, reader in readers.items()}


def _collect_plain(
    readers: Mapping[str, _Reader], results: Path, ids: Sequence[str] | None, declared: Mapping[str, DeclaredType]
) -> dict[str, Collected]:
    """The columns of the evaluations whose expressions are all columns as they are."""
    kinds = column_kinds(results)
    known = {name for name, kind in kinds.items() if kind in ("bool", "int", "float", "str")}
    plain = {name: columns for name, reader in readers.items() if (columns := reader.plain_columns(known)) is not None}
    if not plain or (SKIPPED in kinds and any(any(batch[SKIPPED]) for batch in read_table(results, [SKIPPED]))):
        return {}
    table = PlainTable.read(results, [column for columns in plain.values() for column in columns.values()])
    found = {}
    for name, columns in plain.items():
        if len(table.row) and all(map(table.is_exact, columns.values())):
            found[name] = readers[name].collected_plain(table, columns, ids, declared)
    return found


def require_columns(text: str, results: Path) -> None:
    """DataError where the expression names a column of the dataset that the results have not."""
    names = table_columns(results)
    try:
        paths = compile_expression(text).paths
    except ExpressionError:
        return  # told where it is compiled for the rows
    columns = [name.removeprefix("source.") for name in names if name.startswith("source.")]
    for path in paths:
        if path[0] == "source" and len(path) > 1 and path[1] not in columns:
            raise DataError(missing_column(str(path[1]), columns, f", which `{text}` names").at(str(results), 0, 0, ""))


def _length(expression: Expression, values: Mapping[str, Any]) -> float:
    value = expression(values)
    if isinstance(value, str | list | tuple):
        return len(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise RowError(f"`{expression.text}` gives {value!r}, which is neither a text nor a length")


class _Reader:
    """Reads one evaluation's columns, row by row."""

    def __init__(
        self,
        name: str,
        evaluation: Evaluation,
        results: Path,
        ids: bool,
        only: Mapping[str, Any],
        declared: Mapping[str, DeclaredType],
    ) -> None:
        self.name, self.results, self.items = name, results, evaluation.items
        self.table = frozenset(table_columns(results))
        words: dict[Any, int] = {}
        given = {key: getattr(evaluation, key) for key in ("target", *OUTPUT_KEYS)}
        given |= {f"panel[{index}]": text for index, text in enumerate(evaluation.panel or ())}
        self.expressions = {key: self._compiled(key, text) for key, text in given.items() if text is not None}
        self.gold_where = None
        if (gold := evaluation.gold) is not None:
            self.expressions["gold"] = self._compiled("gold.target", gold.target)
            if gold.weight is not None:
                self.expressions[INCLUSION] = self._compiled(INCLUSION, gold.weight)
            self.gold_where = None if gold.where is None else self._compiled("gold.where", gold.where)
        self.builders = {
            key: ColumnBuilder(words, self._declared(expression, declared))
            for key, expression in self.expressions.items()
        }
        self.options = [
            self._compiled(f"options[{index}]", text) for index, text in enumerate(evaluation.options or ())
        ]
        if self.options:
            self.builders[LONGER] = ColumnBuilder(words)
        self.where = self._compiled("where", evaluation.where) if evaluation.where else None
        self.only = [(self._compiled(f"where.{path}", path), value) for path, value in only.items()]
        keyed = {f"by[{index}]": text for index, text in enumerate(evaluation.by)}
        keyed |= {key: getattr(evaluation, key) for key in ("cluster", "group") if getattr(evaluation, key)}
        compiled = {key: self._compiled(key, text) for key, text in keyed.items()}
        self.keys = {key: KeyBuilder() for key in compiled}
        self.keyed = {key: expression for key, expression in compiled.items() if not self._is_absent(key, expression)}
        self.absent = compiled.keys() - self.keyed.keys()
        if self.items is not None and evaluation.cluster is None:
            self.keys["cluster"] = KeyBuilder()  # entries of one row have correlated errors
        self.ids = KeyBuilder() if ids else None
        self.at = array("q")
        self.undecided = self.skipped = self.unreached = 0
        self.unreadable: dict[str, tuple[int, str]] = {}

    @property
    def paths(self) -> list[SavedRowPath]:
        """The paths that the expressions name."""
        every = [*self.expressions.values(), *self.options, *self.keyed.values()]
        every += [expression for expression, _ in self.only]
        every += [expression for expression in (self.where, self.gold_where) if expression is not None]
        found = [path for expression in every for path in expression.paths]
        return found if self.items is None else row_paths(self.items, found)

    def plain_columns(self, known: set[str]) -> dict[str, str] | None:
        """Key -> the column that its expression is; None where one is more than that, or only some rows count."""
        if self.items is not None or self.options or self.only or self.where is not None or self.gold_where is not None:
            return None
        columns = {key: plain_column(each) for key, each in (*self.expressions.items(), *self.keyed.items())}
        found = {key: column for key, column in columns.items() if column is not None and column in known}
        return found if len(found) == len(columns) and INCLUSION not in found else None

    def collected_plain(
        self,
        table: PlainTable,
        columns: Mapping[str, str],
        ids: Sequence[str] | None,
        declared: Mapping[str, DeclaredType],
    ) -> Collected:
        """The columns of all rows of a table."""
        plain = PlainColumns(table)
        found = {
            key: plain.column(
                key, columns[key], each.text, self._declared(each, declared), output=key not in ("target", "gold")
            )
            for key, each in self.expressions.items()
        }
        # A column that the dataset lacks has no keys, in its position among the others.
        missing = Factorized(np.full(len(table.row), MISSING, dtype=np.int64), ())
        keys = {key: plain.keys(columns[key]) if key in self.keyed else missing for key in self.keys}
        if self.ids is not None:
            for key in ids or ():
                self.ids.add(key)
        words = tuple(plain.words)
        given = {key: replace(column, words=words) for key, column in found.items()}
        return self._collected(given, keys, plain.unreadable, np.arange(len(table.row)))

    def read(self, at: int, row: int, failed: bool, row_id: Any, values: Mapping[str, Any]) -> None:
        """Add the row at this index of the file, or each of its entries, if it is selected."""
        if values.get(SKIPPED) and self._is_skipped(values):
            self.skipped += 1
            return
        if self.items is None:
            self._read(at, row, failed, row_id, values)
            return
        entries = observations(self.items, values)
        self.unreached += entries is None and failed
        for entry in entries or ():
            there = f"{row}, entry {entry.place}"
            lacks = failed or entry.lacks_output
            if self._read(at, there, lacks, f"{row_id}[{entry.place}]", entry.values) and "cluster" not in self.keyed:
                self.keys["cluster"].add(row)

    def _read(self, at: int, row: int | str, failed: bool, row_id: Any, values: Mapping[str, Any]) -> bool:
        """Whether the row, or the entry of a row, is selected; if so, it is added."""
        selected = self._selected(row, failed, values)
        if selected is not True:
            self.undecided += selected is None
            return False
        self.at.append(at)
        for key, expression in self.expressions.items():
            self._value(key, expression, row, failed, values)
        if self.options:
            self._longer(row, failed, values)
        for key, expression in self.keyed.items():
            known, value = self._fixed(key, expression, row, failed, values)
            if known:
                self.keys[key].add(value)
            else:
                self.keys[key].skip()
        for key in self.absent:
            self.keys[key].skip()
        if self.ids is not None:
            self.ids.add(row_id)
        return True

    def _is_absent(self, key: str, expression: Expression) -> bool:
        """Whether the rows are to be split by a column that the dataset has not, which the run has warned of."""
        named = [path for path in expression.paths if path[0] == "source"]
        return key.startswith("by[") and any(f"source.{path[1]}" not in self.table for path in named if len(path) > 1)

    def _is_skipped(self, values: Mapping[str, Any]) -> bool:
        """Whether `when` skipped, at a row that `where` selects, a unit without which something cannot be computed."""
        if self.items is not None:
            return self.items in values[SKIPPED]
        skipped = {("output",) if name == "output" else ("nodes", name) for name in values[SKIPPED]}

        def lacks(expression: Expression) -> bool:
            if not any(path[: len(unit)] == unit for path in expression.paths for unit in skipped):
                return False
            try:
                return expression(values) is None
            except RowError:
                return True

        filters = [*([] if self.where is None else [self.where]), *(expression for expression, _ in self.only)]
        if self.where is not None and not lacks(self.where) and self.where(values) is False:
            return False
        return any(map(lacks, [*filters, *self.expressions.values(), *self.keyed.values(), *self.options]))

    def _selected(self, row: int | str, failed: bool, values: Mapping[str, Any]) -> bool | None:
        if self.where is not None:
            known, value = self._fixed("where", self.where, row, failed, values)
            if known and not isinstance(value, bool):
                raise self._error("where", row, f"`{self.where.text}` gives {value!r}, not true or false", "compare")
            if not known or not value:
                return None if not known else False
        for expression, required in self.only:
            known, value = self._fixed("where", expression, row, failed, values)
            if not known or value != required:
                return None if not known else False
        return True

    def _value(self, key: str, expression: Expression, row: int | str, failed: bool, values: Mapping[str, Any]) -> None:
        builder = self.builders[key]
        if key in ("target", "gold", INCLUSION):
            known, value = self._fixed(key, expression, row, failed, values)
            if key == "gold" and self.gold_where is not None:
                counts = self._fixed("gold.where", self.gold_where, row, failed, values)[1]
                value = value if counts else None
            reason = builder.add(value if known else None)
            if reason and value is not None:
                raise self._error(key, row, f"`{expression.text}` {reason}", "give a label, a number or null")
            return
        if failed:
            builder.add(None)
            return
        try:
            value = expression(values)
        except RowError as error:
            reason = error.message
            builder.add(None)
        else:
            reason = builder.add(value)
            reason = f"`{expression.text}` {reason}" if reason else ""
        if reason:
            self._count_unreadable(key, row, reason)

    def _count_unreadable(self, key: str, row: int | str, reason: str) -> None:
        count, first = self.unreadable.get(key, (0, f"row {row}: {reason}"))
        self.unreadable[key] = (count + 1, first)

    def _longer(self, row: int | str, failed: bool, values: Mapping[str, Any]) -> None:
        """By how much option A is the longer: numbers are lengths, texts and lists have one."""
        longer: float | None = None
        if not failed:
            try:
                first, second = (_length(expression, values) for expression in self.options)
            except RowError as error:
                self._count_unreadable("options", row, error.message)
            else:
                longer = float(first - second)
        self.builders[LONGER].add(longer)

    def _fixed(
        self, key: str, expression: Expression, row: int | str, failed: bool, values: Mapping[str, Any]
    ) -> tuple[bool, Any]:
        """Whether the value is known, and the value: on a failed row it is not, if it depends on a missing output."""
        try:
            return True, expression(values)
        except RowError as error:
            if failed and any(path[0] in ("output", "nodes") for path in expression.paths):
                return False, None
            raise self._error(key, row, error.message, error.hint) from None

    def _compiled(self, key: str, text: str) -> Expression:
        try:
            return compile_expression(text, SAVED_ROW_ROOTS if self.items is None else None)
        except ExpressionError as error:
            path = f"evaluate.{self.name}.{key}"
            raise DataError(Problem("expression", error.message, error.hint, path=path)) from None

    def _declared(self, expression: Expression, declared: Mapping[str, DeclaredType]) -> DeclaredType | None:
        column = plain_column(expression) or ""
        if column.startswith("source."):
            return None
        if self.items is None:
            return declared.get(column)
        return entry_type(
            declared.get(column.replace("output.", f"{self.items}.") if column.startswith("output.") else column)
        )

    def _error(self, key: str, row: int | str, message: str, hint: str) -> DataError:
        path = f"evaluate.{self.name}.{key}"
        return DataError(Problem("evaluate", f"row {row}: {message}", hint, file=str(self.results), path=path))

    def collected(self) -> Collected:
        """The columns of the rows that were read."""
        columns = {key: builder.column() for key, builder in self.builders.items()}
        keys = {key: builder.keys() for key, builder in self.keys.items()}
        return self._collected(columns, keys, self.unreadable, np.array(self.at, dtype=np.int64))

    def _collected(
        self,
        columns: Mapping[str, Column],
        keys: Mapping[str, Factorized],
        unreadable: Mapping[str, tuple[int, str]],
        at: Ints,
    ) -> Collected:
        return Collected(
            rows=len(at),
            columns=columns,
            by=tuple(column for key, column in keys.items() if key.startswith("by[")),
            cluster=keys.get("cluster"),
            group=keys.get("group"),
            ids=self.ids.keys() if self.ids is not None else None,
            unreadable=unreadable,
            undecided=self.undecided,
            at=at if self.items is None else None,
            skipped=self.skipped,
            unreached=self.unreached,
        )
