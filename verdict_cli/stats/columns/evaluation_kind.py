"""What an evaluation's predictions and targets are (labels, ordered words, numbers, rankings), and which metrics fit them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from verdict_cli.language.evaluations import Evaluation
from verdict_cli.language.metric_registry import BUILT_IN_METRICS, METRICS, EvaluationKind, MetricInput
from verdict_cli.stats.columns.column import MISSING, Column, LabelSet

OF_ONE_LABEL = ("precision", "recall")
"""Metrics that are left out by default without `positive`: averaged over the labels, recall is the balanced accuracy."""


def infer_kind(evaluation: Evaluation, columns: Sequence[Column]) -> EvaluationKind:
    """The kind that `kind:` sets, else the one that the types say of predictions (or a panel's votes) and targets."""
    if evaluation.kind is not None:
        return evaluation.kind
    types = frozenset().union(*(column.types for column in columns))
    if "list" in types:
        return "ranking"
    labels = LabelSet.of(*columns).values if "str" in types else ()
    if labels and set(labels) <= {"A", "B", "tie"} and evaluation.positive is None:
        return "pairwise"
    if "str" in types or evaluation.positive is not None or not types:
        return "classification"
    if "float" in types:
        return "numeric"
    return "classification" if "bool" in types else "ordinal"


def word_ranks(evaluation: Evaluation, targets: Column, predictions: Column) -> Mapping[str, int]:
    """The places of an ordered scale's words, if all predictions and targets are such words; else empty."""
    declared = next((column.declared for column in (predictions, targets) if column.declared), None)
    ranks = {} if declared is None or evaluation.positive is not None else declared.ranks
    if evaluation.kind not in (None, "ordinal") or {*targets.types, *predictions.types} != {"str"}:
        return {}
    known = all(
        column.words[code] in ranks
        for column in (targets, predictions)
        for code in np.unique(column.codes[column.present])
    )
    return ranks if known else {}


def ranked_words(column: Column, ranks: Mapping[str, int]) -> Column:
    """The words as numbers too: their places on an ordered scale."""
    if not ranks:
        return column
    places = np.array([*(float(ranks.get(word, np.nan)) for word in column.words), np.nan])
    return replace(column, numbers=places[np.maximum(column.codes, MISSING)], types=frozenset({"int"}))


def requested_metrics(
    evaluation: Evaluation, kind: EvaluationKind | None, value: Column | None, *, words: bool = False
) -> tuple[str, ...]:
    """The metrics that `metrics:` names, else a few that fit, none of which equals another by its definition.

    `words`: the values of an ordered scale are words.
    """
    if evaluation.metrics is not None:
        return evaluation.metrics
    if evaluation.panel is not None:
        return tuple(metric.name for metric in BUILT_IN_METRICS if "panel" in metric.inputs and not metric.by_name)
    inputs: dict[MetricInput, bool] = {
        "choice": kind == "pairwise" and evaluation.gold is None,
        "consistent": evaluation.consistent is not None,
        "choice_length": evaluation.options is not None,
        "probability": evaluation.probability is not None,
        "value": value is not None and value.types != {"bool"},
    }
    found: list[str] = []
    if kind and evaluation.target is not None:
        found = [metric.name for metric in BUILT_IN_METRICS if kind in metric.kinds and metric.inputs != ("choice",)]
        # Words have no distances.
        left_out = {
            name for name in found if words and "numbers" in METRICS[name].inputs and METRICS[name].has_own_unit
        }
        left_out |= set(OF_ONE_LABEL) if evaluation.positive is None else {"balanced_accuracy"}
        if evaluation.average == "micro" and evaluation.positive is None:
            left_out.add("f1")  # all decisions pooled, it is the accuracy
        found = [name for name in found if name not in left_out]
    for of, given in inputs.items():
        found += [metric.name for metric in BUILT_IN_METRICS if given and metric.inputs == (of,)]
    return (*found, "mean") if value is not None and not inputs["value"] else tuple(found)
