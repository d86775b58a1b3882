"""The rows that two runs share, and the difference of a metric over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from verdict_cli.language.evaluations import Evaluation
from verdict_cli.stats.columns.collect import Collected, collect
from verdict_cli.stats.columns.column import MISSING, Factorized, Ints, key_text
from verdict_cli.stats.columns.gold_pairs import check_inclusion
from verdict_cli.stats.columns.row_data import EvaluationData, check_labels, reduce_groups
from verdict_cli.stats.columns.sample import Sample
from verdict_cli.stats.corrected_difference import CORRECTED, corrected_difference
from verdict_cli.stats.intervals.interval_methods import MetricValue
from verdict_cli.stats.intervals.intervals import Draw, metrics_with_intervals, paired_metric_value, value_of
from verdict_cli.stats.metrics.by_cluster import mean_of_clusters, no_value, values_by_cluster
from verdict_cli.stats.metrics.metric_families import (
    BY_CLUSTER,
    input_statistics,
    key_columns,
    metric_input,
    usable,
    wrong_types,
)
from verdict_cli.stats.metrics.statistic import Statistic
from verdict_cli.stats.permutation import sign_flip_test, swap_tests


@dataclass(frozen=True, slots=True)
class PairedRows:
    """One evaluation's rows of two runs: `rows` are the indices of each pair in the two `data`.

    `keys` are the pairs' keys (group keys under `group:`), `by` the second run's slices, `rows_alone` the indices of the
    rows that only the first and only the second run has.
    """

    data: tuple[EvaluationData, EvaluationData]
    rows: tuple[Ints, Ints]
    keys: Sequence[str]
    by: tuple[Factorized, ...]
    rows_alone: tuple[Ints, Ints]

    @property
    def alone(self) -> tuple[int, int]:
        """How many rows only the first and only the second run has."""
        return len(self.rows_alone[0]), len(self.rows_alone[1])

    def take(self, indices: Ints) -> PairedRows:
        """These pairs only."""
        rows = (self.rows[0][indices], self.rows[1][indices])
        return PairedRows(self.data, rows, [self.keys[index] for index in indices], self.by, self.rows_alone)


@dataclass(frozen=True, slots=True)
class Difference:
    """A metric of both runs over the rows that both can score, and the second minus the first with its interval.

    `p` is that of this metric's difference, by swapping the runs' outcomes within rows or clusters; `p_holm` the same
    among the tests made together. None where they were not computed. `open_rows` are those that do not count in it.
    """

    first: float | None
    second: float | None
    change: MetricValue
    p: float | None = None
    p_holm: float | None = None
    open_rows: OpenRows | None = None

    def adjusted(self, families: int) -> Difference:
        """The difference with its p-value adjusted for so many families of tests."""
        return self if self.p_holm is None else replace(self, p_holm=min(self.p_holm * families, 1.0))


@dataclass(frozen=True, slots=True)
class OpenRows:
    """The rows that only one of two runs scores: their largest `share` of a run's rows, and the difference if each of them,
    and each row that neither scores, were worst and best for the second run. None where no outcome is the worst."""

    share: float
    worst: MetricValue | None = None
    best: MetricValue | None = None

    def turns(self, gain: float | None) -> bool:
        """Whether these rows could turn a result: a significant `gain`, or with None that there is no significant one."""
        if self.worst is None or self.best is None:
            return False
        worst, best = ((found.low, found.high) for found in (self.worst, self.best))
        if worst[0] is None or worst[1] is None or best[0] is None or best[1] is None:
            return False
        if gain is None:
            return worst[1] < 0 or best[0] > 0
        return worst[0] <= 0 if gain > 0 else best[1] >= 0


RunRows = tuple[EvaluationData, tuple[Factorized, ...], list[str]]
"""A run's rows of one evaluation, their slices, their keys."""


def run_rows(
    evaluations: Mapping[str, Evaluation],
    results: Path,
    ids: Sequence[str] | None,
    only: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, RunRows]:
    """Each evaluation's rows of one run; without `ids` they have no keys. Raises DataError as `measure` does."""
    found = collect(evaluations, results, ids=ids, only=only)
    rows = {}
    for name, evaluation in evaluations.items():
        shown = name.partition("\0")[0]
        collected = reduce_groups(shown, evaluation, found.pop(name), results)
        data = EvaluationData.of(evaluation, collected)
        if "prediction" in collected.columns:
            check_labels(shown, data, results)
        check_inclusion(shown, evaluation, collected, results)
        rows[name] = (data, collected.by, _keys(collected))
    return rows


def _keys(collected: Collected) -> list[str]:
    if collected.ids is None:
        return []
    texts = [key_text(label) for label in collected.ids.labels]
    return [texts[code] for code in collected.ids.codes]


def pair(first: RunRows, second: RunRows) -> PairedRows | str:
    """The rows that both runs have, in the order of the second; or why there are none to compare."""
    found = aligned_rows((second, first))
    if isinstance(found, str):
        return found
    new, old = found
    first_alone, second_alone = (
        np.delete(np.arange(len(run[2])), paired) for run, paired in ((first, old), (second, new))
    )
    keys = [second[2][index] for index in new]
    return PairedRows((first[0], second[0]), (old, new), keys, second[1], (first_alone, second_alone))


