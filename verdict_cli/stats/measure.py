"""Compute every metric of a run's evaluations."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from verdict_cli.language.evaluations import Evaluation
from verdict_cli.language.metric_names import OF_GOLD, foreign
from verdict_cli.stats.columns.collect import SAID, Collected, collect
from verdict_cli.stats.columns.column import MISSING, Ints, disambiguate_labels, key_text
from verdict_cli.stats.columns.reduce import reduced
from verdict_cli.stats.columns.row_data import EvaluationData, check_labels, check_positive, fitting
from verdict_cli.stats.columns.sample import Sample
from verdict_cli.stats.figures import GoldFacts, Measures, MetricValue
from verdict_cli.stats.intervals.clustered_correlation import NONE, by_cluster, mean_of
from verdict_cli.stats.intervals.intervals import CONFIDENCE_LEVEL, Draw, metrics_with_intervals
from verdict_cli.stats.intervals.missing_data_bounds import missing_data_bounds
from verdict_cli.stats.metrics.confusion import MOST_DISTINCT_LABELS
from verdict_cli.stats.metrics.metric_families import (
    RowMask,
    family_keys,
    family_refusal,
    family_statistics,
    judged_rows,
    metric_family,
    metrics_offered,
    unscored,
    usable,
)
from verdict_cli.stats.prediction_powered import corrected, gold_pairs


def dedupe_metrics(metrics: Iterable[str], data: EvaluationData, rows: Ints, draw: Draw) -> dict[str, MetricValue]:
    """The figures of these rows, in the order of `metrics`."""
    asked = tuple(metrics)
    found: dict[str, MetricValue] = {}
    for name in dict.fromkeys(metric_family(metric, data) for metric in asked):
        wanted = [metric for metric in asked if metric_family(metric, data) == name]
        found |= _family(name, wanted, data, rows, draw)
    return {metric: found[metric] for metric in asked}


def _family(name: str, wanted: list[str], data: EvaluationData, rows: Ints, draw: Draw) -> dict[str, MetricValue]:
    kept = rows[usable(name, data)[rows]]
    no_meaning = unscored(name, data, rows)
    why = family_refusal(name, data) if len(kept) else "no rows"
    why = why or (no_meaning if name not in {"labels", "ranking"} else "")
    if why:
        return {metric: MetricValue(None, None, None, len(kept), why) for metric in wanted}
    if name == "within":
        return {metric: _within(metric, data, kept, draw) for metric in wanted}
    sample = Sample.of(
        tuple(column[kept] for column in family_keys(name, data)),
        data.cluster[kept] if data.cluster is not None else None,
    )
    given = family_statistics(name, data, kept[sample.first])
    if isinstance(given, str):
        return {metric: MetricValue(None, None, None, sample.n, given) for metric in wanted}
    for metric in wanted:
        if (part := foreign(metric)) is not None:
            given[metric] = metrics_offered(part, metric, data, kept[sample.first])
    used = len(np.union1d(data.target[kept], data.prediction[kept])) if name == "labels" else 1
    found: dict[str, MetricValue] = {}
    if used > MOST_DISTINCT_LABELS:
        why = f"there are {used} distinct labels, too many for classes"
        found = {metric: MetricValue(None, None, None, sample.n, why) for metric in wanted if metric != "accuracy"}
        used = 1
    if "confusion" in wanted and "confusion" not in found:
        found["confusion"] = MetricValue(_confusion(data, kept), None, None, sample.n)
    made = {metric: given[metric] for metric in wanted if metric in given and metric not in found}
    found |= metrics_with_intervals(made, sample, Draw(draw.rng, draw.level, used * used))
    for metric in wanted:
        if metric not in found:
            found[metric] = MetricValue(None, None, None, sample.n, no_meaning or f"it does not fit {data.kind} data")
    return found


def _within(metric: str, data: EvaluationData, rows: Ints, draw: Draw) -> MetricValue:
    """The mean of each cluster's own coefficient; `n` counts the clusters that have one."""
    values = by_cluster(metric, data, rows)
    if not np.isfinite(values).any():
        return MetricValue(None, None, None, 0, NONE)
    sample, mean = mean_of(values)
    figure = metrics_with_intervals({metric: mean}, sample, draw)[metric]
    low, high = (None if end is None else min(max(end, -1.0), 1.0) for end in (figure.low, figure.high))
    return MetricValue(figure.value, low, high, figure.n, figure.reason)


