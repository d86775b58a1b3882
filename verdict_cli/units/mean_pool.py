"""`MeanPoolUnit`: the mean, weighted or not (paper, appendix A.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from verdict_cli.calibrations import PoolWeightsKey
from verdict_cli.expressions import statistics
from verdict_cli.units.pool import Pool


class MeanPoolUnit(Pool):
    """The mean."""

    unit: Literal["MeanPoolUnit"]
    """The unit's type."""
    weights: PoolWeightsKey | None = None
    """A weight for each unit that is pooled, in order of definition: a list, or a file that `verdict calibrate` wrote."""

    def weighting(self) -> PoolWeightsKey | None:
        """The weights."""
        return self.weights

    def pool(self, values: Sequence[Any], weights: Sequence[float] | None) -> float:
        """The mean, weighted where weights are given."""
        found = statistics.numbers(values, "mean")
        return statistics.mean(found) if weights is None else statistics.weighted_mean(found, weights)
