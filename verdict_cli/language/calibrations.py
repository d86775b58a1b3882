"""Calibrations: maps, weights and thresholds fitted to a judge on labelled rows, as files that a pipeline names."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from verdict_cli.config_model import (
    ConfigModel,
    Expected,
    LazyUnion,
    NonEmptyText,
    NonEmptyTuple,
    One,
    PositiveInt,
    PositiveNumber,
    Uncounted,
    display_value,
)
from verdict_cli.language.scales import Value
from verdict_cli.messages import JsonObject
from verdict_cli.registry import Registry


class Fitted(ConfigModel):
    """What all calibrations share: the judge, and the rows it was fitted on."""

    verdict_calibration: One
    """The version of calibration files."""
    unit: str
    """The unit that it was fitted to."""
    fingerprint: Annotated[dict[str, str], Field(min_length=1)]
    """Digests of the judge's model, prompt, scale, extractor and upstream units. A different judge rejects the calibration."""
    made: Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00$")]
    """When it was fitted, in UTC."""
    run: str
    """The run whose rows it was fitted on."""
    target: str
    """The expression for the true value of a row."""
    rows: PositiveInt
    """How many labelled rows it was fitted on."""
    held_out: Annotated[JsonObject, Uncounted("it tells people how well the fit held")] = Field(
        default_factory=dict
    )
    """Metrics before and after on rows held out by cross-validation; information only."""


Fraction = Annotated[float, Field(gt=0, lt=1)]


class ProbabilityMap(Fitted):
    """A map of a judge's token probabilities to calibrated ones."""

    kind: Literal["probability"]
    """The kind of calibration."""
    method: Literal["temperature", "platt", "isotonic"]
    """`temperature` divides the log-probabilities, `platt` fits a line to the log-odds, `isotonic` an increasing step function."""
    temperature: PositiveNumber | None = None
    """The divisor of the log-probabilities."""
    positive: Value | None = None
    """The value whose probability `platt` and `isotonic` map, one of two."""
    slope: float | None = None
    """The line's slope."""
    intercept: float | None = None
    """The line's height at even odds."""
    knots: (
        Annotated[
            tuple[Annotated[tuple[float, ...], Field(min_length=2, max_length=2)], ...],
            Field(min_length=1),
        ]
        | None
    ) = None
    """Pairs of a probability and its calibrated value, ascending; interpolated linearly."""


class ScoreWeights(Fitted):
    """Numbers of a scale's values for the weighted sum."""

    kind: Literal["score_weights"]
    """The kind of calibration."""
    weights: Annotated[dict[Value, float], Field(min_length=1)]
    """Value to number."""


class PoolWeights(Fitted):
    """Weights of the units that a pool combines."""

    kind: Literal["pool_weights"]
    """The kind of calibration."""
    method: Literal["logistic", "log_odds", "least_squares", "dawid_skene"]
    """How they were fitted."""
    weights: Annotated[tuple[Annotated[float, Field(ge=0)], ...], Field(min_length=1)]
    """A weight for each unit, in order of definition."""


class Threshold(Fitted):
    """A threshold of confidence below which an answer escalates or abstains."""

    kind: Literal["threshold"]
    """The kind of calibration."""
    confidence: NonEmptyText
    """Expression for the confidence of an answer; higher is more confident."""
    threshold: float
    """Answers below it escalate or abstain."""
    agreement: Fraction
    """The lower bound of the agreement with the target of answers at or above it."""
    level: Fraction
    """The probability with which that bound holds."""
    answered: float
    """The proportion of labelled rows at or above it."""

    def when(self) -> str:
        """The expression that is true for an answer below the threshold."""
        return f"({self.confidence}) < {self.threshold!r}"


class CalibrationFile(ConfigModel):
    """A calibration in a file that `verdict calibrate` wrote."""

    file: NonEmptyText
    """Path of the file, relative to the pipeline file."""


