"""The rows that two runs share, and the difference of a figure over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from verdict_cli.language.evaluations import Evaluation
from verdict_cli.stats.columns.collect import Collected, collect
from verdict_cli.stats.columns.column import MISSING, Factorized, Ints, key_text
from verdict_cli.stats.columns.reduce import reduced
from verdict_cli.stats.columns.row_data import EvaluationData, check_labels
from verdict_cli.stats.columns.row_identity import identities
from verdict_cli.stats.columns.sample import Sample
from verdict_cli.stats.figures import MetricValue
from verdict_cli.stats.intervals.clustered_correlation import NONE, by_cluster, mean_of
from verdict_cli.stats.intervals.intervals import CONFIDENCE_LEVEL, Draw, metrics_with_intervals, paired, value_of
from verdict_cli.stats.metrics.metric_families import (
    family_keys,
    family_refusal,
    family_statistics,
    metric_family,
    usable,
)
from verdict_cli.stats.metrics.statistic import Statistic


@dataclass(frozen=True, slots=True)
class PairedRows:
    """One evaluation's rows of two runs: `rows` are the places of each pair in the two `data`.

    `keys` are the pairs' keys (group keys under `group:`), `by` the second run's slices, `alone` how many
    rows only the first and only the second run has.
    """

    data: tuple[EvaluationData, EvaluationData]
    rows: tuple[Ints, Ints]
    keys: Sequence[str]
    by: tuple[Factorized, ...]
    alone: tuple[int, int]

    def take(self, places: Ints) -> PairedRows:
        """These pairs only."""
        rows = (self.rows[0][places], self.rows[1][places])
        return PairedRows(self.data, rows, [self.keys[place] for place in places], self.by, self.alone)


@dataclass(frozen=True, slots=True)
class Difference:
    """A figure of both runs over the rows that both can score, and the second minus the first with its interval."""

    first: float | None
    second: float | None
    change: MetricValue


Side = tuple[EvaluationData, tuple[Factorized, ...], list[str]]
"""A run's rows of one evaluation, their slices, their keys."""


def sides(
    evaluations: Mapping[str, Evaluation],
    results: Path,
    ids: Sequence[str],
    only: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Side]:
    """Each evaluation's rows of one run. Raises DataError as `measure` does."""
    found = collect(evaluations, results, ids=ids, only=only)
    made = {}
    for name, evaluation in evaluations.items():
        collected = reduced(name, evaluation, found.pop(name), results)
        data = EvaluationData.of(evaluation, collected)
        if "prediction" in collected.columns:
            check_labels(name, data, results)
        made[name] = (data, collected.by, _keys(collected))
    return made


def _keys(collected: Collected) -> list[str]:
    assert collected.ids is not None
    spelled = [key_text(label) for label in collected.ids.labels]
    return [spelled[code] for code in collected.ids.codes]


def pair(first: Side, second: Side) -> PairedRows | str:
    """The rows that both runs have, in the order of the second; or why there are none to compare."""
    at = {key: place for place, key in enumerate(first[2])}
    shared = [(at[key], place) for place, key in enumerate(second[2]) if key in at]
    if not shared:
        return "the runs have no row in common"
    places = np.array(shared)
    rows = (places[:, 0], places[:, 1])
    if _targets(first[0], rows[0]) != _targets(second[0], rows[1]):
        return "the runs' targets differ on the rows that they share"
    alone = (len(first[2]) - len(shared), len(second[2]) - len(shared))
    return PairedRows((first[0], second[0]), rows, [second[2][place] for _, place in shared], second[1], alone)


def _targets(data: EvaluationData, rows: Ints) -> list[Any]:
    spelled = (*data.labels, None)
    return [spelled[code] if code != MISSING else None for code in data.target[rows]]


