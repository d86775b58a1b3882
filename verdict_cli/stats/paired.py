"""The rows that runs share, and the difference of a metric over them between two runs, or the means of repeated ones.

Several pipelines are compared with a reference over the same rows; each pipeline is one run, or the mean of repeated runs. The
intervals of a metric's differences hold for all pipelines together (`simultaneous.py`).
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct, structs
from msgspec.structs import replace

from verdict_cli.language.evaluations import Evaluations
from verdict_cli.language.metric_registry import MetricInput
from verdict_cli.messages import NamedValues
from verdict_cli.stats.columns.collect import collect
from verdict_cli.stats.columns.column import MISSING, Factorized, Floats, Ints, RowMask
from verdict_cli.stats.columns.row_data import EvaluationData, GoldPairs, prepared
from verdict_cli.stats.intervals.interval_methods import MetricValue, undefined_value
from verdict_cli.stats.intervals.intervals import (
    Draw,
    metrics_with_intervals,
    one_way_doubt,
    paired_metric_value,
    value_of,
)
from verdict_cli.stats.metrics.metric_families import (
    BY_CLUSTER,
    mean_of_clusters,
    metric_input,
    no_value,
    scored_by_all,
    statistics_of_runs,
    values_by_cluster,
    wrong_types,
)
from verdict_cli.stats.permutation import holm_adjusted, sign_flip_test, swap_tests
from verdict_cli.stats.prediction_powered import CORRECTED, corrected_difference, widest_difference
from verdict_cli.stats.simultaneous import (
    NO_STANDARD_ERROR,
    JointEstimates,
    RunSpread,
    joint_estimates,
    mean_statistic,
    run_spread,
)


class PairedRows(Struct, frozen=True):
    """One evaluation's rows of two runs or more: `rows` are the indices in each of the `data` of the rows that all have.

    `every_key` has the keys of all rows of each run (group keys under `group:`), `by` the slices of the last run, in whose
    order the shared rows are.
    """

    data: tuple[EvaluationData, ...]
    rows: tuple[Ints, ...]
    every_key: tuple[Sequence[str], ...]
    by: tuple[Factorized, ...] = ()
    among: PairedRows | None = None
    """The runs that are compared together, where these are some of them."""

    def __len__(self) -> int:
        return len(self.rows[0])

    def key(self, index: int) -> str:
        return self.every_key[-1][int(self.rows[-1][index])]

    @property
    def alone(self) -> tuple[int, ...]:
        """How many rows of each run not all runs have."""
        return tuple(
            len(data.target) - len(rows) for data, rows in zip(self.data, self.rows, strict=True)
        )

    def take(self, indices: Ints) -> PairedRows:
        among = self.among and self.among.take(indices)
        return structs.replace(self, rows=tuple(rows[indices] for rows in self.rows), among=among)

    def of(self, runs: Sequence[int]) -> PairedRows:
        return PairedRows(
            tuple(self.data[run] for run in runs),
            tuple(self.rows[run] for run in runs),
            tuple(self.every_key[run] for run in runs),
            among=self.among or self,
        )

    def scored(self, family: MetricInput) -> RowMask:
        """Which rows count in metrics of this input: those that all the runs compared together score, so that what is shown
        side by side is of the same rows."""
        runs = self.among or self
        return scored_by_all(family, runs.data, runs.rows)


class Difference(Struct, frozen=True):
    """A metric of both runs over the rows that both can score, and the second minus the first with its interval.

    `p` is that of this metric's difference, by swapping the runs' outcomes within rows or clusters; `p_adjusted` the same
    among the tests made together. None where they were not computed. `open_rows` are those that do not count in it. `doubt`
    says why a small p-value may be none of the means, "" where it is.
    """

    first: float | None
    second: float | None
    change: MetricValue
    p: float | None = None
    p_adjusted: float | None = None
    open_rows: OpenRows | None = None
    doubt: str = ""

    def adjusted(self, families: int) -> Difference:
        """The difference with its p-value adjusted for so many families of tests."""
        return (
            self
            if self.p_adjusted is None
            else replace(self, p_adjusted=min(self.p_adjusted * families, 1.0))
        )


class OpenRows(Struct, frozen=True):
    """The rows that not all runs score: their largest `share` of a run's rows, and the difference if each of them, and each
    row that no run scores, were worst and best for the second run. None where no outcome is the worst."""

    share: float
    worst: MetricValue | None = None
    best: MetricValue | None = None

    def turns(self, gain: float | None) -> bool:
        """Whether these rows could turn a result: a significant `gain`, or with None that there is no significant one."""
        worst, best = self.worst, self.best
        if worst is None or best is None or worst.low is None or best.low is None:
            return False
        if gain is None:
            return (worst.high or 0.0) < 0 or best.low > 0
        return worst.low <= 0 if gain > 0 else (best.high or 0.0) >= 0


RunRows = tuple[EvaluationData, tuple[Factorized, ...], Sequence[str]]
"""A run's rows of one evaluation, their slices, their keys."""


