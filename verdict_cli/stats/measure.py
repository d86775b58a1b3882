"""Compute every metric of a run's evaluations, and what they warn of: rows that do not count, labels that never occur."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from verdict_cli.language.evaluations import Evaluation, Evaluations
from verdict_cli.language.metric_registry import AVERAGED, GOLD_ESTIMATES, METRICS, MetricInput
from verdict_cli.messages import JsonObject
from verdict_cli.plural import plural
from verdict_cli.stats.annotators import AnnotatorStudy, annotator_study
from verdict_cli.stats.columns.collect import OUTPUT_KEYS, Collected, collect
from verdict_cli.stats.columns.column import MISSING, Ends, Ints, RowMask, key_text
from verdict_cli.stats.columns.row_data import (
    EvaluationData,
    GoldPairs,
    check_positive,
    in_no_cluster,
    near_misses,
    prepared,
    requested_metrics,
)
from verdict_cli.stats.columns.run_labels import UNSURE
from verdict_cli.stats.intervals.interval_methods import MetricValue, MetricValues, undefined_value
from verdict_cli.stats.intervals.intervals import CONFIDENCE_LEVEL, Draw, metrics_with_intervals
from verdict_cli.stats.metrics.confusion import MOST_DISTINCT_LABELS, contingency
from verdict_cli.stats.metrics.metric_families import (
    BY_CLUSTER,
    by_input,
    judged_rows,
    mean_of_clusters,
    no_value,
    sampled_statistics,
    undefined_for_wrong_rows,
    usable,
    values_by_cluster,
    wrong_types,
)
from verdict_cli.stats.metrics.statistic import undefined_statistic
from verdict_cli.stats.prediction_powered import GoldFacts, corrected
from verdict_cli.stats.worst_case import extremes

MOST_MEASURED_GROUPS = 50
"""A report shows no more groups of an expression; a column of texts by mistake would take hours."""


class Measures(Struct, frozen=True):
    """The metrics of one evaluation, by name.

    `groups` is expression -> value as text -> metric -> value. `rows` counts the rows (groups, under `group:`) that
    `where` selects; of these `unlabelled` have no target and are left out of every metric, and `missing` have a target
    but no prediction (`unreached`: failed rows whose entries are not known). `coverage` is the rest over the labelled ones, None where there are none. `bounds` is the worst
    and best value that each metric could have if the missing rows had predictions; `unreadable` counts, for each
    expression, the rows that did not fail but whose value could not be computed. `averages` says of the metrics that are
    averages over the labels how they average.
    `annotators` is there where an evaluation uses the labels of two or more people; `human_alpha` is then among the metrics.
    """

    values: Mapping[str, MetricValue]
    groups: Mapping[str, Mapping[str, Mapping[str, MetricValue]]] = {}
    coverage: float | None = None
    rows: int = 0
    unlabelled: int = 0
    missing: int = 0
    unreached: int = 0
    kind: str = ""
    bounds: Mapping[str, Ends] = {}
    unreadable: Mapping[str, int] = {}
    warnings: tuple[str, ...] = ()
    published: str | None = None
    gold: GoldFacts | None = None
    of: str = "rows"
    """What is counted: `rows`, or `entries` under `items`."""
    averages: Mapping[str, str] = {}
    annotators: AnnotatorStudy | None = None
    label_problems: tuple[str, ...] = ()
    """What is wrong with the labels of people that it uses: a gate on it is not decided."""


def metric_values(
    metrics: Sequence[str], data: EvaluationData, rows: Ints, draw: Draw
) -> MetricValues:
    """The metrics of these rows, in the order of `metrics`."""
    values: MetricValues = {}
    for family, names in by_input(metrics, data).items():
        values |= _values_of_input(family, names, data, rows, draw)
    return {metric: values[metric] for metric in metrics}


def _values_of_input(
    family: MetricInput, metrics: list[str], data: EvaluationData, rows: Ints, draw: Draw
) -> MetricValues:
    usable_rows = rows[usable(family, data)[rows]]
    reason = wrong_types(family, data) if len(usable_rows) else "no rows"
    reason = reason or undefined_for_wrong_rows(family, data, rows)
    if reason:
        return {metric: undefined_value(reason, len(usable_rows)) for metric in metrics}
    if family in BY_CLUSTER:
        return {
            metric: _mean_within_clusters(metric, data, usable_rows, draw) for metric in metrics
        }
    sample, statistics = sampled_statistics(family, metrics, data, usable_rows)
    used = 0
    if family == "labels":
        used = len(np.union1d(data.target[usable_rows], data.prediction[usable_rows]))
    are_classes = used <= MOST_DISTINCT_LABELS
    if not are_classes:
        none = undefined_statistic(f"there are {used} distinct labels, too many for classes")
        statistics = {
            name: statistic if name == "accuracy" else none
            for name, statistic in statistics.items()
        }
    values = metrics_with_intervals(statistics, sample, draw)
    if are_classes and "confusion" in metrics:
        values["confusion"] = MetricValue(confusion_counts(data, usable_rows), None, None, sample.n)
    return values


def _mean_within_clusters(metric: str, data: EvaluationData, rows: Ints, draw: Draw) -> MetricValue:
    """The mean of each cluster's own value; `n` counts the clusters that have one."""
    values = values_by_cluster(metric, data, rows)
    if not np.isfinite(values).any():
        return undefined_value(no_value(metric, data))
    sample, mean = mean_of_clusters(values, METRICS[metric].bounds)
    return metrics_with_intervals({metric: mean}, sample, draw)[metric]


