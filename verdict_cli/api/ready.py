"""What is checked of one row before the first call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from verdict_cli.errors import DataError, Problem
from verdict_cli.plan import Plan


def check_columns(plan: Plan, row: Mapping[str, Any]) -> None:
    """DataError when the row lacks a column that the pipeline uses."""
    for used in plan.columns:
        if used.column not in row:
            known = ", ".join(map(repr, row)) or "none"
            message = f"the row has no column {used.column!r}, which {used.place} uses"
            raise DataError(Problem("missing-column", message, f"its columns are {known}"))
