"""What a fit works on (the labelled rows and recorded replies of a run, metrics on held-out rows), and the fits of probabilities,
of weights, and of a threshold for a required agreement, with a guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from msgspec import Struct, field, to_builtins

from verdict_cli.distributions import beta_quantile
from verdict_cli.errors import ReplyError, RowError, UsageError
from verdict_cli.language.calibrations import (
    MIN_PROBABILITY,
    Fitted,
    PoolWeights,
    ProbabilityMap,
    ScoreWeights,
    Threshold,
    apply_map,
)
from verdict_cli.language.expressions import summary_statistics
from verdict_cli.language.expressions.expression import Expression, compile_expression
from verdict_cli.language.expressions.paths import ExpressionError
from verdict_cli.language.extractors import resolve_extractor
from verdict_cli.language.extractors.token_probability import (
    TokenProbabilityExtractor,
    WeightedSummedScoreExtractor,
)
from verdict_cli.language.fields.types import ScaleType
from verdict_cli.language.scales import Scale
from verdict_cli.language.units.pools import MeanPoolUnit, ModePoolUnit
from verdict_cli.messages import JsonObject, is_number
from verdict_cli.plan.node import LLMNode, Node, Plan, PoolNode
from verdict_cli.plural import plural
from verdict_cli.run.recorded_replies import recorded_replies
from verdict_cli.stats.columns.column import Floats, Ints, RowMask
from verdict_cli.stats.columns.sample import Sample
from verdict_cli.stats.columns.saved_rows import saved_rows
from verdict_cli.stats.intervals.interval_methods import MetricValue
from verdict_cli.stats.intervals.intervals import Draw, metrics_with_intervals, paired_metric_value
from verdict_cli.stats.metrics import numbers, probability
from verdict_cli.stats.metrics.statistic import Statistic

if TYPE_CHECKING:
    from verdict_cli.features.calibrate.command import FitKind, FitOptions

ProbabilityFit = Callable[[Floats, Ints, int], JsonObject]
"""Probabilities (rows, values), the place of each row's true value and that of the positive one -> a map's keys."""


def temperature(p: Floats, truth: Ints, positive: int) -> JsonObject:
    """The divisor of the log-probabilities of least log loss, between 1/100 and 100 (Guo et al., 2017, section 4.2)."""
    from scipy.optimize import minimize_scalar
    from scipy.special import log_softmax

    logs = np.log(np.maximum(p, MIN_PROBABILITY))

    def loss(exponent: float) -> float:
        scaled = log_softmax(logs / np.exp(exponent), axis=1)
        return -float(scaled[np.arange(len(truth)), truth].sum())

    fitted = minimize_scalar(loss, bounds=(np.log(0.01), np.log(100)), method="bounded")
    return {"temperature": float(np.exp(fitted.x))}


def platt(p: Floats, truth: Ints, positive: int) -> JsonObject:
    """The line through the log-odds of least log loss, each target drawn in by what one row more of each value would
    say (Platt, 1999, section 2.2), so that the line is finite where the values can be separated without error."""
    from scipy.optimize import minimize
    from scipy.special import expit

    x = probability_log_odds(p[:, positive])
    right = truth == positive
    ups = float(right.sum())
    downs = len(right) - ups
    targets_drawn_in = np.where(right, (ups + 1) / (ups + 2), 1 / (downs + 2))

    def loss(line: Floats) -> tuple[float, Floats]:
        odds = line[0] * x + line[1]
        off = expit(odds) - targets_drawn_in
        total = (np.logaddexp(0, odds) - targets_drawn_in * odds).sum()
        return float(total), np.array([off @ x, off.sum()])

    fitted = minimize(loss, np.array([1.0, 0.0]), jac=True, method="BFGS")
    return {"slope": float(fitted.x[0]), "intercept": float(fitted.x[1])}


def isotonic(p: Floats, truth: Ints, positive: int) -> JsonObject:
    """The rising staircase of least squares (Zadrozny and Elkan, 2002), as knots at the ends of its steps."""
    from scipy.optimize import isotonic_regression

    levels, inverse, counts = np.unique(p[:, positive], return_inverse=True, return_counts=True)
    shares = np.bincount(inverse, (truth == positive).astype(np.float64)) / counts
    heights = isotonic_regression(shares, weights=counts).x
    ends = np.ones(len(levels), bool)
    ends[1:-1] = (heights[1:-1] != heights[:-2]) | (heights[1:-1] != heights[2:])
    return {
        "knots": [[float(x), float(y)] for x, y in zip(levels[ends], heights[ends], strict=True)]
    }


def probability_log_odds(p: Floats) -> Floats:
    """The log-odds, finite at both ends."""
    inner_p = np.clip(p, MIN_PROBABILITY, 1 - MIN_PROBABILITY)
    return np.log(inner_p / (1 - inner_p))


FITS: dict[str, ProbabilityFit] = {"temperature": temperature, "platt": platt, "isotonic": isotonic}
"""The methods by name."""


def fit_probability(job: FitJob) -> Calibrated:
    """The map of the unit's token probabilities, by `--method`, and the metrics of every method on held-out rows."""
    p, targets, rows = read_labelled_run(job)
    values = job.scale.token_values()
    truth = np.array([_value_index(job.scale, values, target) for target in targets])
    methods = [name for name in FITS if name == "temperature" or len(values) == 2]
    chosen = job.options.method or methods[-1 if len(methods) == 1 else 1]
    if chosen not in methods:
        raise UsageError(
            f"`{chosen}` maps one of two values, the scale has {len(values)}",
            hint="use `--method temperature`",
        )
    positive = values.index(True) if True in values else len(values) - 1

    def positive_probability(parameters: Floats) -> tuple[Floats, Floats]:
        if len(values) == 2:
            return parameters[:, positive], (truth == positive).astype(np.float64)
        return parameters.max(axis=1), (parameters.argmax(axis=1) == truth).astype(np.float64)

    metrics = {}
    fold = folds(rows, job.options.folds, job.rng)
    before = positive_probability(p)
    for name in methods:
        after = positive_probability(cross_validate(name, p, truth, values, positive, fold))
        statistics = probability.probability_statistics
        names = ("ece", "brier", "log_loss")
        metrics[name] = held_out(names, statistics, before, after, rows, job.rng)
    keys = FITS[chosen](p, truth, positive)
    if chosen != "temperature":
        keys["positive"] = values[positive]
    content = job.fitted(
        ProbabilityMap, len(set(rows.tolist())), metrics[chosen], method=chosen, **keys
    )
    confident_of = f"{values[positive]!r}" if len(values) == 2 else "the most probable value"
    return Calibrated(content, metrics, (f"metrics of the probability of {confident_of}",))


