"""The plan: a pipeline's units placed, linked, compiled and checked. Nothing awaits here."""

from verdict_cli.plan.build import Built, build
from verdict_cli.plan.node import (
    Asked,
    Cast,
    Early,
    Escalation,
    Mapped,
    Mean,
    Node,
    Plan,
    Pooled,
    Start,
    Vote,
)
from verdict_cli.plan.whole import planned

__all__ = [
    "Asked",
    "Built",
    "Cast",
    "Early",
    "Escalation",
    "Mapped",
    "Mean",
    "Node",
    "Plan",
    "Pooled",
    "Start",
    "Vote",
    "build",
    "planned",
]
