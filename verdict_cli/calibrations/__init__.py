"""Calibrations: what was fitted to a judge on labelled rows, as a file that a pipeline names, and how it is applied."""

from verdict_cli.calibrations.fitted import Fitted, PoolWeights, ProbabilityMap, ScoreWeights, Threshold
from verdict_cli.calibrations.keys import (
    CalibrationFile,
    MapKey,
    PoolWeightsKey,
    ScoreWeightsKey,
    WhenKey,
)
from verdict_cli.calibrations.mapped import logit, mapped

__all__ = [
    "CalibrationFile",
    "Fitted",
    "MapKey",
    "PoolWeights",
    "PoolWeightsKey",
    "ProbabilityMap",
    "ScoreWeights",
    "ScoreWeightsKey",
    "Threshold",
    "WhenKey",
    "logit",
    "mapped",
]
