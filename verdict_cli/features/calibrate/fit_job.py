"""What a fit works on: its options, the labelled rows and recorded replies of a run, and metrics on held-out rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from verdict_cli.errors import ReplyError, RowError, UsageError
from verdict_cli.language.calibrations import Fitted
from verdict_cli.language.expressions.expression import Expression, compile_expression
from verdict_cli.language.expressions.paths import ExpressionError
from verdict_cli.language.extractors.token_probability import TokenProbabilityExtractor
from verdict_cli.language.fields.types import ScaleType
from verdict_cli.language.scales import Scale
from verdict_cli.plan.node import LLMNode, Node, Plan
from verdict_cli.run.re_extract import recorded_replies
from verdict_cli.stats.columns.column import Floats, Ints
from verdict_cli.stats.columns.sample import Sample
from verdict_cli.stats.columns.saved_rows import saved_rows
from verdict_cli.stats.intervals.interval_methods import MetricValue
from verdict_cli.stats.intervals.intervals import CONFIDENCE_LEVEL, Draw, metrics_with_intervals, paired_metric_value
from verdict_cli.stats.metrics.statistic import Statistic

GIVEN = ("source", "human")
"""The roots of expressions that need no judge: a row's columns and its human labels."""


@dataclass(frozen=True, slots=True)
class Labelled:
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
    paths = [path for each in (target_of, selects, together, *named) if each is not None for path in each.paths]
    paths = [path for path in paths if path[0] in GIVEN] + [("nodes", node.id) for node in nodes]
    found = []
    for row, _, _, values in saved_rows(results, paths):
        given = {root: values[root] for root in GIVEN if root in values}
        if selects is not None and _evaluate(selects, row, given) is not True:
            continue
        outputs = (values["nodes"].get(node.id, {}) for node in nodes)
        present = tuple(None if all(value is None for value in output.values()) else output for output in outputs)
        label = None if target_of is None else _evaluate(target_of, row, given)
        cluster = row
        if together is not None:
            cluster = numbers.setdefault(repr(_evaluate(together, row, given)), len(numbers))
        found.append(Labelled(row, given, present, label, cluster))
    return found


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
    for (row, index), found in read.items():
        yield row, index, found


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
    found = {}
    for name in metrics:
        first, second = (
            metrics_with_intervals({name: side[name]}, sample, Draw(rng, CONFIDENCE_LEVEL))[name] for side in (old, new)
        )
        found[name] = HeldOut(
            first, second, paired_metric_value(old[name], new[name], sample, Draw(rng, CONFIDENCE_LEVEL))
        )
    return found


FitKind = Literal["probability", "score_weights", "pool_weights", "threshold"]
FIT_KINDS: tuple[FitKind, ...] = get_args(FitKind)
METHODS: Mapping[FitKind, tuple[str, ...]] = {
    "probability": ("temperature", "platt", "isotonic"),
    "score_weights": (),
    "pool_weights": ("logistic", "log_odds", "least_squares", "dawid_skene"),
    "threshold": (),
}
"""The methods of each fit; "" chooses the first that is possible."""
FEWEST = 20
"""Fewer labelled rows leave four in each of five folds: nothing can be said of the fit."""


@dataclass(frozen=True, slots=True)
class FitOptions:
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


@dataclass(frozen=True, slots=True)
class Calibrated:
    """What was fitted, its metrics on held-out rows by method and name, and notes for the reader."""

    content: Fitted
    metrics: Mapping[str, Mapping[str, HeldOut]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class FitJob:
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
    found = [(row, p) for row, _, p in distributions(job.calls, job.nodes) if row in rows]
    check_enough_rows(len({row for row, _ in found}))
    values = values_of(job.scale)
    p = np.array([[one[value] for value in values] for _, one in found])
    return p, [rows[row][0] for row, _ in found], np.array([rows[row][1] for row, _ in found])


def values_of(scale: Scale) -> list[Any]:
    """The scale's values, as its tokens stand for them."""
    return list(dict.fromkeys(value for _, value in scale.tokens()))


def check_enough_rows(rows: int) -> None:
    """Raises UsageError for fewer rows than `FEWEST`."""
    if rows < FEWEST:
        raise UsageError(
            f"{rows} rows have a label and an answer, {FEWEST} are needed",
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
        name: {side: {key: value[key] for key in kept} for side, value in asdict(each).items()}
        for name, each in metrics.items()
    }