def run_rows(
    evaluations: Evaluations,
    results: Path,
    ids: Sequence[str],
    only: Mapping[str, NamedValues] | None = None,
) -> dict[str, RunRows]:
    """Each evaluation's rows of one run; without `ids` they have no keys. Raises DataError as `measure` does."""
    collected_by_name = collect(evaluations, results, ids=ids, only=only)
    rows = {}
    for name, evaluation in evaluations.items():
        shown = name.partition("\0")[0]
        collected, data = prepared(shown, evaluation, collected_by_name.pop(name), results)
        rows[name] = (data, collected.by, collected.ids)
    return rows


def pair(*runs: RunRows) -> PairedRows | str:
    """The rows that all runs have, in the order of the last; or why there are none to compare."""
    positions_of = [{key: index for index, key in enumerate(run[2])} for run in runs]
    shared = [key for key in runs[-1][2] if all(key in positions for positions in positions_of)]
    if not shared:
        return "the runs have no row in common"
    rows = tuple(
        np.array([positions[key] for key in shared], dtype=np.int64) for positions in positions_of
    )
    targets = [_targets(run[0], positions) for run, positions in zip(runs, rows, strict=True)]
    if any(other != targets[0] for other in targets):
        return "the runs' targets differ on the rows that they share"
    return PairedRows(
        tuple(run[0] for run in runs), rows, tuple(run[2] for run in runs), runs[-1][1]
    )


def _targets(data: EvaluationData, rows: Ints) -> list[Any]:
    labels = (*data.labels, None)
    return [labels[code] for code in data.target[rows]]  # the last one is that of MISSING


def kind_mismatch(old: EvaluationData, new: EvaluationData) -> str:
    """Why two runs' rows are of different kinds, "" if they are not; ordinal and numeric are the same here."""
    if old.kind == new.kind or {old.kind, new.kind} <= {"ordinal", "numeric"}:
        return ""
    return f"the runs' rows are of different kinds: {old.kind} and {new.kind}"


def paired_differences(
    metrics: Sequence[str],
    pairs: PairedRows,
    draw: Draw,
    swaps: int = 0,
    first: int = 1,
    against: Mapping[str, AgainstReference] | None = None,
) -> dict[str, Difference]:
    """The metrics of both pipelines over the shared rows, which are kept together: what is hard for all runs cancels.

    With `swaps`, also their p-values from as many swaps at most, adjusted for all of them. The `first` runs are of the first
    pipeline. `against` has the variance between repeated runs, which more than two runs need, and the levels of intervals that
    are to hold with others.
    """
    differences = {}
    for metric in metrics:
        own, spread = draw, None
        if against is not None:
            own, spread = structs.replace(draw, level=against[metric].level), against[metric].spread
        differences[metric] = _difference(metric, pairs, own, swaps, first, spread)
    tested, swapped = [], []
    for metric, difference in differences.items():
        if difference.p is not None:
            tested.append(metric)
        elif difference.change.value is not None and metric != CORRECTED:
            swapped.append(metric)
    tests: dict[str, tuple[float, float]] = {}
    if swaps and swapped and len(pairs.data) == 2:
        tests = swap_tests(swapped, pairs.data, pairs.rows, draw.rng, swaps, pairs.scored)
    # The metrics with a test of their own are adjusted with the others as one more.
    own_tests = holm_adjusted([differences[metric].p for metric in tested], bool(tests))
    for metric, adjusted in zip(tested, own_tests, strict=True):
        differences[metric] = replace(differences[metric], p_adjusted=adjusted)
    for metric, (p, largest) in tests.items():
        difference = differences[metric]
        adjusted = min(largest * (len(tested) + 1), 1.0)
        doubt = difference.doubt or _cluster_doubt(difference, pairs, p, draw.level)
        differences[metric] = replace(difference, p=p, p_adjusted=adjusted, doubt=doubt)
    return differences


