"""The rows of a run as columns: what each expression of an evaluation gives, read once and kept small.

Most evaluations compare `output.score` with `source.label` in clusters of `source.id`: expressions that are columns as they are
are read column by column, in a third of the time. What is more than a column (a condition, a mapping, entries of a list) is
read row by row, with the same result.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from verdict_cli.errors import DataError, Problem, RowError
from verdict_cli.language.evaluations import Evaluation
from verdict_cli.language.expressions.expression import Expression, compile_expression
from verdict_cli.language.expressions.paths import ExpressionError
from verdict_cli.stats.columns.column import INCLUSION, MISSING, Column, ColumnBuilder, Factorized, Ints, KeyBuilder
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
from verdict_cli.storage.tables.column_types import DeclaredType
from verdict_cli.storage.tables.reader import column_kinds, declared_types, read_table, table_columns


def plain_column(expression: Expression | _Longer) -> str | None:
    """The column of the results that the expression is; None where it is more than a column."""
    match expression.path:
        case ("source" | "output" as root, str(name)):
            return f"{root}.{name}"
        case ("nodes", str(node), str(name)):
            return f"{node}.{name}"
    return None


OUTPUT_KEYS = ("prediction", "probability", "value", "consistent")
"""The expressions whose value may be missing, since they depend on the pipeline's output."""
LONGER = "options"
"""The column computed from `options`: by how much option A is longer than B."""
OF_PEOPLE = ("target", "gold", INCLUSION)
"""The expressions of which a failed row may have the value too."""


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
    ids: Sequence[str]
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
    kinds = column_kinds(results)
    known = {name for name, kind in kinds.items() if kind in ("bool", "int", "float", "str")}
    if SKIPPED in kinds and any(any(batch[SKIPPED]) for batch in read_table(results, [SKIPPED])):
        known = set()
    plain = [(reader, columns) for reader in readers.values() if (columns := reader.plain_columns(known)) is not None]
    _read_plain(plain, results, ids)
    others = [reader for reader in readers.values() if all(reader is not each for each, _ in plain)]
    paths = [path for reader in others for path in reader.paths]
    for at, (row, failed, row_id, values) in enumerate(saved_rows(results, paths, ids) if others else ()):
        for reader in others:
            reader.read(at, row, failed, row_id, values)
    return {name: reader.collected() for name, reader in readers.items()}


def _read_plain(readers: Sequence[tuple[_Reader, Mapping[str, str]]], results: Path, ids: Sequence[str] | None) -> None:
    """Read the evaluations whose expressions are all columns as they are, column by column."""
    names = dict.fromkeys(("row", "status", *(name for _, columns in readers for name in columns.values())))
    start = 0
    for batch in read_table(results, list(names)) if readers else ():
        end = start + len(batch["row"])
        for reader, columns in readers:
            reader.read_columns(batch, columns, ids[start:end] if ids is not None else ())
        start = end


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


class _Longer(Struct, frozen=True):
    """By how much option A is longer than B: numbers are lengths, texts and lists have one."""

    options: tuple[Expression, ...]
    text: str = "options"
    path: None = None

    @property
    def paths(self) -> tuple[SavedRowPath, ...]:
        return tuple(path for option in self.options for path in option.paths)

    def __call__(self, values: Mapping[str, Any]) -> float:
        first, second = (_length(option, values) for option in self.options)
        return float(first - second)


