"""Two runs over the same rows: what changed in every metric, whether it is more than chance, and on which rows.

- Each metric's difference has a p-value of its own, adjusted for the metrics of its evaluation by max-T over the same swaps
  (`permutation.py`), and for several evaluations, or the slices of one expression, by Bonferroni's inequality.
- Right or wrong, independent rows: McNemar's exact test, the binomial test of the rows that only one run gets right
  (McNemar, 1947; oracle: scipy). Effect: Cohen's g, the share of these rows that the second run gets right minus a half.
- Numbers, and rows in clusters: the sign-flip permutation test of the differences (Fisher, 1935; scipy), whole clusters
  flipped together, 9,999 seeded flips, or all of them where there are fewer; beyond 5,000 rows or clusters its normal
  limit. Effect of numbers: Cohen's d of the differences, their mean over their standard deviation.
- Several tests of rows together: Holm's procedure (Holm, 1979).
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from verdict_cli.language.evaluations import Evaluation
from verdict_cli.stats.columns.column import MISSING, Floats, Ints, disambiguate_labels
from verdict_cli.stats.columns.evaluation_kind import requested_metrics
from verdict_cli.stats.columns.row_data import EvaluationData
from verdict_cli.stats.columns.row_identities import RowIdentities, row_identities
from verdict_cli.stats.corrected_difference import CORRECTED
from verdict_cli.stats.evaluation_results import score_meaning, scores_of
from verdict_cli.stats.intervals.intervals import CONFIDENCE_LEVEL, Draw
from verdict_cli.stats.paired import Difference, PairedRows, kind_mismatch, pair, paired_differences, run_rows
from verdict_cli.stats.paired_outcomes import Flip, PairedOutcomes
from verdict_cli.stats.permutation import FEWER_SWAPS, SWAPS, sign_flip_test
from verdict_cli.stats.worst_case import open_pairs

MOST_COMPARED_SLICES = 50
MCNEMAR = "mcnemar"


@dataclass(frozen=True, slots=True)
class Significance:
    """A test of `n` pairs. `better` and `worse` count the rows on which the second run gains and loses.

    The test is of row scores, which `of` names, not of the metrics beside it. `p` is two-sided, `p_holm` the same among the tests made together; `effect` is the second run's gain as
    `effect_name` measures it, None where no row differs.
    """

    name: str
    n: int
    better: int
    worse: int
    p: float
    p_holm: float
    effect_name: str
    effect: float | None
    of: str = "right and wrong rows"


@dataclass(frozen=True, slots=True)
class Slice:
    """The metrics of both runs over `n` shared rows, and the test of the difference."""

    n: int
    differences: Mapping[str, Difference]
    test: Significance | None


@dataclass(frozen=True, slots=True)
class ComparedMetric:
    """One evaluation in two runs.

    `alone` counts the rows that only the first and only the second run has. `slices` is expression -> value as
    text -> slice. `flips` are sorted by the size of the second run's gain or loss, then by their order. `outcomes` are
    those of all pairs. `reason` says why nothing could be compared.
    """

    kind: str
    alone: tuple[int, int] = (0, 0)
    whole: Slice = field(default_factory=lambda: Slice(0, {}, None))
    slices: Mapping[str, Mapping[str, Slice]] = field(default_factory=dict)
    flips: tuple[Flip, ...] = ()
    reason: str = ""
    outcomes: PairedOutcomes | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class RunComparison:
    """Every evaluation that two runs share, with intervals at `level`; `paired` says how their rows are paired."""

    paired: RowIdentities
    evaluations: Mapping[str, ComparedMetric]
    level: float = CONFIDENCE_LEVEL


def compare_runs(
    evaluations: Mapping[str, tuple[Evaluation, Evaluation]],
    runs: tuple[Path, Path],
    *,
    by: Sequence[str] = (),
    seed: int = 0,
    level: float = CONFIDENCE_LEVEL,
) -> RunComparison:
    """The second run's `results.parquet` against the first's; each evaluation as the first and the second define it.

    `by` are expressions over the second run's rows that slice every evaluation, after its own. Raises DataError
    where rows cannot be paired or measured.
    """
    known = row_identities(runs)
    sliced = {
        name: (
            first.model_copy(update={"by": ()}),
            second.model_copy(update={"by": tuple(dict.fromkeys((*second.by, *by)))}),
        )
        for name, (first, second) in evaluations.items()
    }
    sides = [
        run_rows({name: each[side] for name, each in sliced.items()}, run, known.keys[side])
        for side, run in enumerate(runs)
    ]
    compared = {}
    for name, (_, evaluation) in sliced.items():
        pairs = pair(sides[0].pop(name), sides[1].pop(name))
        if isinstance(pairs, str):
            compared[name] = ComparedMetric("", reason=pairs)
            continue
        shown = dict(zip(known.keys[1], known.shown, strict=True)) if evaluation.group is None else {}
        compared[name] = _compare(name, evaluation, pairs, shown, seed, level)
    wholes = _adjusted([each.whole for each in compared.values()])
    adjusted = zip(compared.items(), wholes, strict=True)
    return RunComparison(known, {name: replace(each, whole=whole) for (name, each), whole in adjusted}, level)


def _adjusted(parts: Sequence[Slice]) -> list[Slice]:
    """The slices with p-values as of one family, those of the metrics and those of the tests of rows."""
    tests = holm([part.test for part in parts])
    families = sum(any(each.p_holm is not None for each in part.differences.values()) for part in parts)
    return [
        replace(part, test=test, differences={name: each.adjusted(families) for name, each in part.differences.items()})
        for part, test in zip(parts, tests, strict=True)
    ]


def _compare(
    name: str, evaluation: Evaluation, pairs: PairedRows, shown: Mapping[str, Any], seed: int, level: float
) -> ComparedMetric:
    new = pairs.data[1]
    if why := kind_mismatch(*pairs.data):
        return ComparedMetric(new.kind, pairs.alone, reason=why)
    metrics = compared_metrics(evaluation, new)
    meaning = score_meaning(new, metrics)
    scored = [scores_of(data, metrics) for data in pairs.data]
    scores = (scored[0][pairs.rows[0]], scored[1][pairs.rows[1]])
    metrics = metrics if evaluation.gold is None else (*metrics, CORRECTED)
    slices: dict[str, dict[str, Slice]] = {}
    for text, keys in zip(evaluation.by, pairs.by, strict=True):
        if not keys.labels and pairs.keys:
            continue  # the dataset has no such column
        codes = keys.codes[pairs.rows[1]]
        sizes = np.bincount(codes[codes != MISSING], minlength=len(keys.labels))
        order = np.argsort(-sizes, kind="stable")[:MOST_COMPARED_SLICES]
        order = order[sizes[order] > 0]
        labels = disambiguate_labels([keys.labels[code] for code in order])
        parts = [
            _slice(
                metrics,
                pairs,
                scores,
                meaning,
                np.flatnonzero(codes == code),
                (seed, name, text, str(code)),
                FEWER_SWAPS,
                level,
            )
            for code in order
        ]
        slices[text] = dict(zip(labels, _adjusted(parts), strict=True))
    outcomes = PairedOutcomes(pairs, scores, shown, bool(new.targets.types))
    everything = np.arange(len(pairs.keys))
    return ComparedMetric(
        kind=new.kind if new.targets.types or new.predictions.types else "value",
        alone=pairs.alone,
        whole=_slice(metrics, pairs, scores, meaning, everything, (seed, name), SWAPS, level),
        slices=slices,
        flips=outcomes.flips(),
        outcomes=outcomes,
    )


def compared_metrics(evaluation: Evaluation, data: EvaluationData) -> tuple[str, ...]:
    """The metrics of an evaluation that have a difference."""
    value = data.value if evaluation.value is not None else None
    kind = data.kind if evaluation.prediction is not None else None
    metrics = requested_metrics(evaluation, kind, value, words=data.words)
    return tuple(metric for metric in metrics if metric != "confusion")


def _slice(
    metrics: Sequence[str],
    pairs: PairedRows,
    scores: tuple[Floats, Floats],
    meaning: str,
    indices: Ints,
    seeds: tuple[int | str, ...],
    swaps: int,
    level: float,
) -> Slice:
    rng = np.random.default_rng([abs(int(seeds[0])), zlib.crc32("\0".join(map(str, seeds[1:])).encode())])
    part = pairs.take(indices)
    first, second = scores[0][indices], scores[1][indices]
    both = np.isfinite(first) & np.isfinite(second)
    cluster = pairs.data[1].cluster
    of = None if cluster is None else cluster[part.rows[1]][both]
    return Slice(
        len(indices),
        _differences(metrics, part, Draw(rng, level), swaps, everything=len(indices) == len(pairs.keys)),
        significance_of(first[both], second[both], of, rng, meaning),
    )


def _differences(
    metrics: Sequence[str], pairs: PairedRows, draw: Draw, swaps: int, *, everything: bool
) -> dict[str, Difference]:
    """The differences; of all pairs also with the rows that they leave out."""
    found = paired_differences(metrics, pairs, draw, swaps)
    for metric, each in found.items() if everything else ():
        if each.change.value is not None and metric != CORRECTED:
            left_out = open_pairs(metric, pairs, Draw(np.random.default_rng(0), draw.level))
            found[metric] = replace(each, open_rows=left_out)
    return found


def significance_of(
    first: Floats, second: Floats, cluster: Ints | None, rng: np.random.Generator, of: str = "right and wrong rows"
) -> Significance | None:
    """The test of two runs' scores of the same rows (`of` names them), more is better; None where there is no row."""
    if not len(first):
        return None
    gain = second - first
    better, worse = int((gain > 0).sum()), int((gain < 0).sum())
    binary = bool(np.isin(first, (0, 1)).all() and np.isin(second, (0, 1)).all())
    if binary and cluster is None:
        name, p = MCNEMAR, _mcnemar(better, worse)
    else:
        name, p = "permutation" if cluster is None else "cluster permutation", sign_flip_test(gain, cluster, rng)
    effect_name, effect = ("cohen_g", _cohen_g(better, worse)) if binary else ("cohen_d", _cohen_d(gain))
    return Significance(name, len(first), better, worse, p, p, effect_name, effect, of)


def holm(tests: Sequence[Significance | None]) -> list[Significance | None]:
    """The tests with `p_holm` as of one family; None stays None."""
    found = holm_adjusted([None if test is None else test.p for test in tests])
    return [test and replace(test, p_holm=p or 0.0) for test, p in zip(tests, found, strict=True)]


def holm_adjusted(values: Sequence[float | None]) -> list[float | None]:
    """The p-values adjusted as of one family; None stays None."""
    known = sorted((p, index) for index, p in enumerate(values) if p is not None)
    adjusted, highest = list(values), 0.0
    for rank, (p, index) in enumerate(known):
        highest = min(1.0, max(highest, p * (len(known) - rank)))
        adjusted[index] = highest
    return adjusted


def _mcnemar(better: int, worse: int) -> float:
    from scipy.special import bdtr

    return min(1.0, 2 * float(bdtr(min(better, worse), better + worse, 0.5)))


def _cohen_g(better: int, worse: int) -> float | None:
    return better / (better + worse) - 0.5 if better + worse else None


def _cohen_d(gain: Floats) -> float | None:
    spread = float(gain.std(ddof=1)) if len(gain) > 1 else 0.0
    return float(gain.mean()) / spread if spread > 0 else None
