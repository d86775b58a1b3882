"""The rows of an evaluation as arrays, without a run."""

import numpy as np

from verdict_cli.stats.columns.column import MISSING, NUMERIC, Column
from verdict_cli.stats.columns.row_data import EvaluationData


def numbers(values):
    return Column(values, np.full(len(values), NUMERIC, np.int32), (), frozenset({"float"}))


def nothing(rows):
    return Column(np.full(rows, np.nan), np.full(rows, MISSING, np.int32), (), frozenset())


def label_data(target, prediction, labels=("a", "b"), cluster=None):
    """Rows of labels, by their places among the labels."""
    none = [nothing(len(target))] * 6
    return EvaluationData(
        "classification", labels, target, prediction, *none, (), (), None, False, cluster
    )


def number_data(target, prediction):
    places = np.arange(len(target))
    columns = [numbers(target), numbers(prediction), *[nothing(len(target))] * 4]
    return EvaluationData(
        "numeric", tuple(places), places, places, *columns, (), (), None, False, None
    )
