"""What a fit works on (its options, the labelled rows and recorded replies of a run, metrics on held-out rows), and the fits of
probabilities and of a threshold for a required agreement, with a guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from msgspec import Struct, field

from verdict_cli.errors import ReplyError, RowError, UsageError
from verdict_cli.language.calibrations import MIN_PROBABILITY, Fitted, ProbabilityMap, Threshold, apply_map
from verdict_cli.language.expressions.expression import Expression, compile_expression
from verdict_cli.language.expressions.paths import ExpressionError
from verdict_cli.language.extractors.token_probability import TokenProbabilityExtractor
from verdict_cli.language.fields.types import ScaleType
from verdict_cli.language.scales import Scale
from verdict_cli.plan.node import LLMNode, Node, Plan
from verdict_cli.plural import plural
from verdict_cli.run.re_extract import recorded_replies
from verdict_cli.stats.columns.column import Floats, Ints
from verdict_cli.stats.columns.sample import Sample
from verdict_cli.stats.columns.saved_rows import saved_rows
from verdict_cli.stats.intervals.interval_methods import MetricValue
from verdict_cli.stats.intervals.intervals import CONFIDENCE_LEVEL, Draw, metrics_with_intervals, paired_metric_value
from verdict_cli.stats.metrics import probability
from verdict_cli.stats.metrics.statistic import Statistic

ProbabilityFit = Callable[[Floats, Ints, int], dict[str, Any]]
"""Probabilities (rows, values), the place of each row's true value and that of the positive one -> a map's keys."""


def temperature(p: Floats, truth: Ints, positive: int) -> dict[str, Any]:
    """The divisor of the log-probabilities of least log loss, between 1/100 and 100 (Guo et al., 2017, section 4.2)."""
    from scipy.optimize import minimize_scalar
    from scipy.special import logsumexp

    logs = np.log(np.maximum(p, MIN_PROBABILITY))

    def loss(exponent: float) -> float:
        scaled = logs / np.exp(exponent)
        own = np.take_along_axis(scaled, truth[:, None], 1)[:, 0]
        return float((logsumexp(scaled, axis=1) - own).sum())

    fitted = minimize_scalar(loss, bounds=(np.log(0.01), np.log(100)), method="bounded")
    return {"temperature": float(np.exp(fitted.x))}


def platt(p: Floats, truth: Ints, positive: int) -> dict[str, Any]:
    """The line through the log-odds of least log loss, each target drawn in by what one row more of each value would
    say (Platt, 1999, section 2.2), so that the line is finite where the values can be separated without error."""
    from scipy.optimize import minimize

    x = probability_log_odds(p[:, positive])
    right = truth == positive
    ups = float(right.sum())
    downs = len(right) - ups
    targets_drawn_in = np.where(right, (ups + 1) / (ups + 2), 1 / (downs + 2))

    def loss(line: Floats) -> tuple[float, Floats]:
        odds = line[0] * x + line[1]
        off = 1 / (1 + np.exp(-np.clip(odds, -700, 700))) - targets_drawn_in
        return float((np.logaddexp(0, odds) - targets_drawn_in * odds).sum()), np.array([off @ x, off.sum()])

    fitted = minimize(loss, np.array([1.0, 0.0]), jac=True, method="BFGS")
    return {"slope": float(fitted.x[0]), "intercept": float(fitted.x[1])}


def isotonic(p: Floats, truth: Ints, positive: int) -> dict[str, Any]:
    """The rising staircase of least squares (Zadrozny and Elkan, 2002), as knots at the ends of its steps."""
    from scipy.optimize import isotonic_regression

    levels, inverse, counts = np.unique(p[:, positive], return_inverse=True, return_counts=True)
    shares = np.bincount(inverse, (truth == positive).astype(np.float64)) / counts
    heights = isotonic_regression(shares, weights=counts).x
    ends = np.ones(len(levels), bool)
    ends[1:-1] = (heights[1:-1] != heights[:-2]) | (heights[1:-1] != heights[2:])
    return {"knots": [[float(x), float(y)] for x, y in zip(levels[ends], heights[ends], strict=True)]}


def probability_log_odds(p: Floats) -> Floats:
    """The log-odds, finite at both ends."""
    kept = np.clip(p, MIN_PROBABILITY, 1 - MIN_PROBABILITY)
    return np.log(kept / (1 - kept))


FITS: dict[str, ProbabilityFit] = {"temperature": temperature, "platt": platt, "isotonic": isotonic}
"""The methods by name."""


def fit_probability(job: FitJob) -> Calibrated:
    """The map of the unit's token probabilities, by `--method`, and the metrics of every method on held-out rows."""
    p, targets, rows = read_labelled_run(job)
    values = values_of(job.scale)
    truth = np.array([_value_index(job.scale, values, target) for target in targets])
    methods = [name for name in FITS if name == "temperature" or len(values) == 2]
    chosen = job.options.method or methods[-1 if len(methods) == 1 else 1]
    if chosen not in methods:
        raise UsageError(
            f"`{chosen}` maps one of two values, the scale has {len(values)}", hint="use `--method temperature`"
        )
    positive = values.index(True) if True in values else len(values) - 1

    def positive_probability(parameters: Floats) -> tuple[Floats, Floats]:
        if len(values) == 2:
            return parameters[:, positive], (truth == positive).astype(np.float64)
        return parameters.max(axis=1), (parameters.argmax(axis=1) == truth).astype(np.float64)

    metrics: dict[str, Mapping[str, HeldOut]] = {}
    fold = folds(rows, job.options.folds, job.rng)
    for name in methods:
        after = cross_validate(name, p, truth, values, positive, fold)
        metrics[name] = held_out(
            ("ece", "brier", "log_loss"),
            probability.probability_statistics,
            positive_probability(p),
            positive_probability(after),
            rows,
            job.rng,
        )
    keys = FITS[chosen](p, truth, positive)
    if chosen != "temperature":
        keys["positive"] = values[positive]
    content = ProbabilityMap.model_validate(
        job.head
        | {"fingerprint": job.marks("output"), "method": chosen, "rows": len(set(rows.tolist())), **keys}
        | {"held_out": held_out_keys(metrics[chosen])}
    )
    confident_of = f"{values[positive]!r}" if len(values) == 2 else "the most probable value"
    return Calibrated(content, metrics, (f"metrics of the probability of {confident_of}",))