def _confusion(data: EvaluationData, rows: Ints) -> dict[str, Any]:
    """The confusion matrix: rows by target, columns by prediction; the label None is "no prediction"."""
    target, prediction = data.target[rows], data.prediction[rows]
    prediction = np.where(prediction == MISSING, len(data.labels), prediction)
    used = np.union1d(target, prediction)
    k = len(used)
    flat = np.searchsorted(used, target) * k + np.searchsorted(used, prediction)
    counts = np.bincount(flat, minlength=k * k).reshape(k, k)
    return {"labels": [(*data.labels, None)[code] for code in used], "counts": counts.tolist()}


MOST_MEASURED_GROUPS = 50
FEW_CLUSTERS = 20


def measure(
    evaluations: Mapping[str, Evaluation],
    results: Path,
    *,
    seed: int = 0,
    level: float = CONFIDENCE_LEVEL,
    only: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Measures]:
    """The figures of each evaluation over a run's `results.parquet`; the same seed gives the same intervals.

    `level` is the intervals' confidence; `only` restricts an evaluation to rows whose paths have these values.
    Raises DataError for a row whose target or group cannot be computed, for a reduction that does not fit its
    values, for predictions and targets of which one side is text and the other numbers, and for a probability of
    which nothing says what it is of.
    """
    found = measuring(evaluations, results, seed=seed, level=level, only=only)
    return {name: measures for name, measures, _, _ in found}


def measuring(
    evaluations: Mapping[str, Evaluation],
    results: Path,
    *,
    seed: int = 0,
    level: float = CONFIDENCE_LEVEL,
    only: Mapping[str, Mapping[str, Any]] | None = None,
) -> Iterator[tuple[str, Measures, EvaluationData, Ints | None]]:
    """Each evaluation's name, figures and rows, and the rows' places in the file (None where `group` made them).

    Raises what `measure` does.
    """
    found = collect(evaluations, results, only=only)
    for name, evaluation in evaluations.items():
        collected = reduced(name, evaluation, found.pop(name), results)
        data = EvaluationData.of(evaluation, collected)
        if "prediction" in collected.columns:
            check_labels(name, data, results)
        check_positive(name, evaluation, data, results)
        yield name, _measures(name, evaluation, collected, data, (seed, level)), data, collected.at


