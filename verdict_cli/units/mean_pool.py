"""`MeanPoolUnit`: the mean, weighted or not (paper, appendix A.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from verdict_cli.expressions import statistics
from verdict_cli.keys import Seq
from verdict_cli.units.pool import Pool


class MeanPoolUnit(Pool):
    """The mean."""

    unit: Literal["MeanPoolUnit"]
    """The unit's type."""
    weights: Annotated[Seq[float], Field(min_length=1)] | None = None
    """A weight for each unit that is pooled, in order of definition."""

    def weighting(self) -> tuple[float, ...] | None:
        """The weights."""
        return self.weights

    def pool(self, values: Sequence[Any], weights: Sequence[float] | None) -> float:
        """The mean, weighted where weights are given."""
        found = statistics.numbers(values, "mean")
        return statistics.mean(found) if weights is None else statistics.weighted_mean(found, weights)
