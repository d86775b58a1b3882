"""Runs over the same rows: what changed in every metric, whether it is more than chance, and on which rows.

- Each pipeline is compared with the first, the reference; a pipeline is one run, or the mean of repeated runs
  (`reference.py`). Each metric's difference has a p-value of its own, adjusted for the metrics of its evaluation by max-T
  over the same swaps (`permutation.py`), and for several evaluations and pipelines, or the slices of one expression, by
  Bonferroni's inequality. Rows that not all runs score are put at their worst (`worst_case.py`).
- Of two runs, right or wrong, independent rows: McNemar's exact test, the binomial test of the rows that only one run gets
  right (McNemar, 1947; oracle: scipy). Effect: Cohen's g, the share of these rows that the second run gets right minus a half.
- Numbers, and rows in clusters: the sign-flip permutation test of the differences (Fisher, 1935; scipy), whole clusters
  flipped together, 9,999 seeded flips, or all of them where there are fewer; beyond 5,000 rows or clusters its normal
  limit. Effect of numbers: Cohen's d of the differences, their mean over their standard deviation.
- Several tests of rows together: Holm's procedure (Holm, 1979).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
from msgspec import Struct, structs

from verdict_cli.distributions import binomial_cdf
from verdict_cli.language.evaluations import Evaluation
from verdict_cli.messages import NamedValues
from verdict_cli.stats.columns.column import Floats, Ints
from verdict_cli.stats.columns.row_data import requested_metrics
from verdict_cli.stats.columns.row_identities import RowIdentities, row_identities
from verdict_cli.stats.intervals.interval_methods import MetricValue
from verdict_cli.stats.intervals.intervals import CONFIDENCE_LEVEL, Draw
from verdict_cli.stats.paired import (
    AgainstReference,
    Difference,
    PairedRows,
    compare_with_reference,
    kind_mismatch,
    pair,
    paired_differences,
    run_rows,
)
from verdict_cli.stats.permutation import FEWER_SWAPS, SWAPS, holm_adjusted, sign_flip_test
from verdict_cli.stats.prediction_powered import CORRECTED
from verdict_cli.stats.row_scores import Flip, PairedOutcomes
from verdict_cli.stats.worst_case import open_pairs

MOST_COMPARED_SLICES = 50
MCNEMAR = "mcnemar"


class Significance(Struct, frozen=True):
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


class Slice(Struct, frozen=True):
    """The metrics of all pipelines over `n` shared rows; of two runs also the test of the rows' scores."""

    n: int
    metrics: Mapping[str, AgainstReference]
    test: Significance | None = None

    @property
    def differences(self) -> dict[str, Difference]:
        """The second pipeline's difference from the first in each metric."""
        return {
            metric: against.differences[0]
            for metric, against in self.metrics.items()
            if against.differences
        }


@dataclass(frozen=True, slots=True)
class ComparedEvaluation:
    """One evaluation in all runs.

    `alone` counts the rows of each run that not all runs have. `slices` is expression -> value as text -> slice. `reason`
    says why nothing could be compared. Of two runs, `flips` are sorted by the size of the second run's gain or loss, then by
    their order, and `outcomes` are those of all pairs.
    """

    kind: str
    alone: tuple[int, ...] = ()
    whole: Slice = field(default_factory=lambda: Slice(0, {}))
    slices: Mapping[str, Mapping[str, Slice]] = field(default_factory=dict)
    flips: tuple[Flip, ...] = ()
    reason: str = ""
    outcomes: PairedOutcomes | None = field(default=None, compare=False, repr=False)


class RunComparison(Struct, frozen=True):
    """Every evaluation that all runs share, with intervals at `level`; `paired` says how their rows are paired.

    `sizes` has the number of runs of each pipeline, the reference first.
    """

    paired: RowIdentities
    evaluations: Mapping[str, ComparedEvaluation]
    level: float = CONFIDENCE_LEVEL
    sizes: tuple[int, ...] = (1, 1)


