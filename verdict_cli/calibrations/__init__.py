"""Calibrations: what was fitted to a judge on labelled rows, as a file that a pipeline names, and how it is applied."""

from verdict_cli.calibrations.fitted import Fitted
from verdict_cli.calibrations.keys import (
    FITTED,
    CalibrationFile,
    MapKey,
    PoolWeightsKey,
    ScoreWeightsKey,
    WhenKey,
)

__all__ = [
    "FITTED",
    "CalibrationFile",
    "Fitted",
    "MapKey",
    "PoolWeightsKey",
    "ScoreWeightsKey",
    "WhenKey",
]