def _measures(
    name: str, evaluation: Evaluation, collected: Collected, data: EvaluationData, how: tuple[int, float]
) -> Measures:
    seed, level = how
    value = collected.columns.get("value")
    pairwise = "prediction" in collected.columns and data.kind == "pairwise"
    kind = data.kind if "target" in collected.columns or data.panel or pairwise else None
    labels_kind = data.kind if "prediction" in collected.columns else None
    metrics = tuple(metric for metric in fitting(evaluation, labels_kind, value) if metric not in OF_GOLD)
    everything = np.arange(collected.rows)
    groups, warnings = {}, list(_warnings(evaluation, collected, data))
    for text, keys in zip(evaluation.by, collected.by, strict=True):
        codes = keys.codes
        sizes = np.bincount(codes[codes != MISSING], minlength=len(keys.labels))
        order = np.argsort(-sizes, kind="stable")
        order = order[sizes[order] > 0]
        if len(order) > MOST_MEASURED_GROUPS:
            warnings.append(f"`by: {text}` has {len(order)} values; the {MOST_MEASURED_GROUPS} most frequent are shown")
        shown = [keys.labels[place] for place in order[:MOST_MEASURED_GROUPS]]
        spelled = dict(zip(order.tolist(), disambiguate_labels(shown), strict=False))
        groups[text] = {
            spelled[place]: _group(
                evaluation,
                metrics,
                collected,
                data,
                np.flatnonzero(codes == place),
                _draw(seed, level, name, text, str(place)),
            )
            for place in spelled
        }
    labelled = np.ones(collected.rows, bool)
    if "target" in collected.columns and not data.panel:
        labelled = data.targets.present
    missing = labelled & ~_present(collected, data)
    counted = int(labelled.sum())
    own, gold = _gold(evaluation, collected, data, _draw(seed, level, name, "gold"), everything)
    return Measures(
        figures=dedupe_metrics(metrics, data, everything, _draw(seed, level, name)) | own,
        groups=groups,
        coverage=1 - int(missing.sum()) / counted if counted else None,
        rows=collected.rows,
        unlabelled=collected.rows - counted,
        missing=int(missing.sum()),
        kind=kind or "",
        bounds=missing_data_bounds(metrics, data, missing) if missing.any() else {},
        unreadable={key: count for key, (count, _) in collected.unreadable.items()},
        warnings=tuple(warnings),
        published=evaluation.published,
        gold=gold,
    )


def _group(
    evaluation: Evaluation, metrics: tuple[str, ...], collected: Collected, data: EvaluationData, rows: Ints, draw: Draw
) -> dict[str, MetricValue]:
    """The figures of some of the rows, with the ones that labels correct."""
    return dedupe_metrics(metrics, data, rows, draw) | _gold(evaluation, collected, data, draw, rows)[0]


def _gold(
    evaluation: Evaluation, collected: Collected, data: EvaluationData, draw: Draw, rows: Ints
) -> tuple[dict[str, MetricValue], GoldFacts | None]:
    """The figures of these rows that people's labels of some correct; none without `gold`."""
    if evaluation.gold is None:
        return {}, None
    said = collected.columns["value" if evaluation.value is not None else "prediction"].take(rows)
    cluster = None if data.cluster is None else data.cluster[rows]
    found = gold_pairs(evaluation, said, collected.columns["gold"].take(rows), cluster)
    if isinstance(found, str):
        return dict.fromkeys(OF_GOLD, MetricValue(None, None, None, len(rows), found)), None
    return corrected(found, draw, evaluation.gold.half_width, evaluation.gold.of)


def _present(collected: Collected, data: EvaluationData) -> RowMask:
    """The rows on which the pipeline said what is measured; of a panel, two votes."""
    if data.panel:
        return judged_rows(data)
    said = next((collected.columns[key] for key in SAID if key in collected.columns), None)
    return np.zeros(collected.rows, bool) if said is None else said.present


def _draw(seed: int, level: float, *names: str) -> Draw:
    return Draw(np.random.default_rng([abs(seed), zlib.crc32("\0".join(names).encode())]), level)


def _warnings(evaluation: Evaluation, collected: Collected, data: EvaluationData) -> list[str]:
    found = []
    for key, (count, first) in collected.unreadable.items():
        rows = "1 row counts" if count == 1 else f"{count} rows count"
        found.append(f"{rows} as without {key}: {first}")
    if collected.undecided:
        found.append(f"{collected.undecided} rows without an output are left out: `where` needs it")
    positive = data.positive
    if positive is not None and not (data.target == positive).any():
        labels = ", ".join(repr(data.labels[code]) for code in np.unique(data.target[data.target != MISSING])[:10])
        found.append(
            f"`positive: {key_text(evaluation.positive)}` is never a target; the targets are {labels or 'none'}"
        )
    if data.cluster is not None and 0 < (clusters := len(np.unique(data.cluster))) < FEW_CLUSTERS:
        found.append(f"there are only {clusters} clusters: intervals from so few are rough")
    return found