def cross_validate(
    name: Any, p: Floats, truth: Ints, values: Sequence[Any], positive: int, fold: Ints
) -> Floats:
    """The probabilities (rows, values), each row's mapped by what was fitted to the rows of other folds."""

    def mapped(training: RowMask, test: RowMask) -> Floats:
        keys = FITS[name](p[training], truth[training], positive)
        fitted = ProbabilityMap.model_construct(
            None, method=name, positive=values[positive], **keys
        )
        rows = [dict(zip(values, row, strict=True)) for row in p[test].tolist()]
        return np.array([list(apply_map(row, fitted).values()) for row in rows])

    return out_of_fold(fold, p, mapped)


def out_of_fold(fold: Ints, like: Floats, predict: Callable[[RowMask, RowMask], Floats]) -> Floats:
    """What is predicted of the rows of each fold from the rows of the others; in the shape of `like`."""
    predicted = np.empty_like(like)
    for index in np.unique(fold):
        test = fold == index
        predicted[test] = predict(~test, test)
    return predicted


def _value_index(scale: Scale, values: Sequence[Any], target: Any) -> int:
    """The index of a target among the scale's values. UsageError if it is none of them."""
    if scale.json_schema() == {"type": "boolean"} and target in (0, 1):
        target = bool(target)
    try:
        return values.index(scale.read(target))
    except ReplyError:
        raise UsageError(
            f"the target {target!r} is not on the judge's scale ({scale.display()})",
            hint="make it one in the expression, such as `source.label == 'good'`",
        ) from None


class ThresholdBound(Struct, frozen=True):
    """Answers at or above ``threshold`` are kept: how many of the rows, how many of these agree, and the lower end of
    the one-sided Clopper–Pearson interval of their agreement. None as threshold: no bound keeps the promise."""

    threshold: float | None
    rows: int
    answered: int
    agreeing: int
    least: float


