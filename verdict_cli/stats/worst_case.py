"""The worst case over rows whose outcome is not known: as if all of them were wrong, or all right (Manski, 2003).

Rows without a prediction, and rows that only one of two runs has, could have any outcome. They are filled with the worst
one and with the best one, and the metric's own interval on the filled rows is a bound that covers them and the sampling
error alike (Imbens and Manski, 2004). Gates, gates against a baseline and comparisons all use it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from msgspec.structs import replace

from verdict_cli.language.metric_registry import MetricInput, find_metric
from verdict_cli.messages import JsonObject
from verdict_cli.stats.columns.column import (
    MISSING,
    NUMERIC,
    Column,
    Ends,
    Floats,
    Ints,
    RowMask,
    shared_bounds,
)
from verdict_cli.stats.columns.row_data import COLUMNS, EvaluationData
from verdict_cli.stats.intervals.interval_methods import MetricValue
from verdict_cli.stats.intervals.intervals import value_of
from verdict_cli.stats.metrics.metric_families import (
    CHOICES,
    has_prediction,
    has_target,
    metric_input,
    needs_target,
    sampled_statistics,
    usable,
)
from verdict_cli.stats.paired import OpenRows, PairedRows, RunRows, pair
from verdict_cli.stats.permutation import stack_runs

WORDED = ("labels", "value", "consistent", "probability")
"""Inputs of metrics whose extremes a report shows."""


def open_rows(metric: str, data: EvaluationData) -> RowMask:
    """The rows that the metric would count if they had a prediction, a probability or a value."""
    family = metric_input(metric, data)
    expected = has_target(data) if needs_target(family) else np.ones(len(data.target), bool)
    return np.logical_and(expected, np.logical_not(has_prediction(family, data)))


def filled(
    metric: str, data: EvaluationData, rows: RowMask, *, best: bool
) -> EvaluationData | None:
    """The evaluation with the best or the worst outcome for the metric at these rows; None where no outcome is the worst."""
    family = metric_input(metric, data)
    definition = find_metric(metric)
    if definition is None or family not in definition.worst_case:
        return None
    right = replace(data, prediction=np.where(rows, data.target, data.prediction))
    if family == "labels":
        return right if best else _wrong_labels(data, rows)
    if family == "ranking":
        return right if best else _turned_rankings(data, rows)
    if family in _PREDICTED:
        return _PREDICTED[family](data, rows, best)
    name, ends = _NUMBERED.get(family), _ends(family, data)
    if name is None or ends is None:
        return None
    return replace(data, **{name: _with_numbers(getattr(data, name), rows, ends[best])})


def extremes(metrics: Sequence[str], data: EvaluationData) -> dict[str, Ends]:
    """The lowest and the highest value that each metric could have if the missing rows had an outcome. Left out are metrics
    of which another outcome of these rows than all wrong or all right may give less or more."""
    bounds = {}
    for metric in metrics:
        rows = open_rows(metric, data) if _has_exact_extremes(metric, data) else None
        if rows is None or not rows.any():
            continue
        fills = [filled(metric, data, rows, best=best) for best in (False, True)]
        values = [None if fill is None else _value(metric, fill) for fill in fills]
        ends = sorted(value for value in values if value is not None)
        if len(ends) == len(fills):
            bounds[metric] = (ends[0], ends[1])
    return bounds


def _value(metric: str, data: EvaluationData) -> float | None:
    family = metric_input(metric, data)
    rows = np.flatnonzero(usable(family, data))
    if not len(rows):
        return None
    sample, statistics = sampled_statistics(family, (metric,), data, rows)
    return value_of(statistics[metric], sample)


def _has_exact_extremes(metric: str, data: EvaluationData) -> bool:
    definition, family = find_metric(metric), metric_input(metric, data)
    if definition is None or family not in WORDED:
        return False
    if family != "labels":
        return True
    return not definition.beyond_chance and (data.positive is not None or not definition.averaged)


def open_pairs(
    metric: str,
    pairs: PairedRows,
    change_of: Callable[[PairedRows], MetricValue],
    first: int = 1,
    *,
    alone: bool = True,
) -> OpenRows | None:
    """The rows that the difference of this metric leaves out; None where there are none.

    `change_of` computes the difference, in which the `first` runs are those of the first pipeline. `alone` says whether rows
    that not all runs have are among them.
    """
    family = metric_input(metric, pairs.data[-1])
    scored = [usable(family, data) for data in pairs.data]
    counted = int(pairs.scored(family).sum())
    share = max(1 - counted / max(int(has_score.sum()), 1) for has_score in scored)
    if not share and not any(open_rows(metric, data).any() for data in pairs.data):
        return None
    union = _union(pairs) if alone else pairs
    if isinstance(union, str):
        return OpenRows(share)
    changes = []
    for second_is_best in (False, True):
        fills = [
            filled(metric, data, open_rows(metric, data), best=second_is_best == (index >= first))
            for index, data in enumerate(union.data)
        ]
        complete = tuple(fill for fill in fills if fill is not None)
        if len(complete) < len(fills):
            return OpenRows(share)
        changes.append(change_of(replace(union, data=complete)))
    return OpenRows(share, *changes)


def _union(pairs: PairedRows) -> PairedRows | str:
    """The rows of all runs, without an outcome in a run that does not have them."""
    runs: list[RunRows] = []
    for own, keys in zip(pairs.data, pairs.every_key, strict=True):
        data, all_keys = own, [*keys]
        for other, others in zip(pairs.data, pairs.every_key, strict=True):
            have = set(all_keys)
            extra = np.array(
                [index for index, key in enumerate(others) if key not in have], dtype=np.int64
            )
            if len(extra):
                data = stack_runs((other, data), (extra, np.arange(len(all_keys))))
                all_keys = [*(others[index] for index in extra), *all_keys]
        absent = np.arange(len(all_keys)) < len(all_keys) - len(keys)
        runs.append((_without_outcome(data, absent, own.cluster), (), all_keys))
    return pair(*runs)


def _without_outcome(data: EvaluationData, absent: RowMask, cluster: Ints | None) -> EvaluationData:
    """The evaluation with nothing but a target at these rows, each of which is a cluster of its own."""

    def emptied(column: Column) -> Column:
        codes = np.where(absent, MISSING, column.codes).astype(np.int32)
        return replace(column, numbers=np.where(absent, np.nan, column.numbers), codes=codes)

    columns: JsonObject = {
        name: emptied(getattr(data, name)) for name in COLUMNS if name != "targets"
    }
    count = int(absent.sum())
    if cluster is not None:
        cluster = np.concatenate([int(cluster.max(initial=-1)) + 1 + np.arange(count), cluster])
    return replace(
        data, prediction=np.where(absent, MISSING, data.prediction), cluster=cluster, **columns
    )


def _wrong_labels(data: EvaluationData, rows: RowMask) -> EvaluationData:
    """Wrong as the most frequent other label: chance agreement is then the largest. Of a positive label a wrong row is a
    false alarm or a miss."""
    counts = np.bincount(data.target[data.target != MISSING], minlength=max(len(data.labels), 2))
    labels = data.labels if len(data.labels) > 1 else (*data.labels, None)
    first, second = np.argsort(-counts, kind="stable")[:2]
    wrong = np.where(data.target == first, second, first)
    if data.positive is not None:
        wrong = np.where(data.target == data.positive, wrong, data.positive)
    return replace(data, labels=labels, prediction=np.where(rows, wrong, data.prediction))


def _fill_numbers(data: EvaluationData, rows: RowMask, best: bool) -> EvaluationData | None:
    """The target itself, or the end of the scale that is farther from it."""
    bounds = shared_bounds(data.predictions, data.targets)
    if bounds is None:
        return None
    target = data.targets.numbers
    far = np.where(target - bounds[0] > bounds[1] - target, bounds[0], bounds[1])
    predictions = _with_numbers(data.predictions, rows, target if best else far)
    return replace(
        data, predictions=predictions, prediction=np.where(rows, data.target, data.prediction)
    )


def _turned_rankings(data: EvaluationData, rows: RowMask) -> EvaluationData:
    labels, prediction = list(data.labels), data.prediction.copy()
    for row in np.flatnonzero(rows):
        turned = labels[data.target[row]][::-1]
        if turned not in labels:
            labels.append(turned)
        prediction[row] = labels.index(turned)
    return replace(data, labels=tuple(labels), prediction=prediction)


def _fill_choice(data: EvaluationData, rows: RowMask, best: bool) -> EvaluationData:
    labels = (*data.labels, *(option for option in CHOICES if option not in data.labels))
    code = labels.index(CHOICES[0] if best else CHOICES[1])
    return replace(data, labels=labels, prediction=np.where(rows, code, data.prediction))


_PREDICTED: dict[str, Callable[[EvaluationData, RowMask, bool], EvaluationData | None]] = {
    "numbers": _fill_numbers,
    "choice": _fill_choice,
}
"""How predictions other than labels and rankings are filled, by the input of the metric."""
_NUMBERED = {
    "probability": "probability",
    "value": "value",
    "samples": "value",
    "consistent": "consistent",
}
"""The column of other inputs, which is filled with one of two ends."""


def _ends(
    family: MetricInput, data: EvaluationData
) -> tuple[Floats | float, Floats | float] | None:
    """The worst and the best number; a probability is certain of the opposite of what is true, or of what is true."""
    if family == "probability":
        positive = data.is_positive
        probabilities = data.probability.numbers[data.probability.present]
        if positive is None or not len(probabilities):
            return None
        if probabilities.min() < 0 or probabilities.max() > 1:
            return None
        return 1 - positive, positive
    return (
        (0.0, 1.0) if family == "consistent" or data.value.types == {"bool"} else data.value.bounds
    )


def _with_numbers(column: Column, rows: RowMask, values: Floats | float) -> Column:
    return replace(
        column,
        numbers=np.where(rows, values, column.numbers),
        codes=np.where(rows, NUMERIC, column.codes).astype(np.int32),
        types=column.types or frozenset({"float"}),
    )
