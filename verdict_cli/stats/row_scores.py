"""The score of each row of a run: what a comparison tests, a page sorts by, and a search selects by; and what two runs
predict in each row that both have: the rows that flipped, and those that one, both or neither gets right."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from msgspec import Struct

from verdict_cli.language.evaluations import Evaluations
from verdict_cli.messages import NamedValues
from verdict_cli.stats.columns.collect import collect
from verdict_cli.stats.columns.column import MISSING, Column, Floats, Ints
from verdict_cli.stats.columns.row_data import EvaluationData, requested_metrics
from verdict_cli.stats.metrics.metric_families import by_input
from verdict_cli.stats.paired import PairedRows


@np.errstate(over="ignore", invalid="ignore")  # told as too large
def scores_of(data: EvaluationData, metrics: Sequence[str]) -> tuple[Floats, str]:
    """The score of each row, higher is better: 1 right and 0 wrong, minus the distance, or the value itself; and what the
    scores are in words."""
    families = by_input(metrics, data).keys()
    if "numbers" in families and data.kind in ("ordinal", "numeric"):
        return -np.abs(data.predictions.numbers - data.targets.numbers), "distances to the target"
    if families & {"labels", "ranking", "numbers"}:
        scores = (data.target == data.prediction).astype(np.float64)
        present = data.target != MISSING
        present = present if data.wrong else present & (data.prediction != MISSING)
        return np.where(present, scores, np.nan), "right and wrong rows"
    positive = data.is_positive
    if "probability" in families and positive is not None:
        errors = (data.probability.numbers - positive) ** 2
        return np.where(data.target == MISSING, np.nan, -errors), "squared errors"
    return data.value.numbers, "values"


def predictions(data: EvaluationData) -> Column:
    """The run's answers: its predictions, else its probabilities, else its values."""
    columns = (data.predictions, data.probability)
    return next((column for column in columns if column.types), data.value)


MOST_SCORED = 3
"""The evaluations whose rows are kept: more would hold a large run's columns several times in memory."""


class RowScores(Struct, frozen=True):
    """The rows of one evaluation: `at` are their indices in the file, in order.

    `scores` are 1 for right and 0 for wrong where `labels`, else minus the distance from the target, else the value;
    NaN where a row has none.
    """

    name: str
    at: Ints
    data: EvaluationData
    scores: Floats
    labels: bool

    @property
    def labelled(self) -> bool:
        return bool(self.data.targets.types)

    @property
    def answers(self) -> Column:
        """The run's answers to the rows of `at`."""
        return predictions(self.data)


def scored_rows(evaluations: Evaluations, results: Path) -> tuple[RowScores, ...]:
    """The rows of the first few evaluations, without any metric. Raises what `measure` does."""
    of_rows = [name for name, own in evaluations.items() if own.group is None and own.items is None]
    of_rows.sort(key=lambda name: evaluations[name].target is None)
    first = {name: evaluations[name] for name in of_rows[:MOST_SCORED]}
    collected_by_name = collect(first, results)
    score_sets = []
    for name, evaluation in first.items():
        collected = collected_by_name.pop(name)
        data = EvaluationData.of(evaluation, collected)
        assert collected.at is not None
        score_sets.append(row_scores(name, collected.at, data, requested_metrics(evaluation, data)))
    return tuple(sorted(score_sets, key=lambda scores: not scores.labelled))


def row_scores(name: str, at: Ints, data: EvaluationData, metrics: Sequence[str]) -> RowScores:
    scores, _ = scores_of(data, [metric for metric in metrics if metric != "confusion"] or metrics)
    both = bool(data.targets.types and data.predictions.types)
    labels = both and bool(np.isin(scores[np.isfinite(scores)], (0, 1)).all())
    return RowScores(name, at, data, scores, labels)


Cell = Literal["a", "b", "both", "neither"]
"""The run that is right, or better, in a row; of equal scores, `both` are right or `neither` is."""


class Flip(Struct, frozen=True):
    """A row that the two runs score differently: both predictions, the target, and the second run's gain."""

    id: Any
    first: Any
    second: Any
    target: Any
    gain: float


class PairedOutcomes(Struct, frozen=True):
    """The pairs of one evaluation, and each run's scores of them (more is better, NaN where there is none).

    `shown` gives the id or number of a key; `meaning` says what the scores are.
    """

    pairs: PairedRows
    scores: Sequence[Floats]
    shown: NamedValues
    meaning: str

    @staticmethod
    def of(pairs: PairedRows, metrics: Sequence[str], shown: NamedValues) -> PairedOutcomes:
        """The outcomes by what these metrics score."""
        scored = [scores_of(data, metrics) for data in pairs.data]
        scores = [
            every[positions] for (every, _), positions in zip(scored, pairs.rows, strict=True)
        ]
        return PairedOutcomes(pairs, scores, shown, scored[-1][1])

    def __len__(self) -> int:
        return len(self.pairs)

    @property
    def gain(self) -> Floats:
        """The second run's score minus the first's."""
        return self.scores[1] - self.scores[0]

    @property
    def counts(self) -> dict[Cell, int] | None:
        """How many rows only one run, both or neither gets right; None if rows are not right or wrong."""
        finite = np.isfinite(self.gain)
        are_right_or_wrong = all(np.isin(scores[finite], (0, 1)).all() for scores in self.scores)
        if not self.pairs.data[-1].targets.types or not finite.any() or not are_right_or_wrong:
            return None
        cells: tuple[Cell, ...] = ("a", "b", "both", "neither")
        return {cell: len(self.indices(cell)) for cell in cells}

    def indices(self, cell: Cell | None = None) -> Ints:
        """The pairs that the runs score differently, the largest difference first; or those of a cell, in their order."""
        gain, first = self.gain, self.scores[0]
        chosen = {
            None: np.abs(gain) > 0,
            "a": gain < 0,
            "b": gain > 0,
            "both": (gain == 0) & (first == 1),
            "neither": (gain == 0) & (first == 0),
        }
        indices = np.flatnonzero(chosen[cell])
        return indices[np.argsort(-np.abs(gain[indices]), kind="stable")]

    def flips(self, indices: Ints | None = None) -> tuple[Flip, ...]:
        """These pairs, by default all that the runs score differently."""
        first, second = map(predictions, self.pairs.data)
        targets, gain = self.pairs.data[1].targets, self.gain
        flips = []
        for index in self.indices() if indices is None else indices:
            old, new = (rows[index] for rows in self.pairs.rows)
            name = self._name(self.pairs.key(index))
            sides = first.value(old), second.value(new), targets.value(new)
            flips.append(Flip(name, *sides, float(gain[index])))
        return tuple(flips)

    def _name(self, key: str) -> Any:
        """The id or number of a row, with the place of its entry under `items`."""
        row, bracket, entry = key.rpartition("[")
        if key not in self.shown and row in self.shown:
            return f"{self.shown[row]}{bracket}{entry}"
        return self.shown.get(key, key)