def threshold_bound(
    confidence: Floats, agrees: Floats, agreement: float, level: float
) -> ThresholdBound:
    """The lowest bound above which the agreement is ``agreement``, with probability ``level`` over the labelled rows.

    Fixed-sequence testing (Bauer, 1991) as in Jung et al. (2024, "Trust or Escalate", section 2.1): bounds are tested
    from the highest down, each by the Clopper–Pearson upper end of the share of disagreement, until one fails. The
    first is one with rows enough to pass with half of the disagreement that is allowed; which that is, and all the
    others, depend on the confidences alone.
    """
    order = np.argsort(-confidence, kind="stable")
    sure, right = confidence[order], np.cumsum(agrees[order])
    ends = np.flatnonzero(np.append(sure[1:] != sure[:-1], True))
    allowed = 1 - agreement
    first = _first(len(sure), allowed, level)
    best = ThresholdBound(None, len(sure), 0, 0, 0.0)
    for end in ends[ends + 1 >= first]:
        answered, agreeing = int(end) + 1, int(right[end])
        risk = upper(answered - agreeing, answered, level)
        if risk > allowed:
            break
        best = ThresholdBound(float(sure[end]), len(sure), answered, agreeing, 1 - risk)
    return best


def _first(rows: int, allowed: float, level: float) -> int:
    """How many rows the first bound that is tested has at least."""
    most = math.ceil(math.log(1 - level) / math.log(1 - allowed))
    count = most
    while count <= rows:
        if upper(math.floor(count * allowed / 2), count, level) <= allowed:
            return count
        count += max(1, count // 50)
    return most


def upper(wrong: int, rows: int, level: float) -> float:
    """The upper end of the one-sided Clopper–Pearson interval of a share."""
    return 1.0 if wrong >= rows else beta_quantile(wrong + 1, rows - wrong, level)


def fit_threshold(job: FitJob) -> Calibrated:
    """The lowest bound that shows the agreement of `--agreement`. UsageError where none does."""
    options = job.options
    assert options.agreement is not None
    node = job.nodes[0]
    if node.escalation is not None:
        raise UsageError(
            f"{node.id} escalated in this run, so its first answers are not all in the results",
            hint=f"run it without: `--set 'PATH.escalate=null'` with the path of {node.id}",
        )
    sure = compile_option("--confidence", options.confidence, (*GIVEN, "output"))
    prediction = compile_option("--prediction", options.prediction, (*GIVEN, "output"))
    answers_of: dict[int, list[tuple[float, bool]]] = {}
    for row in labelled_rows(job.results, job.nodes, options, (sure, prediction)):
        for unit in range(len(job.nodes)):
            answer = row.of(prediction, unit)
            if answer is not None:
                pair = _number(sure, row, unit), answer == row.target
                answers_of.setdefault(row.cluster, []).append(pair)
    # Copies of one row, and rows of one cluster, agree with each other: one of them, by chance, stands for all.
    pairs = [answers[int(job.rng.integers(len(answers)))] for answers in answers_of.values()]
    check_enough_rows(len(pairs))
    confidence, agrees = (np.array(column, dtype=np.float64) for column in zip(*pairs, strict=True))
    bound = threshold_bound(confidence, agrees, options.agreement, options.level)
    if bound.threshold is None:
        raise UsageError(
            f"no bound on `{options.confidence}` shows {options.agreement:g} agreement with {options.level:g} confidence on "
            f"{plural(len(pairs), 'row')}; they agree on {agrees.mean():.3f} of all",
            hint="label more rows, ask for less agreement, or take a better confidence",
        )
    content = Threshold.model_validate(
        job.head
        | {"fingerprint": job.marks(), "rows": len(pairs), "confidence": options.confidence}
        | {"threshold": bound.threshold, "agreement": options.agreement, "level": options.level}
        | {"answered": bound.answered / bound.rows}
    )
    return Calibrated(
        content,
        notes=(
            f"{bound.answered:,} of {plural(bound.rows, 'row is|rows are')} at or above {bound.threshold:.6g}, "
            f"{bound.agreeing / bound.answered:.4f} of them agree, at least {bound.least:.4f} with {options.level:g} confidence; "
            f"of all rows, {agrees.mean():.4f} agree",
        ),
    )


def _number(sure: Any, row: Labelled, unit: int) -> float:
    value = row.of(sure, unit)
    if not is_number(value):
        raise UsageError(
            f"row {row.row}: `{sure.text}` gives {value!r:.80}, not a number",
            hint="--confidence is an expression for how sure an answer is, higher is surer",
        )
    return float(value)


GIVEN = ("source", "human")
"""The roots of expressions that need no judge: a row's columns and its human labels."""


class Labelled(Struct, frozen=True):
    """One row: its number, `source` and `human` as far as expressions name them, the outputs of the units (None: there
    is none), its target (None: not asked for), and the number that rows of its cluster share (by default its own)."""

    row: int
    given: JsonObject
    outputs: tuple[JsonObject | None, ...]
    target: Any
    cluster: int

    def of(self, expression: Expression, unit: int) -> Any:
        """The expression's value on this row, with that unit's output as `output`; None where there is none."""
        output = self.outputs[unit]
        if output is None:
            return None
        return _evaluate(expression, self.row, self.given | {"output": output})


def _evaluate(expression: Expression, row: int, values: JsonObject) -> Any:
    try:
        return expression(values)
    except RowError as error:
        raise UsageError(f"row {row}: {error.message}") from None


def labelled_rows(
    results: Path,
    nodes: Sequence[Node],
    options: FitOptions,
    expressions: Sequence[Expression] = (),
) -> list[Labelled]:
    """Every row that `where` selects, and that has a label where `--target` is given, in order. UsageError for an expression
    that cannot be computed.

    ``expressions`` are further expressions that the rows must hold the columns of.
    """
    texts = (
        ("--target", options.target),
        ("--where", options.where),
        ("--cluster", options.cluster),
    )
    compiled = {
        option: compile_option(option, text, GIVEN) for option, text in texts if text is not None
    }
    target_of, selects, together = (compiled.get(option) for option, _ in texts)
    numbers: dict[str, int] = {}
    paths = [path for expression in (*compiled.values(), *expressions) for path in expression.paths]
    paths = [path for path in paths if path[0] in GIVEN] + [("nodes", node.id) for node in nodes]
    rows = []
    for row, _, values in saved_rows(results, paths):
        roots = {root: values[root] for root in GIVEN if root in values}
        if selects is not None and _evaluate(selects, row, roots) is not True:
            continue
        label = None if target_of is None else _evaluate(target_of, row, roots)
        if target_of is not None and label is None:
            continue
        cluster = row
        if together is not None:
            cluster = numbers.setdefault(repr(_evaluate(together, row, roots)), len(numbers))
        outputs = tuple(_output(values["nodes"].get(node.id, {})) for node in nodes)
        rows.append(Labelled(row, roots, outputs, label, cluster))
    return rows


def _output(values: JsonObject) -> JsonObject | None:
    return None if all(value is None for value in values.values()) else values


def compile_option(option: str, text: str, roots: Sequence[str]) -> Expression:
    """The compiled expression of an option. UsageError if it is not one."""
    try:
        return compile_expression(text, roots)
    except ExpressionError as error:
        raise UsageError(f"{option}: {error.message}", hint=error.hint) from None


def distributions(calls: Path, nodes: Sequence[Node]) -> list[tuple[int, dict[Any, float]]]:
    """(row, uncalibrated probability of each value) of each unit's first call at each row, as far as it was recorded with
    log-probabilities that can be read."""
    extractor = TokenProbabilityExtractor()
    readers = {
        node.id: extractor.bind(node.work.response)
        for node in nodes
        if isinstance(node.work, LLMNode)
    }
    read = {}
    for request, reply in recorded_replies(calls, 0):
        if request.node in readers and request.call == 0:
            with suppress(ReplyError):
                values = readers[request.node].read(reply, request)
                read[request.row.index, request.node] = values["distribution"]
    return [(row, values) for (row, _), values in read.items()]


HeldOutColumns = tuple[Floats, ...]
Statistics = Callable[..., Mapping[str, Statistic]]


@dataclass(frozen=True, slots=True)
class HeldOut:
    """A metric on held-out rows: without the fit, with it, and the difference with its interval."""

    before: MetricValue
    after: MetricValue
    change: MetricValue


def folds(rows: Ints, count: int, rng: np.random.Generator) -> Ints:
    """The fold of each row, 0 to ``count - 1``; rows with the same number stay together."""
    numbers, inverse = np.unique(rows, return_inverse=True)
    return (rng.permutation(len(numbers)) % count)[inverse]


def held_out(
    metrics: tuple[str, ...],
    statistics: Statistics,
    before: HeldOutColumns,
    after: HeldOutColumns,
    rows: Ints,
    rng: np.random.Generator,
) -> dict[str, HeldOut]:
    """The metrics of both pairs of columns, paired row by row; rows with the same number are a cluster."""
    alone = len(np.unique(rows)) == len(rows)
    cluster = None if alone else np.unique(rows, return_inverse=True)[1].astype(np.int64)
    sample = Sample.of((*before, *after), cluster)
    old = statistics(*(column[sample.first] for column in before))
    new = statistics(*(column[sample.first] for column in after))
    compared = {}
    for name in metrics:
        first, second = (
            metrics_with_intervals({name: side[name]}, sample, Draw(rng))[name]
            for side in (old, new)
        )
        change = paired_metric_value(old[name], new[name], sample, Draw(rng))
        compared[name] = HeldOut(first, second, change)
    return compared


FEWEST = 20
"""Fewer labelled rows leave four in each of five folds: nothing can be said of the fit."""


class Calibrated(Struct, frozen=True):
    """What was fitted, its metrics on held-out rows by method and name, and notes for the reader."""

    content: Fitted
    metrics: Mapping[str, Mapping[str, HeldOut]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


Content = TypeVar("Content", bound=Fitted)


class FitJob(Struct, frozen=True):
    """The input of a fit: the copies of the unit, the run's tables, and the head of the calibration file."""

    plan: Plan
    nodes: Sequence[Node]
    results: Path
    calls: Path
    options: FitOptions
    rng: np.random.Generator
    head: JsonObject

    @property
    def scale(self) -> Scale:
        """The scale of a unit whose token probabilities are read."""
        work = self.nodes[0].work
        assert isinstance(work, LLMNode)
        (kind,) = work.response.fields.values()
        assert isinstance(kind, ScaleType)
        return kind.scale

    def marks(self, *without: str) -> dict[str, str]:
        """The digests of the unit's parts, but for these."""
        return {name: mark for name, mark in self.nodes[0].marks.items() if name not in without}

    def fitted(
        self, kind: type[Content], rows: int, metrics: Mapping[str, HeldOut], **keys: Any
    ) -> Content:
        """The content of the calibration file, with the metrics on held-out rows."""
        value_keys = ("value", "low", "high")
        figures = {
            name: {
                side: {key: value[key] for key in value_keys}
                for side, value in to_builtins(metric).items()
            }
            for name, metric in metrics.items()
        }
        marks = self.marks("output")
        file_keys = {"fingerprint": marks, "rows": rows, "held_out": figures, **keys}
        return kind.model_validate(self.head | file_keys)


def read_labelled_run(job: FitJob) -> tuple[Floats, list[Any], Ints]:
    """(probabilities, targets, numbers of their rows or clusters) of the recorded replies whose row is labelled."""
    rows = {row.row: row for row in labelled_rows(job.results, (), job.options)}
    predictions = [(rows[row], p) for row, p in distributions(job.calls, job.nodes) if row in rows]
    check_enough_rows(len({row.row for row, _ in predictions}))
    values = job.scale.token_values()
    p = np.array([[distribution[value] for value in values] for _, distribution in predictions])
    return (
        p,
        [row.target for row, _ in predictions],
        np.array([row.cluster for row, _ in predictions]),
    )


class TooFewRows(UsageError):
    """A run with too few rows that have a label and an answer."""


def check_enough_rows(rows: int) -> None:
    """Raises TooFewRows for fewer rows than `FEWEST`."""
    if rows < FEWEST:
        raise TooFewRows(
            f"{plural(rows, 'row has|rows have')} a label and an answer, {FEWEST} are needed",
            hint="label more rows, or run the judge on more of the labelled ones",
        )


def numbers_of(targets: Sequence[Any]) -> Floats:
    """The targets as numbers. UsageError for any other."""
    for target in targets:
        if not isinstance(target, int | float):
            raise UsageError(
                f"the target {target!r} is not a number", hint="make it one in the expression"
            )
    return np.array(targets, dtype=np.float64)


STEPS = 1000
"""The most steps of the EM algorithm."""


def score_weights(p: Floats, target: Floats, prior: Floats) -> Floats:
    """The number of each value for which the expectation comes nearest to the target (ridge regression towards the
    values' own numbers, which count as one row each, so that a value nobody used keeps its own)."""
    gram = p.T @ p + np.eye(p.shape[1])
    return np.asarray(np.linalg.solve(gram, p.T @ target + prior), dtype=np.float64)


def least_squares(values: Floats, target: Floats) -> Floats:
    """Non-negative weights of the units, adding up to one, whose mean comes nearest to the target (Breiman, 1996,
    "Stacked regressions"); ``values`` are (rows, units)."""
    from scipy.optimize import nnls

    heavy = 1e3 * max(1.0, float(np.abs(values).max())) * np.sqrt(len(values))
    rows = np.vstack([values, np.full((1, values.shape[1]), heavy)])
    weights = nnls(rows, np.append(target, heavy))[0]
    return np.asarray(weights / weights.sum(), dtype=np.float64)


def weight_log_odds(hits: Floats, answered: Floats, kinds: int) -> Floats:
    """The weight of each unit's vote: the log-odds of its being right against any one other value, at least 0
    (Nitzan and Paroush, 1982); one right and one wrong answer are added to each unit's own."""
    right = (hits + 1) / (answered + 2)
    return np.maximum(np.log(right * max(kinds - 1, 1) / (1 - right)), 0.0)


def logistic(votes: Ints, truth: Ints) -> Floats:
    """Non-negative weights of least log loss of a vote between two values (logistic regression without an intercept,
    its squared weights drawn to 0 by half a row's worth), which counts judges that err together as fewer.
    ``votes`` are (rows, units) of 0 and 1, -1 where there is none; ``truth`` 0 or 1."""
    from scipy.optimize import minimize
    from scipy.special import expit

    signs = np.where(votes < 0, 0, 2 * votes - 1) * (2 * truth - 1)[:, None]

    def loss(weights: Floats) -> tuple[float, Floats]:
        margin = signs @ weights
        total = np.logaddexp(0, -margin).sum() + weights @ weights / 4
        return float(total), weights / 2 - signs.T @ expit(-margin)

    units = votes.shape[1]
    start = np.full(units, 1 / units)
    fitted = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(0, None)] * units)
    return np.asarray(fitted.x, dtype=np.float64)


