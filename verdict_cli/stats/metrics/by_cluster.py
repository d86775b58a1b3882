"""Metrics that are the mean of a value for each cluster: correlations within it, or pass@k of its samples.

Fabbri et al. (2021) and Liu et al. (2023) report correlations of summaries within each document. A cluster whose
predictions or targets are all equal has no correlation and is left out, as is a problem with fewer than k samples. The
clusters are the sample: each gives one value, and the interval is that of their mean. Oracle: scipy.
"""

from __future__ import annotations

import numpy as np

from verdict_cli.language.metric_registry import SIGNED, UNIT
from verdict_cli.stats.columns.column import MISSING, Floats, Ints
from verdict_cli.stats.columns.row_data import EvaluationData
from verdict_cli.stats.columns.sample import Sample
from verdict_cli.stats.metrics.numbers import number_pairs
from verdict_cli.stats.metrics.pass_at_k import TOO_FEW, estimate
from verdict_cli.stats.metrics.ranks import rank_pairs
from verdict_cli.stats.metrics.statistic import Statistic, mean_of_values

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
