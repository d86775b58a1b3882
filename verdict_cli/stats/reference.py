"""Several pipelines against a reference over the same rows; each pipeline is one run, or the mean of repeated runs.

- The intervals of a metric's differences hold for all pipelines together (`simultaneous.py`).
- Repeated runs of one pipeline are a level of their own. The variance of a run's metric between runs is their sample
  variance, pooled over the pipelines. What the rows' own noise explains of it is the jackknife's variance of the runs'
  differences over rows. The rest is a variance between runs, 0 at least (the analysis of variance of crossed random
  effects; Searle, Casella and McCulloch, 1992). It is added to the variance over rows, divided by a pipeline's runs, with the
  degrees of freedom of Satterthwaite (1946).
- The noise floor is the repeatability limit (ISO 5725-6): two runs of one pipeline differ by less in 95 of 100 pairs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from verdict_cli.stats.columns.column import Floats, Ints
from verdict_cli.stats.columns.gold_pairs import GoldPairs
from verdict_cli.stats.columns.row_data import EvaluationData
from verdict_cli.stats.columns.sample import Sample
from verdict_cli.stats.corrected_difference import CORRECTED, mean_corrected_difference, widest_difference
from verdict_cli.stats.intervals.interval_methods import MetricValue, student
from verdict_cli.stats.intervals.intervals import Draw, paired_metric_value, value_of
from verdict_cli.stats.metrics.metric_families import input_statistics, key_columns, metric_input, usable, wrong_types
from verdict_cli.stats.metrics.statistic import Proportion, Statistic
from verdict_cli.stats.paired import (
    Difference,
    RunRows,
    aligned_rows,
    kind_mismatch,
    pair,
    paired_difference,
    undefined_difference,
)
from verdict_cli.stats.permutation import regrouping_test
from verdict_cli.stats.simultaneous import JointEstimates, joint_corrected, joint_estimates

NO_STANDARD_ERROR = "the metric has no standard error here, so repeated runs cannot be compared by it"
TWO_RUNS = "two repeated runs do not show how much runs differ: the interval may be too narrow"
BETWEEN = " and variance between runs"


@dataclass(frozen=True, slots=True)
class RunSpread:
    """The variance of a metric between repeated runs: as seen (`seen`, with `freedom`), and what the rows' own noise
    explains of it (`within`, with `rows_freedom`)."""

    seen: float
    freedom: float
    within: float
    rows_freedom: float

    @property
    def between(self) -> float:
        """The variance that comes with a run as a whole."""
        return max(0.0, self.seen - self.within)

    def noise_floor(self, level: float) -> float:
        """How far two runs of one pipeline are apart at most, at this level."""
        variance, freedom = self.total(self.within, self.rows_freedom, 1.0)
        return student(level, freedom) * math.sqrt(2 * variance)

    def total(self, variance: float, freedom: float, times: float) -> tuple[float, float]:
        """The variance with so many times that between runs, and the degrees of freedom."""
        if not self.between:
            return variance, freedom
        whole = variance + times * self.between
        # The variance as seen is what few runs estimate, also of the part that is left after subtracting the rows' own.
        return whole, max(1.0, whole**2 / (variance**2 / freedom + (times * self.seen) ** 2 / self.freedom))

    def widened(self, change: MetricValue, times: float, bound: float) -> tuple[MetricValue, float | None]:
        """A difference with this variance added to that of its interval, and its p-value by Student's distribution; None
        where no variance between runs shows, since exchanging the runs within rows is exact then."""
        if change.value is None or change.se is None or change.low is None or change.high is None:
            return change, None
        rows = change.df or math.inf
        if not self.between:
            return change.warned(*self.warnings), None
        variance, freedom = self.total(change.se**2, min(rows, 1e9), times)
        from scipy.special import stdtr

        p = float(2 * stdtr(freedom, -abs(change.value) / math.sqrt(variance)))
        quantile = student(change.level, freedom)
        old = student(change.level, min(rows, 1e9))
        low, high = (
            math.hypot(reach * quantile / old, quantile * math.sqrt(times * self.between))
            for reach in (change.value - change.low, change.high - change.value)
        )
        widened = replace(
            change,
            low=max(change.value - low, -bound),
            high=min(change.value + high, bound),
            se=math.sqrt(variance),
            df=freedom,
            method=change.method + BETWEEN,
            reason="",
            warnings=(),
        )
        return widened.warned(*change.warnings, *self.warnings), p

    @property
    def warnings(self) -> tuple[str, ...]:
        """Why the variance between runs is not known."""
        return (TWO_RUNS,) if self.freedom < 2 else ()


@dataclass(frozen=True, slots=True)
class AgainstReference:
    """A metric of several pipelines over the rows that all runs score, and their differences from the first one.

    `runs` has each pipeline's runs' values; both are empty, and `joint` None, where the metric is undefined in one.
    `differences` has a Difference or the reason why there is none for each pipeline but the first. `spread` is None
    without repeated runs.
    """

    values: tuple[float, ...]
    runs: tuple[tuple[float, ...], ...]
    joint: JointEstimates | None
    spread: RunSpread | None
    differences: tuple[Difference | str, ...]


def compare_with_reference(
    metric: str, pipelines: Sequence[Sequence[RunRows]], level: float, seeds: Sequence[int], swaps: int
) -> AgainstReference:
    """Each pipeline's difference from the first, whose intervals hold together at `level`."""
    runs = [run for pipeline in pipelines for run in pipeline]
    single = _joint(metric, runs, np.random.default_rng([*seeds, 0]))
    spread = None if single is None else run_spread(single, [len(each) for each in pipelines])
    joint = None if single is None else _pooled(single, pipelines, spread)
    if joint is not None and len(pipelines) > 2:
        contrasts = np.eye(len(pipelines))[1:] - np.eye(len(pipelines))[0]
        level = joint.level(level, contrasts, np.random.default_rng([*seeds, 0, 1]))
    differences: list[Difference | str] = []
    for index, pipeline in enumerate(pipelines[1:], 1):
        draw = Draw(np.random.default_rng([*seeds, index]), level)
        if len(pipeline) == len(pipelines[0]) == 1 and spread is None:
            pairs = pair(pipelines[0][0], pipeline[0])
            differences.append(pairs if isinstance(pairs, str) else paired_difference(metric, pairs, draw, swaps))
        else:
            differences.append(_pooled_difference(metric, pipelines[0], pipeline, spread, draw, swaps))
    values = () if single is None else tuple(single.values.tolist())
    starts = np.cumsum([0, *(len(each) for each in pipelines)])
    return AgainstReference(
        () if joint is None else tuple(joint.values.tolist()),
        tuple(values[start : start + len(each)] for start, each in zip(starts, pipelines, strict=False))
        if values
        else (),
        joint,
        spread,
        tuple(differences),
    )


