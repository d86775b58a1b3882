"""One row as the pipeline wants it: its own names of columns, its types, and every column that it uses."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from verdict_cli.errors import DataError, Problem
from verdict_cli.plan import Plan
from verdict_cli.plan.row_types import caster
from verdict_cli.values import Row


class Sources:
    """Makes rows of mappings that did not come from a dataset."""

    def __init__(self, plan: Plan, folder: Path = Path()) -> None:
        keys = plan.resolved.get("dataset") or {}
        self._plan = plan
        self._columns: Mapping[str, str] = keys.get("columns") or {}
        self._id = str(keys.get("id", ""))
        self._cast = None if plan.row_types is None else caster(plan.row_types, folder)

    def row(self, given: Mapping[str, Any], index: int = 0) -> Row:
        """The row of that place. DataError when it lacks a column that is used, or breaks `dataset.schema`."""
        source: Mapping[str, Any] = {
            **given,
            **{name: given[there] for name, there in self._columns.items() if there in given},
        }
        for used in self._plan.columns:
            if used.column not in source:
                known = ", ".join(map(repr, source)) or "none"
                message = f"the row has no column {used.column!r}, which {used.place} uses"
                raise DataError(Problem("missing-column", message, f"its columns are {known}"))
        if self._cast is not None:
            try:
                source = self._cast(source)
            except ValueError as error:
                raise DataError(Problem("schema", f"the row breaks the schema: {error}")) from None
        return Row(index, source.get(self._id, index), source)
