"""What is checked on the data itself before the first call is paid, in the one pass that reads every row anyway."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from verdict_cli.data import Dataset, Facts, scan
from verdict_cli.errors import Problem, SpecError
from verdict_cli.plan import Plan
from verdict_cli.plan.node import Brace


def preflight(
    plan: Plan, dataset: Dataset, *, limit: int | None = None, sample: int | None = None, seed: int = 0
) -> tuple[Facts, tuple[Problem, ...]]:
    """What the dataset holds, and what its owner is warned of.

    DataError for rows that cannot be read. SpecError where the pipeline does not fit the data, so that the run could
    only end in an error or in a wrong metric.
    """
    pass_ = _Pass(plan)
    facts = scan(dataset, limit=limit, sample=sample, seed=seed, watch=pass_.watch)
    errors, warnings = pass_.ended()
    if errors:
        raise SpecError(errors)
    return facts, tuple(warnings)


class _Pass:
    """One reading of the rows."""

    def __init__(self, plan: Plan) -> None:
        self._braces = plan.braces
        self._named: dict[Brace, None] = {}

    def watch(self, index: int, source: Mapping[str, Any]) -> None:
        """Take in a row."""
        for brace in self._braces:
            if brace.column in source:
                self._named[brace] = None

    def ended(self) -> tuple[list[Problem], list[Problem]]:
        """The errors and the warnings."""
        return [brace.problem for brace in self._named], []
