"""The judge's answers of one evaluation with the human labels of some rows, and with what probability these were drawn."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from verdict_cli.errors import DataError, Problem
from verdict_cli.language.evaluations import Evaluation, GoldScope
from verdict_cli.stats.columns.collect import Collected
from verdict_cli.stats.columns.column import INCLUSION, MISSING, Column, Floats, Ints, LabelSet


@dataclass(frozen=True, slots=True)
class GoldPairs:
    """The judge's answer to each row, and the human label: NaN where there is none.

    `binary`: both are 0 or 1. `cluster` is each row's cluster, `bounds` the ends of the scale that both are on,
    `inclusion` the probability with which a labelled row was drawn; None where all rows have the same. `of` is what the
    estimates are about.
    """

    judge: Floats
    truth: Floats
    binary: bool
    cluster: Ints | None = None
    bounds: tuple[float, float] | None = None
    inclusion: Floats | None = None
    of: GoldScope = "population"

    def clip(self, value: float) -> float:
        """The value, moved to the nearest end of its range."""
        low, high = (0.0, 1.0) if self.binary else self.bounds or (-math.inf, math.inf)
        return min(max(value, low), high)

    @property
    def range(self) -> float:
        """The most by which two values can differ."""
        low, high = self.clip(-math.inf), self.clip(math.inf)
        return high - low

    @property
    def labelled(self) -> npt.NDArray[np.bool_]:
        """True where the row has a label."""
        return np.logical_not(np.isnan(self.truth))

    @property
    def answered(self) -> npt.NDArray[np.bool_]:
        """True where the judge answered."""
        return np.logical_not(np.isnan(self.judge))

    @property
    def weights(self) -> Floats:
        """How many rows each labelled row stands for: one over its probability."""
        if self.inclusion is None:
            return np.full(int(self.labelled.sum()), len(self.truth) / max(int(self.labelled.sum()), 1))
        weights: Floats = 1 / self.inclusion[self.labelled]
        return weights

    def take(self, rows: Ints) -> GoldPairs:
        """These rows only."""
        return replace(
            self,
            judge=self.judge[rows],
            truth=self.truth[rows],
            cluster=None if self.cluster is None else self.cluster[rows],
            inclusion=None if self.inclusion is None else self.inclusion[rows],
        )


def gold_pairs(evaluation: Evaluation, columns: Mapping[str, Column], cluster: Ints | None) -> GoldPairs | str | None:
    """All rows, or why they cannot be compared; None without `gold`. A `positive` makes shares of labels."""
    if evaluation.gold is None:
        return None
    judged, gold = columns["value" if evaluation.value is not None else "prediction"], columns["gold"]
    if evaluation.positive is not None:
        found = LabelSet.of(gold, judged, also=(evaluation.positive,))
        code = found.index(evaluation.positive)
        judge, truth = ((found.codes(column) == code).astype(np.float64) for column in (judged, gold))
        binary, bounds = True, None
    elif judged.numeric and gold.numeric:
        judge, truth = judged.numbers.copy(), gold.numbers.copy()
        both = np.concatenate([judge[judged.present], truth[gold.present]])
        binary, bounds = bool(np.isin(both, (0.0, 1.0)).all()), judged.bounds
        if bounds and len(both) and not (bounds[0] <= both.min() and both.max() <= bounds[1]):
            bounds = None
    else:
        return "`gold` compares numbers; set `positive` to count a label"
    truth[np.equal(gold.codes, MISSING)] = np.nan
    judge[np.equal(judged.codes, MISSING)] = np.nan
    inclusion = columns[INCLUSION].numbers if INCLUSION in columns else None
    if inclusion is not None:
        truth[np.isnan(inclusion)] = np.nan
    return GoldPairs(judge, truth, binary, cluster, bounds, inclusion, evaluation.gold.of)


def check_inclusion(name: str, evaluation: Evaluation, collected: Collected, results: Path) -> None:
    """Raises DataError where `gold.weight` gives something else than a probability above 0 or null."""
    column = collected.columns.get(INCLUSION)
    if column is None or evaluation.gold is None:
        return
    found = column.numbers
    with np.errstate(invalid="ignore"):
        bad = column.present & ~((found > 0) & (found <= 1))
    given = "a text" if not column.types <= {"int", "float", "bool"} else "true or false"
    if bad.any() and not np.isnan(found[bad][0]):
        given = f"{found[bad][0]:g}"
    if not bad.any() and column.types <= {"int", "float"}:
        return
    row = "" if collected.at is None or not bad.any() else f"row {collected.at[np.flatnonzero(bad)[0]]}: "
    message = f"{row}`{evaluation.gold.weight}` gives {given}, which is not a row's probability of being drawn"
    hint = "give a number above 0 and at most 1, such as `human.inclusion`, or null for rows whose label does not count"
    raise DataError(Problem("gold-weight", message, hint, file=str(results), path=f"evaluate.{name}.{INCLUSION}"))
