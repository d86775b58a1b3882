"""The difference of a figure between two runs over the same rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from verdict_cli.evaluate.collect import Collected, collect
from verdict_cli.evaluate.column import MISSING, Ints
from verdict_cli.evaluate.families import family, keys, refusal, statistics, usable
from verdict_cli.evaluate.figures import Figure
from verdict_cli.evaluate.intervals import Draw, figures
from verdict_cli.evaluate.keyed import key_text
from verdict_cli.evaluate.metrics import Statistic
from verdict_cli.evaluate.reduce import reduced
from verdict_cli.evaluate.rows import Data, check_labels
from verdict_cli.evaluate.sample import Sample
from verdict_cli.spec.evaluate import Evaluation


def difference(
    name: str,
    evaluation: Evaluation,
    metric: str,
    runs: tuple[Path, Path],
    *,
    seed: int = 0,
    only: Mapping[str, Any] | None = None,
) -> Figure:
    """The metric in the second `results.parquet` minus that in the first, over rows that both can score.

    Rows are paired by id (groups by their key), and pairs are resampled together, so what is hard for both runs
    cancels. The value is None, with the reason, where ids repeat, targets differ, or no row is in both.
    """
    first, second = (_side(name, evaluation, run, only) for run in runs)
    if isinstance(first, str) or isinstance(second, str):
        return _none(next(side for side in (first, second) if isinstance(side, str)))
    at = {key: place for place, key in enumerate(first[1])}
    shared = [(at[key], place) for place, key in enumerate(second[1]) if key in at]
    if not shared:
        return _none("the runs have no row in common")
    places = np.array(shared)
    old, new = first[0], second[0]
    of = family(metric, new.kind)
    rows = (places[:, 0], places[:, 1])
    if of != "value" and _targets(old, rows[0]) != _targets(new, rows[1]):
        return _none("the runs' targets differ on the rows that they share")
    for data in (old, new):
        if why := refusal(of, data):
            return _none(why)
    kept = usable(of, old)[rows[0]] & usable(of, new)[rows[1]]
    rows = (rows[0][kept], rows[1][kept])
    if not kept.any():
        return _none("no row is scored in both runs")
    return _figure(metric, of, (old, new), rows, Draw(np.random.default_rng([abs(seed), len(places)])))


def _figure(metric: str, of: str, runs: tuple[Data, Data], rows: tuple[Ints, Ints], draw: Draw) -> Figure:
    columns = [column[at] for data, at in zip(runs, rows, strict=True) for column in keys(of, data)]
    cluster = runs[1].cluster
    sample = Sample.of(tuple(columns), cluster[rows[1]] if cluster is not None else None)
    sides: list[Statistic] = []
    for data, at in zip(runs, rows, strict=True):
        given = statistics(of, data, at[sample.first])
        if isinstance(given, str) or metric not in given:
            return _none(given if isinstance(given, str) else f"it does not fit {data.kind} data")
        sides.append(given[metric])
    old, new = sides
    both = Statistic(
        lambda weights: new.at(weights) - old.at(weights), new.why, smooth=new.smooth, blockwise=new.blockwise
    )
    width = max(len(data.labels) + 1 for data in runs) ** 2 if of == "labels" else 1
    return figures({metric: both}, sample, Draw(draw.rng, draw.level, width))[metric]


def _side(
    name: str, evaluation: Evaluation, results: Path, only: Mapping[str, Any] | None
) -> tuple[Data, list[str]] | str:
    """A run's rows and their ids as text, or why they cannot be paired."""
    collected = collect({name: evaluation}, results, ids=True, only={name: only or {}})[name]
    collected = reduced(name, evaluation, collected, results)
    ids = _ids(collected)
    if len(set(ids)) < len(ids):
        return "ids repeat, so rows cannot be paired: set `dataset.id` to a column that tells rows apart"
    data = Data.of(evaluation, collected)
    if "prediction" in collected.columns:
        check_labels(name, data, results)
    return data, ids


def _ids(collected: Collected) -> list[str]:
    assert collected.ids is not None
    return [key_text(collected.ids.labels[code]) for code in collected.ids.codes]


def _targets(data: Data, rows: Ints) -> list[Any]:
    spelled = (*data.labels, None)
    return [spelled[code] if code != MISSING else None for code in data.target[rows]]


def _none(reason: str) -> Figure:
    return Figure(None, None, None, 0, reason)
