"""Two runs over the same rows: what changed in every figure, whether it is more than chance, and on which rows."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from verdict_cli.language.evaluations import Evaluation
from verdict_cli.stats.columns.column import MISSING, Floats, Ints, disambiguate_labels
from verdict_cli.stats.columns.row_data import EvaluationData, fitting
from verdict_cli.stats.columns.row_identity import identities
from verdict_cli.stats.evaluation_results import outcome_cell, predictions, scores_of
from verdict_cli.stats.intervals.intervals import Draw
from verdict_cli.stats.paired import Difference, PairedRows, pair, paired_difference, sides, unlike
from verdict_cli.stats.significance import Significance, holm, significance_of

MOST_COMPARED_SLICES = 50


@dataclass(frozen=True, slots=True)
class Flip:
    """A row that the two runs score differently: both predictions, the target, and the second run's gain."""

    id: Any
    first: Any
    second: Any
    target: Any
    gain: float


@dataclass(frozen=True, slots=True)
class Slice:
    """The figures of both runs over `n` shared rows, and the test of the difference."""

    n: int
    figures: Mapping[str, Difference]
    test: Significance | None


@dataclass(frozen=True, slots=True)
class ComparedMetric:
    """One evaluation in two runs.

    `alone` counts the rows that only the first and only the second run has. `slices` is expression -> value as
    text -> slice. `flips` are sorted by how much the second run gains or loses, then by their order. `reason` says
    why nothing could be compared.
    """

    kind: str
    alone: tuple[int, int] = (0, 0)
    whole: Slice = field(default_factory=lambda: Slice(0, {}, None))
    slices: Mapping[str, Mapping[str, Slice]] = field(default_factory=dict)
    flips: tuple[Flip, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RunComparison:
    """Every evaluation that two runs share; `by` says what their rows are paired by: `id` or `content`."""

    by: str
    evaluations: Mapping[str, ComparedMetric]


def compare_runs(
    evaluations: Mapping[str, tuple[Evaluation, Evaluation]],
    runs: tuple[Path, Path],
    *,
    by: Sequence[str] = (),
    seed: int = 0,
) -> RunComparison:
    """The second run's `results.parquet` against the first's; each evaluation as the first and the second define it.

    `by` are expressions over the second run's rows that slice every evaluation beside its own. Raises DataError
    where rows cannot be paired or measured.
    """
    known = identities(runs)
    sliced = {
        name: (
            first.model_copy(update={"by": ()}),
            second.model_copy(update={"by": tuple(dict.fromkeys((*second.by, *by)))}),
        )
        for name, (first, second) in evaluations.items()
    }
    found = [
        sides({name: each[place] for name, each in sliced.items()}, run, known.keys[place])
        for place, run in enumerate(runs)
    ]
    made = {}
    for name, (_, evaluation) in sliced.items():
        pairs = pair(found[0].pop(name), found[1].pop(name))
        if isinstance(pairs, str):
            made[name] = ComparedMetric("", reason=pairs)
            continue
        shown = dict(zip(known.keys[1], known.shown, strict=True)) if evaluation.group is None else {}
        made[name] = _compared(name, evaluation, pairs, shown, seed)
    whole = holm([one.whole.test for one in made.values()])
    return RunComparison(
        known.by,
        {
            name: replace(one, whole=replace(one.whole, test=test))
            for (name, one), test in zip(made.items(), whole, strict=True)
        },
    )


def _compared(
    name: str, evaluation: Evaluation, pairs: PairedRows, shown: Mapping[str, Any], seed: int
) -> ComparedMetric:
    new = pairs.data[1]
    if why := unlike(*pairs.data):
        return ComparedMetric(new.kind, pairs.alone, reason=why)
    metrics = tuple(metric for metric in _metrics(evaluation, new) if metric != "confusion")
    scored = [scores_of(data, metrics) for data in pairs.data]
    scores = (scored[0][pairs.rows[0]], scored[1][pairs.rows[1]])
    slices: dict[str, dict[str, Slice]] = {}
    for text, keys in zip(evaluation.by, pairs.by, strict=True):
        codes = keys.codes[pairs.rows[1]]
        sizes = np.bincount(codes[codes != MISSING], minlength=len(keys.labels))
        order = np.argsort(-sizes, kind="stable")[:MOST_COMPARED_SLICES]
        order = order[sizes[order] > 0]
        spelled = disambiguate_labels([keys.labels[place] for place in order])
        made = [
            _slice(metrics, pairs, scores, np.flatnonzero(codes == place), (seed, name, text, str(place)))
            for place in order
        ]
        tests = holm([one.test for one in made])
        slices[text] = {value: replace(one, test=test) for value, one, test in zip(spelled, made, tests, strict=True)}
    everything = np.arange(len(pairs.keys))
    return ComparedMetric(
        kind=new.kind if new.targets.types or new.predictions.types else "value",
        alone=pairs.alone,
        whole=_slice(metrics, pairs, scores, everything, (seed, name)),
        slices=slices,
        flips=_flips(pairs, scores, shown),
    )


def _metrics(evaluation: Evaluation, data: EvaluationData) -> tuple[str, ...]:
    value = data.value if evaluation.value is not None else None
    return fitting(evaluation, data.kind if evaluation.prediction is not None else None, value)


def _slice(
    metrics: Sequence[str], pairs: PairedRows, scores: tuple[Floats, Floats], places: Ints, named: tuple[int | str, ...]
) -> Slice:
    rng = np.random.default_rng([abs(int(named[0])), zlib.crc32("\0".join(map(str, named[1:])).encode())])
    some = pairs.take(places)
    first, second = scores[0][places], scores[1][places]
    both = np.isfinite(first) & np.isfinite(second)
    cluster = pairs.data[1].cluster
    of = None if cluster is None else cluster[some.rows[1]][both]
    return Slice(
        len(places),
        {metric: paired_difference(metric, some, Draw(rng)) for metric in metrics},
        significance_of(first[both], second[both], of, rng),
    )


def _flips(pairs: PairedRows, scores: tuple[Floats, Floats], shown: Mapping[str, Any]) -> tuple[Flip, ...]:
    gain = scores[1] - scores[0]
    places = np.flatnonzero(np.isfinite(gain) & (gain != 0))
    places = places[np.argsort(-np.abs(gain[places]), kind="stable")]
    old, new = pairs.data
    said_by = [predictions(data) for data in (old, new)]
    return tuple(
        Flip(
            shown.get(pairs.keys[place], pairs.keys[place]),
            outcome_cell(said_by[0], pairs.rows[0][place]),
            outcome_cell(said_by[1], pairs.rows[1][place]),
            outcome_cell(new.targets, pairs.rows[1][place]),
            float(gain[place]),
        )
        for place in places.tolist()
    )
