"""The columns of a file, as the pipeline names them."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from typing import Any

from verdict_cli.data.dataset import Dataset
from verdict_cli.errors import Problem


def renamed(columns: Mapping[str, str], values: Mapping[str, Any]) -> dict[str, Any]:
    """The values under their pipeline names; a column of the file that bears a mapped name gives way."""
    own = {name: value for name, value in values.items() if name not in columns.values()}
    return own | {name: values[column] for name, column in columns.items() if column in values}


def used(dataset: Dataset) -> dict[str, str]:
    """The columns that every row needs: name in the pipeline -> name in the file."""
    names = dataset.required if dataset.id is None else (*dataset.required, dataset.id)
    return {name: dataset.columns.get(name, name) for name in names}


def lacking(dataset: Dataset, columns: Collection[str]) -> Problem | None:
    """The problem of the first used column that is not among ``columns`` (the file's names), None if all are."""
    for name, column in used(dataset).items():
        if column not in columns:
            return missing(column, columns, "" if column == name else f" ({name!r} in the pipeline)")
    return None


def missing(column: str, columns: Collection[str], also: str = "") -> Problem:
    """The problem of a column that is not there; ``also`` says what else it is called."""
    near = difflib.get_close_matches(column, columns, n=1)
    meant = _otherwise_separated(columns) or (f"did you mean {near[0]!r}? " if near else "")
    listed = ", ".join(columns) or "none"
    return Problem(
        "missing-column", f"there is no column {column!r}{also}", f"{meant}the columns are: {listed}"
    )


def _otherwise_separated(columns: Collection[str]) -> str:
    """A hint where the only column is a whole header that something else separates."""
    (name,) = columns if len(columns) == 1 else ("",)
    for mark, spelled in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars")):
        if mark in name:
            return f"its cells are separated by {spelled}: save it with commas, or with tabs as .tsv. "
    return ""
