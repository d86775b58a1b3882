"""Estimates of metrics from columns of a value a row, with a fixed seed."""

import numpy as np

from verdict_cli.stats.columns.sample import Sample
from verdict_cli.stats.intervals.intervals import Draw, metrics_with_intervals
from verdict_cli.stats.metrics import confusion, numbers, probability, ranks


def estimates(statistics, columns, cluster=None, seed=0, level=0.95):
    """The metrics that `statistics` makes of the distinct rows."""
    sample = Sample.of(columns, cluster)
    distinct = [column[sample.first] for column in columns]
    draw = Draw(np.random.default_rng(seed), level)
    return metrics_with_intervals(statistics(*distinct), sample, draw)


def of_labels(name, target, prediction, positive=None, beta=1.0, k=2, **keys):
    def statistics(*sides):
        of_all = confusion.label_statistics(*sides, k, positive, False, "macro", beta)
        return {name: of_all[name]}

    return estimates(statistics, (target, prediction), **keys)[name]


def of_probabilities(name, p, positive, **keys):
    def statistics(*columns):
        return {name: probability.probability_statistics(*columns)[name]}

    return estimates(statistics, (p, positive), **keys)[name]


def of_values(name, x, **keys):
    def statistics(values):
        return {name: numbers.number_values(values, False)[name]}

    return estimates(statistics, (x,), **keys)[name]


def of_pairs(name, x, y, **keys):
    def statistics(*sides):
        return {name: (numbers.number_pairs(*sides) | ranks.rank_pairs(*sides))[name]}

    return estimates(statistics, (x, y), **keys)[name]
