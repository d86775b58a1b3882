"""Which rows of several runs are the same row of the dataset.

Rows are paired by the declared id, else by a column of ids that all runs share, else by content: by the fewest columns that
identify a row, those first that agree most between the runs. The text that is judged differs between two versions of an
application, so it comes last; paired by it, exactly the rows that changed would be left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import orjson
from msgspec import Struct

from verdict_cli.errors import DataError, Problem
from verdict_cli.regex import regex
from verdict_cli.stats.columns.column import Ints, key_text
from verdict_cli.storage.tables.reader import read_table, table_columns

PairedBy = Literal["id", "column", "content"]
ID_NAME = regex(r"(?:^|.*[_\-. ])(?:id|uid|uuid|guid)", re.IGNORECASE)
CAMEL_ID = regex(r".*[a-z](?:Id|ID|Uid|UID|Uuid|UUID)")
"""Names of columns that identify a row."""
HINT = "set `dataset.id` to a column that is unique"
MOSTLY = 0.5
"""Ids that join rows whose other columns agree less often than this number the rows of each run by themselves."""


class RowIdentities(Struct, frozen=True):
    """A key for each row of the runs, in the order of their files; equal keys are one row of the dataset.

    `by` says what the keys are: the declared id, a column of the dataset, or the content of `columns`; `left_out` are the
    shared columns that do not count. `shown` are the ids or numbers of the last run's rows, for reports.
    """

    keys: tuple[Sequence[str], ...]
    by: PairedBy
    shown: Sequence[Any]
    columns: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """`id`, `the column id`, `the content of question and label; answer is not compared`."""
        if self.by == "id":
            return "id"
        if self.by == "column":
            return f"the column {self.columns[0]}"
        left_out = f", without {', '.join(self.left_out)}" if self.left_out else ""
        return f"content: {', '.join(self.columns)}{left_out}"


def row_identities(results: Sequence[Path]) -> RowIdentities:
    """The keys of each `results.parquet`. Raises DataError where two rows of one run have the same key."""
    ids = [_ids(path) for path in results]
    keys = tuple(run_ids.keys for run_ids in ids)
    if not any(run_ids.are_row_numbers for run_ids in ids):
        _check_unique(results, keys, "id")
        if set.intersection(*map(set, keys)):
            return RowIdentities(keys, "id", ids[-1].values)
        raise _no_shared_row(results)
    columns, counters = _shared_columns(results)
    others = {name: runs for name, runs in columns.items() if name not in counters}
    declared = [name for name in columns if all(name in run_ids.columns for run_ids in ids)]
    if declared and not all(run_ids.are_row_numbers for run_ids in ids):
        _check_unique(results, keys, "id")
    for name in dict.fromkeys((*declared, *_id_columns(columns))):
        if all(len(np.unique(run)) == len(run) for run in columns[name]) and _fits(
            columns[name], others
        ):
            by: PairedBy = "id" if name in declared else "column"
            shown = [value for batch in read_table(results[-1], [name]) for value in batch[name]]
            return RowIdentities(_joined(columns, [name]), by, shown, (name.partition(".")[2],))
    if not _may_share_rows(others):
        raise _no_shared_row(results)
    # A counter of a run's rows is in all runs too: it identifies a row of the file, not of the dataset.
    order = sorted(others or columns, key=lambda name: -_overlap(columns[name]))
    used: list[str] = []
    keys = tuple([""] * len(run_ids.keys) for run_ids in ids)
    for name in order:
        used.append(name)
        keys = _joined(columns, used)
        if all(len(set(run)) == len(run) for run in keys):
            break
    _check_unique(results, keys, "content")
    plain, rest = (
        [name.partition(".")[2] for name in names] for names in (used, order[len(used) :])
    )
    # Columns that all runs have alike say nothing about how rows were paired.
    left_out = [name for name in rest if _overlap(columns[f"source.{name}"]) < 1]
    return RowIdentities(keys, "content", ids[-1].values, tuple(plain), tuple(left_out))


def _may_share_rows(columns: Mapping[str, Sequence[Ints]]) -> bool:
    """Whether a column that tells most rows apart has a value that all runs have; also where no column does."""
    telling = [
        runs
        for runs in columns.values()
        if all(len(np.unique(run)) > MOSTLY * len(run) for run in runs)
    ]
    return not telling or any(_overlap(runs) > 0 for runs in telling)


def _no_shared_row(results: Sequence[Path]) -> DataError:
    message = f"these runs share no row: {' and '.join(map(_dataset_of, results))}"
    return DataError(Problem("no-shared-row", message, "compare runs of the same data"))


def _dataset_of(results: Path) -> str:
    """The name of the data of a run, else of its directory."""
    facts = results.parent / "run.json"
    name = orjson.loads(facts.read_bytes()).get("dataset") if facts.is_file() else None
    return str(name or results.parent)


class _Ids(Struct, frozen=True):
    """The ids of a run's rows, and as text; the columns of the dataset that are equal to them."""

    values: list[Any]
    keys: list[str]
    columns: set[str]
    are_row_numbers: bool


