"""What two runs predict in each row that both have: the rows that flipped, and those that one, both or neither gets right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from verdict_cli.stats.columns.column import Column, Floats, Ints
from verdict_cli.stats.paired import PairedRows
from verdict_cli.stats.row_scores import outcome_cell, predictions

Cell = Literal["a", "b", "both", "neither"]
"""The run that is right, or better, in a row; of equal scores, `both` are right or `neither` is."""


@dataclass(frozen=True, slots=True)
class Flip:
    """A row that the two runs score differently: both predictions, the target, and the second run's gain."""

    id: Any
    first: Any
    second: Any
    target: Any
    gain: float


@dataclass(frozen=True, slots=True)
class PairedOutcomes:
    """The pairs of one evaluation, and each run's scores of them (more is better, NaN where there is none).

    `shown` gives the id or number of a key; `labelled` says whether there are targets.
    """

    pairs: PairedRows
    scores: tuple[Floats, Floats]
    shown: Mapping[str, Any]
    labelled: bool = True

    def __len__(self) -> int:
        return len(self.pairs)

    @property
    def gain(self) -> Floats:
        """The second run's score minus the first's."""
        return self.scores[1] - self.scores[0]

    @property
    def counts(self) -> dict[Cell, int] | None:
        """How many rows only one run, both or neither gets right; None if rows are not right or wrong."""
        known = np.isfinite(self.gain)
        if not self.labelled or not known.any() or not all(np.isin(each[known], (0, 1)).all() for each in self.scores):
            return None
        cells: tuple[Cell, ...] = ("a", "b", "both", "neither")
        return {cell: len(self.indices(cell)) for cell in cells}

    def indices(self, cell: Cell | None = None) -> Ints:
        """The pairs that the runs score differently, the largest difference first; or those of a cell, in their order."""
        gain = self.gain
        if cell in ("both", "neither"):
            return np.flatnonzero((gain == 0) & (self.scores[0] == (1 if cell == "both" else 0)))
        kept = np.isfinite(gain) & (gain < 0 if cell == "a" else gain > 0 if cell == "b" else gain != 0)
        found = np.flatnonzero(kept)
        return found[np.argsort(-np.abs(gain[found]), kind="stable")]

    def flips(self, indices: Ints | None = None) -> tuple[Flip, ...]:
        """These pairs, by default all that the runs score differently."""
        old, new = self.pairs.data
        columns: Sequence[Column] = [predictions(data) for data in (old, new)]
        gain = self.gain
        return tuple(
            Flip(
                self._name(self.pairs.key(index)),
                outcome_cell(columns[0], self.pairs.rows[0][index]),
                outcome_cell(columns[1], self.pairs.rows[1][index]),
                outcome_cell(new.targets, self.pairs.rows[1][index]),
                float(gain[index]),
            )
            for index in (self.indices() if indices is None else indices).tolist()
        )

    def _name(self, key: str) -> Any:
        """The id or number of a row, with the place of its entry under `items`."""
        row, bracket, place = key.rpartition("[")
        return (
            f"{self.shown[row]}{bracket}{place}"
            if key not in self.shown and row in self.shown
            else self.shown.get(key, key)
        )
