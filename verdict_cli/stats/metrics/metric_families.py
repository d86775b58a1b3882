"""The families of metrics by their input: which columns each needs, which rows it counts, and its statistics.

The length-controlled win rate is how often option A would win at equal lengths (Dubois et al., 2024): a logistic regression of
the choice on the hyperbolic tangent of the difference of the lengths over its standard deviation, as in AlpacaEval 2, at a
difference of 0. Oracle: statsmodels.

Metrics within clusters are the mean of a value for each cluster: correlations (Fabbri et al., 2021; Liu et al., 2023), or pass@k
of its samples. A cluster whose predictions or targets are all equal has no correlation and is left out, as is a problem with
fewer than k samples. The clusters are the sample, and the interval is that of their mean. Oracle: scipy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from verdict_cli.errors import UsageError
from verdict_cli.language.metric_registry import (
    REQUIRED_KEYS,
    SIGNED,
    UNIT,
    Metric,
    MetricInput,
    find_metric,
)
from verdict_cli.language.units.base import NO_PREFERENCE
from verdict_cli.plural import plural
from verdict_cli.stats.columns.column import MISSING, Ends, Floats, Ints, RowMask, shared_bounds
from verdict_cli.stats.columns.row_data import EvaluationData
from verdict_cli.stats.columns.sample import Keys, Sample
from verdict_cli.stats.metrics import confusion, numbers, panel, probability, ranks
from verdict_cli.stats.metrics.statistic import (
    NORMALIZING_SCALES,
    Statistic,
    Statistics,
    mean_of_values,
    proportion,
    statistic_of,
    undefined_statistic,
)

NOMINAL = ("classification", "pairwise")
CHOICES = ("A", "B")
BY_CLUSTER: tuple[MetricInput, ...] = ("within", "samples")
"""Inputs of metrics that are the mean of one value for each cluster."""


def metric_input(name: str, data: EvaluationData) -> MetricInput:
    """Which of its inputs a metric is computed from on these rows."""
    metric = find_metric(name)
    assert metric is not None, name
    own = metric.inputs[0]
    if data.panel:
        return "panel"
    if own == "samples":
        return own
    if metric.formula is not None or own not in ("labels", "numbers", "ranking"):
        return own
    if data.kind == "ranking":
        return "ranking"
    return "numbers" if "numbers" in metric.inputs and data.kind not in NOMINAL else own


def by_input(metrics: Iterable[str], data: EvaluationData) -> dict[MetricInput, list[str]]:
    """The metrics by their input, each in its order."""
    grouped: dict[MetricInput, list[str]] = {}
    for name in metrics:
        grouped.setdefault(metric_input(name, data), []).append(name)
    return grouped


def needs_target(family: MetricInput) -> bool:
    """Whether rows without a target are left out."""
    return "target" in REQUIRED_KEYS[family]


def counts_wrong_rows(family: MetricInput) -> bool:
    """Whether a missing prediction can count as wrong: metrics of labels and whole rankings."""
    return family in ("labels", "ranking")


def usable(family: MetricInput, data: EvaluationData) -> RowMask:
    """The rows that metrics of this input count."""
    if data.wrong and counts_wrong_rows(family):
        return has_target(data)
    present = has_prediction(family, data)
    if family in ("choice", "choice_length", "lengths"):
        present = present & ~_labels_in(data.prediction, data, NO_PREFERENCE)
    if family in ("choice_length", "lengths"):
        present = present & data.longer.present
    if family == "choice_length":
        present = present & (data.longer.numbers != 0)
    return np.logical_and(has_target(data), present) if needs_target(family) else present


def scored_by_all(
    family: MetricInput, runs: Sequence[EvaluationData], rows: Sequence[Ints]
) -> RowMask:
    """Which of these rows, whose indices `rows` has for each run, count in all runs' metrics of this input."""
    scored: RowMask = np.logical_and.reduce(
        [usable(family, run)[positions] for run, positions in zip(runs, rows, strict=True)]
    )
    return scored


