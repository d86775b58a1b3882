"""The p-value of a metric's difference between two runs: the two runs' outcomes are swapped within rows.

If the runs are equally good, each row's two outcomes could as well be the other way round. The metric's difference is
computed for random swaps (all of them, where few rows differ), and `p` is the share at least as large as the one seen
(Fisher, 1935; Phipson and Smyth, 2010, for the one that is added). This is a test of the metric itself, whichever it
is, and exact. With clusters, all rows of a cluster are swapped together. Runs with scales of their own, such as a stricter judge,
are brought to one scale where the metric does not depend on it: ranks for a correlation of ranks, standard scores for a
linear one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from verdict_cli.language.metric_registry import MetricInput
from verdict_cli.stats.columns.column import Column, Floats, Ints
from verdict_cli.stats.columns.row_data import EvaluationData
from verdict_cli.stats.columns.sample import CELLS, Sample
from verdict_cli.stats.metrics.metric_families import input_statistics, key_columns

if TYPE_CHECKING:
    from scipy.sparse import csr_array

OF_PROBABILITY = ("auroc", "average_precision")
_RANKED = ("spearman", "kendall", *OF_PROBABILITY)
_LINEAR = ("pearson",)
"""Metrics that do not change if all answers of a run are moved to another scale."""

SWAPS = 9999
"""With the observed one 10,000 differences, so that the smallest p-value is 0.0001."""
FEWER_SWAPS = 999
"""For slices, and for metrics of so many distinct rows that 9,999 take seconds."""
FEWEST_SWAPS = 199
ALL_SWAPPED = 12
"""Up to so many differing rows or clusters, all swaps are computed: 4,096."""
WORK = 10**8
"""Numbers that a metric may compute in all swaps: about a second."""
MOST_FLIPPED = 5000
"""Beyond this the normal limit of a sum is as good."""
_TOLERANCE = 1e-9


def swap_test(
    metric: str,
    of: MetricInput,
    data: tuple[EvaluationData, EvaluationData],
    rows: tuple[Ints, Ints],
    rng: np.random.Generator,
    most: int = SWAPS,
) -> float | None:
    """The two-sided p-value of the metric's difference over these pairs of rows; None where it is undefined."""
    stacked = stack_runs(tuple(_scaled(metric, each, at) for each, at in zip(data, rows, strict=True)), rows)
    sample = Sample.of(key_columns(of, stacked))
    given = input_statistics(of, (metric,), stacked, sample.first)
    if isinstance(given, str) or metric not in given:
        return None
    statistic = given[metric]
    pairs, atoms = len(rows[0]), len(sample.counts)
    old, new = sample.atom[:pairs], sample.atom[pairs:]
    weights = [np.bincount(side, minlength=atoms).astype(np.float64) for side in (old, new)]
    clusters = data[1].cluster
    moved, times = _units(old, new, atoms, None if clusters is None else clusters[rows[1]])

    def difference(swapped: Floats) -> Floats:
        change = np.asarray(swapped @ moved)
        found: Floats = statistic.at(weights[1][None, :] - change) - statistic.at(weights[0][None, :] + change)
        return found

    seen = float(difference(np.zeros((1, len(times))))[0])
    if not np.isfinite(seen):
        return None
    if not len(times):
        return 1.0
    return _extreme_share(difference, times, _count(metric, atoms, most), max(1, CELLS // atoms), rng)


def regrouping_test(
    metric: str,
    of: MetricInput,
    data: Sequence[EvaluationData],
    rows: Sequence[Ints],
    first: int,
    rng: np.random.Generator,
    most: int = SWAPS,
) -> float | None:
    """The two-sided p-value of the mean metric of all later runs minus that of the `first` runs, by exchanging the runs'
    outcomes within rows or clusters; None where it is undefined."""
    runs, pairs = len(data), len(rows[0])
    stacked, at = _scaled(metric, data[0], rows[0]), rows[0]
    for each, more in zip(data[1:], rows[1:], strict=True):
        stacked = stack_runs((stacked, _scaled(metric, each, more)), (at, more))
        at = np.arange(len(stacked.target))
    sample = Sample.of(key_columns(of, stacked))
    given = input_statistics(of, (metric,), stacked, sample.first)
    if isinstance(given, str) or metric not in given:
        return None
    statistic, atoms, outcomes = given[metric], len(sample.counts), sample.atom.reshape(runs, pairs)
    differs = np.flatnonzero((outcomes != outcomes[0]).any(axis=0))
    same = np.bincount(np.delete(outcomes[0], differs), minlength=atoms)
    if not len(differs):
        return 1.0
    clusters = data[-1].cluster
    unit = np.arange(len(differs)) if clusters is None else clusters[rows[-1]][differs]
    unit = np.unique(unit, return_inverse=True)[1]
    moving = outcomes[:, differs]

    def difference(order: Ints) -> Floats:
        """`order` (exchanges, units, runs): which run's outcome each run gets."""
        means = []
        for part in (range(first), range(first, runs)):
            values = []
            for run in part:
                chosen = moving[order[:, unit, run], np.arange(len(unit))]
                counts = chosen + atoms * np.arange(len(order))[:, None]
                found = np.bincount(counts.ravel(), minlength=atoms * len(order)).reshape(len(order), atoms)
                values.append(statistic.at((same + found).astype(np.float64)))
            means.append(np.mean(values, axis=0))
        result: Floats = means[1] - means[0]
        return result

    units = int(unit.max()) + 1
    seen = abs(float(difference(np.broadcast_to(np.arange(runs), (1, units, runs)))[0]))
    if not np.isfinite(seen):
        return None
    count = min(_count(metric, atoms, most), FEWER_SWAPS)
    step, extreme = max(1, CELLS // max(atoms, len(unit) * runs)), 0
    for start in range(0, count, step):
        order = rng.random((min(step, count - start), units, runs)).argsort(axis=2)
        extreme += int((~(np.abs(difference(order)) < seen - _TOLERANCE * max(1.0, seen))).sum())
    return (extreme + 1) / (count + 1)


def _scaled(metric: str, data: EvaluationData, rows: Ints) -> EvaluationData:
    """The run with its answers on a scale of their own, where the metric is the same on it."""
    if data.kind == "ranking" or metric not in _RANKED + _LINEAR:
        return data
    column = data.probability if metric in OF_PROBABILITY else data.predictions
    numbers = column.numbers.copy()
    values = numbers[rows]
    if metric in _LINEAR:
        spread = float(values.std()) if np.isfinite(values).all() else 0.0
        numbers = (numbers - values.mean()) / spread if spread > 0 else numbers
    else:
        _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
        middle = (np.cumsum(counts) - counts / 2) / len(values)
        numbers[rows] = middle[inverse]
    scaled = Column(numbers, column.codes, column.words, column.types, column.declared)
    return replace(data, probability=scaled) if metric in OF_PROBABILITY else replace(data, predictions=scaled)


def stack_runs(data: Sequence[EvaluationData], rows: tuple[Ints, Ints]) -> EvaluationData:
    """The first run's rows, then the second's, with the labels of both; without clusters."""
    old, new = data
    labels = list(new.labels)
    known = {_hashable(label): code for code, label in enumerate(labels)}
    recoded = []
    for label in old.labels:
        code = known.setdefault(_hashable(label), len(labels))
        if code == len(labels):
            labels.append(label)
        recoded.append(code)
    table = np.array([*recoded, -1], dtype=np.int64)  # the last one, at -1 as MISSING is

    def codes(first: Ints, second: Ints) -> Ints:
        return np.concatenate([table[first[rows[0]]], second[rows[1]]])

    def column(first: Column, second: Column) -> Column:
        parts = first.take(rows[0]), second.take(rows[1])
        return Column(
            np.concatenate([part.numbers for part in parts]),
            np.concatenate([part.codes for part in parts]),
            second.words,
            first.types | second.types,
            second.declared,
        )

    return replace(
        new,
        labels=tuple(labels),
        target=codes(old.target, new.target),
        prediction=codes(old.prediction, new.prediction),
        targets=column(old.targets, new.targets),
        predictions=column(old.predictions, new.predictions),
        probability=column(old.probability, new.probability),
        value=column(old.value, new.value),
        consistent=column(old.consistent, new.consistent),
        longer=column(old.longer, new.longer),
        panel=tuple(column(*each) for each in zip(old.panel, new.panel, strict=True)),
        votes=tuple(codes(*each) for each in zip(old.votes, new.votes, strict=True)),
        cluster=None,
    )


def _hashable(label: object) -> object:
    return label if isinstance(label, str | int | float) else repr(label)


def _units(old: Ints, new: Ints, atoms: int, cluster: Ints | None) -> tuple[csr_array, Ints]:
    """What a swap moves to the first run, for each kind of unit (rows that differ alike, or a cluster), and how many
    units of this kind there are."""
    differs = np.flatnonzero(old != new)
    if cluster is None:
        unit = np.unique(old[differs] * atoms + new[differs], return_inverse=True)[1]
        _, first = np.unique(unit, return_index=True)
        kept, times = differs[first], np.bincount(unit)
        unit = np.arange(len(kept))
    else:
        kept, unit = differs, np.unique(cluster[differs], return_inverse=True)[1]
        times = np.ones(int(unit.max(initial=-1)) + 1, np.int64)
    from scipy.sparse import csr_array

    values = np.concatenate([np.ones(len(kept)), -np.ones(len(kept))])
    places = (np.concatenate([unit, unit]), np.concatenate([new[kept], old[kept]]))
    return csr_array((values, places), shape=(len(times), atoms)), times.astype(np.int64)


def _extreme_share(
    difference: Callable[[Floats], Floats], times: Ints, count: int, step: int, rng: np.random.Generator
) -> float:
    """The share of swaps whose difference is as large as without any."""
    seen = abs(float(difference(np.zeros((1, len(times))))[0]))
    total = extreme = 0
    for swapped in _swaps(times, count, step, rng):
        found = np.abs(difference(swapped))
        # An undefined difference counts as large; the tolerance is for rounding.
        extreme += int((~(found < seen - _TOLERANCE * max(1.0, seen))).sum())
        total += len(found)
    return extreme / total if times.sum() <= ALL_SWAPPED else (extreme + 1) / (total + 1)


def _swaps(times: Ints, count: int, step: int, rng: np.random.Generator) -> Iterator[Floats]:
    """How many units of each kind are swapped, in all ways or in `count` random ones."""
    if times.sum() <= ALL_SWAPPED:
        of = np.repeat(np.arange(len(times)), times)
        ways = (np.arange(2 ** len(of))[:, None] >> np.arange(len(of))) & 1
        every = np.zeros((len(ways), len(times)))
        for unit, way in zip(of, ways.T, strict=True):
            every[:, unit] += way
        yield from (every[start : start + step] for start in range(0, len(every), step))
        return
    for start in range(0, count, step):
        yield rng.binomial(times, 0.5, size=(min(step, count - start), len(times))).astype(np.float64)


def _count(metric: str, atoms: int, most: int) -> int:
    work = atoms * atoms / 10 if metric == "kendall" else atoms
    return min(most, next((count for count in (SWAPS, FEWER_SWAPS) if count * work <= WORK), FEWEST_SWAPS))


def sign_flip_test(gain: Floats, cluster: Ints | None, rng: np.random.Generator, most: int = SWAPS) -> float:
    """The two-sided p-value of the sum of the rows' gains, which swapping the runs of a row or cluster negates."""
    from scipy.special import ndtr

    gains = gain if cluster is None else np.bincount(np.unique(cluster, return_inverse=True)[1], gain)
    gains = gains[gains != 0]
    if len(gains) < 2:
        return 1.0  # of one difference both signs are as extreme
    if len(gains) > MOST_FLIPPED:
        return float(2 * ndtr(-abs(gains.sum()) / np.sqrt((gains**2).sum())))
    return _extreme_share(
        lambda flipped: gains.sum() - 2 * (flipped @ gains),
        np.ones(len(gains), np.int64),
        most,
        CELLS // len(gains),
        rng,
    )