def _ids(results: Path) -> _Ids:
    sources = [name for name in table_columns(results) if name.startswith("source.")]
    values: list[Any] = []
    columns, are_row_numbers = set(sources), True
    for batch in read_table(results, ["row", "id", *sources]):
        values += batch["id"]
        are_row_numbers = are_row_numbers and batch["id"] == batch["row"]
        columns = {name for name in columns if batch[name] == batch["id"]}
    return _Ids(values, [*map(key_text, values)], columns, are_row_numbers)


def _shared_columns(results: Sequence[Path]) -> tuple[dict[str, list[Ints]], set[str]]:
    """Each column of the dataset that all runs have: a number for each value, for each run's rows. And the columns that only
    count a run's rows."""
    names = [
        {name for name in table_columns(path) if name.startswith("source.")} for path in results
    ]
    code_of: dict[str, int] = {}
    columns: dict[str, list[Ints]] = {
        name: [] for name in table_columns(results[0]) if name in set.intersection(*names)
    }
    counters = set(columns)
    for path in results:
        codes: dict[str, list[int]] = {name: [] for name in columns}
        for batch in read_table(path, ["row", *columns]):
            for name, run in codes.items():
                if name in counters and any(
                    value not in (index, index + 1)
                    for index, value in enumerate(batch[name], len(run))
                ):
                    counters.discard(name)
                run += [code_of.setdefault(key_text(value), len(code_of)) for value in batch[name]]
        for name, run in codes.items():
            columns[name].append(np.array(run, dtype=np.int64))
    return columns, counters


def _id_columns(columns: Iterable[str]) -> list[str]:
    """The columns whose names are those of ids, the shortest first: `id` before `document_id`."""
    forms = (ID_NAME, CAMEL_ID)
    named = [
        name for name in columns if any(form.fullmatch(name.partition(".")[2]) for form in forms)
    ]
    return sorted(named, key=len)


def _joined(columns: Mapping[str, Sequence[Ints]], names: Sequence[str]) -> tuple[list[str], ...]:
    return tuple(
        [",".join(map(str, key)) for key in np.stack(run, axis=1).tolist()]
        for run in zip(*(columns[name] for name in names), strict=True)
    )


def _overlap(runs: Sequence[Ints]) -> float:
    """The share of rows whose value another row of each other run has, at least."""
    first, shares = runs[0], [1.0]
    for run in runs[1:]:
        size = int(max(first.max(initial=0), run.max(initial=0))) + 1
        both = np.minimum(
            np.bincount(first, minlength=size), np.bincount(run, minlength=size)
        ).sum()
        shares.append(float(both) / max(min(len(first), len(run)), 1))
    return min(shares)


def _fits(ids: Sequence[Ints], others: Mapping[str, Sequence[Ints]]) -> bool:
    """Whether the rows that these ids join agree in the columns that tell rows apart, as far as the runs' values do."""
    for run in range(1, len(ids)):
        _, here, there = np.intersect1d(ids[0], ids[run], return_indices=True)
        if not len(here):
            return False
        for values in others.values():
            distinct = len(np.unique(values[0])) > MOSTLY * len(values[0])
            overlap = _overlap((values[0], values[run]))
            agreement = float((values[0][here] == values[run][there]).mean())
            if distinct and overlap > MOSTLY and agreement < MOSTLY * overlap:
                return False
    return True


def _check_unique(results: Sequence[Path], keys: Sequence[Sequence[str]], by: PairedBy) -> None:
    for path, run in zip(results, keys, strict=True):
        row_of: dict[str, int] = {}
        for row, key in enumerate(run):
            if (first := row_of.setdefault(key, row)) != row:
                same = f"the same id {key!r}" if by == "id" else "no id and the same content"
                repeats = "ids repeat" if by == "id" else "content repeats"
                message = f"{repeats}, so rows cannot be paired: rows {first} and {row} have {same}"
                raise DataError(Problem("ambiguous-rows", message, HINT, file=str(path)))
