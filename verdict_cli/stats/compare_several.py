"""Three or more runs over the same rows: every metric of each pipeline, and its difference from the reference.

Repeated runs of one pipeline are one of the things compared, with the mean of its runs. The intervals of a metric hold
for all pipelines together, and p-values are adjusted over all metrics and pipelines (`reference.py`, Holm).
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from verdict_cli.language.evaluations import Evaluation
from verdict_cli.stats.columns.column import MISSING, Ints, disambiguate_labels
from verdict_cli.stats.columns.row_identities import RowIdentities, row_identities
from verdict_cli.stats.compare import MOST_COMPARED_SLICES, compared_metrics, holm_adjusted
from verdict_cli.stats.corrected_difference import CORRECTED
from verdict_cli.stats.intervals.intervals import CONFIDENCE_LEVEL
from verdict_cli.stats.paired import (
    Difference,
    OpenRows,
    RunRows,
    aligned_rows,
    kind_mismatch,
    pair,
    run_rows,
    undefined_difference,
)
from verdict_cli.stats.permutation import FEWER_SWAPS, SWAPS, swap_tests
from verdict_cli.stats.reference import RunSpread, compare_with_reference, restricted


@dataclass(frozen=True, slots=True)
class SeveralValues:
    """A metric of each pipeline over the rows that all runs score (`values`), and of each of its runs (`runs`).

    Both are empty where the metric is undefined in a run. `differences` are from the first pipeline, without it. `spread`
    is None where no pipeline has repeated runs.
    """

    values: tuple[float, ...]
    runs: tuple[tuple[float, ...], ...]
    spread: RunSpread | None
    differences: tuple[Difference, ...]


@dataclass(frozen=True, slots=True)
class SeveralSlice:
    """The metrics over `n` rows that all runs have."""

    n: int
    metrics: Mapping[str, SeveralValues]


@dataclass(frozen=True, slots=True)
class SeveralEvaluation:
    """One evaluation in several runs.

    `alone` counts the rows of each run that not all runs have. `slices` is expression -> value as text -> slice.
    `reason` says why nothing could be compared.
    """

    kind: str
    alone: tuple[int, ...] = ()
    whole: SeveralSlice = field(default_factory=lambda: SeveralSlice(0, {}))
    slices: Mapping[str, Mapping[str, SeveralSlice]] = field(default_factory=dict)
    reason: str = ""


@dataclass(frozen=True, slots=True)
class SeveralComparison:
    """Every evaluation that all runs share, with intervals at `level`; `paired` says how their rows are paired.

    `sizes` has the number of runs of each pipeline, the reference first.
    """

    paired: RowIdentities
    level: float
    sizes: tuple[int, ...]
    evaluations: Mapping[str, SeveralEvaluation]


def compare_several(
    evaluations: Mapping[str, Sequence[Evaluation]],
    pipelines: Sequence[Sequence[Path]],
    *,
    by: Sequence[str] = (),
    seed: int = 0,
    level: float = CONFIDENCE_LEVEL,
) -> SeveralComparison:
    """The `results.parquet` of each pipeline's runs against the first pipeline's; each evaluation as each run defines it.

    `by` are expressions over the first run's rows that slice every evaluation, after its own. Raises DataError where rows
    cannot be paired or measured.
    """
    results = [run for pipeline in pipelines for run in pipeline]
    known = row_identities(results)
    sliced = {
        name: [
            each.model_copy(update={"by": () if index else tuple(dict.fromkeys((*each.by, *by)))})
            for index, each in enumerate(runs)
        ]
        for name, runs in evaluations.items()
    }
    sides = [
        run_rows({name: each[index] for name, each in sliced.items()}, run, known.keys[index])
        for index, run in enumerate(results)
    ]
    sizes = tuple(len(each) for each in pipelines)
    compared = {}
    for name, runs in sliced.items():
        compared[name] = _evaluation(name, runs[0], [side.pop(name) for side in sides], sizes, level, seed)
    wholes = iter(_adjusted([each.whole for each in compared.values()]))
    return SeveralComparison(
        known, level, sizes, {name: replace(each, whole=next(wholes)) for name, each in compared.items()}
    )


def _evaluation(
    name: str, evaluation: Evaluation, runs: Sequence[RunRows], sizes: Sequence[int], level: float, seed: int
) -> SeveralEvaluation:
    first, slices_of, _ = runs[0]
    rows = aligned_rows(runs)
    if isinstance(rows, str):
        return SeveralEvaluation(first.kind, reason=rows)
    alone = tuple(len(run[2]) - len(rows[0]) for run in runs)
    if why := next(filter(None, (kind_mismatch(first, run[0]) for run in runs)), ""):
        return SeveralEvaluation(first.kind, alone, reason=why)
    metrics = compared_metrics(evaluation, first)
    metrics = (*metrics, CORRECTED) if any(run[0].gold is not None for run in runs) else metrics

    def compared(kept: Ints, swaps: int, *names: str) -> SeveralSlice:
        seeds = [abs(seed), zlib.crc32("\0".join((name, *names)).encode())]
        some = [restricted(run, at[kept]) for run, at in zip(runs, rows, strict=True)]
        starts = np.cumsum([0, *sizes])
        pipelines = [some[start : start + size] for start, size in zip(starts, sizes, strict=False)]
        repeated = any(len(each) > 1 for each in pipelines)
        values = {metric: _values(metric, pipelines, level, seeds, swaps if repeated else 0) for metric in metrics}
        return SeveralSlice(len(kept), _tested(values, pipelines, seeds, swaps, repeated=repeated))

    slices = {}
    for text, keys in zip(evaluation.by, slices_of, strict=True):
        codes = keys.codes[rows[0]]
        counts = np.bincount(codes[codes != MISSING], minlength=len(keys.labels))
        order = np.argsort(-counts, kind="stable")[:MOST_COMPARED_SLICES]
        order = order[counts[order] > 0]
        parts = [compared(np.flatnonzero(codes == code), FEWER_SWAPS, text, str(code)) for code in order]
        labels = disambiguate_labels([keys.labels[code] for code in order])
        slices[text] = dict(zip(labels, _adjusted(parts), strict=True))
    share = max(count / max(len(run[2]), 1) for count, run in zip(alone, runs, strict=True))
    whole = compared(np.arange(len(rows[0])), SWAPS)
    return SeveralEvaluation(first.kind, alone, _with_open_rows(whole, share), slices)


def _with_open_rows(whole: SeveralSlice, share: float) -> SeveralSlice:
    """The differences with the largest share of a run's rows that not all runs have."""
    if not share:
        return whole
    return replace(
        whole,
        metrics={
            name: replace(
                values, differences=tuple(replace(each, open_rows=OpenRows(share)) for each in values.differences)
            )
            for name, values in whole.metrics.items()
        },
    )


