"""The rows of a run as columns: what each expression of an evaluation gives, read once and kept small.

Each expression is computed once for each distinct tuple of the columns that it reads: most evaluations compare
`output.score` with `source.label`, of which there are few.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from operator import eq
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from verdict_cli.errors import DataError, Problem, RowError
from verdict_cli.language.evaluations import Evaluation, Evaluations
from verdict_cli.language.expressions.expression import Expression, compile_expression
from verdict_cli.language.expressions.paths import ExpressionError
from verdict_cli.messages import NamedValues, is_number
from verdict_cli.stats.columns.column import (
    GOLD,
    INCLUSION,
    MISSING,
    Column,
    ColumnBuilder,
    Factorized,
    Ints,
    KeyBuilder,
    RowMask,
)
from verdict_cli.stats.columns.run_labels import RunLabels, run_labels
from verdict_cli.stats.columns.saved_rows import (
    SAVED_ROW_ROOTS,
    Evaluated,
    Rows,
    SavedRowPath,
    column_homes,
    entry_rows,
    entry_type,
    is_reached,
    row_batches,
    row_paths,
)
from verdict_cli.storage.datasets.dataset import missing_column
from verdict_cli.storage.tables.column_types import DeclaredType
from verdict_cli.storage.tables.reader import declared_types, table_columns

OUTPUT_KEYS = ("prediction", "probability", "value", "consistent")
"""The expressions whose value may be missing, since they depend on the pipeline's output."""
OF_PEOPLE = ("target", GOLD, INCLUSION)
"""The expressions of which a failed row may have the value too."""
VALUES = (*OF_PEOPLE, *OUTPUT_KEYS, "panel", "options")
"""The expressions that give a column; of `options` those of the lengths."""
KEYS = ("by", "cluster", "group")
"""The expressions that give a key for each row."""
COUNTED = "gold.where"
"""The expression that says which labels count."""


class Collected(Struct, frozen=True):
    """The selected rows of one evaluation. `by` has a key column for each expression.

    `unreadable` is expression key -> (rows whose expression failed, the first message); `undecided` counts failed
    rows that are left out because `where` needs their missing output, `skipped` those that `when` skipped. `at` are the
    rows' indices in the file, None for groups and entries. `unreached` counts the failed rows whose entries (`items`)
    are not known. `labels` are people's, where an expression uses them.
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
    labels: RunLabels | None = None


def collect(
    evaluations: Evaluations,
    results: Path,
    *,
    ids: Sequence[str] = (),
    only: Mapping[str, NamedValues] | None = None,
) -> dict[str, Collected]:
    """Each evaluation's columns from `results.parquet`, in one pass; `only` is evaluation -> path -> required value.

    `ids` has a key for each row of the file, which the selected rows keep. What follows a null character in a name
    distinguishes several selections of one evaluation.
    Raises DataError for a row on which `target`, `where`, `by`, `cluster` or `group` cannot be computed.
    """
    if not evaluations:
        return {}
    columns, declared = table_columns(results), declared_types(results)
    readers = {
        name: _Reader(
            name.partition("\0")[0],
            evaluation,
            results,
            columns,
            ids,
            (only or {}).get(name, {}),
            declared,
        )
        for name, evaluation in evaluations.items()
    }
    paths = [path for reader in readers.values() for path in reader.paths]
    labels = _labels([*readers.values()], results, declared)
    for rows in row_batches(results, paths, labels):
        for reader in readers.values():
            reader.read(rows)
    return {name: reader.collected(labels) for name, reader in readers.items()}


def columns_read(evaluations: Evaluations, results: Path, further: Iterable[str] = ()) -> list[str]:
    """The columns of the results that the evaluations and further expressions read, in the order of the table."""
    only, columns = dict.fromkeys(further), table_columns(results)
    paths = [
        path
        for name, evaluation in evaluations.items()
        for path in _Reader(name, evaluation, results, columns, (), only, {}).paths
    ]
    return list(column_homes(columns, paths))


def _labels(
    readers: Sequence[_Reader], results: Path, declared: Mapping[str, DeclaredType]
) -> RunLabels | None:
    """People's labels, read as values of what they are compared with; None where no expression uses them."""
    using = [reader for reader in readers if reader.uses_labels]
    if not using:
        return None
    columns = [reader.predicted_column for reader in using]
    types = [declared[column] for column in columns if column is not None and column in declared]
    return run_labels(results, types if len(types) == len(columns) else ())


