"""Metrics of labels: functions of the confusion matrix."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from verdict_cli.stats.columns.column import MISSING, NUMBER, Column, Floats, Ints, key_text
from verdict_cli.stats.metrics.statistic import FISHER, Bent, Proportion, Statistic, Sums, ratio


@dataclass(frozen=True, slots=True)
class LabelSet:
    """The labels that columns share: numbers in order, then words in order."""

    values: tuple[Any, ...]
    numbers: Floats
    words: dict[int, int]

    @staticmethod
    def of(*columns: Column, also: Sequence[Any] = ()) -> LabelSet:
        """The labels of all columns, and `also` (the positive label, whether it occurs or not)."""
        found = np.unique(np.concatenate([column.numbers for column in columns]))
        extra = [float(value) for value in also if isinstance(value, bool | int | float)]
        numbers = np.unique(np.concatenate([found[~np.isnan(found)], np.array(extra, dtype=np.float64)]))
        places = np.unique(np.concatenate([column.codes[column.codes >= 0] for column in columns]))
        shared: tuple[Any, ...] = next((column.words for column in columns if column.words), ())
        known = {int(place): shared[place] for place in places}
        ordered = sorted(known, key=lambda place: key_text(known[place]))
        words = {place: len(numbers) + index for index, place in enumerate(ordered)}
        values = [_spelled(number, *(column.types for column in columns)) for number in numbers.tolist()]
        values += [known[place] for place in ordered]
        values += [word for word in also if isinstance(word, str) and word not in known.values()]
        return LabelSet(tuple(values), numbers, words)

    def codes(self, column: Column) -> Ints:
        """The place of each row's label, MISSING where it has none."""
        if self.words:
            table = np.full(max(self.words) + 2, MISSING, dtype=np.int64)
            for place, label in self.words.items():
                table[place] = label
            codes = table[np.maximum(column.codes, MISSING)]
        else:
            codes = np.full(len(column.codes), MISSING, dtype=np.int64)
        is_number = column.codes == NUMBER
        codes[column.codes == MISSING] = MISSING
        codes[is_number] = np.searchsorted(self.numbers, column.numbers[is_number])
        return codes

    def place(self, value: Any) -> int | None:
        """The place of a label (1, 1.0 and true are one label), None where it is none of these."""
        return self.values.index(value) if value in self.values else None


def _spelled(number: float, *types: frozenset[str]) -> Any:
    kinds = frozenset().union(*types)
    if "bool" in types[0] and number in (0.0, 1.0) and not types[0] & {"int", "float"}:
        return bool(number)
    if "float" not in kinds and number.is_integer():
        return bool(number) if kinds & {"bool", "int", "float"} == {"bool"} else int(number)
    return number


MOST_DISTINCT_LABELS = 256
"""More distinct labels than this are no classes: the matrix would be mostly empty."""

Counts = Floats
"""(resamples, targets, predictions)"""


class ConfusionTable:
    """The confusion matrices of resamples, from the target's and prediction's label of each atom."""

    def __init__(self, targets: Ints, predictions: Ints, labels: int) -> None:
        self.labels = labels
        self._sums = Sums(targets * labels + predictions)

    def __call__(self, weights: Floats) -> Counts:
        flat = np.zeros((len(weights), self.labels * self.labels))
        flat[:, self._sums.keys] = self._sums(weights)
        return flat.reshape(len(weights), self.labels, self.labels)


def _diagonal(counts: Counts) -> Floats:
    return np.diagonal(counts, axis1=1, axis2=2)


def _sides(counts: Counts) -> tuple[Floats, Floats]:
    """How often each label is the target, and the prediction."""
    return counts.sum(axis=2), counts.sum(axis=1)


def accuracy(counts: Counts) -> Floats:
    """The share of rows whose prediction is the target."""
    return ratio(_diagonal(counts).sum(axis=1), counts.sum(axis=(1, 2)))


def balanced_accuracy(counts: Counts) -> Floats:
    """The mean recall of the labels that occur as targets."""
    return _mean_where(ratio(_diagonal(counts), counts.sum(axis=2)), counts.sum(axis=2) > 0)


