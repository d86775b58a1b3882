"""Figures of a run, their intervals, the gates that hold them to a limit, and what differs between two runs."""

from verdict_cli.evaluate.compare import compare
from verdict_cli.evaluate.figures import Figure, Measures
from verdict_cli.evaluate.flips import flip_rates
from verdict_cli.evaluate.gates import GateOutcome, Inconclusive, decide
from verdict_cli.evaluate.latency import latency
from verdict_cli.evaluate.measure import measure

__all__ = [
    "Figure",
    "GateOutcome",
    "Inconclusive",
    "Measures",
    "compare",
    "decide",
    "flip_rates",
    "latency",
    "measure",
]