def aligned_rows(runs: Sequence[RunRows]) -> list[Ints] | str:
    """The indices of the rows that all runs have, in the order of the first; or why there are none to compare."""
    places = [{key: index for index, key in enumerate(run[2])} for run in runs[1:]]
    shared = [key for key in runs[0][2] if all(key in each for each in places)]
    if not shared:
        return "the runs have no row in common"
    in_first = {key: index for index, key in enumerate(runs[0][2])}
    rows = [np.array([each[key] for key in shared], dtype=np.int64) for each in (in_first, *places)]
    targets = _targets(runs[0][0], rows[0])
    if any(_targets(run[0], at) != targets for run, at in zip(runs[1:], rows[1:], strict=True)):
        return "the runs' targets differ on the rows that they share"
    return rows


def _targets(data: EvaluationData, rows: Ints) -> list[Any]:
    labels = (*data.labels, None)
    return [labels[code] if code != MISSING else None for code in data.target[rows]]


def kind_mismatch(old: EvaluationData, new: EvaluationData) -> str:
    """Why two runs' rows are of different kinds, "" if they are not; ordinal and numeric are the same here."""
    if old.kind == new.kind or {old.kind, new.kind} <= {"ordinal", "numeric"}:
        return ""
    return f"the runs' rows are of different kinds: {old.kind} and {new.kind}"


def paired_differences(metrics: Sequence[str], pairs: PairedRows, draw: Draw, swaps: int = 0) -> dict[str, Difference]:
    """The metrics of both runs over the pairs, which are kept together: what is hard for both runs cancels.

    With `swaps`, also their p-values from as many swaps at most, adjusted for all of them.
    """
    found = {metric: _difference(metric, pairs, draw, swaps) for metric in metrics}
    swapped = [metric for metric, each in found.items() if each.change.value is not None and each.p is None]
    tests = swap_tests(swapped, pairs.data, pairs.rows, draw.rng, swaps) if swaps and swapped else {}
    # The metrics with a test of their own are adjusted by Bonferroni's inequality, with the others as one.
    others = [metric for metric, each in found.items() if each.p is not None]
    families = len(others) + bool(tests)
    for metric in others:
        p = found[metric].p
        found[metric] = replace(found[metric], p_holm=None if p is None else min(p * families, 1.0))
    for metric, (p, adjusted) in tests.items():
        found[metric] = replace(found[metric], p=p, p_holm=min(adjusted * families, 1.0))
    return found


def paired_difference(metric: str, pairs: PairedRows, draw: Draw, swaps: int = 0) -> Difference:
    """The difference of one metric."""
    return paired_differences((metric,), pairs, draw, swaps)[metric]


def _difference(metric: str, pairs: PairedRows, draw: Draw, swaps: int) -> Difference:
    """The difference; with `swaps` also its p-value where it is not that of swapping rows. The corrected metric has
    Student's."""
    old, new = pairs.data
    if why := kind_mismatch(old, new):
        return undefined_difference(why)
    if metric == CORRECTED:
        return Difference(*corrected_difference((old.gold, new.gold), pairs.rows, draw.level))
    of = metric_input(metric, new)
    for data in pairs.data:
        if why := wrong_types(of, data):
            return undefined_difference(why)
    kept = usable(of, old)[pairs.rows[0]] & usable(of, new)[pairs.rows[1]]
    if not kept.any():
        return undefined_difference("no row is scored in both runs")
    rows = (pairs.rows[0][kept], pairs.rows[1][kept])
    if of in BY_CLUSTER:
        return _within_clusters(metric, pairs.data, rows, draw, swaps)
    columns = [column[at] for data, at in zip(pairs.data, rows, strict=True) for column in key_columns(of, data)]
    sample = Sample.of(tuple(columns), new.cluster[rows[1]] if new.cluster is not None else None)
    both: list[Statistic] = []
    for data, at in zip(pairs.data, rows, strict=True):
        given = input_statistics(of, (metric,), data, at[sample.first])
        if isinstance(given, str) or metric not in given:
            return undefined_difference(given if isinstance(given, str) else f"it does not fit {data.kind} data")
        both.append(given[metric])
    old_value, new_value = (value_of(statistic, sample) for statistic in both)
    width = max(len(data.labels) + 1 for data in pairs.data) ** 2 if of == "labels" else 1
    change = paired_metric_value(both[0], both[1], sample, replace(draw, width=width))
    return Difference(old_value, new_value, change)


def _within_clusters(
    metric: str, data: tuple[EvaluationData, EvaluationData], rows: tuple[Ints, Ints], draw: Draw, swaps: int
) -> Difference:
    """The change of the mean of the clusters' values over the second run's clusters that have one in both runs."""
    old = replace(data[0], cluster=_second_clusters(data, rows))
    first, second = values_by_cluster(metric, old, rows[0]), values_by_cluster(metric, data[1], rows[1])
    size = min(len(first), len(second))
    first, second = first[:size], second[:size]
    both = np.isfinite(first) & np.isfinite(second)
    if not both.any():
        return undefined_difference(no_value(metric, data[1]))
    sample, mean = mean_of_clusters((second - first)[both], (-2.0, 2.0))
    change = metrics_with_intervals({metric: mean}, sample, draw)[metric]
    p = sign_flip_test((second - first)[both], None, draw.rng, swaps) if swaps else None
    return Difference(float(first[both].mean()), float(second[both].mean()), change, p)


def _second_clusters(data: tuple[EvaluationData, EvaluationData], rows: tuple[Ints, Ints]) -> Ints:
    """The second run's clusters at the rows of the first."""
    assert data[1].cluster is not None
    cluster = np.full(len(data[0].target), MISSING, dtype=np.int64)
    cluster[rows[0]] = data[1].cluster[rows[1]]
    return cluster


def undefined_difference(reason: str) -> Difference:
    """A difference that cannot be computed, for this reason."""
    return Difference(None, None, MetricValue(None, None, None, 0, reason))