def dawid_skene(votes: Ints, kinds: int) -> tuple[Floats, Floats]:
    """The probability of each value at each row, and each unit's share of right votes, without a label
    (Dawid and Skene, 1979): EM from the shares of the votes. ``votes`` are (rows, units), -1 where there is none."""
    from scipy.special import logsumexp, softmax

    indicators = (votes[:, :, None] == np.arange(kinds)).astype(np.float64)
    answered = indicators.sum(axis=(0, 2))
    truth = indicators.sum(axis=1)
    truth[~truth.any(axis=1)] = 1.0
    truth /= truth.sum(axis=1, keepdims=True)
    last = -np.inf
    for _ in range(STEPS):
        prior = (truth.sum(axis=0) + 1) / (len(votes) + kinds)
        confusion = np.einsum("rk,rul->ukl", truth, indicators) + 1 / kinds
        confusion /= confusion.sum(axis=2, keepdims=True)
        logs = np.log(prior) + np.einsum("rul,ukl->rk", indicators, np.log(confusion))
        likelihood = float(logsumexp(logs, axis=1).sum())
        truth = softmax(logs, axis=1)
        if likelihood - last < 1e-9 * abs(likelihood):
            break
        last = likelihood
    hits = np.einsum("rk,ruk->u", truth, indicators)
    return truth, hits / np.maximum(answered, 1)


