"""Figures of a run, their intervals, and the gates that hold them to a limit: pure functions on columns."""

from verdict_cli.evaluate.figures import Figure, Measures
from verdict_cli.evaluate.gates import GateOutcome, decide
from verdict_cli.evaluate.measure import measure

__all__ = ["Figure", "GateOutcome", "Measures", "decide", "measure"]