def confusion_counts(data: EvaluationData, rows: Ints) -> JsonObject:
    """The confusion matrix: rows by target, columns by prediction; the label None is "no prediction"."""
    target, prediction = data.target[rows], data.prediction[rows]
    prediction = np.where(prediction == MISSING, len(data.labels), prediction)
    used, counts = contingency(target, prediction)
    return {"labels": [(*data.labels, None)[code] for code in used], "counts": counts.tolist()}


def measure(
    evaluations: Evaluations,
    results: Path,
    *,
    seed: int = 0,
    level: float = CONFIDENCE_LEVEL,
) -> dict[str, Measures]:
    """The metrics of each evaluation over a run's `results.parquet`; the same seed gives the same intervals.

    `level` is the intervals' confidence.
    Raises DataError for a row whose target or group cannot be computed, for a reduction that does not fit its
    values, for predictions and targets of which one side is text and the other numbers, and for a probability of
    which nothing says what it is of.
    """
    measured = iterate_measures(evaluations, results, seed=seed, level=level)
    return {name: measures for name, measures, _, _ in measured}


def iterate_measures(
    evaluations: Evaluations,
    results: Path,
    *,
    seed: int = 0,
    level: float = CONFIDENCE_LEVEL,
) -> Iterator[tuple[str, Measures, EvaluationData, Ints | None]]:
    """Each evaluation's name, metrics and rows, and the rows' indices in the file (None under `group`).

    Raises what `measure` does.
    """
    collected_by_name = collect(evaluations, results)
    for name, evaluation in evaluations.items():
        collected, data = prepared(name, evaluation, collected_by_name.pop(name), results)
        check_positive(name, evaluation, data, results)
        draw = partial(_draw, seed, level, name)
        measures = _measures(evaluation, collected, data, draw)
        study = annotator_study(evaluation, results, draw("annotators"))
        if study is not None:
            measures = replace(
                measures, annotators=study, values={**measures.values, "human_alpha": study.alpha}
            )
        yield name, measures, data, collected.at


@np.errstate(over="ignore", invalid="ignore")  # told as too large
def _measures(
    evaluation: Evaluation, collected: Collected, data: EvaluationData, draw: Callable[..., Draw]
) -> Measures:
    metrics = tuple(
        metric for metric in requested_metrics(evaluation, data) if metric not in GOLD_ESTIMATES
    )
    groups, warnings = _groups(evaluation, collected, data, metrics, draw)
    everything = np.arange(collected.rows)
    labelled = np.ones(collected.rows, bool)
    if "target" in collected.columns and not data.panel:
        labelled = data.targets.present
    missing = labelled & ~_answered(collected, data)
    counted = int(labelled.sum()) + collected.unreached
    without = int(missing.sum()) + collected.unreached
    values = metric_values(metrics, data, everything, draw())
    estimates, gold = gold_estimates(evaluation, data, draw("gold"), everything)
    is_choice = evaluation.prediction is not None and data.kind == "pairwise"
    kind = data.kind if evaluation.target is not None or data.panel or is_choice else ""
    is_averaged = kind and data.positive is None
    averaged = [metric for metric in AVERAGED if metric in metrics and is_averaged]
    return Measures(
        values=values | estimates,
        groups=groups,
        coverage=1 - without / counted if counted else None,
        rows=collected.rows + collected.unreached,
        unlabelled=collected.rows - int(labelled.sum()),
        missing=without,
        unreached=collected.unreached,
        kind=kind,
        bounds=extremes(metrics, data) if missing.any() else {},
        unreadable={key: count for key, (count, _) in collected.unreadable.items()},
        warnings=(*evaluation_warnings(evaluation, collected, data), *warnings),
        label_problems=() if collected.labels is None else collected.labels.problems,
        published=evaluation.published,
        gold=gold,
        of="rows" if evaluation.items is None else "entries",
        averages=dict.fromkeys(averaged, data.average),
    )


def _answered(collected: Collected, data: EvaluationData) -> RowMask:
    """The rows with what the pipeline gives."""
    if data.panel:
        return judged_rows(data)
    outputs = (collected.columns[key].present for key in OUTPUT_KEYS if key in collected.columns)
    return next(outputs, np.zeros(collected.rows, bool))