def has_target(data: EvaluationData) -> RowMask:
    return np.not_equal(data.target, MISSING)


def has_prediction(family: MetricInput, data: EvaluationData) -> RowMask:
    """The rows on which the pipeline gave what this input needs."""
    if family == "panel":
        return judged_rows(data)
    if family == "consistent":
        return data.consistent.present
    if family in ("value", "samples", "probability"):
        return (data.probability if family == "probability" else data.value).present
    return np.not_equal(data.prediction, MISSING)


def _labels_in(codes: Ints, data: EvaluationData, labels: tuple[str, ...]) -> RowMask:
    return np.isin(codes, [code for code, label in enumerate(data.labels) if label in labels])


def judged_rows(data: EvaluationData) -> RowMask:
    """The rows on which two or more judges of a panel have a vote."""
    votes: Ints = np.sum([np.not_equal(codes, MISSING) for codes in data.votes], axis=0)
    return np.greater(votes, 1)


def wrong_types(family: MetricInput, data: EvaluationData) -> str:
    """Why metrics of this input do not exist for these rows' types, "" if they do."""
    return FAMILIES[family].type_error(data)


def undefined_for_wrong_rows(family: MetricInput, data: EvaluationData, rows: Ints) -> str:
    """Why metrics for which no row is wrong do not exist under `missing: wrong`, "" if they do."""
    if not data.wrong or counts_wrong_rows(family):
        return ""
    counted = has_target(data)[rows] if needs_target(family) else np.ones(len(rows), bool)
    missing = np.count_nonzero(counted & ~has_prediction(family, data)[rows])
    if not missing:
        return ""
    return f"{plural(int(missing), 'row has|rows have')} no prediction, and `missing: wrong` has no meaning for this metric"


def input_statistics(
    family: MetricInput, metrics: Sequence[str], data: EvaluationData, positions: Ints
) -> Statistics:
    """The statistics of these metrics with these rows as atoms; one that does not exist says why it is undefined."""
    unfit = wrong_types(family, data)
    built_in = {} if unfit else FAMILIES[family].statistics(data, positions)
    none = undefined_statistic(unfit or f"it does not fit {data.kind} data")
    statistics = {}
    for name in metrics:
        metric = find_metric(name)
        if metric is not None and metric.formula is not None and not unfit:
            statistics[name] = array_statistic(metric, *_arrays(family, data, positions))
        else:
            statistics[name] = built_in.get(name, none)
    return statistics


def sampled_statistics(
    family: MetricInput, metrics: Sequence[str], data: EvaluationData, rows: Ints
) -> tuple[Sample, Statistics]:
    """These rows as a sample with the evaluation's clusters, and the statistics at its atoms."""
    sample, (statistics,) = statistics_of_runs(family, metrics, (data,), (rows,))
    return sample, statistics


def statistics_of_runs(
    family: MetricInput,
    metrics: Sequence[str],
    runs: Sequence[EvaluationData],
    rows: Sequence[Ints],
) -> tuple[Sample, list[Statistics]]:
    """The same rows of several runs as one sample with the last run's clusters, and each run's statistics at its atoms."""
    each = [*zip(runs, rows, strict=True)]
    columns = [column[own] for run, own in each for column in FAMILIES[family].keys(run)]
    cluster = runs[-1].cluster
    sample = Sample.of(tuple(columns), None if cluster is None else cluster[rows[-1]])
    return sample, [input_statistics(family, metrics, run, own[sample.first]) for run, own in each]


class MetricFamily(Struct, frozen=True):
    """What metrics of one input have in common: the columns whose distinct rows are the atoms, the statistics at these
    rows, and why the types of these rows do not fit, "" where they do."""

    keys: Callable[[EvaluationData], Keys]
    statistics: Callable[[EvaluationData, Ints], Statistics]
    type_error: Callable[[EvaluationData], str] = lambda _: ""