def _values(
    metric: str, pipelines: Sequence[Sequence[RunRows]], level: float, seeds: Sequence[int], swaps: int
) -> SeveralValues:
    found = compare_with_reference(metric, pipelines, level, [*seeds, zlib.crc32(metric.encode())], swaps)
    differences = tuple(undefined_difference(each) if isinstance(each, str) else each for each in found.differences)
    return SeveralValues(found.values, found.runs, found.spread, differences)


def _tested(
    values: Mapping[str, SeveralValues],
    pipelines: Sequence[Sequence[RunRows]],
    seeds: Sequence[int],
    swaps: int,
    *,
    repeated: bool,
) -> dict[str, SeveralValues]:
    """The differences with p-values adjusted for all metrics of each pipeline: of single runs by max-T over the same swaps, of
    repeated ones after Holm."""
    found = {metric: [*each.differences] for metric, each in values.items()}
    for index, pipeline in enumerate(pipelines[1:]):
        tests: dict[str, tuple[float | None, float | None]] = {}
        own = {metric: each[index].p for metric, each in found.items()}
        if not repeated:
            pairs = pair(pipelines[0][0], pipeline[0])
            metrics = [
                metric for metric, p in own.items() if p is None and found[metric][index].change.value is not None
            ]
            if not isinstance(pairs, str) and metrics:
                tests |= swap_tests(metrics, pairs.data, pairs.rows, np.random.default_rng([*seeds, index]), swaps)
        others = [metric for metric, p in own.items() if p is not None]
        if repeated:
            tests |= zip(
                others,
                zip((own[one] for one in others), holm_adjusted([own[one] for one in others]), strict=True),
                strict=True,
            )
        else:
            families = len(others) + bool(tests)
            tests = {metric: (p, min((adjusted or 0.0) * families, 1.0)) for metric, (p, adjusted) in tests.items()}
            tests |= {metric: (own[metric], min((own[metric] or 0.0) * families, 1.0)) for metric in others}
        for metric, (p, adjusted) in tests.items():
            found[metric][index] = replace(found[metric][index], p=p, p_holm=adjusted)
    return {metric: replace(each, differences=tuple(found[metric])) for metric, each in values.items()}


def _adjusted(parts: Sequence[SeveralSlice]) -> list[SeveralSlice]:
    """The slices with the p-values adjusted for the pipelines, and for all parts, by Bonferroni's inequality."""
    families = sum(len(next(iter(part.metrics.values())).differences) for part in parts if part.metrics)
    return [
        replace(
            part,
            metrics={
                name: replace(values, differences=tuple(each.adjusted(families) for each in values.differences))
                for name, values in part.metrics.items()
            },
        )
        for part in parts
    ]
