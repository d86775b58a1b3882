"""The input of the sections that only a page has: a run's plan, tables and evaluation results, which are its metrics, the scores
of its rows and the distributions that a report shows, from one pass over its results."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from verdict_cli.errors import VerdictError, internal_fault
from verdict_cli.language.evaluations import Evaluations
from verdict_cli.language.metric_registry import find_metric
from verdict_cli.plan.node import Plan
from verdict_cli.plural import plural
from verdict_cli.report.charts import PlanePoint
from verdict_cli.stats.columns.column import MISSING, Ends, Floats, Ints, disambiguate_labels
from verdict_cli.stats.columns.row_data import EvaluationData
from verdict_cli.stats.intervals.interval_methods import clopper_pearson, student
from verdict_cli.stats.intervals.intervals import CONFIDENCE_LEVEL
from verdict_cli.stats.measure import Measures, iterate_measures
from verdict_cli.stats.row_scores import MOST_SCORED, RowScores, row_scores
from verdict_cli.storage.datasets.arrow_vectors import characters, floats
from verdict_cli.storage.tables.reader import read_arrow, table_columns

HISTOGRAM_BINS = 10
"""Bins of a reliability diagram: those of the calibration error."""
BARS = 20
"""The most bars of a histogram."""
MOST_LABELS_IN_CHART = 6
"""The most labels that a histogram distinguishes."""
MOST_TARGETS = 12
"""The most targets that have a mean of their own."""


class Bin(Struct, frozen=True):
    """Some rows: their number, their mean `x` on the first axis, and the mean `y` of the second with its interval."""

    n: int
    x: float
    y: float
    low: float
    high: float


Bins = tuple[Bin, ...]


class Histogram(Struct, frozen=True):
    """`edges` has one number more than each of `counts` (label -> rows in each bin). The last bin is closed."""

    edges: tuple[float, ...]
    counts: Mapping[str, tuple[int, ...]]


class Distributions(Struct, frozen=True):
    """What charts of one evaluation show; empty where it does not apply.

    `reliability` is the share of positive targets by bin of the probability, `by_target` the mean prediction by target.
    """

    reliability: Bins = ()
    probabilities: Histogram | None = None
    predictions: Histogram | None = None
    by_target: Bins = ()


class EvaluationResults(Struct, frozen=True):
    """The metrics and distributions of each evaluation, and the rows of the first few; those with a target come first."""

    measures: Mapping[str, Measures]
    distributions: Mapping[str, Distributions]
    scored: tuple[RowScores, ...]


@np.errstate(over="ignore", invalid="ignore")  # told as too large
def evaluate_run(
    evaluations: Evaluations,
    results: Path,
    *,
    seed: int = 0,
    level: float = CONFIDENCE_LEVEL,
) -> EvaluationResults:
    """The results of a run's evaluations, with intervals at `level`. Raises what `measure` does."""
    measures = {}
    distributions = {}
    kept = []
    for name, measured, data, at in iterate_measures(evaluations, results, seed=seed, level=level):
        measures[name] = measured
        distributions[name] = Distributions()
        try:
            distributions[name] = distributions_of(data)
            if at is not None:
                kept.append(
                    row_scores(
                        name,
                        at,
                        data,
                        [metric for metric in measured.values if find_metric(metric)],
                    )
                )
        except VerdictError:
            raise
        except Exception as error:  # what only the page shows must not cost the metrics
            fault = internal_fault(error)
            warning = f"charts and rows of this evaluation are missing from the report: {fault}"
            measures[name] = replace(measured, warnings=(*measured.warnings, warning))
        kept.sort(key=lambda scores: not scores.labelled)
        del kept[MOST_SCORED:]
    return EvaluationResults(measures, distributions, tuple(kept))