def _label_keys(data: EvaluationData) -> Keys:
    return data.target, data.prediction


def _probability_keys(data: EvaluationData) -> Keys:
    positive = data.is_positive
    return data.probability.numbers, data.target if positive is None else positive


def _panel_error(data: EvaluationData) -> str:
    return "a panel's votes are labels or numbers, not rankings" if data.kind == "ranking" else ""


def _consistent_error(data: EvaluationData) -> str:
    return "" if data.consistent.types == {"bool"} else "`consistent` is not true or false"


def _choice_error(data: EvaluationData) -> str:
    chosen = {data.labels[code] for code in np.unique(data.prediction) if code != MISSING}
    return "" if chosen <= {*CHOICES, *NO_PREFERENCE} else "it needs choices between A and B"


def _value_error(data: EvaluationData) -> str:
    if data.value.numeric:
        return ""
    return "the value is text: write an expression that gives a number or true/false"


def _probability_error(data: EvaluationData) -> str:
    if not data.probability.numeric:
        return "the probability is not a number"
    if data.is_positive is None:
        return "nothing says which target is positive: set `positive`"
    return ""


def _number_error(data: EvaluationData) -> str:
    for side, column in (("predictions", data.predictions), ("targets", data.targets)):
        if not column.numeric:
            return f"it needs numbers, and the {side} are text"
    return ""


def _is_first(data: EvaluationData, positions: Ints) -> RowMask:
    return _labels_in(data.prediction[positions], data, CHOICES[:1])


def _share(name: str, of_rows: RowMask | Floats) -> Statistics:
    return {name: proportion(name, np.asarray(of_rows, dtype=np.float64), np.ones(len(of_rows)))}


def _longer(data: EvaluationData, positions: Ints) -> Statistics:
    longer = np.equal(_is_first(data, positions), data.longer.numbers[positions] > 0)
    return _share("longer_preference", longer)


def _lengths(data: EvaluationData, positions: Ints) -> Statistics:
    wins = _is_first(data, positions).astype(np.float64)
    size = length_effect(data.longer.numbers[positions], data.longer.numbers[data.longer.present])
    return {"length_controlled_win_rate": length_controlled_win_rate(wins, size)}


def _values(data: EvaluationData, positions: Ints) -> Statistics:
    column = data.value
    return numbers.number_values(column.numbers[positions], column.types == {"bool"}, column.bounds)


def _probabilities(data: EvaluationData, positions: Ints) -> Statistics:
    positive = data.is_positive
    assert positive is not None
    return probability.probability_statistics(
        data.probability.numbers[positions], positive[positions]
    )


def _number_pairs(data: EvaluationData, positions: Ints) -> Statistics:
    x, y = data.predictions.numbers[positions], data.targets.numbers[positions]
    pairs = numbers.number_pairs(x, y, _span(data))
    return pairs | ranks.rank_pairs(x, y) | numbers.ordinal_pairs(x, y)


def _rankings(data: EvaluationData, positions: Ints) -> Statistics:
    texts = (*data.labels, None)
    sides = (data.target[positions], data.prediction[positions])
    return ranks.rankings(*([texts[code] for code in side] for side in sides))


def _labels(data: EvaluationData, positions: Ints) -> Statistics:
    prediction = np.where(
        data.prediction[positions] == MISSING, len(data.labels), data.prediction[positions]
    )
    missing = bool((prediction == len(data.labels)).any())
    labels = len(data.labels) + missing
    return confusion.label_statistics(
        data.target[positions], prediction, labels, data.positive, missing, data.average, data.beta
    )


def _span(data: EvaluationData) -> float:
    """How far a prediction and a target can be apart: the length of their scale, if all are on it."""
    ends = shared_bounds(data.predictions, data.targets)
    return np.inf if ends is None else ends[1] - ends[0]