def _held_out_sums(
    job: FitJob,
    fit: Callable[[Floats, Floats], Floats],
    x: Floats,
    target: Floats,
    before: Floats,
    rows: Ints,
) -> dict[str, HeldOut]:
    """The metrics of the weighted sum at each row, with weights that were fitted to the rows of other folds."""
    after = out_of_fold(
        folds(rows, job.options.folds, job.rng),
        before,
        lambda training, test: x[test] @ fit(x[training], target[training]),
    )
    metrics = ("mae", "rmse", "pearson")
    columns = (before, target), (after, target)
    return held_out(metrics, numbers.number_pairs, *columns, rows, job.rng)


def fit_score_weights(job: FitJob) -> Calibrated:
    """The numbers of the scale's values for which the weighted sum comes nearest to the target."""
    p, targets, rows = read_labelled_run(job)
    values = job.scale.token_values()
    target = numbers_of(targets)
    scale_numbers = [job.scale.number(value) for value in values]
    mean = float(target.mean())
    start = np.array([mean if number is None else number for number in scale_numbers])
    metrics = _held_out_sums(
        job, lambda x, y: score_weights(x, y, start), p, target, p @ start, rows
    )
    weights = dict(zip(values, score_weights(p, target, start).tolist(), strict=True))
    content = job.fitted(ScoreWeights, len(set(rows.tolist())), metrics, weights=weights)
    return Calibrated(content, {"score_weights": metrics})


