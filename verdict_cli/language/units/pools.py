"""Pools: mean, median, extremes, mode and mean with variance (paper, appendix A.1). No model call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from verdict_cli.config_model import Seq, Whole
from verdict_cli.language.calibrations import PoolWeightsKey
from verdict_cli.language.expressions import summary_statistics
from verdict_cli.language.fields.types import NUMBER, FieldType, RecordType
from verdict_cli.language.units.base import UnitBase, UnitIssue


class Pool(UnitBase):
    """What pools share: which fields, and how many units must be left."""

    numbers: ClassVar[bool] = True
    """Whether the pool needs values that have a number."""

    field: str | None = None
    """The field to pool."""
    fields: Annotated[Seq[str], Field(min_length=1)] | None = None
    """The fields to pool; all that can be pooled where neither is given."""
    quorum: Annotated[int, Field(ge=1), Whole] = 1
    """The least number of units that must be left when some were skipped."""

    def problem(self) -> UnitIssue | None:
        """`field` or `fields`, not both."""
        if self.field is not None and self.fields is not None:
            return ("fields", "both `field` and `fields` are given", "keep one of them")
        return None

    def named(self) -> tuple[str, ...] | None:
        """The fields that were named, None for all that can be pooled."""
        return self.fields if self.field is None else (self.field,)

    def weighting(self) -> PoolWeightsKey | None:
        """A weight for each dependency, as it is spelled; None where all weigh the same."""
        return None

    def further(self) -> str:
        """The name of an output field that is of no single value pooled, "" where there is none."""
        return ""

    def gives(self, pooled: RecordType) -> RecordType:
        """The output's fields, from those that are pooled."""
        return RecordType(dict.fromkeys(pooled.fields, NUMBER))

    def pool(self, values: Sequence[Any], weights: Sequence[float] | None) -> Any:
        """One value from several. RowError when there is none, or one without a number."""
        raise AssertionError(f"{self.type_name} pools nothing")

    def settle(self, pooled: dict[str, Any]) -> dict[str, Any]:
        """The output, from each field's pooled value."""
        return pooled

    def beside(
        self, pooled: dict[str, Any], said: Mapping[str, Sequence[Any]], weights: Sequence[float] | None
    ) -> dict[str, Any]:
        """What the output holds besides: the field that `further` names, from the values that were pooled."""
        return {}


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
        found = summary_statistics.as_numbers(values, "mean")
        return summary_statistics.mean(found) if weights is None else summary_statistics.weighted_mean(found, weights)


AGREEMENT = "agreement"
"""The output field that says how large a share of the votes is for the pooled value."""


class MedianPoolUnit(Pool):
    """The median."""

    unit: Literal["MedianPoolUnit", "MedianFilterUnit"]
    """The unit's type."""

    def pool(self, values: Sequence[Any], weights: Sequence[float] | None) -> float:
        """The median."""
        return summary_statistics.median(values)


class _Extreme(Pool):
    def gives(self, pooled: RecordType) -> RecordType:
        """The fields as they are: the largest value is one of the values."""
        return pooled


class MaxPoolUnit(_Extreme):
    """The maximum, as the paper says (the most frequent value is `ModePoolUnit`)."""

    unit: Literal["MaxPoolUnit"]
    """The unit's type."""

    def pool(self, values: Sequence[Any], weights: Sequence[float] | None) -> Any:
        """The largest value."""
        summary_statistics.as_numbers(values, "max")
        return max(values)


class MinPoolUnit(_Extreme):
    """The minimum."""

    unit: Literal["MinPoolUnit"]
    """The unit's type."""

    def pool(self, values: Sequence[Any], weights: Sequence[float] | None) -> Any:
        """The smallest value."""
        summary_statistics.as_numbers(values, "min")
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

    def problem(self) -> UnitIssue | None:
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

    def gives(self, pooled: RecordType) -> RecordType:
        """The fields as they are, and `agreement` where it is wanted."""
        return RecordType({**pooled.fields, AGREEMENT: NUMBER}) if self.agreement else pooled

    def pool(self, values: Sequence[Any], weights: Sequence[float] | None) -> Any:
        """The value with most votes."""
        return summary_statistics.mode(values) if weights is None else summary_statistics.weighted_mode(values, weights)

    def beside(
        self, pooled: dict[str, Any], said: Mapping[str, Sequence[Any]], weights: Sequence[float] | None
    ) -> dict[str, Any]:
        """The least share of the votes for a field's pooled value."""
        if not self.agreement:
            return {}
        shares = [
            summary_statistics.weighted_mean(
                [float(one == pooled[name]) for one in votes], weights or [1.0] * len(votes)
            )
            for name, votes in said.items()
        ]
        return {AGREEMENT: min(shares)}


class MeanVariancePoolUnit(Pool):
    """The mean and the sample variance: `mean`, `variance`, and both below the field's own name."""

    unit: Literal["MeanVariancePoolUnit"]
    """The unit's type."""

    def gives(self, pooled: RecordType) -> RecordType:
        """`{field: {mean, variance}}`, and `mean` and `variance` beside it where one field is pooled."""
        both: dict[str, FieldType] = {"mean": NUMBER, "variance": NUMBER}
        nested: dict[str, FieldType] = dict.fromkeys(pooled.fields, RecordType(both))
        return RecordType({**both, **nested} if len(nested) == 1 else nested)

    def pool(self, values: Sequence[Any], weights: Sequence[float] | None) -> dict[str, float]:
        """Mean and sample variance (0 for one value)."""
        return {"mean": summary_statistics.mean(values), "variance": summary_statistics.variance(values)}

    def settle(self, pooled: dict[str, Any]) -> dict[str, Any]:
        """As `gives` says."""
        return {**next(iter(pooled.values())), **pooled} if len(pooled) == 1 else pooled
