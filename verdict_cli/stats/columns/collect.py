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
from verdict_cli.language.evaluations import Evaluation
from verdict_cli.language.expressions.expression import Expression, compile_expression
from verdict_cli.language.expressions.paths import ExpressionError
from verdict_cli.stats.columns.column import (
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
    RowExpression,
    Rows,
    SavedRowPath,
    column_homes,
    entry_rows,
    entry_type,
    row_batches,
    row_paths,
)
from verdict_cli.storage.datasets.dataset import missing_column
from verdict_cli.storage.tables.column_types import DeclaredType
from verdict_cli.storage.tables.reader import declared_types, table_columns


def plain_column(expression: RowExpression) -> str | None:
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
    if not evaluations:
        return {}
    declared = declared_types(results)
    readers = {
        name: _Reader(
            name.partition("\0")[0], evaluation, results, ids, (only or {}).get(name, {}), declared
        )
        for name, evaluation in evaluations.items()
    }
    paths = [path for reader in readers.values() for path in reader.paths]
    labels = _labels([*readers.values()], results, declared)
    for rows in row_batches(results, paths, labels):
        for reader in readers.values():
            reader.read(rows)
    return {name: reader.collected(labels) for name, reader in readers.items()}


def columns_read(
    evaluations: Mapping[str, Evaluation], results: Path, further: Iterable[str] = ()
) -> list[str]:
    """The columns of the results that the evaluations and further expressions read, in the order of the table."""
    only = dict.fromkeys(further)
    paths = [
        path
        for name, evaluation in evaluations.items()
        for path in _Reader(name, evaluation, results, None, only, {}).paths
    ]
    return list(column_homes(table_columns(results), paths))


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


class _Longer(Struct, frozen=True):
    """By how much option A is longer than B: numbers are lengths, texts and lists have one."""

    options: tuple[Expression, ...]
    text: str = "options"
    path: SavedRowPath | None = None

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


def _first(rows: RowMask) -> Sequence[int]:
    """The first of these rows, if there is one."""
    return [int(place) for place in np.flatnonzero(rows)[:1]]


def _lacks(expression: RowExpression, rows: Rows) -> RowMask:
    """Where the expression has no value, and reads a unit that was skipped."""
    reads = [any(_reads(expression, unit) for unit in units) for units in rows.skipped.labels]
    found = rows.evaluate(expression)
    without = found.failing | found.where(lambda value: value is None)
    of_skipped: RowMask = np.array(reads, dtype=bool)[rows.skipped.codes]
    return without & of_skipped


def _reads(expression: RowExpression, unit: str) -> bool:
    home = ("output",) if unit == "output" else ("nodes", unit)
    return any(path[: len(home)] == home for path in expression.paths)