Answers = Sequence[Sequence[Any]]


def fit_pool_weights(job: FitJob) -> Calibrated:
    """The weights of the units before the pool, by `--method`. UsageError where the method does not fit the pool."""
    (pool,) = job.nodes[:1]
    assert isinstance(pool.work, PoolNode)
    parents = [job.plan.nodes[parent] for parent in pool.parents]
    if len(pool.work.fields) != 1:
        raise UsageError(f"{pool.id} pools several fields", hint="name one of them with `field:`")
    ((name, expressions),) = pool.work.fields
    is_vote = isinstance(pool.unit, ModePoolUnit)
    method = job.options.method or ("logistic" if is_vote else "least_squares")
    if (method == "least_squares") == is_vote:
        fit = "`logistic`, `log_odds` or `dawid_skene`" if is_vote else "`least_squares`"
        raise UsageError(f"`{method}` does not fit a {pool.unit.type_name}", hint=f"use {fit}")
    if job.options.target is None and method != "dawid_skene":
        raise UsageError(
            f"`{method}` needs --target", hint="`--method dawid_skene` needs no labels"
        )
    rows = [row for row in labelled_rows(job.results, parents, job.options) if any(row.outputs)]
    check_enough_rows(len(rows))
    answers = [
        [
            None if output is None else take(output[name])
            for output, take in zip(row.outputs, expressions, strict=True)
        ]
        for row in rows
    ]
    targets, clusters = [row.target for row in rows], np.array([row.cluster for row in rows])
    if is_vote:
        weights, metrics = _vote(job, method, answers, targets, clusters)
    else:
        weights, metrics = _mean_pool(job, answers, targets, clusters)
    content = job.fitted(PoolWeights, len(rows), metrics, method=method, weights=weights.tolist())
    listing = ", ".join(
        f"{parent.id} {weight:.3g}" for parent, weight in zip(parents, weights, strict=True)
    )
    return Calibrated(content, {method: metrics} if metrics else {}, (f"weights: {listing}",))