def _spelling(value: Any) -> str | None:
    kind = None
    if isinstance(value, str):
        kind = "<text>"
    elif isinstance(value, list | tuple):
        kind = "<list>"
    elif isinstance(value, Fitted) or (isinstance(value, dict) and "verdict_calibration" in value):
        kind = "<content>"
    elif isinstance(value, CalibrationFile) or (
        isinstance(value, dict) and isinstance(value.get("file"), str)
    ):
        kind = "<file>"
    elif isinstance(value, dict):
        kind = "<weights>"
    return kind


def _file_or_content(value: Any) -> str | None:
    return "<file>" if _spelling(value) == "<file>" else "<content>"


FITTED: Registry[type[Fitted]] = Registry(
    __package__,
    {
        "probability": "calibrations.ProbabilityMap",
        "score_weights": "calibrations.ScoreWeights",
        "pool_weights": "calibrations.PoolWeights",
        "threshold": "calibrations.Threshold",
    },
)
"""Calibrations by their `kind`."""


def _choices(kind: str) -> dict[str, Callable[[], type[ConfigModel]]]:
    return {"<file>": lambda: CalibrationFile, "<content>": lambda: FITTED[kind]}


MapKey = Annotated[CalibrationFile | Fitted, LazyUnion(_file_or_content, _choices("probability"))]
"""A map of probabilities."""


def _expected(form: str) -> Expected:
    """The words for a calibration that may also be written out in this form."""
    return Expected(
        lambda value: (
            f"expected {form}, found {display_value(value)}",
            "or write `{file: …}`, as `verdict calibrate` does",
        )
    )


_Weights = dict[Value, float]
ScoreWeightsKey = Annotated[
    CalibrationFile | Fitted | _Weights,
    LazyUnion(_spelling, _choices("score_weights"), {"<weights>": _Weights}),
    _expected("a number for each value"),
]
"""Numbers that replace a scale's own: written out, or fitted."""

_List = NonEmptyTuple[float]
PoolWeightsKey = Annotated[
    CalibrationFile | Fitted | _List,
    LazyUnion(_spelling, _choices("pool_weights"), {"<list>": _List}),
    _expected("a list of numbers"),
]
"""A weight for each unit that is pooled: written out, or fitted."""

WhenKey = Annotated[
    CalibrationFile | Fitted | NonEmptyText,
    LazyUnion(_spelling, _choices("threshold"), {"<text>": NonEmptyText}),
    _expected("an expression"),
]
"""When an answer escalates or abstains: an expression, or a fitted threshold."""


MIN_PROBABILITY = 1e-9
"""Probabilities are clipped to this distance from 0 and 1 before their log-odds are taken, which keeps these finite."""


def apply_map(probabilities: Mapping[Any, float], by: ProbabilityMap) -> dict[Any, float]:
    """The calibrated probability of each value; they add up to one."""
    if by.method == "temperature":
        assert by.temperature is not None
        top = max(probabilities.values())
        raised = {value: (p / top) ** (1 / by.temperature) for value, p in probabilities.items()}
        total = math.fsum(raised.values())
        return {value: p / total for value, p in raised.items()}
    p = probabilities[by.positive]
    if by.method == "platt":
        assert by.slope is not None and by.intercept is not None
        odds = by.slope * logit(p) + by.intercept
        q = 1 / (1 + math.exp(-odds)) if odds > -700 else 0.0
    else:
        assert by.knots is not None
        q = stairs(by.knots, p)
    return {value: q if value == by.positive else 1 - q for value in probabilities}


def logit(p: float) -> float:
    """The log-odds, clipped at both ends."""
    p = min(max(p, MIN_PROBABILITY), 1 - MIN_PROBABILITY)
    return math.log(p / (1 - p))


def stairs(knots: Sequence[Sequence[float]], p: float) -> float:
    """The value at `p` of the line through the knots, constant beyond its ends."""
    index = bisect.bisect_right(knots, p, key=lambda knot: knot[0])
    if index == 0 or index == len(knots):
        return float(knots[min(index, len(knots) - 1)][1])
    (left, low), (right, high) = knots[index - 1], knots[index]
    return low + (high - low) * (p - left) / (right - left)
