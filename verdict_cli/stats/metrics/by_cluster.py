"""Metrics that are the mean of a value for each cluster: correlations within it, or pass@k of its samples.

Fabbri et al. (2021) and Liu et al. (2023) report correlations of summaries within each document. A cluster whose
predictions or targets are all equal has no correlation and is left out, as is a problem with fewer than k samples. The
clusters are the sample: each gives one value, and the interval is that of their mean. Oracle: scipy.

pass@k is the share of problems that at least one of k samples solves (Chen et al., 2021): of n samples of a problem, c of them
right, the unbiased estimate is 1 - C(n - c, k) / C(n, k). Oracle: all subsets, by hand.
"""

from __future__ import annotations

import math

import numpy as np

from verdict_cli.language.metric_registry import SIGNED, UNIT
from verdict_cli.stats.columns.column import MISSING, Floats, Ints
from verdict_cli.stats.columns.row_data import EvaluationData
from verdict_cli.stats.columns.sample import Sample
from verdict_cli.stats.metrics.numbers import number_pairs
from verdict_cli.stats.metrics.ranks import rank_pairs
from verdict_cli.stats.metrics.statistic import Statistic, mean_of_values, ratio, statistic_of

NO_CORRELATION = "no cluster has different predictions and different targets"


def no_value(metric: str, data: EvaluationData) -> str:
    """Why no cluster has a value."""
    return TOO_FEW.format(k=data.k) if metric == "pass_at_k" else NO_CORRELATION


def values_by_cluster(metric: str, data: EvaluationData, rows: Ints) -> Floats:
    """The metric within each cluster of these rows, at the cluster's code; NaN where it has none."""
    assert data.cluster is not None
    codes = data.cluster[rows]
    found = np.full(int(data.cluster.max(initial=MISSING)) + 1, np.nan)
    order = np.argsort(codes, kind="stable")
    clusters, starts = np.unique(codes[order], return_index=True)
    for code, of in zip(clusters, np.split(rows[order], starts[1:]), strict=True):
        if code == MISSING:
            continue
        if metric == "pass_at_k":
            found[code] = estimate(data.value.numbers[of], data.k)
            continue
        x, y = data.predictions.numbers[of], data.targets.numbers[of]
        if len(of) > 1 and np.ptp(x) > 0 and np.ptp(y) > 0:
            found[code] = _correlation(metric, x, y)
    return found


def mean_of_clusters(values: Floats, bounds: tuple[float, float] = SIGNED) -> tuple[Sample, Statistic]:
    """The mean of the clusters' values that are defined, and the sample that they are."""
    kept = values[np.isfinite(values)]
    sample = Sample.of((kept,))
    first = kept[sample.first]
    return sample, Statistic(mean_of_values(first), NO_CORRELATION, bounds, varies=(first,) if bounds == UNIT else ())


def _correlation(metric: str, x: Floats, y: Floats) -> float:
    name = metric.removesuffix("_within")
    given = number_pairs(x, y) if name == "pearson" else rank_pairs(x, y)
    return float(given[name].at(np.ones((1, len(x))))[0])


TOO_FEW = "no problem has {k} samples that are true or false, or 0 or 1"


def estimate(samples: Floats, k: int) -> float:
    """The estimate of one problem from its samples, 1 for right and 0 for wrong; NaN with fewer than k, or other values."""
    n, wrong = len(samples), int((samples == 0).sum())
    if n < k or wrong + int((samples == 1).sum()) < n:
        return math.nan
    return 1 - math.comb(wrong, k) / math.comb(n, k)


def of_panel(votes: Floats, k: int) -> Statistic:
    """The mean over rows whose votes (atoms, judges) are the samples, NaN where a vote is missing."""
    each = np.array([estimate(row[np.isfinite(row)], k) for row in votes])
    known = np.isfinite(each).astype(float)
    values = np.nan_to_num(each)

    def at(weights: Floats) -> Floats:
        return ratio(weights @ (values * known), weights @ known)

    return statistic_of("pass_at_k", at, TOO_FEW.format(k=k), varies=(values,))