def _vote(
    job: FitJob, method: str, answers: Answers, targets: list[Any], rows: Ints
) -> tuple[Floats, dict[str, HeldOut]]:
    classes = list(dict.fromkeys(value for row in answers for value in row if value is not None))
    votes = np.array(
        [[classes.index(value) if value is not None else -1 for value in row] for row in answers]
    )
    truth = np.array([classes.index(target) if target in classes else -2 for target in targets])
    if method == "logistic" and len(classes) > 2:
        raise UsageError(
            f"`logistic` is for votes between two values, here are {len(classes)}",
            hint="use `log_odds`",
        )
    weights = vote_weights(method, votes, truth, len(classes))
    if job.options.target is None:
        return weights, {}

    def hits(training: RowMask, test: RowMask) -> Floats:
        fitted = vote_weights(method, votes[training], truth[training], len(classes))
        return _right_votes(votes[test], truth[test], fitted)

    before = _right_votes(votes, truth, np.ones(votes.shape[1]))
    after = out_of_fold(folds(rows, job.options.folds, job.rng), before, hits)
    metrics = held_out(
        ("mean",),
        lambda hit: numbers.number_values(hit, True),
        (before,),
        (after,),
        rows,
        job.rng,
    )
    return weights, {"accuracy": metrics["mean"]}


def _right_votes(votes: Ints, truth: Ints, weights: Floats) -> Floats:
    """Whether the weighted vote of each row is right."""
    won = []
    for row in votes:
        is_vote = row >= 0
        won.append(
            summary_statistics.weighted_mode(row[is_vote].tolist(), weights[is_vote].tolist())
        )
    return np.asarray(np.array(won) == truth, dtype=np.float64)


