"""The other pools: median, extremes, mode, mean with variance (paper, appendix A.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from verdict_cli.calibrations import PoolWeightsKey
from verdict_cli.expressions import statistics
from verdict_cli.fields import NUMBER, FieldType, Record
from verdict_cli.units.keys import Trouble
from verdict_cli.units.pool import Pool

AGREEMENT = "agreement"
"""The output field that says how large a share of the votes is for the pooled value."""


class MedianPoolUnit(Pool):
    """The median."""

    unit: Literal["MedianPoolUnit", "MedianFilterUnit"]
    """The unit's type."""

    def pool(self, values: Sequence[Any], weights: Sequence[float] | None) -> float:
        """The median."""
        return statistics.median(values)


class _Extreme(Pool):
    def gives(self, pooled: Record) -> Record:
        """The fields as they are: the largest value is one of the values."""
        return pooled


class MaxPoolUnit(_Extreme):
    """The maximum, as the paper says (the most frequent value is `ModePoolUnit`)."""

    unit: Literal["MaxPoolUnit"]
    """The unit's type."""

    def pool(self, values: Sequence[Any], weights: Sequence[float] | None) -> Any:
        """The largest value."""
        statistics.numbers(values, "max")
        return max(values)


class MinPoolUnit(_Extreme):
    """The minimum."""

    unit: Literal["MinPoolUnit"]
    """The unit's type."""

    def pool(self, values: Sequence[Any], weights: Sequence[float] | None) -> Any:
        """The smallest value."""
        statistics.numbers(values, "min")
        return min(values)


class ModePoolUnit(Pool):
    """The most frequent value; the earliest unit's of several."""

    numbers: ClassVar[bool] = False

    unit: Literal["ModePoolUnit"]
    """The unit's type."""
    weights: PoolWeightsKey | None = None
    """A weight for each unit's vote, in order of definition: a list, or a file that `verdict calibrate` wrote."""

    agreement: bool = False
    """Whether the output has a further field `agreement`: the share of the votes that are for the pooled value, of several fields the least."""

    def problem(self) -> Trouble | None:
        """No vote weighs less than nothing."""
        if isinstance(self.weights, tuple) and min(self.weights) < 0:
            return ("weights", f"the weight {min(self.weights):g} is below 0", "a vote weighs at least 0")
        return super().problem()

    def weighting(self) -> PoolWeightsKey | None:
        """The weights."""
        return self.weights

    def further(self) -> str:
        """`agreement`, where it is wanted."""
        return AGREEMENT if self.agreement else ""

    def gives(self, pooled: Record) -> Record:
        """The fields as they are, and `agreement` where it is wanted."""
        return Record({**pooled.fields, AGREEMENT: NUMBER}) if self.agreement else pooled

    def pool(self, values: Sequence[Any], weights: Sequence[float] | None) -> Any:
        """The value with most votes."""
        return statistics.mode(values) if weights is None else statistics.weighted_mode(values, weights)

    def beside(
        self, pooled: dict[str, Any], said: Mapping[str, Sequence[Any]], weights: Sequence[float] | None
    ) -> dict[str, Any]:
        """The least share of the votes for a field's pooled value."""
        if not self.agreement:
            return {}
        shares = [
            statistics.weighted_mean(
                [float(one == pooled[name]) for one in votes], weights or [1.0] * len(votes)
            )
            for name, votes in said.items()
        ]
        return {AGREEMENT: min(shares)}


class MeanVariancePoolUnit(Pool):
    """The mean and the sample variance: `mean`, `variance`, and both below the field's own name."""

    unit: Literal["MeanVariancePoolUnit"]
    """The unit's type."""

    def gives(self, pooled: Record) -> Record:
        """`{field: {mean, variance}}`, and `mean` and `variance` beside it where one field is pooled."""
        both: dict[str, FieldType] = {"mean": NUMBER, "variance": NUMBER}
        nested: dict[str, FieldType] = dict.fromkeys(pooled.fields, Record(both))
        return Record({**both, **nested} if len(nested) == 1 else nested)

    def pool(self, values: Sequence[Any], weights: Sequence[float] | None) -> dict[str, float]:
        """Mean and sample variance (0 for one value)."""
        return {"mean": statistics.mean(values), "variance": statistics.variance(values)}

    def settle(self, pooled: dict[str, Any]) -> dict[str, Any]:
        """As `gives` says."""
        return {**next(iter(pooled.values())), **pooled} if len(pooled) == 1 else pooled
