"""What is checked on the data itself before the first call is paid, in the one pass that reads every row anyway."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from verdict_cli.errors import Problem, SpecError
from verdict_cli.plan.node import Brace, Plan
from verdict_cli.plan.possible_predictions import PossibleValues, possible_values
from verdict_cli.run.data_preflight.duplicate_ids import RepeatedIds
from verdict_cli.run.data_preflight.label_checks import check_label_values
from verdict_cli.run.data_preflight.label_tally import Tally, tally
from verdict_cli.storage.datasets.dataset import Dataset, DatasetFacts, Selection
from verdict_cli.storage.datasets.read import scan, stream_rows


def preflight(
    plan: Plan, dataset: Dataset, *, limit: int | None = None, sample: int | None = None, seed: int = 0
) -> tuple[DatasetFacts, tuple[Problem, ...]]:
    """What the dataset holds, and what its owner is warned of.

    DataError for rows that cannot be read. SpecError where the pipeline does not fit the data, so that the run could
    only end in an error or in a wrong metric. The memory for it does not grow with the rows.
    """
    checks = _Checks(plan, dataset.id)
    facts = scan(dataset, limit=limit, sample=sample, seed=seed, watch=checks.watch)
    errors, warnings = checks.found(sampled=sample is not None)
    if errors:
        raise SpecError(errors)
    if checks.ids is not None and checks.ids.suspects:
        warnings += _repeated(checks.ids, dataset, limit)
    return facts, tuple(warnings)


class _Checks:
    """What one reading of the rows finds."""

    def __init__(self, plan: Plan, identity: str | None) -> None:
        self.ids = RepeatedIds() if identity is not None else None
        self._identity = identity
        self._braces = plan.braces
        self._named: dict[Brace, None] = {}
        self._tallies: list[tuple[Tally, Problem]] = []
        for name, evaluation in plan.evaluations.items():
            text = evaluation.prediction
            said = PossibleValues(None, None) if text is None else possible_values(plan.nodes, plan.outputs, text)
            counted = tally(evaluation, said)
            if counted is not None:
                self._tallies.append((counted, plan.places[name]))

    def watch(self, index: int, source: Mapping[str, Any]) -> None:
        """Take in a row."""
        if self.ids is not None and self._identity is not None:
            self.ids.watch(source[self._identity])
        for brace in self._braces:
            if brace.column in source:
                self._named[brace] = None
        for counted, _ in self._tallies:
            counted.watch(index, source)

    def found(self, *, sampled: bool) -> tuple[list[Problem], list[Problem]]:
        """The errors and the warnings."""
        errors = [brace.problem for brace in self._named]
        warnings: list[Problem] = []
        for counted, at in self._tallies:
            more, told = check_label_values(counted, at, sampled=sampled)
            errors += more
            warnings += told
        return errors, warnings


def _repeated(ids: RepeatedIds, dataset: Dataset, limit: int | None) -> list[Problem]:
    counts = ids.repeated(row.id for row in stream_rows(dataset, Selection(limit)))
    if not counts:
        return []
    first, times = next(iter(counts.items()))
    message = (
        f"{len(counts):,} id{'s' if len(counts) > 1 else ''} of the column {dataset.id!r} "
        f"{'are' if len(counts) > 1 else 'is'} in several rows, such as {first!r} in {times:,}"
    )
    hint = "make ids unique: `verdict compare` refuses runs whose ids repeat"
    return [Problem("duplicate-id", message, hint, str(dataset.files[0]))]