def cross_validate(name: str, p: Floats, truth: Ints, values: list[Any], positive: int, fold: Ints) -> Floats:
    """The probabilities (rows, values), each row's mapped by what was fitted to the rows of other folds."""
    after = np.empty_like(p)
    for index in np.unique(fold):
        keys = FITS[name](p[fold != index], truth[fold != index], positive)
        after[fold == index] = _apply(name, keys, values, positive, p[fold == index])
    return after


def _apply(name: Any, keys: Mapping[str, Any], values: list[Any], positive: int, p: Floats) -> Floats:
    fitted = ProbabilityMap.model_construct(None, method=name, positive=values[positive], **keys)
    return np.array([list(apply_map(dict(zip(values, row, strict=True)), fitted).values()) for row in p.tolist()])


def _value_index(scale: Scale, values: list[Any], target: Any) -> int:
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


def threshold_bound(confidence: Floats, agrees: Floats, agreement: float, level: float) -> ThresholdBound:
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
    from scipy.special import betaincinv

    return 1.0 if wrong >= rows else float(betaincinv(wrong + 1, rows - wrong, level))


def fit_threshold(job: FitJob) -> Calibrated:
    """The lowest bound that keeps the agreement that is options. UsageError where none does."""
    options = job.options
    node = job.nodes[0]
    if node.escalation is not None:
        raise UsageError(
            f"{node.id} escalated in this run, so its first answers are not all in the results",
            hint=f"run it without: `--set 'PATH.escalate=null'` with the path of {node.id}",
        )
    sure = compile_option("--confidence", options.confidence, (*GIVEN, "output"))
    prediction = compile_option("--prediction", options.prediction, (*GIVEN, "output"))
    rows = labelled_rows(job.results, job.nodes, options, (sure, prediction))
    found_answers: dict[int, list[tuple[float, bool]]] = {}
    for row in rows:
        for unit in range(len(job.nodes)):
            if row.target is None or row.outputs[unit] is None or (answer := row.of(prediction, unit)) is None:
                continue
            found_answers.setdefault(row.cluster, []).append((_number(sure, row, unit), answer == row.target))
    # Copies of one row, and rows of one cluster, agree with each other: one of them, by chance, stands for all.
    pairs = [answers[int(job.rng.integers(len(answers)))] for answers in found_answers.values()]
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
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(
            f"row {row.row}: `{sure.text}` gives {value!r:.80}, not a number",
            hint="--confidence is an expression for how sure an answer is, higher is surer",
        )
    return float(value)