class _Reader:
    """Reads one evaluation's columns, some rows at a time."""

    def __init__(
        self,
        name: str,
        evaluation: Evaluation,
        results: Path,
        ids: Sequence[str] | None,
        only: Mapping[str, Any],
        declared: Mapping[str, DeclaredType],
    ) -> None:
        self.name, self.results, self.items, self.splits = (
            name,
            results,
            evaluation.items,
            len(evaluation.by),
        )
        given = {key: getattr(evaluation, key) for key in ("target", *OUTPUT_KEYS)}
        given |= {f"panel[{index}]": text for index, text in enumerate(evaluation.panel or ())}
        self.expressions: dict[str, RowExpression] = {**self._compiled_of(given)}
        self.gold_where = None
        if (gold := evaluation.gold) is not None:
            self.expressions["gold"] = self._compiled("gold.target", gold.target)
            self.expressions |= self._compiled_of({INCLUSION: gold.weight})
            self.gold_where = (
                None if gold.where is None else self._compiled("gold.where", gold.where)
            )
        if options := self._compiled_of(
            {f"options[{at}]": text for at, text in enumerate(evaluation.options or ())}
        ):
            self.expressions[LONGER] = _Longer(tuple(options.values()))
        words: dict[Any, int] = {}
        self.builders = {
            key: ColumnBuilder(words, self._declared(expression, declared))
            for key, expression in self.expressions.items()
        }
        self.where = self._compiled("where", evaluation.where) if evaluation.where else None
        self.filters = [] if self.where is None else [(self.where, True)]
        self.filters += [
            (self._compiled(f"where.{path}", path), value) for path, value in only.items()
        ]
        keyed = {f"by[{index}]": text for index, text in enumerate(evaluation.by)}
        keyed |= {key: text for key in ("cluster", "group") if (text := getattr(evaluation, key))}
        columns = frozenset(table_columns(results))
        self.keyed = {
            key: expression
            for key, expression in self._compiled_of(keyed).items()
            if not (key.startswith("by[") and _absent_columns(expression, columns))
        }
        self.keys = {key: KeyBuilder() for key in self.keyed}
        if self.items is not None:  # entries of one row have correlated errors
            self.keys.setdefault("cluster", KeyBuilder())
        self.given_ids = ids or ()
        self.ids: list[str] = []
        self.at = [np.zeros(0, dtype=np.int64)]
        self.undecided = self.skipped = self.unreached = 0
        self.unreadable: dict[str, tuple[int, str]] = {}

    @property
    def every(self) -> list[RowExpression]:
        """All expressions but that of which labels count."""
        return [
            *(expression for expression, _ in self.filters),
            *self.expressions.values(),
            *self.keyed.values(),
        ]

    @property
    def paths(self) -> list[SavedRowPath]:
        counted = [] if self.gold_where is None else [self.gold_where]
        paths = [path for expression in (*self.every, *counted) for path in expression.paths]
        return paths if self.items is None else row_paths(self.items, paths)

    @property
    def uses_labels(self) -> bool:
        """Whether an expression names a label of people."""
        return any(path[0] == "human" for path in self.paths)

    @property
    def predicted_column(self) -> str | None:
        """The column that the prediction is; None where it is more than a column."""
        expression = self.expressions.get("prediction") or self.expressions.get("panel[0]")
        return plain_column(expression) if expression is not None else None

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
            found = self._fixed(key, expression, rows)
            self.keys[key].extend(found.values, found.at)
        if "cluster" in self.keys and "cluster" not in self.keyed:
            self.keys["cluster"].extend(rows.numbers.tolist(), np.arange(len(rows.at)))
        if self.given_ids:
            self.ids += [
                f"{self.given_ids[at]}[{entry}]" if entry else self.given_ids[at]
                for at, entry in zip(rows.at, rows.entries, strict=True)
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
        for expression in self.every:
            lacking |= _lacks(expression, some)
        if self.where is not None:
            is_false = some.evaluate(self.where).where(lambda value: value is False)
            lacking &= _lacks(self.where, some) | ~is_false
        skipped[skipped] = lacking
        return skipped

    def _selected(self, rows: Rows) -> Rows:
        """The rows that the filters select. Those are counted of which a missing output leaves it open."""
        for expression, required in self.filters:
            found = self._fixed("where", expression, rows)
            if expression is self.where:
                for place in _first(found.where(lambda value: not isinstance(value, bool))):
                    value = found.values[found.at[place]]
                    message = f"`{expression.text}` gives {value!r}, not true or false"
                    raise self._error("where", rows.name(place), message, "compare")
            self.undecided += int((found.at == MISSING).sum())
            rows = rows.take(found.where(partial(eq, required)))
        return rows

    def _add_label(self, key: str, expression: RowExpression, rows: Rows) -> None:
        """Add what people gave, which a failed row may have too."""
        found = self._fixed(key, expression, rows)
        if key == "gold" and self.gold_where is not None:
            found = found.only(self._fixed("gold.where", self.gold_where, rows).where(bool))
        problems = self.builders[key].extend(found.values, found.at)
        for number, reason in problems.items():
            if found.values[number] is not None:
                (place,) = _first(found.at == number)
                hint = "give a label, a number or null"
                raise self._error(key, rows.name(place), f"`{expression.text}` {reason}", hint)

    def _add_output(self, key: str, expression: RowExpression, rows: Rows) -> None:
        """Add what the pipeline gave. A row that did not fail and has no value is counted."""
        found = rows.evaluate(expression).only(~rows.failed)
        problems = self.builders[key].extend(found.values, found.at)
        unread = np.isin(found.at, [*problems])
        for place in _first(unread):
            value = found.values[found.at[place]]
            message = f"`{expression.text}` {problems[found.at[place]]}"
            if isinstance(value, RowError):
                message = value.message
            known, first = self.unreadable.get(key, (0, f"{rows.name(place)}: {message}"))
            self.unreadable[key] = (known + int(unread.sum()), first)

    def _fixed(self, key: str, expression: RowExpression, rows: Rows) -> Evaluated:
        """The values; a failed row may have none, if the expression depends on an output. Raises DataError for another."""
        found = rows.evaluate(expression)
        depends = any(path[0] in ("output", "nodes") for path in expression.paths)
        failing = found.failing
        for place in _first(failing & ~(rows.failed & depends)):
            error = found.values[found.at[place]]
            raise self._error(key, rows.name(place), error.message, error.hint)
        return found.only(~failing)

    def _compiled_of(self, texts: Mapping[str, str | None]) -> dict[str, Expression]:
        return {key: self._compiled(key, text) for key, text in texts.items() if text is not None}

    def _compiled(self, key: str, text: str) -> Expression:
        try:
            return compile_expression(text, SAVED_ROW_ROOTS if self.items is None else None)
        except ExpressionError as error:
            path = f"evaluate.{self.name}.{key}"
            raise DataError(Problem("expression", error.message, error.hint, path=path)) from None

    def _declared(
        self, expression: RowExpression, declared: Mapping[str, DeclaredType]
    ) -> DeclaredType | None:
        column = plain_column(expression) or ""
        if self.items is not None and column.startswith("output."):
            column = column.replace("output.", f"{self.items}.")
        known = None if column.startswith("source.") else declared.get(column)
        return known if self.items is None else entry_type(known)

    def _error(self, key: str, row: str, message: str, hint: str) -> DataError:
        path = f"evaluate.{self.name}.{key}"
        return DataError(
            Problem("evaluate", f"{row}: {message}", hint, file=str(self.results), path=path)
        )

    def collected(self, labels: RunLabels | None) -> Collected:
        keys = {key: builder.keys() for key, builder in self.keys.items()}
        at = np.concatenate(self.at)
        # A column that the dataset lacks has no keys, in its position among the others.
        absent = Factorized(np.full(len(at), MISSING, dtype=np.int32), ())
        return Collected(
            rows=len(at),
            columns={key: builder.column() for key, builder in self.builders.items()},
            by=tuple(keys.get(f"by[{index}]", absent) for index in range(self.splits)),
            cluster=keys.get("cluster"),
            group=keys.get("group"),
            ids=self.ids,
            unreadable=self.unreadable,
            undecided=self.undecided,
            at=at if self.items is None else None,
            skipped=self.skipped,
            unreached=self.unreached,
            labels=labels if self.uses_labels else None,
        )
