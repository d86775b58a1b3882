"""Fitting maps, weights and bounds to a judge on labelled rows: pure functions on columns, and what they read."""

from verdict_cli.evaluate.calibrate.calibrate import calibrate
from verdict_cli.evaluate.calibrate.job import KINDS, METHODS, Calibrated, Wanted

__all__ = ["KINDS", "METHODS", "Calibrated", "Wanted", "calibrate"]