GIVEN = ("source", "human")
"""The roots of expressions that need no judge: a row's columns and its human labels."""


class Labelled(Struct, frozen=True):
    """One row: its number, `source` and `human` as far as expressions name them, the outputs of the units (None: there
    is none), its target (None: unknown), and the number that rows of its cluster share (by default its own)."""

    row: int
    given: dict[str, Any]
    outputs: tuple[dict[str, Any] | None, ...]
    target: Any
    cluster: int

    def of(self, expression: Expression, unit: int = 0) -> Any:
        """The expression's value on this row, with that unit's output as `output`; None where there is none."""
        output = self.outputs[unit]
        return None if output is None else _evaluate(expression, self.row, self.given | {"output": output})


def _evaluate(expression: Expression, row: int, values: dict[str, Any]) -> Any:
    try:
        return expression(values)
    except RowError as error:
        raise UsageError(f"row {row}: {error.message}") from None


def labelled_rows(
    results: Path, nodes: Sequence[Node], options: FitOptions, named: Sequence[Expression] = ()
) -> list[Labelled]:
    """Every row that `where` selects, in order. UsageError for an expression that cannot be computed.

    ``named`` are further expressions that the rows must hold the columns of.
    """
    target_of, selects, together = (
        None if text is None else compile_option(option, text, GIVEN)
        for option, text in (("--target", options.target), ("--where", options.where), ("--cluster", options.cluster))
    )
    numbers: dict[str, int] = {}
    paths = [
        path
        for expression in (target_of, selects, together, *named)
        if expression is not None
        for path in expression.paths
    ]
    paths = [path for path in paths if path[0] in GIVEN] + [("nodes", node.id) for node in nodes]
    rows = []
    for row, _, values in saved_rows(results, paths):
        given = {root: values[root] for root in GIVEN if root in values}
        if selects is not None and _evaluate(selects, row, given) is not True:
            continue
        outputs = (values["nodes"].get(node.id, {}) for node in nodes)
        present = tuple(None if all(value is None for value in output.values()) else output for output in outputs)
        label = None if target_of is None else _evaluate(target_of, row, given)
        cluster = row
        if together is not None:
            cluster = numbers.setdefault(repr(_evaluate(together, row, given)), len(numbers))
        rows.append(Labelled(row, given, present, label, cluster))
    return rows


def compile_option(option: str, text: str, roots: Sequence[str]) -> Expression:
    """The compiled expression of an option. UsageError if it is not one."""
    try:
        return compile_expression(text, roots)
    except ExpressionError as error:
        raise UsageError(f"{option}: {error.message}", hint=error.hint) from None


