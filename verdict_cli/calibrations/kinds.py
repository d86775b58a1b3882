"""The content of a calibration file, one class for each kind."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from verdict_cli.calibrations.fitted import Fitted
from verdict_cli.keys import Seq
from verdict_cli.scales.discrete import Value

Share = Annotated[float, Field(gt=0, lt=1)]


class ProbabilityMap(Fitted):
    """A map of a judge's token probabilities to calibrated ones."""

    kind: Literal["probability"]
    """The kind of calibration."""
    method: Literal["temperature", "platt", "isotonic"]
    """`temperature` divides the log-probabilities, `platt` fits a line to the log-odds, `isotonic` a rising staircase."""
    temperature: Annotated[float, Field(gt=0)] | None = None
    """The divisor of the log-probabilities."""
    positive: Value | None = None
    """The value whose probability `platt` and `isotonic` map, one of two."""
    slope: float | None = None
    """The line's slope."""
    intercept: float | None = None
    """The line's height at even odds."""
    knots: (
        Annotated[Seq[Annotated[Seq[float], Field(min_length=2, max_length=2)]], Field(min_length=1)] | None
    ) = None
    """The staircase: pairs of a probability and what it becomes, ascending; between them, straight lines."""


class ScoreWeights(Fitted):
    """Numbers of a scale's values for the weighted sum."""

    kind: Literal["score_weights"]
    """The kind of calibration."""
    weights: Annotated[dict[Value, float], Field(min_length=1)]
    """Value to number."""


class PoolWeights(Fitted):
    """Weights of the units of a pool."""

    kind: Literal["pool_weights"]
    """The kind of calibration."""
    method: Literal["logistic", "log_odds", "least_squares", "dawid_skene"]
    """How they were fitted."""
    weights: Annotated[Seq[Annotated[float, Field(ge=0)]], Field(min_length=1)]
    """A weight for each unit, in order of definition."""


class Threshold(Fitted):
    """A bound below which an answer is not sure enough."""

    kind: Literal["threshold"]
    """The kind of calibration."""
    confidence: Annotated[str, Field(min_length=1)]
    """Expression for how sure an answer is, higher is surer."""
    threshold: float
    """Answers below it are not sure enough."""
    agreement: Share
    """The agreement with the target that answers at or above it have at least."""
    level: Share
    """The probability with which that holds."""
    answered: float
    """The share of the labelled rows at or above it."""

    def when(self) -> str:
        """The expression that is true where an answer is not sure enough."""
        return f"({self.confidence}) < {self.threshold!r}"
