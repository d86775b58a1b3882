"""One row as the pipeline wants it: its own names of columns, its types, and every column that it uses."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from verdict_cli.errors import DataError, Problem
from verdict_cli.language.fields.types import RecordType
from verdict_cli.messages import Row
from verdict_cli.plan.node import Plan
from verdict_cli.plan.row_types import row_converter
from verdict_cli.storage.datasets.dataset import renamed


class RowInputs:
    """Makes rows of mappings that did not come from a dataset."""

    def __init__(self, plan: Plan, folder: Path = Path()) -> None:
        keys = plan.resolved.get("dataset") or {}
        self._plan = plan
        self._columns: Mapping[str, str] = keys.get("columns") or {}
        self._id = str(keys.get("id", ""))
        self._folder = folder

    def row(self, given: Mapping[str, Any], index: int = 0) -> Row:
        """The row of that place. DataError when it lacks a column that a unit uses, breaks `dataset.schema`, or has one
        that a prompt names in braces without `source.`.

        Columns that only figures and gates use, such as labels, may be left out.
        """
        source: Mapping[str, Any] = renamed(self._columns, given)
        for used in self._plan.columns:
            if used.asked and used.column not in source:
                known = ", ".join(map(repr, source)) or "none"
                message = f"the row has no column {used.column!r}, which {used.place} uses"
                raise DataError(Problem("missing-column", message, f"its columns are {known}"))
        for brace in self._plan.braces:
            if brace.column in source:
                raise DataError(brace.problem)
        types = self._plan.row_types
        if types is not None:
            there = RecordType({name: kind for name, kind in types.fields.items() if name in source})
            try:
                source = row_converter(there, self._folder, self._plan.fence)(source)
            except ValueError as error:
                raise DataError(Problem("schema", f"the row breaks the schema: {error}")) from None
        identity = source.get(self._id, index)
        if isinstance(identity, bool) or not isinstance(identity, str | int):
            said = f"the id column {self._id!r} holds {identity!r:.80}"
            raise DataError(Problem("bad-id", said, "an id is a string or an integer"))
        return Row(index, identity, source)
