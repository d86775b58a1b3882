"""The figures, by family. Each family gives its statistics as functions of weights on distinct observations."""

from __future__ import annotations

from verdict_cli.evaluate.metrics import labels, numbers, panel, probability, ranks
from verdict_cli.evaluate.metrics.statistic import Statistic

__all__ = ["Statistic", "labels", "numbers", "panel", "probability", "ranks"]