def _cluster_doubt(difference: Difference, pairs: PairedRows, p: float, level: float) -> str:
    """Why swaps of clusters may find a difference where there is none; "" where the interval leaves out 0 as well.

    Swaps are exact where the two runs are alike. With equal means, and few clusters that lose much together, `p` is at most
    0.05 in a quarter of samples; intervals leave out 0 in 2%.
    """
    low, high = difference.change.low, difference.change.high
    if pairs.data[1].cluster is None or low is None or high is None:
        return ""
    return IN_CLUSTERS if p <= 1 - level and low <= 0 <= high else ""


IN_CLUSTERS = "the interval includes 0, and clusters that lose together can make p too small"


def paired_difference(metric: str, pairs: PairedRows, draw: Draw, swaps: int = 0) -> Difference:
    return paired_differences((metric,), pairs, draw, swaps)[metric]


def _difference(
    metric: str, pairs: PairedRows, draw: Draw, swaps: int, first: int, spread: RunSpread | None
) -> Difference:
    """The difference; with `swaps` also its p-value where it is not that of swapping the rows of two runs."""
    data = pairs.data
    if metric == CORRECTED:
        return _corrected(pairs, first, spread, draw.level)
    family = metric_input(metric, data[-1])
    scored_pairs = pairs.scored(family)
    undefined = _not_comparable(family, data, scored_pairs, spread)
    if undefined:
        return undefined_difference(undefined)
    rows = [positions[scored_pairs] for positions in pairs.rows]
    if family in BY_CLUSTER:
        return _within_clusters(metric, data, rows, draw, swaps)
    sample, statistics = statistics_of_runs(family, (metric,), data, rows)
    every = [run[metric] for run in statistics]
    old, new = mean_statistic(every[:first]), mean_statistic(every[first:])
    change = paired_metric_value(old, new, sample, draw)
    p: float | None = None
    if spread is not None:
        times, reach = 1 / first + 1 / (len(data) - first), new.bounds[1] - old.bounds[0]
        change, p = spread.widened(change, times, reach)
    doubt = one_way_doubt(old, new, sample, draw.level) if swaps else ""
    return Difference(
        value_of(old, sample), value_of(new, sample), change.warned(doubt), p, doubt=doubt
    )


def _not_comparable(
    family: MetricInput,
    data: Sequence[EvaluationData],
    scored_pairs: RowMask,
    spread: RunSpread | None,
) -> str:
    """Why runs have no difference of metrics of this input, "" if they have."""
    for side in data:
        mismatch = kind_mismatch(data[0], side) or wrong_types(family, side)
        if mismatch:
            return mismatch
    if not scored_pairs.any():
        return f"no row is scored in {'both' if len(data) == 2 else 'all'} runs"
    is_repeated = len(data) > 2
    return NO_STANDARD_ERROR if is_repeated and (spread is None or family in BY_CLUSTER) else ""


def _corrected(pairs: PairedRows, first: int, spread: RunSpread | None, level: float) -> Difference:
    """The difference of the estimates that are corrected by human labels, whose p-value is Student's."""
    golds = [side.gold for side in pairs.data]
    old, new, change, p = corrected_difference(golds, pairs.rows, level, first)
    ends = [gold for gold in (golds[0], golds[-1]) if isinstance(gold, GoldPairs)]
    if spread is None or len(ends) < 2 or change.value is None:
        return Difference(old, new, change, p)
    times = 1 / first + 1 / (len(golds) - first)
    widened, between = spread.widened(change, times, widest_difference(*ends))
    return Difference(old, new, widened, p if between is None else max(p or 0.0, between))


