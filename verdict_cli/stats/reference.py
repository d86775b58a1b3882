"""Several pipelines against a reference over the same rows; each pipeline is one run, or the mean of repeated runs.

The intervals of a metric's differences hold for all pipelines together (`simultaneous.py`). Repeated runs of one pipeline are
a level of their own.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from verdict_cli.stats.intervals.intervals import Draw
from verdict_cli.stats.metrics.metric_families import metric_input, usable
from verdict_cli.stats.paired import Difference, PairedRows, Repeats, paired_differences
from verdict_cli.stats.prediction_powered import CORRECTED
from verdict_cli.stats.simultaneous import JointEstimates, RunSpread, joint_corrected, joint_estimates, run_spread


@dataclass(frozen=True, slots=True)
class AgainstReference:
    """A metric of several pipelines over the rows that all runs score, and their differences from the first one.

    `runs` has each pipeline's runs' values; both are empty, and `joint` None, where the metric is undefined in one or only
    two runs are compared. `differences` has one for each pipeline but the first. `spread` is None without repeated runs,
    `level` that of the differences' intervals.
    """

    values: tuple[float, ...]
    runs: tuple[tuple[float, ...], ...]
    joint: JointEstimates | None = field(repr=False)
    spread: RunSpread | None
    differences: tuple[Difference, ...]
    level: float


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
    starts = np.cumsum([0, *sizes])
    of = [list(range(start, start + size)) for start, size in zip(starts, sizes, strict=False)]
    contrasts = np.eye(len(sizes))[1:] - np.eye(len(sizes))[0]
    singles: dict[str, JointEstimates | None] = {}
    spreads: dict[str, RunSpread | None] = {}
    joints: dict[str, JointEstimates | None] = {}
    levels: dict[str, float] = {}
    for metric in metrics:
        own = [*seeds, zlib.crc32(metric.encode())]
        single = _joint(metric, pairs, np.random.default_rng(own)) if jointly or len(pairs.data) > 2 else None
        spreads[metric] = None if single is None else run_spread(single, sizes)
        joint = None if single is None else _pooled(single, sizes, spreads[metric])
        levels[metric] = level
        if joint is not None and len(sizes) > 2:
            levels[metric] = joint.level(level, contrasts, np.random.default_rng([*own, 1]))
        singles[metric], joints[metric] = single, joint
    found = [
        paired_differences(
            metrics,
            pairs.of([*of[0], *runs]),
            Draw(np.random.default_rng([*seeds, index]), level),
            swaps,
            Repeats(sizes[0], spreads),
            levels,
        )
        for index, runs in enumerate(of[1:])
    ]
    return {
        metric: AgainstReference(
            () if (joint := joints[metric]) is None else tuple(joint.values.tolist()),
            () if (single := singles[metric]) is None else tuple(tuple(single.values[runs].tolist()) for runs in of),
            joint,
            spreads[metric],
            tuple(each[metric] for each in found),
            levels[metric],
        )
        for metric in metrics
    }


def _joint(metric: str, pairs: PairedRows, rng: np.random.Generator) -> JointEstimates | None:
    """The estimates of all runs over the rows that all of them score."""
    if metric == CORRECTED:
        return joint_corrected([each.gold for each in pairs.data], pairs.rows)
    of = metric_input(metric, pairs.data[0])
    kept = np.logical_and.reduce([usable(of, each)[at] for each, at in zip(pairs.data, pairs.rows, strict=True)])
    return joint_estimates(metric, pairs.data, [at[kept] for at in pairs.rows], rng)


def _pooled(runs: JointEstimates, sizes: Sequence[int], spread: RunSpread | None) -> JointEstimates:
    """The estimates of the pipelines: the means of their runs, with the variance between runs."""
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
