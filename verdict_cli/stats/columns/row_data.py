"""The rows of one evaluation as metrics see them: grouped (`group:`, `reduce:`), coded, and of which kind (labels, ordered
words, numbers, rankings), and which metrics fit it; with the human labels of some rows, and with what probability these were
drawn."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from verdict_cli.errors import DataError, Problem
from verdict_cli.language.evaluations import Evaluation, GoldScope
from verdict_cli.language.metric_registry import (
    BUILT_IN_METRICS,
    METRICS,
    EvaluationKind,
    MetricInput,
)
from verdict_cli.language.units.base import NO_PREFERENCE
from verdict_cli.plural import plural
from verdict_cli.stats.columns.collect import Collected
from verdict_cli.stats.columns.column import (
    GOLD,
    INCLUSION,
    MISSING,
    NUMERIC,
    Column,
    Ends,
    Factorized,
    Floats,
    Ints,
    LabelSet,
    RowMask,
    key_text,
    shared_bounds,
)


class GoldPairs(Struct, frozen=True):
    """The judge's answer to each row, and the human label: NaN where there is none.

    `binary`: both are 0 or 1. `cluster` is each row's cluster, `bounds` the ends of the scale that both are on,
    `inclusion` the probability with which a labelled row was drawn; None where all rows have the same. `of` is what the
    estimates are about.
    """

    judge: Floats
    truth: Floats
    binary: bool
    cluster: Ints | None = None
    bounds: Ends | None = None
    inclusion: Floats | None = None
    of: GoldScope = "population"

    def clip(self, value: float) -> float:
        """The value, moved to the nearest end of its range."""
        low, high = (0.0, 1.0) if self.binary else self.bounds or (-math.inf, math.inf)
        return min(max(value, low), high)

    @property
    def range(self) -> float:
        """The most by which two values can differ."""
        low, high = self.clip(-math.inf), self.clip(math.inf)
        return high - low

    @property
    def labelled(self) -> RowMask:
        return np.logical_not(np.isnan(self.truth))

    @property
    def answered(self) -> RowMask:
        return np.logical_not(np.isnan(self.judge))

    @property
    def weights(self) -> Floats:
        """How many rows each labelled row stands for: one over its probability."""
        if self.inclusion is None:
            count = int(self.labelled.sum())
            return np.full(count, len(self.truth) / max(count, 1))
        weights: Floats = 1 / self.inclusion[self.labelled]
        return weights

    def take(self, rows: Ints) -> GoldPairs:
        return replace(
            self,
            judge=self.judge[rows],
            truth=self.truth[rows],
            cluster=None if self.cluster is None else self.cluster[rows],
            inclusion=None if self.inclusion is None else self.inclusion[rows],
        )


def gold_pairs(
    evaluation: Evaluation, columns: Mapping[str, Column], cluster: Ints | None
) -> GoldPairs | str | None:
    """All rows, or why they cannot be compared; None without `gold`. A `positive` makes shares of labels."""
    if evaluation.gold is None:
        return None
    judged = columns["value" if evaluation.value is not None else "prediction"]
    gold = columns[GOLD]
    if evaluation.positive is not None:
        labels = LabelSet.of(gold, judged, positive=evaluation.positive)
        code = labels.index(evaluation.positive)
        judge, truth = (
            (labels.codes(column) == code).astype(np.float64) for column in (judged, gold)
        )
        binary, bounds = True, None
    elif judged.numeric and gold.numeric:
        judge, truth = judged.numbers.copy(), gold.numbers.copy()
        both = np.concatenate([judge[judged.present], truth[gold.present]])
        binary, bounds = bool(np.isin(both, (0.0, 1.0)).all()), shared_bounds(judged, gold)
    else:
        return "`gold` compares numbers; set `positive` to count a label"
    truth[np.equal(gold.codes, MISSING)] = np.nan
    judge[np.equal(judged.codes, MISSING)] = np.nan
    inclusion = columns[INCLUSION].numbers if INCLUSION in columns else None
    if inclusion is not None:
        truth[np.isnan(inclusion)] = np.nan
    return GoldPairs(judge, truth, binary, cluster, bounds, inclusion, evaluation.gold.of)


def check_inclusion(name: str, evaluation: Evaluation, collected: Collected, results: Path) -> None:
    """Raises DataError where `gold.weight` gives something else than a probability above 0 or null."""
    column = collected.columns.get(INCLUSION)
    if column is None or evaluation.gold is None:
        return
    with np.errstate(invalid="ignore"):
        bad = column.present & ~((column.numbers > 0) & (column.numbers <= 1))
    if "bool" in column.types:  # among numbers true and 1 are alike
        bad = column.present & np.isin(column.numbers, (0, 1))
    if not bad.any():
        return
    first = int(np.flatnonzero(bad)[0])
    row = "" if collected.at is None else f"row {collected.at[first]}: "
    value = "true or false" if "bool" in column.types else _literal(column.value(first))
    message = (
        f"{row}`{evaluation.gold.weight}` gives {value}, "
        "which is not a row's probability of being drawn"
    )
    hint = "give a number above 0 and at most 1, such as `human.inclusion`, or null for rows whose label does not count"
    raise _data_error("gold-weight", message, hint, results, f"{name}.{INCLUSION}")


def _data_error(code: str, message: str, hint: str, results: Path, key: str) -> DataError:
    return DataError(Problem(code, message, hint, file=str(results), path=f"evaluate.{key}"))


COLUMNS = ("targets", "predictions", "probability", "value", "consistent", "longer")
"""The fields of `EvaluationData` that are columns."""


class EvaluationData(Struct, frozen=True):
    """The rows of an evaluation: codes of labels, numbers, and what they mean.

    `target`, `prediction` and each judge's `votes` are indices into `labels`, MISSING where there is none; `wrong` says
    that a missing prediction counts as a label of its own. Numbers are NaN where a value is missing or not a number.
    `panel` is empty where there is no panel of judges. `gold` are the rows with their human labels, or why there are none.
    """

    kind: EvaluationKind
    labels: tuple[Any, ...]
    target: Ints
    prediction: Ints
    targets: Column
    predictions: Column
    probability: Column
    value: Column
    consistent: Column
    longer: Column
    panel: tuple[Column, ...]
    votes: tuple[Ints, ...]
    positive: int | None
    wrong: bool
    cluster: Ints | None
    average: str = "macro"
    beta: float = 1.0
    k: int = 1
    gold: GoldPairs | str | None = None

    @staticmethod
    def of(evaluation: Evaluation, collected: Collected) -> EvaluationData:
        rows = collected.rows
        none = Column(
            np.full(rows, np.nan), np.full(rows, MISSING, dtype=np.int32), (), frozenset()
        )
        columns = collected.columns
        targets, predictions = columns.get("target", none), columns.get("prediction", none)
        panel = tuple(column for key, column in columns.items() if key.startswith("panel["))
        kind = infer_kind(evaluation, (predictions, targets, *panel))
        ranks = word_ranks(evaluation, targets, predictions)
        cluster = _clusters(collected.cluster) if collected.cluster else None
        if ranks and kind != "ranking":
            kind = evaluation.kind or "ordinal"
        labels = LabelSet.of(targets, predictions, *panel, positive=evaluation.positive)
        return EvaluationData(
            kind=kind,
            labels=labels.values,
            target=labels.codes(targets),
            prediction=labels.codes(predictions),
            targets=ranked_words(targets, ranks),
            predictions=ranked_words(predictions, ranks),
            probability=columns.get("probability", none),
            value=columns.get("value", none),
            consistent=columns.get("consistent", none),
            longer=_longer(columns) if "options[0]" in columns else none,
            panel=panel,
            votes=tuple(labels.codes(column) for column in panel),
            positive=labels.index(evaluation.positive),
            wrong=evaluation.missing == "wrong",
            cluster=cluster,
            average=evaluation.average,
            beta=evaluation.beta or 1.0,
            k=evaluation.k or 1,
            gold=gold_pairs(evaluation, columns, cluster),
        )

    @property
    def words(self) -> bool:
        """Whether predictions are words, be they on an ordered scale."""
        return bool((self.predictions.codes >= 0).any())

    @property
    def is_positive(self) -> Floats | None:
        """1 where the target is positive, else 0; None where nothing says which target is."""
        code = self.positive
        if code is None and self.targets.types == {"bool"}:
            code = next(
                (index for index, label in enumerate(self.labels) if label is True),
                len(self.labels),
            )
        return None if code is None else (self.target == code).astype(np.float64)


def _longer(columns: Mapping[str, Column]) -> Column:
    """By how much option A is longer than B."""
    lengths = columns["options[0]"].numbers - columns["options[1]"].numbers
    codes = np.where(np.isnan(lengths), MISSING, NUMERIC).astype(np.int32)
    return Column(lengths, codes, (), frozenset({"float"}))


def in_no_cluster(keys: Factorized) -> RowMask:
    return np.isin(keys.codes, [code for code, key in enumerate(keys.labels) if key is None])


def _clusters(keys: Factorized) -> Ints:
    """The cluster of each row; a row whose cluster is null is one of its own."""
    codes, alone = keys.codes.astype(np.int64), in_no_cluster(keys)
    codes[alone] = len(keys.labels) + np.arange(int(alone.sum()))
    return codes


def check_labels(name: str, data: EvaluationData, results: Path) -> None:
    """Raises DataError when one side is all text and the other all numbers: nothing can ever be equal."""
    if not data.targets.types or not data.predictions.types or data.kind == "ranking":
        return
    if data.targets.numeric == data.predictions.numeric or (
        np.intersect1d(data.target[data.target != MISSING], data.prediction).size
    ):
        return
    sides = []
    for side, column, codes in (
        ("predictions", data.predictions, data.prediction),
        ("targets", data.targets, data.target),
    ):
        example = data.labels[int(codes[codes != MISSING][0])]
        kind = ("booleans" if column.types == {"bool"} else "numbers") if column.numeric else "text"
        sides.append(f"{side} are {kind} such as {_literal(example)}")
    message = f"no prediction can ever equal a target: {' and '.join(sides)}"
    hint = (
        "convert one of them in its expression, such as `'yes' if output.score else 'no'` or `source.label | int`; "
        "`verdict validate CONFIG DATA` says which fits these labels"
    )
    raise _data_error("label-types", message, hint, results, name)


def near_misses(data: EvaluationData) -> str:
    """How many rows are wrong only because a label is spelled or typed otherwise, such as '1' and 1; "" if none is."""
    numbers_only = data.targets.numeric and data.predictions.numeric
    if data.kind == "ranking" or not data.labels or numbers_only:
        return ""
    spellings = [
        unicodedata.normalize("NFKC", key_text(label)).strip().casefold() for label in data.labels
    ]
    code_of = {text: code for code, text in reversed([*enumerate(spellings)])}
    same = np.array([*(code_of[text] for text in spellings), MISSING], dtype=np.int64)
    rows = (data.target != data.prediction) & (data.prediction != MISSING)
    rows &= same[data.target] == same[data.prediction]
    count = int(rows.sum())
    if not count:
        return ""
    first = int(np.flatnonzero(rows)[0])
    pair = " and ".join(
        _literal(data.labels[int(side[first])]) for side in (data.prediction, data.target)
    )
    wrong = plural(count, "row counts|rows count")
    return f"{wrong} as wrong although prediction and target differ only in type, case or spaces, such as {pair}"


def _literal(label: Any) -> str:
    return key_text(label) if isinstance(label, bool) else repr(label)


def check_positive(name: str, evaluation: Evaluation, data: EvaluationData, results: Path) -> None:
    """Raises DataError where nothing says which target a probability is of."""
    if evaluation.probability is None or not data.targets.types or data.is_positive is not None:
        return
    example = key_text(data.labels[int(data.target[data.target != MISSING][0])])
    message = "`probability` needs `positive`, the target whose probability it is: only booleans need none"
    hint = f"such as `positive: {example}`"
    raise _data_error("positive", message, hint, results, name)


def prepared(
    name: str, evaluation: Evaluation, collected: Collected, results: Path
) -> tuple[Collected, EvaluationData]:
    """A collected evaluation reduced to its groups. Raises DataError where a reduction, labels or weights do not fit."""
    collected = reduce_groups(name, evaluation, collected, results)
    data = EvaluationData.of(evaluation, collected)
    if "prediction" in collected.columns:
        check_labels(name, data, results)
    check_inclusion(name, evaluation, collected, results)
    return collected, data


def reduce_groups(
    name: str, evaluation: Evaluation, collected: Collected, results: Path
) -> Collected:
    """One row for each group, in order of first appearance, with the group's key as its id.

    A group with one prediction (value, probability) missing has none, since that one could have changed it. Missing
    targets are left out. `by` and `cluster` are the first row's. Raises DataError where a reduction does not fit.
    """
    if collected.group is None or evaluation.reduce is None:
        return collected
    groups = collected.group.codes.astype(np.int64)
    indices = np.flatnonzero(groups != MISSING)
    groups = groups[indices]
    first = indices[np.unique(groups, return_index=True)[1]]
    columns = {}
    for key, column in collected.columns.items():
        reducer = getattr(evaluation.reduce, key)
        grouped = column.take(indices)
        _check_reducer(grouped, reducer, f"{name}.reduce.{key}", results)
        columns[key] = _reduce(grouped, groups, reducer, skip_missing=key == "target")
    return replace(
        collected,
        rows=len(first),
        columns=columns,
        by=tuple(keys.take(first) for keys in collected.by),
        cluster=collected.cluster.take(first) if collected.cluster else None,
        group=None,
        ids=[key_text(collected.group.labels[code]) for code in np.unique(groups)],
        at=None,
    )


def _reduce(column: Column, groups: Ints, reducer: str, *, skip_missing: bool) -> Column:
    keys, groups = np.unique(groups, return_inverse=True)
    count = len(keys)
    present = np.flatnonzero(column.present)
    incomplete = np.bincount(groups[~column.present], minlength=count) > 0
    values, group_of = column.take(present), groups[present]
    numbers, codes = np.full(count, np.nan), np.full(count, MISSING, dtype=np.int32)
    types = column.types
    if reducer in ("first", "mode"):
        rows = np.unique(group_of, return_index=True)[1]
        if reducer == "mode":
            rows = _modes(LabelSet.of(values).codes(values), group_of)
        numbers[group_of[rows]], codes[group_of[rows]] = values.numbers[rows], values.codes[rows]
    elif len(present):  # scipy takes no empty array
        from scipy import ndimage

        reduced = np.unique(group_of)
        numbers[reduced] = getattr(ndimage, _REDUCERS[reducer])(values.numbers, group_of, reduced)
        codes[reduced] = NUMERIC
        types = frozenset({"float"}) if reducer in ("mean", "median") else types
    if not skip_missing:
        numbers[incomplete], codes[incomplete] = np.nan, MISSING
    # Each reduction keeps to the scale: none leaves the range of its values.
    return replace(column, numbers=numbers, codes=codes, types=types)


def _check_reducer(column: Column, reducer: str, key: str, results: Path) -> None:
    if reducer in ("first", "mode"):
        return
    truth = reducer in ("any", "all")
    if column.types <= ({"bool"} if truth else {"bool", "int", "float"}):
        return
    needs = "true or false" if truth else "numbers"
    message = f"`{reducer}` needs {needs}; found {', '.join(sorted(column.types))}"
    hint = "write an expression that gives them, or use `mode` or `first`"
    raise _data_error("reduce", message, hint, results, key)


def _modes(labels: Ints, groups: Ints) -> Ints:
    """A row of each group that has its most frequent label; ties go to the label that occurs first."""
    pair = groups * (int(labels.max(initial=0)) + 1) + labels
    _, first, counts = np.unique(pair, return_index=True, return_counts=True)
    order = np.lexsort((first, -counts, groups[first]))
    ordered = first[order]
    modes: Ints = ordered[np.unique(groups[ordered], return_index=True)[1]]
    return modes


_REDUCERS = {
    "max": "maximum",
    "any": "maximum",
    "min": "minimum",
    "all": "minimum",
    "mean": "mean",
    "median": "median",
}
"""The functions of `scipy.ndimage` that reduce each group."""


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
    if labels and set(labels) <= {"A", "B", *NO_PREFERENCE} and evaluation.positive is None:
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
    has_ranks = all(
        column.words[code] in ranks
        for column in (targets, predictions)
        for code in np.unique(column.codes[column.present])
    )
    return ranks if has_ranks else {}


def ranked_words(column: Column, ranks: Mapping[str, int]) -> Column:
    """The words as numbers too: their places on an ordered scale."""
    if not ranks:
        return column
    places = np.array([*(float(ranks.get(word, np.nan)) for word in column.words), np.nan])
    return replace(
        column, numbers=places[np.maximum(column.codes, MISSING)], types=frozenset({"int"})
    )


def requested_metrics(evaluation: Evaluation, data: EvaluationData) -> tuple[str, ...]:
    """The metrics that `metrics:` names, else a few that fit, none of which equals another by its definition."""
    if evaluation.metrics is not None:
        return evaluation.metrics
    if evaluation.panel is not None:
        return tuple(
            metric.name
            for metric in BUILT_IN_METRICS
            if "panel" in metric.inputs and not metric.by_name
        )
    kind = data.kind if evaluation.prediction is not None else None
    is_truth = evaluation.value is not None and data.value.types == {"bool"}
    inputs: dict[MetricInput, bool] = {
        "choice": kind == "pairwise" and evaluation.gold is None,
        "consistent": evaluation.consistent is not None,
        "choice_length": evaluation.options is not None,
        "probability": evaluation.probability is not None,
        "value": evaluation.value is not None and not is_truth,
    }
    names: list[str] = []
    if kind and evaluation.target is not None:
        names = [
            metric.name
            for metric in BUILT_IN_METRICS
            if kind in metric.kinds and metric.inputs != ("choice",)
        ]
        # Words have no distances.
        left_out = {
            name
            for name in names
            if data.words and "numbers" in METRICS[name].inputs and METRICS[name].has_own_unit
        }
        left_out |= set(OF_ONE_LABEL) if evaluation.positive is None else {"balanced_accuracy"}
        if evaluation.average == "micro" and evaluation.positive is None:
            left_out.add("f1")  # all decisions pooled, it is the accuracy
        names = [name for name in names if name not in left_out]
    for family, has_input in inputs.items():
        names += [
            metric.name for metric in BUILT_IN_METRICS if has_input and metric.inputs == (family,)
        ]
    return (*names, "mean") if is_truth else tuple(names)