def _panel(data: EvaluationData, positions: Ints) -> Statistics:
    nominal = data.kind in NOMINAL
    votes = [codes[positions] for codes in data.votes]
    values = [column.numbers[positions] for column in data.panel]
    target = data.target[positions]
    errors: list[Floats] | None = None
    if data.targets.types and nominal:
        errors = [
            _or_nan(vote != target, (vote != MISSING) & (target != MISSING)) for vote in votes
        ]
    elif data.targets.types:
        errors = [value - data.targets.numbers[positions] for value in values]
    elif not nominal:
        errors = values
    elif len(data.labels) <= 2:
        errors = [_or_nan(vote == 0, vote != MISSING) for vote in votes]
    numeric = all(column.numeric for column in data.panel)
    return panel.panel_statistics(votes, values, errors, nominal) | panel.rater_statistics(
        votes, values, data.k, numeric=numeric
    )


def _or_nan(holds: RowMask, present: RowMask) -> Floats:
    return np.where(present, holds.astype(np.float64), np.nan)


def _arrays(family: MetricInput, data: EvaluationData, positions: Ints) -> Keys:
    """The arrays that a formula takes, but for the weights."""
    if family == "numbers":
        return data.predictions.numbers[positions], data.targets.numbers[positions]
    if family == "value":
        return (data.value.numbers[positions],)
    if family == "probability":
        positive = data.is_positive
        assert positive is not None
        return data.probability.numbers[positions], positive[positions].astype(float)
    labels = np.array(
        [*data.labels, None], object
    )  # the last one, at -1 as MISSING is, stands for no prediction
    return labels[data.prediction[positions]], labels[data.target[positions]]


def array_statistic(metric: Metric, *columns: npt.NDArray[np.generic]) -> Statistic:
    """The statistic of a formula of arrays, computed for one resample at a time. UsageError where the formula fails."""
    formula = metric.load_formula()
    assert formula is not None

    def value_of(weights: Floats) -> Floats:
        try:
            with np.errstate(divide="ignore", invalid="ignore"):
                return np.array([float(formula(*columns, weight)) for weight in weights])
        except Exception as fault:  # foreign code
            raise UsageError(
                f"the metric {metric.name!r} failed: {type(fault).__name__}: {fault}",
                hint="fix its formula, or leave it out of `metrics`",
            ) from None

    undefined = "its formula gives no number here"
    return Statistic(
        value_of, undefined, metric.bounds, metric.interval, scale=NORMALIZING_SCALES[metric.scale]
    )


NEWTON_STEPS = 30
"""Newton's steps; ten are enough where the choices are not separated."""
STEEPEST = 30.0
"""Larger coefficients are those of separated choices, which have no largest likelihood."""
SEPARATED = (
    "one option always wins, or the length decides every choice: the regression has no solution"
)


def length_effect(longer: Floats, every: Floats) -> Floats:
    """The regressor of these differences of lengths, in standard deviations of all of them."""
    spread = float(every.std()) if len(every) else 0.0
    effect: Floats = np.tanh(longer / spread) if spread else np.zeros(len(longer))
    return effect


def length_controlled_win_rate(wins: Floats, size: Floats) -> Statistic:
    """The win rate of A at each atom: 1 where it wins, and the regressor of its length."""

    design = np.stack([np.ones(len(size)), size], axis=1)

    def value_of(weights: Floats) -> Floats:
        coefficients = np.zeros((len(weights), 2))
        for _ in range(NEWTON_STEPS):
            with np.errstate(over="ignore"):
                likely = 1 / (1 + np.exp(-(coefficients @ design.T)))
            gradient = (weights * (wins - likely)) @ design
            curve = weights * likely * (1 - likely)
            # Where all lengths are equal, the slope stays 0.
            inverse = np.linalg.pinv(np.einsum("ra,ai,aj->rij", curve, design, design))
            step = np.einsum("rij,rj->ri", inverse, gradient)
            coefficients = np.clip(coefficients + step, -2 * STEEPEST, 2 * STEEPEST)
        rate = 1 / (1 + np.exp(-coefficients[:, 0]))
        flat = np.abs(gradient[:, 0]) > 1e-6 * np.maximum(weights.sum(axis=1), 1.0)
        steep = np.abs(coefficients).max(axis=1) > STEEPEST
        return np.where(steep | flat, np.nan, rate)

    return statistic_of("length_controlled_win_rate", value_of, SEPARATED, classes=(wins,))