def _length(expression: Expression, values: Mapping[str, Any]) -> float:
    value = expression(values)
    if isinstance(value, str | list | tuple):
        return len(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise RowError(f"`{expression.text}` gives {value!r}, which is neither a text nor a length")


def _is_absent(expression: Expression, columns: Collection[str]) -> bool:
    """Whether the dataset lacks a column that the expression names, which the run has warned of."""
    named = [path for path in expression.paths if path[0] == "source" and len(path) > 1]
    return any(f"source.{path[1]}" not in columns for path in named)


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
        self.name, self.results, self.items, self.splits = name, results, evaluation.items, len(evaluation.by)
        given = {key: getattr(evaluation, key) for key in ("target", *OUTPUT_KEYS)}
        given |= {f"panel[{index}]": text for index, text in enumerate(evaluation.panel or ())}
        self.expressions: dict[str, Expression | _Longer] = {**self._compiled_of(given)}
        self.gold_where = None
        if (gold := evaluation.gold) is not None:
            self.expressions["gold"] = self._compiled("gold.target", gold.target)
            self.expressions |= self._compiled_of({INCLUSION: gold.weight})
            self.gold_where = None if gold.where is None else self._compiled("gold.where", gold.where)
        if options := self._compiled_of({f"options[{at}]": text for at, text in enumerate(evaluation.options or ())}):
            self.expressions[LONGER] = _Longer(tuple(options.values()))
        words: dict[Any, int] = {}
        self.builders = {
            key: ColumnBuilder(words, self._declared(expression, declared))
            for key, expression in self.expressions.items()
        }
        self.where = self._compiled("where", evaluation.where) if evaluation.where else None
        self.filters = [] if self.where is None else [(self.where, True)]
        self.filters += [(self._compiled(f"where.{path}", path), value) for path, value in only.items()]
        keyed = {f"by[{index}]": text for index, text in enumerate(evaluation.by)}
        keyed |= {key: text for key in ("cluster", "group") if (text := getattr(evaluation, key))}
        columns = frozenset(table_columns(results))
        self.keyed = {
            key: expression
            for key, expression in self._compiled_of(keyed).items()
            if not (key.startswith("by[") and _is_absent(expression, columns))
        }
        self.keys = {key: KeyBuilder() for key in self.keyed}
        if self.items is not None:
            self.keys.setdefault("cluster", KeyBuilder())  # entries of one row have correlated errors
        self.ids: list[str] | None = [] if ids else None
        self.at = array("q")
        self.undecided = self.skipped = self.unreached = 0
        self.unreadable: dict[str, tuple[int, str]] = {}

    @property
    def every(self) -> list[Expression | _Longer]:
        """All expressions but that of which labels count."""
        return [*(found for found, _ in self.filters), *self.expressions.values(), *self.keyed.values()]

    @property
    def paths(self) -> list[SavedRowPath]:
        """The paths that the expressions name."""
        counted = [] if self.gold_where is None else [self.gold_where]
        paths = [path for expression in (*self.every, *counted) for path in expression.paths]
        return paths if self.items is None else row_paths(self.items, paths)

    def plain_columns(self, known: set[str]) -> dict[str, str] | None:
        """Key -> the column that its expression is; None where one is more than that, or only some rows count."""
        if self.items is not None or self.filters or self.gold_where is not None:
            return None
        columns = {key: plain_column(each) for key, each in (self.expressions | self.keyed).items()}
        plain = {key: column for key, column in columns.items() if column is not None and column in known}
        return plain if len(plain) == len(columns) and INCLUSION not in plain else None

    def read_columns(self, batch: Mapping[str, Sequence[Any]], columns: Mapping[str, str], ids: Sequence[str]) -> None:
        """Add the next rows of the file, with the same result as `read`; `columns` are those of the expressions."""
        failures = [status != "ok" for status in batch["status"]]
        for key in self.expressions:
            for row, failed, value in zip(batch["row"], failures, batch[columns[key]], strict=True):
                if key in OF_PEOPLE:
                    self.builders[key].add(value)
                else:
                    self._add_output(key, row, failed, value)
        for key in self.keyed:
            of_output = not columns[key].startswith("source.")
            for failed, value in zip(failures, batch[columns[key]], strict=True):
                self.keys[key].add(value, known=not (failed and of_output and value is None))
        if self.ids is not None:
            self.ids += ids
        self.at.extend(range(len(self.at), len(self.at) + len(failures)))

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
        for key, expression in self.keyed.items():
            known, value = self._fixed(key, expression, row, failed, values)
            self.keys[key].add(value, known=known)
        if self.ids is not None:
            self.ids.append(row_id)
        return True

    def _is_skipped(self, values: Mapping[str, Any]) -> bool:
        """Whether `when` skipped, at a row that `where` selects, a unit without which something cannot be computed."""
        if self.items is not None:
            return self.items in values[SKIPPED]
        skipped = {("output",) if name == "output" else ("nodes", name) for name in values[SKIPPED]}

        def lacks(expression: Expression | _Longer) -> bool:
            if not any(path[: len(unit)] == unit for path in expression.paths for unit in skipped):
                return False
            try:
                return expression(values) is None
            except RowError:
                return True

        if self.where is not None and not lacks(self.where) and self.where(values) is False:
            return False
        return any(map(lacks, self.every))

    def _selected(self, row: int | str, failed: bool, values: Mapping[str, Any]) -> bool | None:
        """Whether the filters select the row; None where they need a missing output."""
        for expression, required in self.filters:
            known, value = self._fixed("where", expression, row, failed, values)
            if not known:
                return None
            if expression is self.where and not isinstance(value, bool):
                raise self._error("where", row, f"`{expression.text}` gives {value!r}, not true or false", "compare")
            if value != required:
                return False
        return True

    def _value(
        self, key: str, expression: Expression | _Longer, row: int | str, failed: bool, values: Mapping[str, Any]
    ) -> None:
        if key in OF_PEOPLE:
            known, value = self._fixed(key, expression, row, failed, values)
            if key == "gold" and self.gold_where is not None:
                counts = self._fixed("gold.where", self.gold_where, row, failed, values)[1]
                value = value if counts else None
            reason = self.builders[key].add(value if known else None)
            if reason and value is not None:
                raise self._error(key, row, f"`{expression.text}` {reason}", "give a label, a number or null")
            return
        try:
            self._add_output(key, row, failed, None if failed else expression(values))
        except RowError as error:
            self._add_output(key, row, failed, None, error.message)

    def _add_output(self, key: str, row: int | str, failed: bool, value: Any, error: str = "") -> None:
        """Add what the pipeline gave. A row that did not fail and has no value is counted."""
        reason = self.builders[key].add(None if failed else value)
        if reason and not failed:
            message = error or f"`{self.expressions[key].text}` {reason}"
            count, first = self.unreadable.get(key, (0, f"row {row}: {message}"))
            self.unreadable[key] = (count + 1, first)

    def _fixed(
        self, key: str, expression: Expression | _Longer, row: int | str, failed: bool, values: Mapping[str, Any]
    ) -> tuple[bool, Any]:
        """Whether the value is known, and the value: on a failed row it is not, if it depends on a missing output."""
        try:
            return True, expression(values)
        except RowError as error:
            if failed and any(path[0] in ("output", "nodes") for path in expression.paths):
                return False, None
            raise self._error(key, row, error.message, error.hint) from None

    def _compiled_of(self, texts: Mapping[str, str | None]) -> dict[str, Expression]:
        return {key: self._compiled(key, text) for key, text in texts.items() if text is not None}

    def _compiled(self, key: str, text: str) -> Expression:
        try:
            return compile_expression(text, SAVED_ROW_ROOTS if self.items is None else None)
        except ExpressionError as error:
            path = f"evaluate.{self.name}.{key}"
            raise DataError(Problem("expression", error.message, error.hint, path=path)) from None

    def _declared(self, expression: Expression | _Longer, declared: Mapping[str, DeclaredType]) -> DeclaredType | None:
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
        keys = {key: builder.keys() for key, builder in self.keys.items()}
        at = np.array(self.at, dtype=np.int64)
        # A column that the dataset lacks has no keys, in its position among the others.
        absent = Factorized(np.full(len(at), MISSING, dtype=np.int32), ())
        return Collected(
            rows=len(at),
            columns={key: builder.column() for key, builder in self.builders.items()},
            by=tuple(keys.get(f"by[{index}]", absent) for index in range(self.splits)),
            cluster=keys.get("cluster"),
            group=keys.get("group"),
            ids=self.ids or (),
            unreadable=self.unreadable,
            undecided=self.undecided,
            at=at if self.items is None else None,
            skipped=self.skipped,
            unreached=self.unreached,
        )