@np.errstate(over="ignore", invalid="ignore")  # told as too large
def compare_runs(
    evaluations: Mapping[str, Sequence[Evaluation]],
    runs: Sequence[Path],
    *,
    sizes: Sequence[int] = (),
    by: Sequence[str] = (),
    seed: int = 0,
    level: float = CONFIDENCE_LEVEL,
) -> RunComparison:
    """The `results.parquet` of each pipeline's runs against those of the first; each evaluation as each run defines it.

    `sizes` has the number of runs of each pipeline, in their order; by default each run is one of its own. `by` are
    expressions over the last run's rows that slice every evaluation, after its own. Raises DataError where rows cannot be
    paired or measured.
    """
    identities, sizes = row_identities(runs), sizes or [1] * len(runs)
    sliced = {
        name: [
            *(earlier.model_copy(update={"by": ()}) for earlier in every[:-1]),
            every[-1].model_copy(update={"by": tuple(dict.fromkeys((*every[-1].by, *by)))}),
        ]
        for name, every in evaluations.items()
    }
    sides = [
        run_rows(
            {name: every[index] for name, every in sliced.items()}, run, identities.keys[index]
        )
        for index, run in enumerate(runs)
    ]
    compared = {}
    for name, every in sliced.items():
        pairs = pair(*(side.pop(name) for side in sides))
        if isinstance(pairs, str):
            compared[name] = ComparedEvaluation("", reason=pairs)
            continue
        shown = (
            dict(zip(identities.keys[-1], identities.shown, strict=True))
            if every[-1].group is None
            else {}
        )
        compared[name] = _Comparer(name, every[-1], pairs, sizes, seed, level).compared(shown)
    wholes = zip(
        compared, _adjusted([evaluation.whole for evaluation in compared.values()]), strict=True
    )
    return RunComparison(
        identities,
        {name: replace(compared[name], whole=whole) for name, whole in wholes},
        level,
        tuple(sizes),
    )


def _adjusted(parts: Sequence[Slice]) -> list[Slice]:
    """The slices with p-values as of one family, those of the metrics and those of the tests of rows."""
    tests = holm([part.test for part in parts])
    families = 0
    for part in parts:
        of_pipeline = zip(*(against.differences for against in part.metrics.values()), strict=True)
        families += sum(
            any(own.p_adjusted is not None for own in differences) for differences in of_pipeline
        )
    changed = (
        _changed(part, lambda _metric, _at, difference: difference.adjusted(families))
        for part in parts
    )
    return [structs.replace(part, test=test) for part, test in zip(changed, tests, strict=True)]


def _changed(part: Slice, change: Callable[[str, int, Difference], Difference]) -> Slice:
    """The slice with every difference changed, given its metric and the index of its pipeline."""
    metrics = {}
    for metric, against in part.metrics.items():
        changed = (
            change(metric, index, difference)
            for index, difference in enumerate(against.differences, 1)
        )
        metrics[metric] = structs.replace(against, differences=tuple(changed))
    return structs.replace(part, metrics=metrics)


