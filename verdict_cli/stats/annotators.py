"""Several people's labels of the same rows: how far they agree with each other, and the judge with them.

- `human_alpha`: Krippendorff's alpha of the annotators over the rows with two or more labels; nominal for labels, interval for
  numbers.
- The ceiling: the mean agreement of two annotators of a row, beside that of the judge with an annotator, on the same rows. Labels
  agree when they are equal; of numbers the agreement is minus the distance.
- The alternative annotator test (Calderon, Reichart and Dror, 2025): each annotator in turn is left out, and a one-sided test says
  whether the judge agrees with the others as well as that annotator does, less `ADVANTAGE`. The judge may replace the annotators
  if it wins against at least half of them (`winning_rate` >= 0.5). Oracle: the formulas of the paper's section 3, in the tests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from verdict_cli.language.evaluations import RELABELLED, Evaluation
from verdict_cli.language.metric_registry import EvaluationKind
from verdict_cli.stats.columns.collect import collect
from verdict_cli.stats.columns.column import MISSING, Floats
from verdict_cli.stats.columns.row_data import EvaluationData
from verdict_cli.stats.intervals.interval_methods import MetricValue, undefined_value
from verdict_cli.stats.intervals.intervals import Draw, mean_with_interval, metrics_with_intervals
from verdict_cli.stats.metrics.confusion import contingency
from verdict_cli.stats.metrics.metric_families import judged_rows, sampled_statistics
from verdict_cli.storage.tables.human_labels import FILE, read_annotations

ADVANTAGE = 0.2
"""How much worse than an annotator the judge may be in the test, for saving the annotator's time: the paper's value for experts."""
FALSE_DISCOVERIES = 0.05
"""The share of false rejections that the test allows over all annotators (Benjamini and Yekutieli, 2001)."""
LEAST_ANNOTATORS, T_TEST_ROWS = 3, 30
"""The test needs others to compare with, and from 30 rows on Student's t; below, Wilcoxon's signed ranks."""

Agreements = npt.NDArray[np.float64]
"""Shape (rows, voices, voices): how far two voices agree on a row, NaN where one of them is missing. Voice 0 is the judge."""


class Annotator(Struct, frozen=True):
    """One annotator: the rows with a label, the skipped ones, and the mean agreement with the other annotators and the judge.

    `p` and `wins` are those of the test: the adjusted p-value, and whether the judge may replace this annotator.
    """

    name: str
    rows: int
    skipped: int
    with_others: float | None
    with_judge: float | None
    p: float | None = None
    wins: bool | None = None


class AnnotatorPair(Struct, frozen=True):
    """Two annotators: the rows that both labelled, their mean agreement, and what they said on each: `labels` and `counts`.

    `counts` has the first's labels as rows and the second's as columns; both are empty for numbers.
    """

    first: str
    second: str
    rows: int
    agreement: float
    labels: tuple[Any, ...] = ()
    counts: tuple[tuple[int, ...], ...] = ()


class AnnotatorStudy(Struct, frozen=True):
    """The annotators of a run. `ceiling`, `judge` and `difference` are over the rows with two labels and a verdict.

    `winning_rate` is the share of annotators against whom the judge wins, None where `untested` says why not.
    """

    alpha: MetricValue
    ceiling: MetricValue
    judge: MetricValue
    difference: MetricValue
    annotators: tuple[Annotator, ...]
    pairs: tuple[AnnotatorPair, ...]
    nominal: bool
    winning_rate: float | None = None
    untested: str = ""


def annotator_study(evaluation: Evaluation, results: Path, draw: Draw) -> AnnotatorStudy | None:
    """The annotators behind an evaluation of human labels; None where it uses none, or fewer than two people labelled."""
    texts = (evaluation.target or "", evaluation.gold.target if evaluation.gold is not None else "")
    if (
        evaluation.prediction is None
        or evaluation.items is not None
        or evaluation.group is not None
        or not any("human." in text and not text.startswith(RELABELLED) for text in texts)
    ):
        return None
    rows = read_annotations(results.with_name(FILE)).values()
    counts = Counter(name for row in rows for name, label in row.items() if label.label is not None)
    if len(counts) < 2:
        return None
    skipped = Counter(name for row in rows for name, label in row.items() if label.skipped)
    names = sorted(counts)
    panel = Evaluation(
        panel=(evaluation.prediction, *(f"human.labels[{name!r}]" for name in names)),
        where=evaluation.where,
        cluster=evaluation.cluster,
    )
    data = EvaluationData.of(panel, collect({"annotators": panel}, results)["annotators"])
    return _study(data, names, skipped, draw)


def _study(
    data: EvaluationData, names: Sequence[str], skipped: Counter[str], draw: Draw
) -> AnnotatorStudy:
    nominal = any(
        not column.numeric or column.types == {"bool"} for column in data.panel if column.types
    )
    agreements = _agreements(data, nominal=nominal)
    people = agreements[:, 1:, 1:]
    mutual = _mean(people[:, *np.triu_indices(len(names), 1)])
    judged = _mean(agreements[:, 0, 1:])
    both = np.flatnonzero(np.isfinite(mutual) & np.isfinite(judged))
    tests = _alternative_tests(agreements) if len(names) >= LEAST_ANNOTATORS else {}
    annotators = tuple(
        Annotator(
            name,
            int((data.votes[1 + index] != MISSING).sum()),
            skipped[name],
            _overall(np.delete(people[:, index], index, 1)),
            _overall(agreements[:, 0, 1 + index]),
            *tests.get(index, (None, None)),
        )
        for index, name in enumerate(names)
    )
    bounds = (0.0, 1.0) if nominal else None
    cluster = None if data.cluster is None else data.cluster[both]
    return AnnotatorStudy(
        alpha=_alpha(data, draw, nominal=nominal),
        ceiling=mean_with_interval(mutual[both], cluster, draw, bounds),
        judge=mean_with_interval(judged[both], cluster, draw, bounds),
        difference=mean_with_interval(
            (judged - mutual)[both], cluster, draw, (-1.0, 1.0) if nominal else None
        ),
        annotators=annotators,
        pairs=tuple(_pairs(data, names, people, nominal=nominal)),
        nominal=nominal,
        winning_rate=float(np.mean([wins for _, wins in tests.values()])) if tests else None,
        untested=""
        if tests
        else f"it needs {LEAST_ANNOTATORS} annotators with labels of the same rows",
    )


def _agreements(data: EvaluationData, *, nominal: bool) -> Agreements:
    if nominal:
        codes = np.stack(data.votes, axis=1)
        same = (codes[:, :, None] == codes[:, None, :]).astype(np.float64)
        missing = codes == MISSING
    else:
        values = np.stack([column.numbers for column in data.panel], axis=1)
        same = -np.abs(values[:, :, None] - values[:, None, :])
        missing = np.isnan(values)
    agreements: Agreements = np.where(missing[:, :, None] | missing[:, None, :], np.nan, same)
    return agreements


def _mean(values: Floats) -> Floats:
    """The mean of what is known of each row, NaN where nothing is."""
    means: Floats = np.ma.masked_invalid(values).mean(axis=1).filled(np.nan)
    return means


def _overall(values: Floats) -> float | None:
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else None


def _alpha(data: EvaluationData, draw: Draw, *, nominal: bool) -> MetricValue:
    kind: EvaluationKind = "classification" if nominal else "numeric"
    people = replace(data, panel=data.panel[1:], votes=data.votes[1:], kind=kind)
    rows = np.flatnonzero(judged_rows(people))
    if not len(rows):
        return undefined_value("no row has labels of two annotators")
    sample, statistics = sampled_statistics("panel", ("krippendorff_alpha",), people, rows)
    return metrics_with_intervals(statistics, sample, draw)["krippendorff_alpha"]


def _pairs(
    data: EvaluationData, names: Sequence[str], people: Agreements, *, nominal: bool
) -> list[AnnotatorPair]:
    pairs = []
    for left, right in combinations(range(len(names)), 2):
        shared = np.flatnonzero(np.isfinite(people[:, left, right]))
        if not len(shared):
            continue
        pair = AnnotatorPair(
            names[left], names[right], len(shared), float(people[shared, left, right].mean())
        )
        if nominal:
            first, second = data.votes[1 + left][shared], data.votes[1 + right][shared]
            used, counts = contingency(first, second)
            table = tuple(map(tuple, counts.tolist()))
            pair = replace(pair, labels=tuple(data.labels[code] for code in used), counts=table)
        pairs.append(pair)
    return pairs


def _alternative_tests(agreements: Agreements) -> dict[int, tuple[float, bool]]:
    """Annotator -> (adjusted p-value, whether the judge wins), of those with rows that another one labelled too."""
    from scipy.stats import false_discovery_control

    p_values: dict[int, float] = {}
    for left_out in range(agreements.shape[1] - 1):
        with_others = np.delete(agreements, [0, 1 + left_out], axis=2)
        own = with_others[:, 1 + left_out]
        judge, human = _mean(np.where(np.isfinite(own), with_others[:, 0], np.nan)), _mean(own)
        finite = np.isfinite(judge) & np.isfinite(human)
        if finite.sum() >= 2:
            p_values[left_out] = advantage_p(judge[finite], human[finite])
    if not p_values:
        return {}
    adjusted = false_discovery_control(list(p_values.values()), method="by")
    return {
        index: (float(p), bool(p <= FALSE_DISCOVERIES))
        for index, p in zip(p_values, adjusted, strict=True)
    }


def advantage_p(judge: Floats, human: Floats) -> float:
    """The p-value against "the annotator is better than the judge by `ADVANTAGE` or more", from both agreements by row."""
    from scipy.stats import ttest_1samp, wilcoxon

    lead = (human >= judge).astype(np.float64) - (judge >= human).astype(np.float64)
    if np.all(lead == lead[0]):
        return 0.0 if lead[0] < ADVANTAGE else 1.0
    if len(lead) < T_TEST_ROWS:
        return float(wilcoxon(lead - ADVANTAGE, alternative="less").pvalue)
    return float(ttest_1samp(lead, ADVANTAGE, alternative="less").pvalue)
