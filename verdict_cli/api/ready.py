"""What is checked before the first call: models, recordings, columns."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from verdict_cli.errors import DataError, Problem, Refused, UsageError
from verdict_cli.plan import Asked, Plan
from verdict_cli.providers import Recording, check


def check_models(plan: Plan) -> None:
    """Refused when something known beforehand keeps a model of the plan from answering."""
    for node in plan.nodes:
        if isinstance(node.work, Asked):
            for model in (*node.work.models, *node.work.follow_up):
                trouble = check(model)
                if trouble:
                    raise Refused(f"{node.id}: {trouble}")


def recording(path: Path, plan: Plan) -> Recording:
    """The recording at the path, which must have calls of at least one unit of the plan."""
    loaded = Recording.load(path)
    asking = [node.id for node in plan.nodes if isinstance(node.work, Asked)]
    recorded = loaded.units()
    if asking and not set(asking) & set(recorded):
        raise UsageError(
            f"{path} has no call of any unit of this pipeline: it has {', '.join(recorded[:6]) or 'none'}",
            hint=f"the pipeline's units are {', '.join(asking[:6])}",
        )
    return loaded


def check_columns(plan: Plan, row: Mapping[str, Any]) -> None:
    """DataError when the row lacks a column that the pipeline uses."""
    for used in plan.columns:
        if used.column not in row:
            known = ", ".join(map(repr, row)) or "none"
            message = f"the row has no column {used.column!r}, which {used.place} uses"
            raise DataError(Problem("missing-column", message, f"its columns are {known}"))