def _joint(metric: str, runs: Sequence[RunRows], rng: np.random.Generator) -> JointEstimates | None:
    """The estimates of all runs over the rows that all of them score."""
    data = [run[0] for run in runs]
    rows = aligned_rows(runs)
    if isinstance(rows, str) or any(kind_mismatch(data[0], each) for each in data):
        return None
    if metric == CORRECTED:
        return joint_corrected([each.gold for each in data], rows)
    of = metric_input(metric, data[0])
    kept = np.logical_and.reduce([usable(of, each)[at] for each, at in zip(data, rows, strict=True)])
    return joint_estimates(metric, data, [at[kept] for at in rows], rng)


def run_spread(runs: JointEstimates, sizes: Sequence[int]) -> RunSpread | None:
    """The variance between repeated runs, pooled over pipelines of so many runs; None where none has two."""
    seen = within = 0.0
    freedom = sum(sizes) - len(sizes)
    start = 0
    for size in sizes:
        part = slice(start, start + size)
        start += size
        values, covariance = runs.values[part], runs.covariance[part, part]
        seen += float(((values - values.mean()) ** 2).sum())
        within += float(np.trace(covariance) - covariance.sum() / size)
    return RunSpread(seen / freedom, freedom, within / freedom, runs.freedom) if freedom else None


def _pooled(runs: JointEstimates, pipelines: Sequence[Sequence[RunRows]], spread: RunSpread | None) -> JointEstimates:
    """The estimates of the pipelines: the means of their runs, with the variance between runs."""
    sizes = [len(each) for each in pipelines]
    if spread is None:
        return runs
    means = np.repeat(np.eye(len(sizes)) / np.array(sizes), sizes, axis=1)
    covariance = means @ runs.covariance @ means.T
    freedom = runs.freedom
    if spread.between:
        first = np.eye(len(sizes))[1:] - np.eye(len(sizes))[0] if len(sizes) > 1 else np.eye(1)
        rows = np.einsum("ij,jk,ik->i", first, covariance, first)
        times = np.array([1 / sizes[0] + 1 / size for size in sizes[1:]] or [1.0])
        freedom = min(
            spread.total(float(variance), runs.freedom, float(each))[1]
            for variance, each in zip(rows, times, strict=True)
        )
        covariance = covariance + np.diag(spread.between / np.array(sizes))
    return JointEstimates(means @ runs.values, covariance, freedom)