def distributions(calls: Path, nodes: Sequence[Node]) -> Iterator[tuple[int, int, dict[Any, float]]]:
    """(row, index of the node, uncalibrated probability of each value) of each unit's first call at each row, as far
    as it was recorded with log-probabilities that can be read."""
    readers = {}
    for index, node in enumerate(nodes):
        assert isinstance(node.work, LLMNode)
        readers[node.id] = (index, TokenProbabilityExtractor().bind(node.work.response))
    read: dict[tuple[int, int], dict[Any, float]] = {}
    for request, reply in recorded_replies(calls, 0):
        if request.node in readers and request.call == 0:
            index, reader = readers[request.node]
            try:
                read[request.row.index, index] = reader.read(reply, request)["distribution"]
            except ReplyError:
                continue
    for (row, index), values in read.items():
        yield row, index, values


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
    held_out = {}
    for name in metrics:
        first, second = (
            metrics_with_intervals({name: side[name]}, sample, Draw(rng, CONFIDENCE_LEVEL))[name] for side in (old, new)
        )
        held_out[name] = HeldOut(
            first, second, paired_metric_value(old[name], new[name], sample, Draw(rng, CONFIDENCE_LEVEL))
        )
    return held_out


FitKind = Literal["probability", "score_weights", "pool_weights", "threshold"]
"""What `--fit` takes."""


FEWEST = 20
"""Fewer labelled rows leave four in each of five folds: nothing can be said of the fit."""


class FitOptions(Struct, frozen=True):
    """What to fit, to which unit (its name, for all its copies), with which expressions."""

    unit: str | None
    kind: FitKind
    target: str | None
    where: str | None = None
    method: str = ""
    prediction: str = "output.score"
    confidence: str = "output.p"
    agreement: float = 0.0
    level: float = 0.95
    folds: int = 5
    seed: int = 0
    cluster: str | None = None


class Calibrated(Struct, frozen=True):
    """What was fitted, its metrics on held-out rows by method and name, and notes for the reader."""

    content: Fitted
    metrics: Mapping[str, Mapping[str, HeldOut]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class FitJob(Struct, frozen=True):
    """The input of a fit: the copies of the unit, the run's tables, and the head of the calibration file."""

    plan: Plan
    nodes: Sequence[Node]
    results: Path
    calls: Path
    options: FitOptions
    rng: np.random.Generator
    head: dict[str, Any]

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


def read_labelled_run(job: FitJob) -> tuple[Floats, list[Any], Ints]:
    """(probabilities, targets, numbers of their rows or clusters) of the recorded replies whose row is labelled."""
    rows = {
        row.row: (row.target, row.cluster)
        for row in labelled_rows(job.results, (), job.options)
        if row.target is not None
    }
    known = [(row, p) for row, _, p in distributions(job.calls, job.nodes) if row in rows]
    check_enough_rows(len({row for row, _ in known}))
    values = values_of(job.scale)
    p = np.array([[distribution[value] for value in values] for _, distribution in known])
    return p, [rows[row][0] for row, _ in known], np.array([rows[row][1] for row, _ in known])


def values_of(scale: Scale) -> list[Any]:
    """The scale's values, as its tokens stand for them."""
    return list(dict.fromkeys(value for _, value in scale.tokens()))


def check_enough_rows(rows: int) -> None:
    """Raises UsageError for fewer rows than `FEWEST`."""
    if rows < FEWEST:
        raise UsageError(
            f"{plural(rows, 'row has|rows have')} a label and an answer, {FEWEST} are needed",
            hint="label more rows, or run the judge on more of the labelled ones",
        )


def numbers_of(targets: Sequence[Any]) -> Floats:
    """The targets as numbers. UsageError for any other."""
    for target in targets:
        if not isinstance(target, int | float):
            raise UsageError(f"the target {target!r} is not a number", hint="make it one in the expression")
    return np.array(targets, dtype=np.float64)


def held_out_keys(metrics: Mapping[str, HeldOut]) -> dict[str, Any]:
    """The metrics on held-out rows as the calibration file has them."""
    kept = ("value", "low", "high")
    return {
        name: {side: {key: value[key] for key in kept} for side, value in asdict(metric).items()}
        for name, metric in metrics.items()
    }