def vote_weights(method: str, votes: Ints, truth: Ints, kinds: int) -> Floats:
    """The units' weights by the method."""
    answered = (votes >= 0).sum(axis=0)
    if method == "logistic":
        return logistic(votes[truth >= 0], truth[truth >= 0])
    if method == "dawid_skene":
        return weight_log_odds(dawid_skene(votes, kinds)[1] * answered, answered, kinds)
    return weight_log_odds((votes == truth[:, None]).sum(axis=0), answered, kinds)


def _mean_pool(
    job: FitJob, answers: Answers, targets: list[Any], rows: Ints
) -> tuple[Floats, dict[str, HeldOut]]:
    whole = [index for index, row in enumerate(answers) if None not in row]
    check_enough_rows(len(whole))
    values = np.array([[float(value) for value in answers[index]] for index in whole])
    target = numbers_of([targets[index] for index in whole])
    metrics = _held_out_sums(job, least_squares, values, target, values.mean(axis=1), rows[whole])
    return least_squares(values, target), metrics


class Fit(Struct, frozen=True):
    """One of the values of `--fit`: what a unit that it fits does, and what a pipeline without such a unit lacks."""

    function: Callable[[FitJob], Calibrated]
    unit_property: str
    needed: str
    methods: tuple[str, ...] = ()
    """What `--method` takes; without it, the first that is possible is used."""


FIT_KINDS = {
    "probability": Fit(
        fit_probability,
        "reads token probabilities",
        "add `extract: token_probability` to the judge, with a model that returns log-probabilities",
        ("temperature", "platt", "isotonic"),
    ),
    "score_weights": Fit(
        fit_score_weights,
        "sums up token probabilities (`weighted_summed_score`)",
        "add `extract: weighted_summed_score` to the judge, with a model that returns log-probabilities",
    ),
    "pool_weights": Fit(
        fit_pool_weights,
        "is a ModePoolUnit or a MeanPoolUnit",
        "add a ModePoolUnit or a MeanPoolUnit after several judges",
        ("logistic", "log_odds", "least_squares", "dawid_skene"),
    ),
    "threshold": Fit(fit_threshold, "could escalate", "add a judge"),
}


def calibrate_run(
    plan: Plan, results: Path, calls: Path, options: FitOptions, *, created: str, run: str
) -> Calibrated:
    """The calibration. UsageError where the run, the unit or its labels do not allow one."""
    nodes = _nodes(plan, options)
    head = {
        "verdict_calibration": 1,
        "kind": options.kind,
        "unit": nodes[0].name,
        "made": created,
        "run": run,
        "target": options.target or "",
    }
    return FIT_KINDS[options.kind].function(
        FitJob(plan, nodes, results, calls, options, np.random.default_rng(abs(options.seed)), head)
    )


def _nodes(plan: Plan, options: FitOptions) -> list[Node]:
    """The copies of the unit that is meant."""
    fitting = [node for node in plan.nodes if _fits(plan, node, options.kind)]
    names = list(dict.fromkeys(node.name for node in fitting))
    unit_name = options.unit
    if unit_name is None and len(names) == 1:
        unit_name = names[0]
    matching = [node for node in fitting if unit_name in (node.name, node.id)]
    if matching:
        return matching
    kind = FIT_KINDS[options.kind]
    requirement = kind.unit_property
    if not names:
        raise UsageError(
            f"no unit of this run {requirement}", hint=f"{kind.needed}, and run the pipeline again"
        )
    if unit_name is None:
        raise UsageError(
            f"--unit is missing: {plural(len(names), 'unit')} of this run {requirement}",
            hint=f"give {' or '.join(names)}",
        )
    raise UsageError(
        f"no unit {unit_name!r} of this run {requirement}", hint=f"these do: {', '.join(names)}"
    )


def _fits(plan: Plan, node: Node, kind: FitKind) -> bool:
    if kind == "pool_weights":
        return isinstance(node.work, PoolNode) and isinstance(
            node.unit, ModePoolUnit | MeanPoolUnit
        )
    if kind == "threshold":
        return True
    if not isinstance(node.work, LLMNode) or not node.work.reading.top_logprobs:
        return False
    return kind == "probability" or isinstance(
        resolve_extractor(node.work.unit.extract_key), WeightedSummedScoreExtractor
    )
