"""Reading a dataset for a command: found, spooled, scanned."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from verdict_cli.data import Dataset, locate, spool
from verdict_cli.expressions import Expression
from verdict_cli.plan import Plan
from verdict_cli.plan.row_types import caster


def opened(plan: Plan, data: str, spool_to: Path, *, skip_bad_rows: bool = False) -> Dataset:
    """The dataset as the plan wants it. `-` is standard input, copied to a file in `spool_to` first."""
    files = (spool(sys.stdin.buffer, spool_to),) if data == "-" else locate(data)
    keys = plan.resolved.get("dataset") or {}
    return Dataset(
        files=files,
        columns=keys.get("columns") or {},
        id=keys.get("id"),
        required=tuple(used.column for used in plan.columns),
        cast=caster(plan.row_types, files[0].parent) if plan.row_types is not None else None,
        keep=_keeper(plan.where),
        rules=f"{keys.get('where', '')}|{keys.get('schema', '')}",
        skip_bad_rows=skip_bad_rows,
    )


def _keeper(where: Expression | None) -> Callable[[Mapping[str, Any]], bool] | None:
    return None if where is None else lambda row: bool(where({"source": row}))
