"""The p-value of a metric's difference between two runs: the two runs' outcomes are swapped within rows.

If the runs are equally good, each row's two outcomes could as well be the other way round. The metric's difference is
computed for random swaps (all of them, where few rows differ), and `p` is the share at least as large as the one seen
(Fisher, 1935; Phipson and Smyth, 2010, for the one that is added). This is a test of the metric itself, whichever it
is. The differences are studentised first, with Hall's (1992) correction for skewness: if the runs are equal only on average,
a few large losses beside many small gains, raw differences find one in 18% of samples of 30 rows (Janssen, 1997; Chung and
Romano, 2013). Where all rows that differ do so alike, as right and wrong ones do, this changes nothing, and the test of
accuracy is McNemar's exact test. If the outcomes of a row could as well be the other way round, the test is exact. With clusters, all rows of a cluster are swapped together. Runs with scales of their own, such as a stricter judge,
are brought to one scale where the metric does not depend on it: ranks for a correlation of ranks, standard scores for a
linear one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from verdict_cli.distributions import normal_cdf
from verdict_cli.language.metric_registry import MetricInput, find_metric
from verdict_cli.stats.columns.column import MISSING, Column, Ends, Floats, Ints, RowMask
from verdict_cli.stats.columns.row_data import COLUMNS, EvaluationData
from verdict_cli.stats.columns.sample import CELLS, as_codes, distinct_tuples
from verdict_cli.stats.metrics.metric_families import (
    metric_input,
    sampled_statistics,
    scored_by_all,
)
from verdict_cli.stats.metrics.ranks import Midranks
from verdict_cli.stats.metrics.statistic import Statistic

if TYPE_CHECKING:
    from scipy.sparse import csr_array

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
MOST_STUDENTISED = 2 * 10**7
"""Of more distinct units times observations, finding what each adds takes longer than the swaps, and skewness hardly matters."""
_TOLERANCE = 1e-9


def swap_tests(
    metrics: Sequence[str],
    data: Sequence[EvaluationData],
    rows: Sequence[Ints],
    rng: np.random.Generator,
    most: int = SWAPS,
    scored: Callable[[MetricInput], RowMask] | None = None,
) -> dict[str, Ends]:
    """The two-sided p-value of each metric's difference over these pairs of rows, and the same adjusted for all of them; of
    metrics that are defined. `scored` says which pairs count in metrics of an input: by default those that both runs score.

    All metrics are computed for the same swaps, and adjusted by the largest standardised difference of each swap (step-down
    max-T: Westfall and Young, 1993): metrics that are nearly copies of each other cost next to nothing.
    """
    scored = scored or (lambda family: scored_by_all(family, data, rows))
    swappable = {metric: _swappable(metric, data, rows, scored) for metric in metrics}
    sides = {metric: side for metric, side in swappable.items() if side is not None}
    if not sides:
        return {}
    clusters = None if data[1].cluster is None else data[1].cluster[rows[1]]
    unit, times = _units([*sides.values()], clusters)
    if not len(times):
        return dict.fromkeys(sides, (1.0, 1.0))
    total = len(rows[0]) if clusters is None else len(np.unique(clusters))
    atoms = max(len(side.weights[0]) for side in sides.values())
    step = max(1, CELLS // max(atoms, len(times)))
    count = min(_count(side, most) for side in sides.values())
    moved = {metric: side.moved(unit, len(times)) for metric, side in sides.items()}
    gains = {metric: side.gains(moved[metric], step) for metric, side in sides.items()}
    drawn: dict[str, list[Floats]] = {metric: [] for metric in sides}
    for swapped in _swaps(times, count, step, rng):
        signs = times - 2 * swapped
        for metric, side in sides.items():
            raw = side.differences(np.asarray(swapped @ moved[metric]))
            drawn[metric].append(studentised(raw, gains[metric], signs, times, total))
    every = np.stack([np.concatenate(parts) for parts in drawn.values()])
    unswapped = times[None, :].astype(np.float64)
    seen = [
        studentised(np.array([side.seen]), gains[metric], unswapped, times, total)
        for metric, side in sides.items()
    ]
    p = _shares(every, np.concatenate(seen), all_swapped=times.sum() <= ALL_SWAPPED)
    return dict(zip(sides, p, strict=True))


def studentised(
    differences: Floats, gains: Floats, signs: Floats, times: Ints, units: int
) -> Floats:
    """Student's ratio of each difference, corrected for the skewness of what the units add to it (Hall, 1992)
    where that makes it smaller.

    `gains` is what a unit of each kind adds, `times` how many there are, and `signs` (differences, kinds) how many more of them
    are as they were than swapped; `units` counts all, also those that add nothing. The differences as they are, where all
    units add the same or nothing.
    """
    if _alike(gains):
        return differences
    squares, mean = float(times @ gains**2), signs @ gains / units
    spread = squares - units * mean**2
    third = (signs @ gains**3 - 3 * mean * squares + 2 * units * mean**3) / spread**1.5
    ratio = differences * np.sqrt((units - 1) / (units * spread))
    corrected = ratio + third * (2 * ratio**2 + 1) / 6 + third**2 * ratio**3 / 27
    nearer: Floats = np.where(np.abs(corrected) < np.abs(ratio), corrected, ratio)
    return nearer


def _alike(gains: Floats) -> bool:
    """Whether all that add anything add as much, to either side."""
    sizes = np.abs(gains[gains != 0])
    return not len(sizes) or float(np.ptp(sizes)) <= _TOLERANCE * float(sizes.max())


def _shares(every: Floats, seen: Floats, *, all_swapped: bool) -> list[Ends]:
    """The share of swaps whose difference is as large as the one seen, of each metric (rows), and adjusted for all."""
    more = 0 if all_swapped else 1
    seen, sizes = np.abs(seen), np.abs(every)
    limits = seen - _TOLERANCE * np.maximum(1.0, seen)

    def share(is_as_large: RowMask) -> Floats:
        shares: Floats = (is_as_large.sum(axis=1) + more) / (every.shape[1] + more)
        return shares

    # An undefined difference counts as large; the tolerance is for rounding.
    single = share(~(sizes < limits[:, None]))
    spread = np.sqrt(np.nanmean(sizes**2, axis=1))
    spread = np.where(spread > 0, spread, 1.0)
    order = np.argsort(seen / spread)
    standard = np.nan_to_num(sizes / spread[:, None])[order]
    largest = np.maximum.accumulate(standard, axis=0)
    joint = share(largest >= (limits / spread)[order][:, None])
    # From the largest difference on: no p-value is below that of a larger one.
    joint = np.maximum.accumulate(np.maximum(joint, single[order])[::-1])[::-1]
    adjusted = np.empty(len(seen))
    adjusted[order] = np.minimum(joint, 1.0)
    return [*zip(single.tolist(), adjusted.tolist(), strict=True)]


class _Swappable(Struct, frozen=True):
    """A metric of two runs: its statistic, the atom of each pair in either run (-1 where it is not scored in both), the
    weights of the atoms in each, and the difference that was seen."""

    statistic: Statistic
    old: Ints
    new: Ints
    weights: tuple[Floats, Floats]
    seen: float

    def moved(self, unit: Ints, units: int) -> csr_array:
        """What a swap of each unit moves to the first run, (units, atoms); `unit` is that of each pair, -1 where none."""
        from scipy.sparse import csr_array

        pairs = np.flatnonzero((unit >= 0) & (self.old != self.new))
        values = np.repeat([1.0, -1.0], len(pairs))
        places = (
            np.tile(unit[pairs], 2),
            np.concatenate([self.new[pairs], self.old[pairs]]),
        )
        return csr_array((values, places), shape=(units, len(self.weights[0])))

    def differences(self, change: Floats) -> Floats:
        """The metric of the second run minus that of the first, after each change."""
        old, new = self.weights
        return _difference(self.statistic, old + change, new - change)

    def gains(self, moved: csr_array, step: int) -> Floats:
        """What one unit of each kind adds to the difference: half of what swapping it takes away. 0 where they are too many
        to be tried, or one of them decides whether the metric is defined."""
        kinds, atoms = moved.shape
        if kinds * atoms > MOST_STUDENTISED:
            return np.zeros(kinds)
        parts = [
            self.differences(moved[start : start + step].toarray())
            for start in range(0, kinds, step)
        ]
        gains: Floats = (self.seen - np.concatenate(parts)) / 2
        return gains if np.isfinite(gains).all() else np.zeros(kinds)


def _difference(statistic: Statistic, old: Floats, new: Floats) -> Floats:
    difference: Floats = statistic.at(new) - statistic.at(old)
    return difference


def _swappable(
    metric: str,
    data: Sequence[EvaluationData],
    rows: Sequence[Ints],
    scored: Callable[[MetricInput], RowMask],
) -> _Swappable | None:
    """The metric over the pairs that count; None where there is none, or it is undefined in a run."""
    family = metric_input(metric, data[1])
    indices = np.flatnonzero(scored(family))
    if not len(indices):
        return None
    positions = (rows[0][indices], rows[1][indices])
    scaled = [_scaled(metric, run, side) for run, side in zip(data, positions, strict=True)]
    stacked = stack_runs(scaled, positions)
    every = np.arange(len(stacked.target))
    sample, statistics = sampled_statistics(family, (metric,), stacked, every)
    atoms = np.full((2, len(rows[0])), MISSING, dtype=np.int64)
    atoms[:, indices] = sample.atom.reshape(2, -1)
    before, after = (
        np.bincount(side[indices], minlength=len(sample.counts)).astype(np.float64)
        for side in atoms
    )
    seen = float(_difference(statistics[metric], before[None, :], after[None, :])[0])
    if not np.isfinite(seen):
        return None
    return _Swappable(statistics[metric], atoms[0], atoms[1], (before, after), seen)


def _scaled(metric: str, data: EvaluationData, rows: Ints) -> EvaluationData:
    """The run with its answers on a scale of their own, where the metric is the same on it."""
    definition = find_metric(metric)
    if data.kind == "ranking" or definition is None or not definition.unchanged_by:
        return data
    name = "probability" if metric_input(metric, data) == "probability" else "predictions"
    column: Column = getattr(data, name)
    numbers, values = column.numbers.copy(), column.numbers[rows]
    if definition.unchanged_by == "ranks":
        numbers[rows] = Midranks(values)(np.ones((1, len(values))))[0]
    elif np.isfinite(values).all() and values.std() > 0:
        numbers[rows] = (values - values.mean()) / values.std()
    return replace(data, **{name: replace(column, numbers=numbers)})


def stack_runs(data: Sequence[EvaluationData], rows: Sequence[Ints]) -> EvaluationData:
    """The first run's rows, then the second's, with the labels of both; without clusters."""
    old, new = data
    label_of = {_hashable(label): label for label in (*new.labels, *old.labels)}
    code_of = {key: code for code, key in enumerate(label_of)}
    recoded = [code_of[_hashable(label)] for label in old.labels]
    table = np.array([*recoded, -1], dtype=np.int64)  # the last one, at -1 as MISSING is

    def codes(first: Ints, second: Ints) -> Ints:
        return np.concatenate([table[first[rows[0]]], second[rows[1]]])

    def column(first: Column, second: Column) -> Column:
        before, after = first.take(rows[0]), second.take(rows[1])
        return replace(
            second,
            numbers=np.concatenate([before.numbers, after.numbers]),
            codes=np.concatenate([before.codes, after.codes]),
            types=first.types | second.types,
        )

    return replace(
        new,
        labels=tuple(label_of.values()),
        target=codes(old.target, new.target),
        prediction=codes(old.prediction, new.prediction),
        **{name: column(getattr(old, name), getattr(new, name)) for name in COLUMNS},
        panel=tuple(column(*pair) for pair in zip(old.panel, new.panel, strict=True)),
        votes=tuple(codes(*pair) for pair in zip(old.votes, new.votes, strict=True)),
        cluster=None,
    )


def _hashable(label: object) -> object:
    return label if isinstance(label, str | int | float) else (repr(label),)


def _units(sides: Sequence[_Swappable], cluster: Ints | None) -> tuple[Ints, Ints]:
    """The kind of unit of each pair that differs in any metric, -1 for others, and how many units of each kind there are:
    pairs that differ alike are of one kind, a cluster is a unit. In `_Swappable.moved` a kind has the change of one unit."""
    differs = np.flatnonzero(np.logical_or.reduce([side.old != side.new for side in sides]))
    unit = np.full(len(sides[0].old), MISSING, dtype=np.int64)
    if cluster is not None:
        codes = as_codes(cluster[differs])
        unit[differs] = codes
        return unit, np.ones(int(codes.max(initial=-1)) + 1, np.int64)
    atoms = [atoms[differs] for side in sides for atoms in (side.old, side.new)]
    first, _, counts = distinct_tuples(atoms, len(differs))
    unit[differs[first]] = np.arange(len(first))
    return unit, counts


def _swaps(times: Ints, count: int, step: int, rng: np.random.Generator) -> Iterator[Floats]:
    """How many units of each kind are swapped, in all ways or in `count` random ones."""
    if times.sum() <= ALL_SWAPPED:
        unit_of = np.repeat(np.arange(len(times)), times)
        ways = (np.arange(2 ** len(unit_of))[:, None] >> np.arange(len(unit_of))) & 1
        every = ways @ (unit_of[:, None] == np.arange(len(times))).astype(np.float64)
        yield from (every[start : start + step] for start in range(0, len(every), step))
        return
    for start in range(0, count, step):
        yield rng.binomial(times, 0.5, size=(min(step, count - start), len(times))).astype(
            np.float64
        )


def _count(side: _Swappable, most: int) -> int:
    """How many swaps are drawn of a metric, so that they take about a second."""
    atoms = len(side.weights[0])
    work = atoms * atoms / 10 if side.statistic.pairwise else atoms
    for count in (SWAPS, FEWER_SWAPS):
        if count * work <= WORK:
            return min(most, count)
    return min(most, FEWEST_SWAPS)


def sign_flip_test(
    gain: Floats, cluster: Ints | None, rng: np.random.Generator, most: int = SWAPS
) -> float:
    """The two-sided p-value of the sum of the rows' gains, which swapping the runs of a row or cluster negates."""
    gains = gain if cluster is None else np.bincount(as_codes(cluster), gain)
    units = len(gains)
    gains = gains[gains != 0]
    if len(gains) < 2:
        return 1.0  # of one difference both signs are as extreme
    times = np.ones(len(gains), np.int64)

    def ratio_of(signs: Floats) -> Floats:
        return studentised(signs @ gains, gains, signs, times, units)

    ratio = ratio_of(np.ones((1, len(gains))))
    if len(gains) > MOST_FLIPPED:
        spread = math.sqrt(float(gains @ gains)) if _alike(gains) else 1.0
        return 2 * normal_cdf(-abs(float(ratio[0])) / spread)
    step = max(1, CELLS // len(gains))
    every = [ratio_of(1 - 2 * flipped) for flipped in _swaps(times, most, step, rng)]
    ((p, _),) = _shares(
        np.concatenate(every)[None, :], ratio, all_swapped=len(gains) <= ALL_SWAPPED
    )
    return p


def holm_adjusted(values: Sequence[float | None], more: int = 0) -> list[float | None]:
    """The p-values adjusted as of one family (Holm, 1979), which has so many `more` tests; None stays None."""
    p_values = sorted((p, index) for index, p in enumerate(values) if p is not None)
    adjusted, highest = list(values), 0.0
    for rank, (p, index) in enumerate(p_values):
        highest = min(1.0, max(highest, p * (len(p_values) + more - rank)))
        adjusted[index] = highest
    return adjusted