class _Comparer(Struct, frozen=True):
    """How the runs of one evaluation are compared, over all shared rows and in slices."""

    name: str
    evaluation: Evaluation
    pairs: PairedRows
    sizes: Sequence[int]
    seed: int
    level: float

    def compared(self, shown: NamedValues) -> ComparedEvaluation:
        """The evaluation in all runs; `shown` has the id or number of each key."""
        pairs, data = self.pairs, self.pairs.data
        new = data[-1]
        if why := next(filter(None, (kind_mismatch(data[0], rows) for rows in data)), ""):
            return ComparedEvaluation(new.kind, pairs.alone, reason=why)
        metrics = tuple(
            metric for metric in requested_metrics(self.evaluation, new) if metric != "confusion"
        )
        outcomes = PairedOutcomes.of(pairs, metrics, shown) if len(data) == 2 else None
        metrics = (*metrics, CORRECTED) if any(rows.gold is not None for rows in data) else metrics
        sliced = partial(self._slice, metrics, outcomes)
        slices: dict[str, dict[str, Slice]] = {}
        for text, keys in zip(self.evaluation.by, pairs.by, strict=True):
            if not keys.labels:
                continue  # the dataset has no such column
            shared = keys.take(pairs.rows[-1])
            parts = {
                label: sliced(np.flatnonzero(shared.codes == code), FEWER_SWAPS, text, str(code))
                for code, label in shared.most_frequent(MOST_COMPARED_SLICES)
            }
            slices[text] = dict(zip(parts, _adjusted([*parts.values()]), strict=True))
        whole = sliced(np.arange(len(pairs)), SWAPS)
        return ComparedEvaluation(
            kind=new.kind if new.targets.types or new.predictions.types else "value",
            alone=pairs.alone,
            whole=_changed(whole, partial(self._with_open_rows, whole)),
            slices=slices,
            flips=() if outcomes is None else outcomes.flips(),
            outcomes=outcomes,
        )

    def _slice(
        self,
        metrics: Sequence[str],
        outcomes: PairedOutcomes | None,
        indices: Ints,
        swaps: int,
        *names: str,
    ) -> Slice:
        """The slice of these shared rows; `outcomes` are those of two runs."""
        seeds = [abs(self.seed), zlib.crc32("\0".join((self.name, *names)).encode())]
        part = self.pairs.take(indices)
        every = compare_with_reference(
            metrics, part, self.sizes, self.level, seeds, swaps, jointly=len(part.data) > 2
        )
        test = None
        if outcomes is not None:
            first, second = (scores[indices] for scores in outcomes.scores)
            both = np.isfinite(first) & np.isfinite(second)
            cluster = part.data[-1].cluster
            clusters = None if cluster is None else cluster[part.rows[-1]][both]
            rng = np.random.default_rng([*seeds, len(self.sizes)])
            test = significance_of(first[both], second[both], clusters, rng, outcomes.meaning)
        return Slice(len(indices), every, test)

    def _with_open_rows(
        self, whole: Slice, metric: str, index: int, difference: Difference
    ) -> Difference:
        """The difference of a pipeline with the rows that it leaves out."""
        if difference.change.value is None or metric == CORRECTED:
            return difference
        against, first, start = whole.metrics[metric], self.sizes[0], sum(self.sizes[:index])
        runs = [*range(first), *range(start, start + self.sizes[index])]

        def change_of(pairs: PairedRows) -> MetricValue:
            draw = Draw(np.random.default_rng(0))
            return paired_differences((metric,), pairs, draw, 0, first, {metric: against})[
                metric
            ].change

        return structs.replace(
            difference, open_rows=open_pairs(metric, self.pairs.of(runs), change_of, first)
        )


def significance_of(
    first: Floats,
    second: Floats,
    cluster: Ints | None,
    rng: np.random.Generator,
    what: str = "right and wrong rows",
) -> Significance | None:
    """The test of two runs' scores of the same rows (`of` names them), more is better; None where there is no row."""
    if not len(first):
        return None
    gain = second - first
    better, worse = int((gain > 0).sum()), int((gain < 0).sum())
    binary = bool(np.isin(first, (0, 1)).all() and np.isin(second, (0, 1)).all())
    if binary and cluster is None:
        name, p = MCNEMAR, min(1.0, 2 * binomial_cdf(min(better, worse), better + worse, 0.5))
    else:
        name = "permutation" if cluster is None else "cluster permutation"
        p = sign_flip_test(gain, cluster, rng)
    effect_name, effect = "cohen_g" if binary else "cohen_d", None
    if binary and better + worse:
        effect = better / (better + worse) - 0.5
    if not binary and np.ptp(gain) > 0:
        effect = float(gain.mean() / gain.std(ddof=1))
    return Significance(name, len(first), better, worse, p, p, effect_name, effect, what)


def holm(tests: Sequence[Significance | None]) -> list[Significance | None]:
    """The tests with `p_holm` as of one family; None stays None."""
    adjusted = holm_adjusted([None if test is None else test.p for test in tests])
    return [
        test and structs.replace(test, p_holm=p or 0.0)
        for test, p in zip(tests, adjusted, strict=True)
    ]
