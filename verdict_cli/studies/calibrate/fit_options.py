"""What every fit is asked for, what it works on, and what comes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from verdict_cli.errors import UsageError
from verdict_cli.language.calibrations import Fitted
from verdict_cli.language.fields.types import ScaleType
from verdict_cli.language.scales import Scale
from verdict_cli.plan.node import LLMNode, Node, Plan
from verdict_cli.stats.columns.column import Floats, Ints
from verdict_cli.studies.calibrate.held_out import HeldOut
from verdict_cli.studies.calibrate.labelled_rows import distributions, labelled
from verdict_cli.studies.calibrate.probability_maps import FITS

FitKind = Literal["probability", "score_weights", "pool_weights", "threshold"]
FIT_KINDS: tuple[FitKind, ...] = get_args(FitKind)
"""What can be fitted."""
METHODS: Mapping[FitKind, tuple[str, ...]] = {
    "probability": tuple(FITS),
    "score_weights": (),
    "pool_weights": ("logistic", "log_odds", "least_squares", "dawid_skene"),
    "threshold": (),
}
"""How; "" chooses the first that fits."""
FEWEST = 20
"""Fewer labelled rows are not fitted to."""


@dataclass(frozen=True, slots=True)
class FitOptions:
    """What is to be fitted: to which unit (its name, of all its copies), by which expressions."""

    unit: str | None
    kind: FitKind
    target: str | None
    where: str | None = None
    method: str = ""
    prediction: str = "output.score"
    confidence: str = "output.p"
    agreement: float = 0.0
    level: float = 0.95
    folds: int = 5
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Calibrated:
    """What was fitted, and its figures on held-out rows by method and metric; ``notes`` for the reader."""

    content: Fitted
    figures: Mapping[str, Mapping[str, HeldOut]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class FitJob:
    """What a fit works on: the copies of the unit, the run's tables, and what every calibration file says."""

    plan: Plan
    nodes: Sequence[Node]
    results: Path
    calls: Path
    wanted: FitOptions
    rng: np.random.Generator
    head: dict[str, Any]

    @property
    def scale(self) -> Scale:
        """The scale of a unit whose token probabilities are read."""
        work = self.nodes[0].work
        assert isinstance(work, LLMNode)
        (kind,) = work.response.fields.values()
        assert isinstance(kind, ScaleType)
        return kind.scale

    def marks(self, *without: str) -> dict[str, str]:
        """The digests of what makes the unit the judge it is, but for these."""
        return {name: mark for name, mark in self.nodes[0].marks.items() if name not in without}


def read_labelled_run(job: FitJob) -> tuple[Floats, list[Any], Ints]:
    """(probabilities, targets, row numbers) of the recorded replies whose row is labelled."""
    rows = {
        row.row: row.target
        for row in labelled(job.results, (), job.wanted.target, job.wanted.where)
        if row.target is not None
    }
    found = [(row, p) for row, _, p in distributions(job.calls, job.nodes) if row in rows]
    enough(len({row for row, _ in found}))
    values = values_of(job.scale)
    p = np.array([[one[value] for value in values] for _, one in found])
    return p, [rows[row] for row, _ in found], np.array([row for row, _ in found])


def values_of(scale: Scale) -> list[Any]:
    """The scale's values, as its tokens stand for them."""
    return list(dict.fromkeys(value for _, value in scale.tokens()))


def enough(rows: int) -> None:
    """UsageError for fewer rows than are fitted to."""
    if rows < FEWEST:
        raise UsageError(
            f"{rows} rows have a label and an answer, {FEWEST} are needed",
            hint="label more rows, or run the judge on more of the labelled ones",
        )


def numbers_of(targets: Sequence[Any]) -> Floats:
    """The targets as numbers. UsageError for one that is none."""
    for target in targets:
        if not isinstance(target, int | float):
            raise UsageError(f"the target {target!r} is no number", hint="make it one in the expression")
    return np.array(targets, dtype=np.float64)


def spelled(figures: Mapping[str, HeldOut]) -> dict[str, Any]:
    """The figures as the file holds them."""
    kept = ("value", "low", "high")
    return {
        name: {side: {key: figure[key] for key in kept} for side, figure in asdict(one).items()}
        for name, one in figures.items()
    }