def difference(
    name: str,
    evaluation: Evaluation,
    metric: str,
    runs: tuple[Path, Path],
    *,
    seed: int = 0,
    level: float = CONFIDENCE_LEVEL,
    only: Mapping[str, Any] | None = None,
    lost_are_wrong: bool = False,
) -> MetricValue:
    """The metric in the second `results.parquet` minus that in the first, over rows that both can score.

    `lost_are_wrong` counts rows that only the second lacks a prediction for as wrong. Raises DataError where rows
    cannot be paired or measured; the value is None, with the reason, where the runs
    share no row or their targets differ.
    """
    known = identities(runs)
    strict = evaluation.model_copy(update={"missing": "wrong"}) if lost_are_wrong else evaluation
    found = [
        sides({name: each}, run, ids, {name: only or {}})[name]
        for each, run, ids in zip((evaluation, strict), runs, known.keys, strict=True)
    ]
    pairs = pair(found[0], found[1])
    if isinstance(pairs, str):
        return _none(pairs).change
    return paired_difference(metric, pairs, Draw(np.random.default_rng([abs(seed), len(pairs.keys)]), level)).change


def unlike(old: EvaluationData, new: EvaluationData) -> str:
    """Why two runs' rows mean different things, "" where they do not; whole numbers and others are alike."""
    if old.kind == new.kind or {old.kind, new.kind} <= {"ordinal", "numeric"}:
        return ""
    return f"the runs' rows are of different kinds: {old.kind} and {new.kind}"


def paired_difference(metric: str, pairs: PairedRows, draw: Draw) -> Difference:
    """A figure of both runs over the pairs; what is hard for both runs cancels, as pairs stay together."""
    old, new = pairs.data
    if why := unlike(old, new):
        return _none(why)
    of = metric_family(metric, new)
    for data in pairs.data:
        if why := family_refusal(of, data):
            return _none(why)
    kept = usable(of, old)[pairs.rows[0]] & usable(of, new)[pairs.rows[1]]
    if not kept.any():
        return _none("no row is scored in both runs")
    rows = (pairs.rows[0][kept], pairs.rows[1][kept])
    if of == "within":
        return _within(metric, pairs.data, rows, draw)
    columns = [column[at] for data, at in zip(pairs.data, rows, strict=True) for column in family_keys(of, data)]
    sample = Sample.of(tuple(columns), new.cluster[rows[1]] if new.cluster is not None else None)
    both: list[Statistic] = []
    for data, at in zip(pairs.data, rows, strict=True):
        given = family_statistics(of, data, at[sample.first])
        if isinstance(given, str) or metric not in given:
            return _none(given if isinstance(given, str) else f"it does not fit {data.kind} data")
        both.append(given[metric])
    old_value, new_value = (value_of(statistic, sample) for statistic in both)
    width = max(len(data.labels) + 1 for data in pairs.data) ** 2 if of == "labels" else 1
    return Difference(old_value, new_value, paired(both[0], both[1], sample, Draw(draw.rng, draw.level, width)))


def _within(
    metric: str, data: tuple[EvaluationData, EvaluationData], rows: tuple[Ints, Ints], draw: Draw
) -> Difference:
    """The change of the mean coefficient over the clusters, as the second run has them, that have one in both."""
    old = replace(data[0], cluster=_matched(data, rows))
    first, second = by_cluster(metric, old, rows[0]), by_cluster(metric, data[1], rows[1])
    size = min(len(first), len(second))
    first, second = first[:size], second[:size]
    both = np.isfinite(first) & np.isfinite(second)
    if not both.any():
        return _none(NONE)
    sample, mean = mean_of((second - first)[both])
    made = metrics_with_intervals({metric: mean}, sample, draw)[metric]
    return Difference(float(first[both].mean()), float(second[both].mean()), made)


def _matched(data: tuple[EvaluationData, EvaluationData], rows: tuple[Ints, Ints]) -> Ints:
    """The second run's clusters at the rows of the first."""
    assert data[1].cluster is not None
    cluster = np.full(len(data[0].target), MISSING, dtype=np.int64)
    cluster[rows[0]] = data[1].cluster[rows[1]]
    return cluster


def _none(reason: str) -> Difference:
    return Difference(None, None, MetricValue(None, None, None, 0, reason))
