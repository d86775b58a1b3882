"""A run's figures, and what a report shows behind them, from one pass over its results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from verdict_cli.errors import VerdictError
from verdict_cli.evaluate.collect import collect
from verdict_cli.evaluate.column import Floats, Ints
from verdict_cli.evaluate.figures import Measures
from verdict_cli.evaluate.kinds import fitting
from verdict_cli.evaluate.measure import measuring
from verdict_cli.evaluate.outcomes import cell, said, scores_of
from verdict_cli.evaluate.pictured import Pictured, pictured
from verdict_cli.evaluate.reduce import reduced
from verdict_cli.evaluate.rows import Data
from verdict_cli.spec.evaluate import Evaluation

MOST_SCORED = 3
"""Evaluations whose rows are kept: more would hold a large run's columns several times."""


@dataclass(frozen=True, slots=True)
class Scored:
    """The rows of one evaluation: `at` are their places in the file, in order.

    `scores` are 1 for right and 0 for wrong where `labels`, else minus the distance from the target, else the value;
    NaN where a row has none.
    """

    name: str
    at: Ints
    data: Data
    scores: Floats
    labels: bool

    @property
    def labelled(self) -> bool:
        """Whether there is a target."""
        return bool(self.data.targets.types)

    def prediction(self, row: int) -> Any:
        """What the run says of the row at this place of `at`."""
        return cell(said(self.data), row)

    def target(self, row: int) -> Any:
        """What is true of it."""
        return cell(self.data.targets, row)


@dataclass(frozen=True, slots=True)
class Study:
    """The figures of each evaluation, their shapes, and the rows of the first few; those with a target come first."""

    measures: Mapping[str, Measures]
    pictured: Mapping[str, Pictured]
    scored: tuple[Scored, ...]


def study(evaluations: Mapping[str, Evaluation], results: Path, *, seed: int = 0) -> Study:
    """The study of a run's `results.parquet`. Raises what `measure` does."""
    measures: dict[str, Measures] = {}
    shapes: dict[str, Pictured] = {}
    kept: list[Scored] = []
    for name, one, data, at in measuring(evaluations, results, seed=seed):
        measures[name] = one
        shapes[name] = Pictured()
        try:
            shapes[name] = pictured(data)
            if at is not None:
                kept.append(_scored(name, at, data, list(one.figures)))
        except VerdictError:
            raise
        except Exception as error:  # what only the page shows must not cost the figures
            said = f"internal error in verdict (please report it): {type(error).__name__}: {error}"[:500]
            warning = f"charts and rows of this evaluation are missing from the report: {said}"
            measures[name] = replace(one, warnings=(*one.warnings, warning))
        kept.sort(key=lambda each: not each.labelled)
        del kept[MOST_SCORED:]
    return Study(measures, shapes, tuple(kept))


def scored_rows(evaluations: Mapping[str, Evaluation], results: Path) -> tuple[Scored, ...]:
    """The rows alone of the first few evaluations, without any figure. Raises what `measure` does."""
    some = dict(
        sorted(
            ((name, one) for name, one in evaluations.items() if one.group is None),
            key=lambda pair: pair[1].target is None,
        )[:MOST_SCORED]
    )
    found = collect(some, results)
    kept = []
    for name, evaluation in some.items():
        collected = reduced(name, evaluation, found.pop(name), results)
        data = Data.of(evaluation, collected)
        if collected.at is not None:
            value = data.value if evaluation.value is not None else None
            kind = data.kind if evaluation.prediction is not None else None
            kept.append(_scored(name, collected.at, data, list(fitting(evaluation, kind, value))))
    return tuple(sorted(kept, key=lambda each: not each.labelled))


def _scored(name: str, at: Ints, data: Data, figures: list[str]) -> Scored:
    metrics = [metric for metric in figures if metric != "confusion"] or figures
    scores = scores_of(data, metrics)
    labels = bool(data.targets.types and data.predictions.types) and _right_or_wrong(scores)
    return Scored(name, at, data, scores, labels)


def _right_or_wrong(scores: Floats) -> bool:
    known = scores[np.isfinite(scores)]
    return bool(np.all((known == 0) | (known == 1)))