def distributions_of(data: EvaluationData) -> Distributions:
    """The shapes of one evaluation's rows."""
    positive = data.is_positive if data.probability.types and data.targets.types else None
    indices = np.flatnonzero((data.target != MISSING) & np.isfinite(data.probability.numbers))
    reliability: Bins = ()
    probabilities = None
    if positive is not None and len(indices):
        p = data.probability.numbers[indices]
        reliability = proportions_by_bin(
            p, positive[indices], np.linspace(0, 1, HISTOGRAM_BINS + 1)
        )
        probabilities = histogram(p, data.target[indices], data.labels, (0.0, 1.0), continuous=True)
    numbers, targets = data.predictions.numbers, data.targets.numbers
    number = np.isfinite(numbers)
    if data.kind not in ("ordinal", "numeric") or data.words or not number.any():
        return Distributions(reliability, probabilities)
    both = number & np.isfinite(targets)
    scale = data.predictions.bounds
    return Distributions(
        reliability,
        probabilities,
        histogram(numbers[number], None, (), scale=scale),
        means_by_bin(targets[both], numbers[both], scale),
    )


def proportions_by_bin(x: Floats, hits: Floats, edges: Floats) -> Bins:
    """The share of `hits` (0 or 1) with its exact interval, in bins of `x` that are closed on the right."""

    def exact(here: Floats) -> Ends:
        return clopper_pearson(round(float(here.sum())), len(here), CONFIDENCE_LEVEL)

    return _bins(x, hits, np.searchsorted(edges[1:-1], x, side="left"), exact)


def means_by_bin(x: Floats, y: Floats, scale: Ends | None = None) -> Bins:
    """The mean of `y` with Student's interval, within its scale, by the value of `x` or, of many values, by its bins."""
    if not len(x):
        return ()
    values, bins = np.unique(x, return_inverse=True)
    if len(values) > MOST_TARGETS:
        edges = quantiles(x, HISTOGRAM_BINS)
        bins = np.searchsorted(edges[1:-1], x, side="right")
    least, most = scale or (-math.inf, math.inf)

    def within(here: Floats) -> Ends:
        low, high = _student_ends(here)
        return max(low, least), min(high, most)

    return _bins(x, y, bins, within)


def means_by_fifth(x: Floats, y: Floats) -> Bins:
    """The mean of `y` with Student's interval, in five equally filled bins of `x`."""
    return _bins(x, y, np.searchsorted(quantiles(x)[1:-1], x, side="left"), _student_ends)


def _bins(x: Floats, y: Floats, bins: Ints, ends: Callable[[Floats], Ends]) -> Bins:
    """The rows of each bin that has some; `ends` gives the interval of the mean of its `y`."""
    found = []
    for index in np.unique(bins):
        here = bins == index
        values = y[here]
        found.append(Bin(len(values), float(x[here].mean()), float(values.mean()), *ends(values)))
    return tuple(found)


def _student_ends(values: Floats) -> Ends:
    """The ends of Student's interval of the mean; the mean itself for one value."""
    n, mean = len(values), float(values.mean())
    if n < 2:
        return mean, mean
    reach = student(CONFIDENCE_LEVEL, n - 1) * float(values.std(ddof=1)) / n**0.5
    return mean - reach, mean + reach


def bin_points(bins: Sequence[Bin]) -> list[PlanePoint]:
    """The bins as points of a chart."""
    return [
        PlanePoint(bin_.x, bin_.y, bin_.low, bin_.high, label=plural(bin_.n, "row"))
        for bin_ in bins
    ]


def quantiles(x: Floats, bins: int = 5) -> Floats:
    """The edges of equally filled bins; fewer where values repeat."""
    return np.unique(np.quantile(x, np.linspace(0, 1, bins + 1)))