def require_columns(text: str, results: Path) -> None:
    """DataError where the expression names a column of the dataset that the results have not."""
    try:
        expression = compile_expression(text)
    except ExpressionError:
        return  # told where it is compiled for the rows
    names = table_columns(results)
    for name in _absent_columns(expression, names):
        columns = [
            column.removeprefix("source.") for column in names if column.startswith("source.")
        ]
        raise DataError(
            missing_column(name, columns, f", which `{text}` names").at(str(results), 0, 0, "")
        )


def _absent_columns(expression: Expression, names: Collection[str]) -> list[str]:
    """The columns of the dataset that the expression names, and the results have not."""
    named = [str(path[1]) for path in expression.paths if path[0] == "source" and len(path) > 1]
    return [name for name in named if f"source.{name}" not in names]


def _length(value: Any, text: str) -> Any:
    """The length of a text or a list; a number is one. The RowError of another value."""
    if isinstance(value, str | list | tuple):
        return len(value)
    if is_number(value) or isinstance(value, RowError):
        return value
    return RowError(f"`{text}` gives {value!r}, which is neither a text nor a length")


def _first(rows: RowMask) -> Ints:
    """The first of these rows, if there is one."""
    return np.flatnonzero(rows)[:1]


def _lacks(expression: Expression, rows: Rows) -> RowMask:
    """Where the expression has no value, and reads a unit that was skipped."""
    reads = []
    for units in rows.skipped.labels:
        homes = [("output",) if unit == "output" else ("nodes", unit) for unit in units]
        reads.append(any(is_reached(home, path) for home in homes for path in expression.paths))
    column = rows.evaluate(expression)
    without = column.failing | column.where(lambda value: value is None)
    of_skipped: RowMask = np.array(reads, dtype=bool)[rows.skipped.codes]
    return without & of_skipped


def _texts(evaluation: Evaluation) -> dict[str, str]:
    """The expressions of an evaluation by their keys."""
    single = ("where", "target", *OUTPUT_KEYS, "cluster", "group")
    texts = {key: getattr(evaluation, key) for key in single}
    for key in ("panel", "options", "by"):
        listed = getattr(evaluation, key) or ()
        texts |= {f"{key}[{index}]": text for index, text in enumerate(listed)}
    if evaluation.gold is not None:
        keys = ("target", "weight", "where")
        texts |= {f"gold.{key}": getattr(evaluation.gold, key) for key in keys}
    return {key: text for key, text in texts.items() if text is not None}


