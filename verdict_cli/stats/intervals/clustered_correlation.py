"""Correlations within each cluster, averaged: how well a judge orders the answers to one question.

Fabbri et al. (2021) and Liu et al. (2023) report them of summaries within each document. A cluster whose predictions
or targets are all equal has no correlation and is left out. The clusters are the sample: each gives one value, and the
interval is that of their mean.
"""

from __future__ import annotations

import numpy as np

from verdict_cli.stats.columns.column import MISSING, Floats, Ints
from verdict_cli.stats.columns.row_data import EvaluationData
from verdict_cli.stats.columns.sample import Sample
from verdict_cli.stats.metrics import numbers, ranks
from verdict_cli.stats.metrics.statistic import Statistic, ratio

NONE = "no cluster has different predictions and different targets"


def by_cluster(metric: str, data: EvaluationData, rows: Ints) -> Floats:
    """The coefficient within each cluster of these rows, at the cluster's code; NaN where it has none."""
    assert data.cluster is not None
    codes = data.cluster[rows]
    found = np.full(int(data.cluster.max(initial=MISSING)) + 1, np.nan)
    order = np.argsort(codes, kind="stable")
    places, starts = np.unique(codes[order], return_index=True)
    for code, of in zip(places, np.split(rows[order], starts[1:]), strict=True):
        x, y = data.predictions.numbers[of], data.targets.numbers[of]
        if code != MISSING and len(of) > 1 and np.ptp(x) > 0 and np.ptp(y) > 0:
            found[code] = _coefficient(metric, x, y)
    return found


def mean_of(values: Floats) -> tuple[Sample, Statistic]:
    """The mean of the values that are there, and the sample that they are."""
    kept = values[np.isfinite(values)]
    sample = Sample.of((kept,))
    at = kept[sample.first]
    statistic = Statistic(lambda weights: ratio(weights @ at, weights.sum(axis=1)), NONE, least=-2.0, most=2.0)
    return sample, statistic


def _coefficient(metric: str, x: Floats, y: Floats) -> float:
    name = metric.removesuffix("_within")
    given = numbers.number_pairs(x, y) if name == "pearson" else ranks.rank_pairs(x, y)
    return float(given[name].at(np.ones((1, len(x))))[0])