Groups = dict[str, dict[str, MetricValues]]
"""Expression -> value as text -> metric -> value."""


def _groups(
    evaluation: Evaluation,
    collected: Collected,
    data: EvaluationData,
    metrics: Sequence[str],
    draw_of: Callable[..., Draw],
) -> tuple[Groups, list[str]]:
    """The metrics of each group, and a warning of groups that are left out."""
    groups: Groups = {}
    warnings = []
    for text, keys in zip(evaluation.by, collected.by, strict=True):
        if not keys.labels and collected.rows:
            continue  # the dataset has no such column
        count = len(np.unique(keys.codes[keys.codes != MISSING]))
        if count > MOST_MEASURED_GROUPS:
            shown = f"the {MOST_MEASURED_GROUPS} most frequent are shown"
            warnings.append(f"`by: {text}` has {plural(count, 'value')}; {shown}")
        groups[text] = {}
        for code, label in keys.most_frequent(MOST_MEASURED_GROUPS):
            rows, draw = np.flatnonzero(keys.codes == code), draw_of(text, str(code))
            values = metric_values(metrics, data, rows, draw)
            groups[text][label] = values | gold_estimates(evaluation, data, draw, rows)[0]
    return groups, warnings


def gold_estimates(
    evaluation: Evaluation, data: EvaluationData, draw: Draw, rows: Ints
) -> tuple[MetricValues, GoldFacts | None]:
    """The estimates from human labels of some of these rows; none without `gold`."""
    if evaluation.gold is None:
        return {}, None
    if not isinstance(data.gold, GoldPairs):
        return dict.fromkeys(GOLD_ESTIMATES, undefined_value(data.gold or "", len(rows))), None
    return corrected(
        data.gold.take(rows[data.gold.answered[rows]]), draw, evaluation.gold.half_width
    )


def _draw(seed: int, level: float, *names: str) -> Draw:
    return Draw(np.random.default_rng([abs(seed), zlib.crc32("\0".join(names).encode())]), level)


def flip_rates(
    nodes: Sequence[str], results: Path, *, seed: int = 0, level: float = CONFIDENCE_LEVEL
) -> MetricValues:
    """Position bias of each node that gives `consistent` (Wang et al., 2023): the share of rows on which the two orders
    disagree, with its interval."""
    if not nodes:
        return {}
    evaluations = {
        node: Evaluation(value=f"not nodes[{node!r}].consistent", metrics=("mean",))
        for node in nodes
    }
    measures_by_node = measure(evaluations, results, seed=seed, level=level)
    return {node: measured.values["mean"] for node, measured in measures_by_node.items()}


FEW_CLUSTERS = 20
"""Intervals from fewer clusters are rough (Cameron and Miller, 2015, section VI)."""


def evaluation_warnings(
    evaluation: Evaluation, collected: Collected, data: EvaluationData
) -> list[str]:
    warnings = [
        f"{plural(count, 'row counts|rows count')} as without {key}: {first}"
        for key, (count, first) in collected.unreadable.items()
    ]
    if collected.labels is not None:
        warnings += collected.labels.problems
        if collected.labels.unsure:
            warnings.append(
                f"{plural(collected.labels.unsure, 'label is|labels are')} `{UNSURE}` and left out"
            )
    unknown = f"how many of `{evaluation.items}` there are is not known"
    counted = (
        (
            collected.undecided,
            "row without an output is|rows without an output are",
            "left out: `where` needs it",
        ),
        (
            collected.unreached,
            "failed row counts|failed rows count",
            f"as one missing entry each: {unknown}",
        ),
        (collected.skipped, "row is|rows are", "left out: `when` skipped what is measured"),
    )
    warnings += [f"{plural(count, noun)} {what}" for count, noun, what in counted if count]
    positive = data.positive
    if (
        evaluation.target is not None
        and positive is not None
        and not (data.target == positive).any()
    ):
        labels = ", ".join(
            repr(data.labels[code]) for code in np.unique(data.target[data.target != MISSING])[:10]
        )
        label = key_text(evaluation.positive)
        warnings.append(
            f"`positive: {label}` is never a target; the targets are {labels or 'none'}"
        )
    if evaluation.target is not None and (spelled := near_misses(data)):
        warnings.append(spelled)
    if collected.cluster is not None and (alone := int(in_no_cluster(collected.cluster).sum())):
        rows, key = plural(alone, "row has|rows have"), evaluation.cluster
        warnings.append(
            f"{rows} no cluster, because `{key}` is null: each counts as a cluster of its own"
        )
    if data.cluster is not None and 0 < (clusters := len(np.unique(data.cluster))) < FEW_CLUSTERS:
        warnings.append(f"only {plural(clusters, 'cluster')}: intervals from so few are rough")
    return warnings
