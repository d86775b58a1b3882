"""The figures of any rows of an evaluation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from verdict_cli.evaluate.column import MISSING, Ints
from verdict_cli.evaluate.families import family, keys, offered, refusal, statistics, unscored, usable
from verdict_cli.evaluate.figures import Figure
from verdict_cli.evaluate.intervals import Draw, figures
from verdict_cli.evaluate.metrics.labels import MOST_LABELS
from verdict_cli.evaluate.rows import Data
from verdict_cli.evaluate.sample import Sample
from verdict_cli.evaluate.within import NONE, by_cluster, mean_of
from verdict_cli.spec.metrics import foreign


def measured(metrics: Iterable[str], data: Data, rows: Ints, draw: Draw) -> dict[str, Figure]:
    """The figures of these rows, in the order of `metrics`."""
    asked = tuple(metrics)
    found: dict[str, Figure] = {}
    for name in dict.fromkeys(family(metric, data) for metric in asked):
        wanted = [metric for metric in asked if family(metric, data) == name]
        found |= _family(name, wanted, data, rows, draw)
    return {metric: found[metric] for metric in asked}


def _family(name: str, wanted: list[str], data: Data, rows: Ints, draw: Draw) -> dict[str, Figure]:
    kept = rows[usable(name, data)[rows]]
    no_meaning = unscored(name, data, rows)
    why = refusal(name, data) if len(kept) else "no rows"
    why = why or (no_meaning if name not in {"labels", "ranking"} else "")
    if why:
        return {metric: Figure(None, None, None, len(kept), why) for metric in wanted}
    if name == "within":
        return {metric: _within(metric, data, kept, draw) for metric in wanted}
    sample = Sample.of(
        tuple(column[kept] for column in keys(name, data)),
        data.cluster[kept] if data.cluster is not None else None,
    )
    given = statistics(name, data, kept[sample.first])
    if isinstance(given, str):
        return {metric: Figure(None, None, None, sample.n, given) for metric in wanted}
    for metric in wanted:
        if (part := foreign(metric)) is not None:
            given[metric] = offered(part, metric, data, kept[sample.first])
    used = len(np.union1d(data.target[kept], data.prediction[kept])) if name == "labels" else 1
    found: dict[str, Figure] = {}
    if used > MOST_LABELS:
        why = f"there are {used} distinct labels, too many for classes"
        found = {metric: Figure(None, None, None, sample.n, why) for metric in wanted if metric != "accuracy"}
        used = 1
    if "confusion" in wanted and "confusion" not in found:
        found["confusion"] = Figure(_confusion(data, kept), None, None, sample.n)
    made = {metric: given[metric] for metric in wanted if metric in given and metric not in found}
    found |= figures(made, sample, Draw(draw.rng, draw.level, used * used))
    for metric in wanted:
        if metric not in found:
            found[metric] = Figure(
                None, None, None, sample.n, no_meaning or f"it does not fit {data.kind} data"
            )
    return found


def _within(metric: str, data: Data, rows: Ints, draw: Draw) -> Figure:
    """The mean of each cluster's own coefficient; `n` counts the clusters that have one."""
    values = by_cluster(metric, data, rows)
    if not np.isfinite(values).any():
        return Figure(None, None, None, 0, NONE)
    sample, mean = mean_of(values)
    figure = figures({metric: mean}, sample, draw)[metric]
    low, high = (None if end is None else min(max(end, -1.0), 1.0) for end in (figure.low, figure.high))
    return Figure(figure.value, low, high, figure.n, figure.reason)


def _confusion(data: Data, rows: Ints) -> dict[str, Any]:
    """The confusion matrix: rows by target, columns by prediction; the label None is "no prediction"."""
    target, prediction = data.target[rows], data.prediction[rows]
    prediction = np.where(prediction == MISSING, len(data.labels), prediction)
    used = np.union1d(target, prediction)
    k = len(used)
    flat = np.searchsorted(used, target) * k + np.searchsorted(used, prediction)
    counts = np.bincount(flat, minlength=k * k).reshape(k, k)
    return {"labels": [(*data.labels, None)[code] for code in used], "counts": counts.tolist()}