class _Reader:
    """Reads one evaluation's columns, some rows at a time."""

    def __init__(
        self,
        name: str,
        evaluation: Evaluation,
        results: Path,
        columns: Sequence[str],
        ids: Sequence[str],
        only: NamedValues,
        declared: Mapping[str, DeclaredType],
    ) -> None:
        self.name, self.results, self.items = name, results, evaluation.items
        self.splits = len(evaluation.by)
        self.columns = {home: column for column, home in column_homes(columns, [()]).items()}
        texts = _texts(evaluation) | {f"where.{path}": path for path in only}
        compiled = {key: self._compiled(key, text) for key, text in texts.items()}
        self.compiled = {
            key: expression
            for key, expression in compiled.items()
            if not (key.startswith("by[") and _absent_columns(expression, columns))
        }
        self.where = self.compiled.get("where")
        self.filters = [] if self.where is None else [(self.where, True)]
        self.filters += [(self.compiled[f"where.{path}"], value) for path, value in only.items()]
        self.expressions, self.keyed = self._of(VALUES), self._of(KEYS)
        words: dict[Any, int] = {}
        self.builders = {
            key: ColumnBuilder(words, self._declared(expression, declared))
            for key, expression in self.expressions.items()
        }
        self.keys = {key: KeyBuilder() for key in self.keyed}
        if self.items is not None:  # entries of one row have correlated errors
            self.keys.setdefault("cluster", KeyBuilder())
        self.row_keys = ids
        self.ids: list[str] = []
        self.at = [np.zeros(0, dtype=np.int64)]
        self.undecided = self.skipped = self.unreached = 0
        self.unreadable: dict[str, tuple[int, str]] = {}

    def _of(self, kinds: Sequence[str]) -> dict[str, Expression]:
        """The expressions of these kinds; those of a list are `by[0]`, `by[1]` and so on."""
        return {
            key: expression
            for key, expression in self.compiled.items()
            if key.partition("[")[0] in kinds
        }

    @property
    def paths(self) -> list[SavedRowPath]:
        paths = [path for expression in self.compiled.values() for path in expression.paths]
        return paths if self.items is None else row_paths(self.items, paths)

    @property
    def uses_labels(self) -> bool:
        """Whether an expression names a label of people."""
        return any(path[0] == "human" for path in self.paths)

    @property
    def predicted_column(self) -> str | None:
        """The column that the prediction is; None where it is more than a column."""
        expression = self.expressions.get("prediction") or self.expressions.get("panel[0]")
        return None if expression is None else self.columns.get(expression.path or ())

    def read(self, rows: Rows) -> None:
        """Add the rows, or their entries, that are selected."""
        skipped = self._is_skipped(rows)
        self.skipped += int(skipped.sum())
        rows = rows.take(~skipped)
        if self.items is not None:
            rows, unreached = entry_rows(self.items, rows)
            self.unreached += unreached
        rows = self._selected(rows)
        self.at.append(rows.at)
        for key, expression in self.expressions.items():
            if key in OF_PEOPLE:
                self._add_label(key, expression, rows)
            else:
                self._add_output(key, expression, rows)
        for key, expression in self.keyed.items():
            column = self._fixed(key, expression, rows)
            self.keys[key].extend(column.values, column.at)
        if "cluster" in self.keys and "cluster" not in self.keyed:
            self.keys["cluster"].extend(rows.numbers.tolist(), np.arange(len(rows.at)))
        if self.row_keys:
            self.ids += [
                f"{self.row_keys[index]}[{entry}]" if entry else self.row_keys[index]
                for index, entry in zip(rows.at, rows.entries, strict=True)
            ]

    def _is_skipped(self, rows: Rows) -> RowMask:
        """Where `when` skipped, at a row that `where` selects, a unit without which something cannot be computed."""
        units = rows.skipped.labels
        if self.items is not None:
            without: RowMask = np.array([self.items in names for names in units], dtype=bool)
            return without[rows.skipped.codes]
        skipped = np.array([bool(names) for names in units], dtype=bool)[rows.skipped.codes]
        if not skipped.any():
            return skipped
        some = rows.take(skipped)
        lacking = np.zeros(len(some.at), dtype=bool)
        for key, expression in self.compiled.items():
            if key != COUNTED:
                lacking |= _lacks(expression, some)
        if self.where is not None:
            is_false = some.evaluate(self.where).where(lambda value: value is False)
            lacking &= _lacks(self.where, some) | ~is_false
        skipped[skipped] = lacking
        return skipped

    def _selected(self, rows: Rows) -> Rows:
        """The rows that the filters select. Those are counted of which a missing output leaves it open."""
        for expression, required in self.filters:
            column = self._fixed("where", expression, rows)
            if expression is self.where:
                for place in _first(column.where(lambda value: not isinstance(value, bool))):
                    value = column.values[column.at[place]]
                    message = f"`{expression.text}` gives {value!r}, not true or false"
                    raise self._error("where", rows.name(place), message, "compare")
            self.undecided += int((column.at == MISSING).sum())
            rows = rows.take(column.where(partial(eq, required)))
        return rows

    def _add_label(self, key: str, expression: Expression, rows: Rows) -> None:
        """Add what people gave, which a failed row may have too."""
        column = self._fixed(key, expression, rows)
        if key == GOLD and COUNTED in self.compiled:
            column = column.only(self._fixed(COUNTED, self.compiled[COUNTED], rows).where(bool))
        problems = self.builders[key].extend(column.values, column.at)
        for number, reason in problems.items():
            if column.values[number] is not None:
                (place,) = _first(column.at == number)
                hint = "give a label, a number or null"
                raise self._error(key, rows.name(place), f"`{expression.text}` {reason}", hint)

    def _add_output(self, key: str, expression: Expression, rows: Rows) -> None:
        """Add what the pipeline gave. A row that did not fail and has no value is counted."""
        column = rows.evaluate(expression).only(~rows.failed)
        if key.startswith("options"):
            lengths = [_length(value, expression.text) for value in column.values]
            column = Evaluated(lengths, column.at)
        problems = self.builders[key].extend(column.values, column.at)
        unread = np.isin(column.at, [*problems])
        for place in _first(unread):
            value = column.values[column.at[place]]
            message = f"`{expression.text}` {problems[column.at[place]]}"
            if isinstance(value, RowError):
                message = value.message
            count, first = self.unreadable.get(key, (0, f"{rows.name(place)}: {message}"))
            self.unreadable[key] = (count + int(unread.sum()), first)

    def _fixed(self, key: str, expression: Expression, rows: Rows) -> Evaluated:
        """The values; a failed row may have none, if the expression depends on an output. Raises DataError for another."""
        column = rows.evaluate(expression)
        depends = any(path[0] in ("output", "nodes") for path in expression.paths)
        failing = column.failing
        for place in _first(failing & ~(rows.failed & depends)):
            error = column.values[column.at[place]]
            raise self._error(key, rows.name(place), error.message, error.hint)
        return column.only(~failing)

    def _compiled(self, key: str, text: str) -> Expression:
        try:
            return compile_expression(text, SAVED_ROW_ROOTS if self.items is None else None)
        except ExpressionError as error:
            path = f"evaluate.{self.name}.{key}"
            raise DataError(Problem("expression", error.message, error.hint, path=path)) from None

    def _declared(
        self, expression: Expression, declared: Mapping[str, DeclaredType]
    ) -> DeclaredType | None:
        path = expression.path or ("",)
        if self.items is not None and path[0] == "output":
            path = ("nodes", self.items, *path[1:])
        column_type = None if path[0] == "source" else declared.get(self.columns.get(path, ""))
        return column_type if self.items is None else entry_type(column_type)

    def _error(self, key: str, row: str, message: str, hint: str) -> DataError:
        path = f"evaluate.{self.name}.{key}"
        return DataError(
            Problem("evaluate", f"{row}: {message}", hint, file=str(self.results), path=path)
        )

    def collected(self, labels: RunLabels | None) -> Collected:
        keys = {key: builder.keys() for key, builder in self.keys.items()}
        positions = np.concatenate(self.at)
        # A column that the dataset lacks has no keys, in its position among the others.
        absent = Factorized(np.full(len(positions), MISSING, dtype=np.int32), ())
        return Collected(
            rows=len(positions),
            columns={key: builder.column() for key, builder in self.builders.items()},
            by=tuple(keys.get(f"by[{index}]", absent) for index in range(self.splits)),
            cluster=keys.get("cluster"),
            group=keys.get("group"),
            ids=self.ids,
            unreadable=self.unreadable,
            undecided=self.undecided,
            at=positions if self.items is None else None,
            skipped=self.skipped,
            unreached=self.unreached,
            labels=labels if self.uses_labels else None,
        )
