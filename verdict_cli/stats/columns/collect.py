"""The rows of a run as columns: what each expression of an evaluation gives, read once and kept small.

Most evaluations compare `output.score` with `source.label` in clusters of `source.id`: expressions that are columns as they are
are read by Arrow, each distinct value once. What is more than a column (a condition, a mapping, entries of a list) is
read row by row, with the same result.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
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
    SKIPPED,
    SavedRowPath,
    column_homes,
    entry_type,
    observations,
    row_paths,
    saved_rows,
)
from verdict_cli.storage.datasets.dataset import missing_column
from verdict_cli.storage.tables.arrow_vectors import booleans, scalar, truths
from verdict_cli.storage.tables.column_types import DeclaredType
from verdict_cli.storage.tables.reader import (
    column_kinds,
    declared_types,
    read_arrow,
    read_table,
    table_columns,
)


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
BATCH = 100_000
"""Rows of plain columns that are read at once."""
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
    import pyarrow.compute as pc

    kinds, declared = column_kinds(results), declared_types(results)
    plain = {name for name, kind in kinds.items() if kind in ("bool", "int", "float", "str")}
    if SKIPPED in kinds and any(any(batch[SKIPPED]) for batch in read_table(results, [SKIPPED])):
        plain = set()
    readers = {
        name: _Reader(
            name.partition("\0")[0],
            evaluation,
            results,
            ids,
            (only or {}).get(name, {}),
            declared,
            plain,
        )
        for name, evaluation in evaluations.items()
    }
    by_column = [reader for reader in readers.values() if reader.columns]
    names = dict.fromkeys(
        ("row", "status", *(name for reader in by_column for name in reader.columns.values()))
    )
    for batch in read_arrow(results, list(names), BATCH) if by_column else ():
        failures = truths(pc.not_equal(batch["status"], scalar("ok", "str")))
        for reader in by_column:
            reader.read_columns(batch, failures)
    by_row = [reader for reader in readers.values() if not reader.columns]
    paths = [path for reader in by_row for path in reader.paths]
    labels = _labels(by_row, results, declared)
    for at, (row, failed, values) in enumerate(
        saved_rows(results, paths, labels) if by_row else ()
    ):
        for reader in by_row:
            reader.read(at, row, failed, values)
    return {name: reader.collected(labels) for name, reader in readers.items()}


def columns_read(
    evaluations: Mapping[str, Evaluation], results: Path, further: Iterable[str] = ()
) -> list[str]:
    """The columns of the results that the evaluations and further expressions read, in the order of the table."""
    only = dict.fromkeys(further)
    paths = [
        path
        for name, evaluation in evaluations.items()
        for path in _Reader(name, evaluation, results, None, only, {}, ()).paths
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


class _Reader:
    """Reads one evaluation's columns, row by row."""

    def __init__(
        self,
        name: str,
        evaluation: Evaluation,
        results: Path,
        ids: Sequence[str] | None,
        only: Mapping[str, Any],
        declared: Mapping[str, DeclaredType],
        plain: Collection[str],
    ) -> None:
        self.name, self.results, self.items, self.splits = (
            name,
            results,
            evaluation.items,
            len(evaluation.by),
        )
        given = {key: getattr(evaluation, key) for key in ("target", *OUTPUT_KEYS)}
        given |= {f"panel[{index}]": text for index, text in enumerate(evaluation.panel or ())}
        self.expressions: dict[str, Expression | _Longer] = {**self._compiled_of(given)}
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
        if self.items is not None:
            self.keys.setdefault(
                "cluster", KeyBuilder()
            )  # entries of one row have correlated errors
        self.columns = self._plain_columns(plain)
        self.given_ids = ids or ()
        self.ids: list[str] = [*self.given_ids] if self.columns else []
        self.at = array("q")
        self.undecided = self.skipped = self.unreached = 0
        self.unreadable: dict[str, tuple[int, str]] = {}

    @property
    def every(self) -> list[Expression | _Longer]:
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

    def _plain_columns(self, known: Collection[str]) -> dict[str, str]:
        """Key -> the column that its expression is; none where one is more than that, or only some rows count."""
        if self.items is not None or self.filters or self.gold_where is not None:
            return {}
        columns = {
            key: plain_column(expression)
            for key, expression in (self.expressions | self.keyed).items()
        }
        plain = {
            key: column for key, column in columns.items() if column is not None and column in known
        }
        return plain if len(plain) == len(columns) and INCLUSION not in plain else {}

    def read_columns(self, batch: Any, failed: RowMask) -> None:
        """Add the next rows of the file, an Arrow batch in which all expressions are columns."""
        import pyarrow as pa
        import pyarrow.compute as pc

        for key in self.expressions:
            values = batch[self.columns[key]]
            if key in OF_PEOPLE:
                self.builders[key].extend(values)
                continue
            unread = (
                self.builders[key].extend(
                    pc.if_else(booleans(failed), pa.nulls(len(values), values.type), values)
                )
                & ~failed
            )
            if count := int(unread.sum()):
                first = int(unread.argmax())
                reason = ColumnBuilder({}).add(values[first].as_py())
                self._count_unreadable(key, batch["row"][first].as_py(), count, reason)
        for key in self.keyed:
            values = batch[self.columns[key]]
            lacks_output = failed & truths(values.is_null())
            self.keys[key].extend(
                values, ~(lacks_output & (not self.columns[key].startswith("source.")))
            )
        self.at.extend(range(len(self.at), len(self.at) + len(failed)))

    def read(self, at: int, row: int, failed: bool, values: Mapping[str, Any]) -> None:
        """Add the row at this index of the file, or each of its entries, if it is selected."""
        if values.get(SKIPPED) and self._is_skipped(values):
            self.skipped += 1
            return
        if self.items is None:
            self._read(at, row, failed, values)
            return
        entries = observations(self.items, values)
        self.unreached += entries is None and failed
        for number, known, lacks_output in entries or ():
            is_read = self._read(
                at, f"{row}, entry {number}", failed or lacks_output, known, f"[{number}]"
            )
            if is_read and "cluster" not in self.keyed:
                self.keys["cluster"].add(row)

    def _read(
        self, at: int, row: int | str, failed: bool, values: Mapping[str, Any], entry: str = ""
    ) -> bool:
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
        if self.given_ids:
            self.ids.append(f"{self.given_ids[at]}{entry}")
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
                raise self._error(
                    "where",
                    row,
                    f"`{expression.text}` gives {value!r}, not true or false",
                    "compare",
                )
            if value != required:
                return False
        return True

    def _value(
        self,
        key: str,
        expression: Expression | _Longer,
        row: int | str,
        failed: bool,
        values: Mapping[str, Any],
    ) -> None:
        if key in OF_PEOPLE:
            known, value = self._fixed(key, expression, row, failed, values)
            if key == "gold" and self.gold_where is not None:
                counts = self._fixed("gold.where", self.gold_where, row, failed, values)[1]
                value = value if counts else None
            reason = self.builders[key].add(value if known else None)
            if reason and value is not None:
                raise self._error(
                    key, row, f"`{expression.text}` {reason}", "give a label, a number or null"
                )
            return
        try:
            self._add_output(key, row, failed, None if failed else expression(values))
        except RowError as error:
            self._add_output(key, row, failed, None, error.message)

    def _add_output(
        self, key: str, row: int | str, failed: bool, value: Any, error: str = ""
    ) -> None:
        """Add what the pipeline gave. A row that did not fail and has no value is counted."""
        reason = self.builders[key].add(None if failed else value)
        if reason and not failed:
            self._count_unreadable(key, row, 1, reason, error)

    def _count_unreadable(
        self, key: str, row: int | str, count: int, reason: str, error: str = ""
    ) -> None:
        """Count rows without a value; ``row`` is the first of them, ``error`` why its expression has none."""
        message = error or f"`{self.expressions[key].text}` {reason}"
        known, first = self.unreadable.get(key, (0, f"row {row}: {message}"))
        self.unreadable[key] = (known + count, first)

    def _fixed(
        self,
        key: str,
        expression: Expression | _Longer,
        row: int | str,
        failed: bool,
        values: Mapping[str, Any],
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

    def _declared(
        self, expression: Expression | _Longer, declared: Mapping[str, DeclaredType]
    ) -> DeclaredType | None:
        column = plain_column(expression) or ""
        if self.items is not None and column.startswith("output."):
            column = column.replace("output.", f"{self.items}.")
        known = None if column.startswith("source.") else declared.get(column)
        return known if self.items is None else entry_type(known)

    def _error(self, key: str, row: int | str, message: str, hint: str) -> DataError:
        path = f"evaluate.{self.name}.{key}"
        return DataError(
            Problem("evaluate", f"row {row}: {message}", hint, file=str(self.results), path=path)
        )

    def collected(self, labels: RunLabels | None) -> Collected:
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
            ids=self.ids,
            unreadable=self.unreadable,
            undecided=self.undecided,
            at=at if self.items is None else None,
            skipped=self.skipped,
            unreached=self.unreached,
            labels=labels if self.uses_labels else None,
        )
