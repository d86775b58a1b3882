"""Figures of a run, their intervals, the gates that hold them to a limit, and what differs between two runs."""

from verdict_cli.evaluate.by_unit import UnitCalls, by_unit
from verdict_cli.evaluate.compare import compare
from verdict_cli.evaluate.figures import Figure, Measures
from verdict_cli.evaluate.flips import flip_rates
from verdict_cli.evaluate.gates import GateOutcome, Inconclusive, decide
from verdict_cli.evaluate.latency import latency
from verdict_cli.evaluate.measure import measure
from verdict_cli.evaluate.pictured import Bin, Histogram, Pictured
from verdict_cli.evaluate.study import Scored, Study, scored_rows, study

__all__ = [
    "Bin",
    "Figure",
    "GateOutcome",
    "Histogram",
    "Inconclusive",
    "Measures",
    "Pictured",
    "Scored",
    "Study",
    "UnitCalls",
    "by_unit",
    "compare",
    "decide",
    "flip_rates",
    "latency",
    "measure",
    "scored_rows",
    "study",
]