def _mean_where(values: Floats, kept: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> Floats:
    return ratio(np.where(kept, values, 0.0).sum(axis=1), kept.sum(axis=1).astype(float))


def _macro(over: Floats, under: Floats, counts: Counts, scored: int) -> Floats:
    targets, predictions = _sides(counts)
    kept = (targets + predictions > 0)[:, :scored]
    return _mean_where(np.nan_to_num(ratio(over, under)[:, :scored]), kept)


def mcc(counts: Counts) -> Floats:
    """Matthews' correlation, for many labels by Gorodkin (2004)."""
    targets, predictions = _sides(counts)
    n = counts.sum(axis=(1, 2))
    both = _diagonal(counts).sum(axis=1) * n - (targets * predictions).sum(axis=1)
    spread = (n**2 - (targets**2).sum(axis=1)) * (n**2 - (predictions**2).sum(axis=1))
    return ratio(both, np.sqrt(spread))


def cohen_kappa(counts: Counts) -> Floats:
    """Agreement beyond chance (Cohen, 1960), chance by each side's own shares."""
    targets, predictions = _sides(counts)
    n = counts.sum(axis=(1, 2))
    chance = (targets * predictions).sum(axis=1)
    return ratio(_diagonal(counts).sum(axis=1) * n - chance, n**2 - chance)


def gwet_ac1(counts: Counts, labels: int) -> Floats:
    """Agreement beyond chance (Gwet, 2008): chance by the mean shares, over all `labels` of the evaluation."""
    targets, predictions = _sides(counts)
    n = counts.sum(axis=(1, 2))
    if labels < 2:
        return np.full(len(counts), np.nan)
    shares = ratio(targets + predictions, 2 * n[:, None])
    chance = (shares * (1 - shares)).sum(axis=1) / (labels - 1)
    return ratio(accuracy(counts) - chance, 1 - chance)


def nominal_alpha(counts: Counts) -> Floats:
    """Krippendorff's alpha of two observers with nominal distances (Krippendorff, 2011)."""
    targets, predictions = _sides(counts)
    uses = targets + predictions
    n = uses.sum(axis=1)
    apart = n * (n - 1) - (uses * (uses - 1)).sum(axis=1)
    observed = (n - 2 * _diagonal(counts).sum(axis=1)) * (n - 1)
    return 1 - ratio(observed, apart)


def label_statistics(
    targets: Ints, predictions: Ints, labels: int, positive: int | None, missing: bool
) -> dict[str, Statistic]:
    """The figures of labels `0 … labels - 1` at each atom. `missing`: the last label stands for "no prediction"."""
    found = np.union1d(targets, predictions)
    table = ConfusionTable(np.searchsorted(found, targets), np.searchsorted(found, predictions), len(found))
    scored = len(found) - (missing and labels - 1 in found)
    constant = "both sides give one label only, so chance agreement is certain"
    apart = (targets != predictions).astype(float)

    def of(
        formula: Callable[[Counts], Floats], why: str = "no rows", least: float = 0.0, *, whole: bool = False
    ) -> Statistic:
        return Statistic(
            lambda weights: formula(table(weights)),
            why,
            apart=apart,
            scale=FISHER,
            beside=lambda weights, rows: float(formula(_beside(table(weights[None, :]), rows))[0]),
            whole=whole,
            least=least,
            most=1.0,
        )

    given = {
        "balanced_accuracy": of(balanced_accuracy),
        "mcc": of(mcc, "one side gives one label only", -1.0),
        "cohen_kappa": of(cohen_kappa, constant, -1.0),
        "gwet_ac1": of(lambda counts: gwet_ac1(counts, labels), "there is one label only", -1.0),
        "krippendorff_alpha": of(nominal_alpha, constant, -1.0),
    }
    given["accuracy"] = proportion(1 - apart, np.ones(len(apart)), "no rows")
    if positive is not None:
        is_target, is_predicted = (targets == positive).astype(float), (predictions == positive).astype(float)
        both = is_target * is_predicted
        given["precision"] = proportion(both, is_predicted, "the positive label is never predicted")
        given["recall"] = proportion(both, is_target, "the positive label is never the target")
        either = is_target + is_predicted - both
        given["f1"] = proportion(both, either, "the positive label does not occur", _f1_of_jaccard)
        return given

    def macro(formula: Callable[[Floats, Floats, Floats], tuple[Floats, Floats]]) -> Statistic:
        def value(counts: Counts) -> Floats:
            return _macro(*formula(_diagonal(counts), *_sides(counts)), counts, scored)

        return of(value, whole=True)

    given["precision"] = macro(lambda right, targets, predictions: (right, predictions))
    given["recall"] = macro(lambda right, targets, predictions: (right, targets))
    given["f1"] = macro(lambda right, targets, predictions: (2 * right, targets + predictions))
    return given


def _beside(counts: Counts, rows: float) -> Counts:
    """The tables with this many rows more that disagree, their sides as frequent as the agreeing ones' labels."""
    agreed = _diagonal(counts)
    apart = agreed[:, :, None] * agreed[:, None, :] * (1 - np.eye(counts.shape[1]))
    more: Counts = counts + rows * apart * ratio(np.ones(len(counts)), apart.sum(axis=(1, 2)))[:, None, None]
    return more


def _f1_of_jaccard(share: Any) -> Any:
    """F1 of the rows with the positive label on both sides among those with it on either."""
    return 2 * share / (1 + share)


def proportion(hits: Floats, trials: Floats, why: str, bent: Bent | None = None) -> Statistic:
    """A plain share of rows, or a monotone function of one; `hits` and `trials` are 0 or 1 at each atom."""
    share = Proportion(hits, trials, bent)

    def at(weights: Floats) -> Floats:
        value = ratio(weights @ hits, weights @ trials)
        return value if bent is None else bent(value)

    return Statistic(at, why, share=share, least=0.0, most=1.0)