def _pooled_difference(
    metric: str, first: Sequence[RunRows], second: Sequence[RunRows], spread: RunSpread | None, draw: Draw, swaps: int
) -> Difference | str:
    """The mean over the runs of the second pipeline minus that of the first, with the variance between runs."""
    rows = aligned_rows((*first, *second))
    if isinstance(rows, str):
        return rows
    data = [run[0] for run in (*first, *second)]
    if metric == CORRECTED:
        return _corrected_difference(data, rows, len(first), spread, draw.level)
    of = metric_input(metric, data[-1])
    why = next(filter(None, (kind_mismatch(data[0], each) or wrong_types(of, each) for each in data)), "")
    if why:
        return undefined_difference(why)
    kept = np.logical_and.reduce([usable(of, each)[at] for each, at in zip(data, rows, strict=True)])
    if not kept.any():
        return undefined_difference("no row is scored in all runs")
    if of == "within" or spread is None:
        return undefined_difference(NO_STANDARD_ERROR)
    at = [each[kept] for each in rows]
    columns = [column[place] for each, place in zip(data, at, strict=True) for column in key_columns(of, each)]
    cluster = data[-1].cluster
    sample = Sample.of(tuple(columns), None if cluster is None else cluster[at[-1]])
    statistics = []
    for each, place in zip(data, at, strict=True):
        given = input_statistics(of, (metric,), each, place[sample.first])
        if isinstance(given, str) or metric not in given:
            return undefined_difference(given if isinstance(given, str) else f"it does not fit {each.kind} data")
        statistics.append(given[metric])
    old, new = mean_statistic(statistics[: len(first)]), mean_statistic(statistics[len(first) :])
    width = max(len(each.labels) + 1 for each in data) ** 2 if of == "labels" else 1
    change = paired_metric_value(old, new, sample, replace(draw, width=width))
    reach = new.bounds[1] - old.bounds[0]
    widened, p = spread.widened(change, 1 / len(first) + 1 / len(second), reach)
    exchanged = regrouping_test(metric, of, data, at, len(first), draw.rng, swaps) if swaps else None
    p = exchanged if p is None or exchanged is None else max(p, exchanged)
    return Difference(value_of(old, sample), value_of(new, sample), widened, p)


def _corrected_difference(
    data: Sequence[EvaluationData], rows: Sequence[Ints], size: int, spread: RunSpread | None, level: float
) -> Difference:
    """The same of the estimates that are corrected by human labels; the first pipeline has `size` runs."""
    golds = [each.gold for each in data]
    old, new, change, p = mean_corrected_difference((golds[:size], golds[size:]), (rows[:size], rows[size:]), level)
    ends = [found for found in (golds[0], golds[-1]) if isinstance(found, GoldPairs)]
    if spread is None or len(ends) < 2 or change.value is None:
        return Difference(old, new, change, p)
    widened, between = spread.widened(change, 1 / size + 1 / (len(data) - size), widest_difference(*ends))
    return Difference(old, new, widened, p if between is None else max(p or 0.0, between))


def restricted(run: RunRows, rows: Ints) -> RunRows:
    """A run's data and keys of these rows only, without its slices."""
    data, _, keys = run
    columns = ("targets", "predictions", "probability", "value", "consistent", "longer")
    kept = replace(
        data,
        target=data.target[rows],
        prediction=data.prediction[rows],
        panel=tuple(column.take(rows) for column in data.panel),
        votes=tuple(vote[rows] for vote in data.votes),
        cluster=None if data.cluster is None else data.cluster[rows],
        gold=data.gold.take(rows) if isinstance(data.gold, GoldPairs) else data.gold,
        **{name: getattr(data, name).take(rows) for name in columns},
    )
    return kept, (), [keys[row] for row in rows]


def mean_statistic(statistics: Sequence[Statistic]) -> Statistic:
    """The mean of a metric over several runs; of shares of the same rows a share again."""
    first = statistics[0]
    if len(statistics) == 1:
        return first
    shares = [each.share for each in statistics if each.share is not None]
    share = None
    if len(shares) == len(statistics) and all(
        each.transform is None and np.array_equal(each.trials, shares[0].trials) for each in shares
    ):
        hits: Floats = np.mean([each.hits for each in shares], axis=0)
        share = Proportion(hits, shares[0].trials)
    return Statistic(
        lambda weights: np.mean([each.at(weights) for each in statistics], axis=0),
        first.undefined,
        first.bounds,
        "jackknife" if first.smooth else first.interval,
        share=share,
        blockwise=first.blockwise,
        classes=tuple(classes for each in statistics for classes in each.classes),
        varies=tuple(values for each in statistics for values in each.varies),
        least_rows=first.least_rows,
        tails=tuple(values for each in statistics for values in each.tails),
    )