def histogram(
    x: Floats,
    codes: Ints | None,
    labels: Sequence[Any],
    scale: Ends | None = None,
    *,
    continuous: bool = False,
) -> Histogram:
    """How often each value occurs, for each label that `codes` name (the most frequent ones); without, all together.

    The axis is that of the scale, else that of the values. Whole numbers have a bar each, unless they are `continuous`.
    """
    least, most = scale or (float(x.min()), float(x.max()))
    is_whole = bool(np.all(x == np.round(x))) and least.is_integer() and not continuous
    edges = np.linspace(least, most if most > least else least + 1, BARS + 1)
    if is_whole and most - least < BARS:
        edges = np.arange(least - 0.5, most + 1.0)

    def counted(values: Floats) -> tuple[int, ...]:
        return tuple(np.histogram(values, edges)[0].tolist())

    bars = tuple(edges.tolist())
    if codes is None:
        return Histogram(bars, {"": counted(x)})
    present, sizes = np.unique(codes[codes != MISSING], return_counts=True)
    shown = np.sort(present[np.argsort(-sizes, kind="stable")][:MOST_LABELS_IN_CHART])
    names = disambiguate_labels([labels[code] for code in shown])
    counts = {name: counted(x[codes == code]) for name, code in zip(names, shown, strict=True)}
    return Histogram(bars, counts)


class ReportContext(Struct, frozen=True, dict=True):
    """A run's plan, its two tables, and its evaluation results; `seed` draws the rows that are shown."""

    plan: Plan
    results: Path
    calls: Path
    study: EvaluationResults
    seed: int = 0

    @cached_property
    def text_columns(self) -> list[str]:
        """The columns of the dataset that prompts show, as `results.parquet` names them."""
        return prompt_columns(self.plan, self.results)


def first_prediction(plan: Plan, scored: Sequence[RowScores]) -> str:
    """The expression of the prediction, or the value, of the first of these evaluations; "" without one."""
    if not scored:
        return ""
    evaluation = plan.evaluations[scored[0].name]
    return evaluation.prediction or evaluation.value or ""


def prompt_columns(plan: Plan, results: Path) -> list[str]:
    """The columns of the dataset that the plan's prompts show, as `results` names them; all if prompts name none."""
    prompt_names = {f"source.{column}" for column in dataset_columns(plan)}
    columns = [column for column in table_columns(results) if column.startswith("source.")]
    return [column for column in columns if column in prompt_names] or columns


def dataset_columns(plan: Plan) -> list[str]:
    """The columns of the dataset that prompts, options and casts of the plan use, in the order of their first use."""
    paths: list[tuple[str | int, ...]] = []
    for node, work in plan.llm_nodes:
        paths += work.prompt.paths
        paths += work.option_paths
        paths += [cast.path for cast in node.casts if cast.path and not cast.optional]
    return list(
        dict.fromkeys(str(path[1]) for path in paths if len(path) > 1 and path[0] == "source")
    )


def number_vectors(results: Path, columns: Sequence[str]) -> dict[str, Floats]:
    """The columns that hold numbers or booleans, NaN for a missing value; other columns are left out."""
    import pyarrow as pa

    def read(array: Any) -> Any:
        kind = array.type
        if not (pa.types.is_floating(kind) or pa.types.is_integer(kind)):
            return None
        return floats(array)

    return _vectors(results, columns, read)


def text_lengths(results: Path, columns: Sequence[str]) -> dict[str, Floats]:
    """The lengths in characters of the columns that hold text, 0 for a missing value."""
    import pyarrow as pa

    def read(array: Any) -> Any:
        return characters(array).astype(float) if pa.types.is_string(array.type) else None

    return _vectors(results, columns, read)


def _vectors(results: Path, columns: Sequence[str], read: Any) -> dict[str, Floats]:
    vectors: dict[str, list[Floats]] = {column: [] for column in columns}
    for batch in read_arrow(results, list(columns)) if columns else ():
        for column in list(vectors):
            vector = read(batch.column(column))
            if vector is None:
                del vectors[column]
            else:
                vectors[column].append(vector)
    return {column: np.concatenate(parts) for column, parts in vectors.items() if parts}