NO_CORRELATION = "no cluster has different predictions and different targets"


def no_value(metric: str, data: EvaluationData) -> str:
    """Why no cluster has a value."""
    return panel.TOO_FEW_SAMPLES.format(k=data.k) if metric == "pass_at_k" else NO_CORRELATION


def values_by_cluster(metric: str, data: EvaluationData, rows: Ints) -> Floats:
    """The metric within each cluster of these rows, at the cluster's code; NaN where it has none."""
    assert data.cluster is not None
    codes = data.cluster[rows]
    values = np.full(int(data.cluster.max(initial=MISSING)) + 1, np.nan)
    order = np.argsort(codes, kind="stable")
    clusters, starts = np.unique(codes[order], return_index=True)
    for code, own in zip(clusters, np.split(rows[order], starts[1:]), strict=True):
        if code == MISSING:
            continue
        if metric == "pass_at_k":
            values[code] = panel.pass_at_k(data.value.numbers[own], data.k)
            continue
        x, y = data.predictions.numbers[own], data.targets.numbers[own]
        if len(own) > 1 and np.ptp(x) > 0 and np.ptp(y) > 0:
            values[code] = _correlation_within(metric, x, y)
    return values


def mean_of_clusters(values: Floats, bounds: Ends = SIGNED) -> tuple[Sample, Statistic]:
    """The mean of the clusters' values that are defined, and the sample that they are."""
    finite = values[np.isfinite(values)]
    sample = Sample.of((finite,))
    first = finite[sample.first]
    if bounds == UNIT:
        return sample, numbers.number_values(first, False, UNIT)["mean"]
    return sample, Statistic(mean_of_values(first), NO_CORRELATION, bounds)


def _correlation_within(metric: str, x: Floats, y: Floats) -> float:
    name = metric.removesuffix("_within")
    statistics = numbers.number_pairs(x, y) if name == "pearson" else ranks.rank_pairs(x, y)
    return float(statistics[name].at(np.ones((1, len(x))))[0])


FAMILIES: dict[MetricInput, MetricFamily] = {
    "labels": MetricFamily(_label_keys, _labels),
    "evaluator": MetricFamily(_label_keys, _labels),
    "ranking": MetricFamily(_label_keys, _rankings),
    "numbers": MetricFamily(
        lambda data: (data.targets.numbers, data.predictions.numbers), _number_pairs, _number_error
    ),
    "within": MetricFamily(_label_keys, _labels, _number_error),
    "probability": MetricFamily(_probability_keys, _probabilities, _probability_error),
    "value": MetricFamily(lambda data: (data.value.numbers,), _values, _value_error),
    "samples": MetricFamily(_label_keys, _labels, _value_error),
    "panel": MetricFamily(lambda data: (*data.votes, data.target), _panel, _panel_error),
    "consistent": MetricFamily(
        lambda data: (data.consistent.numbers,),
        lambda data, positions: _share("consistency", data.consistent.numbers[positions]),
        _consistent_error,
    ),
    "choice": MetricFamily(
        _label_keys,
        lambda data, positions: _share("first_position_rate", _is_first(data, positions)),
        _choice_error,
    ),
    "choice_length": MetricFamily(
        lambda data: (data.prediction, np.sign(data.longer.numbers)), _longer, _choice_error
    ),
    "lengths": MetricFamily(
        lambda data: (data.prediction, data.longer.numbers), _lengths, _choice_error
    ),
}
"""`within` and `samples` are measured cluster by cluster, of values that `values_by_cluster` computes."""