def _within_clusters(
    metric: str, data: Sequence[EvaluationData], rows: Sequence[Ints], draw: Draw, swaps: int
) -> Difference:
    """The change of the mean of the clusters' values over the second run's clusters that have one in both runs."""
    assert data[1].cluster is not None
    cluster = np.full(len(data[0].target), MISSING, dtype=np.int64)
    cluster[rows[0]] = data[1].cluster[rows[1]]
    first = values_by_cluster(metric, structs.replace(data[0], cluster=cluster), rows[0])
    second = values_by_cluster(metric, data[1], rows[1])
    size = min(len(first), len(second))
    first, second = first[:size], second[:size]
    both = np.isfinite(first) & np.isfinite(second)
    if not both.any():
        return undefined_difference(no_value(metric, data[1]))
    sample, mean = mean_of_clusters((second - first)[both], (-2.0, 2.0))
    change = metrics_with_intervals({metric: mean}, sample, draw)[metric]
    p = sign_flip_test((second - first)[both], None, draw.rng, swaps) if swaps else None
    return Difference(float(first[both].mean()), float(second[both].mean()), change, p)


def undefined_difference(reason: str) -> Difference:
    """A difference that cannot be computed, for this reason."""
    return Difference(None, None, undefined_value(reason))


class AgainstReference(Struct, frozen=True):
    """A metric of several pipelines over the rows that all runs score, and their differences from the first one.

    `runs` has each pipeline's runs' values; both are empty, and `joint` None, where the metric is undefined in one or only
    two runs are compared. `differences` has one for each pipeline but the first. `spread` is None without repeated runs,
    `level` that of the differences' intervals.
    """

    values: tuple[float, ...]
    runs: tuple[tuple[float, ...], ...]
    joint: JointEstimates | None
    spread: RunSpread | None
    differences: tuple[Difference, ...]
    level: float


@np.errstate(over="ignore", invalid="ignore")  # told as too large
def compare_with_reference(
    metrics: Sequence[str],
    pairs: PairedRows,
    sizes: Sequence[int],
    level: float,
    seeds: Sequence[int],
    swaps: int,
    *,
    jointly: bool = True,
) -> dict[str, AgainstReference]:
    """Each pipeline's difference from the first in each metric. `sizes` has the number of runs of each pipeline.

    The intervals of a metric hold together at `level`; p-values are adjusted for all metrics of a pipeline. `jointly` says
    whether the estimates of two runs are wanted together too.
    """
    groups = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
    every: dict[str, AgainstReference] = {}
    for metric in metrics:
        own, single = [*seeds, zlib.crc32(metric.encode())], None
        if jointly or len(pairs.data) > 2:
            single = joint_estimates(metric, pairs.data, pairs.rows, np.random.default_rng(own))
        if single is None:
            every[metric] = AgainstReference((), (), None, None, (), level)
            continue
        spread = run_spread(single, sizes)
        joint, joint_level = _pooled(single, sizes, spread), level
        if len(sizes) > 2:
            rng = np.random.default_rng([*own, 1])
            joint_level = joint.level(level, _from_reference(len(sizes)), rng)
        runs = tuple(tuple(single.values[part].tolist()) for part in groups)
        values = tuple(joint.values.tolist())
        every[metric] = AgainstReference(values, runs, joint, spread, (), joint_level)
    for index, part in enumerate(groups[1:]):
        draw = Draw(np.random.default_rng([*seeds, index]), level)
        differences = paired_differences(
            metrics, pairs.of([*groups[0], *part]), draw, swaps, sizes[0], every
        )
        for metric, difference in differences.items():
            every[metric] = replace(
                every[metric], differences=(*every[metric].differences, difference)
            )
    return every


def _from_reference(pipelines: int) -> Floats:
    """The differences of all other pipelines from the first, as rows of weights."""
    each = np.eye(pipelines)
    differences: Floats = each[1:] - each[0]
    return differences


def _pooled(runs: JointEstimates, sizes: Sequence[int], spread: RunSpread | None) -> JointEstimates:
    """The estimates of the pipelines: the means of their runs, with the variance between runs."""
    if spread is None:
        return runs
    count = np.array(sizes)
    means = np.repeat(np.eye(len(sizes)) / count, count, axis=1)
    covariance = means @ runs.covariance @ means.T
    # Of one pipeline alone it is the variance of a single run.
    weights, times = np.eye(1), np.ones(1)
    if len(sizes) > 1:
        weights, times = _from_reference(len(sizes)), 1 / count[0] + 1 / count[1:]
    variances = np.diag(weights @ covariance @ weights.T)
    freedom = min(
        spread.total(float(variance), runs.freedom, float(share))[1]
        for variance, share in zip(variances, times, strict=True)
    )
    covariance = covariance + np.diag(spread.between / count)
    return JointEstimates(means @ runs.values, covariance, freedom)
