"""Pools: one value from the same field of several units (paper, appendix A.1). No model call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from verdict_cli.expressions import statistics
from verdict_cli.fields import NUMBER, FieldType, Record
from verdict_cli.keys import Seq, Whole
from verdict_cli.units.keys import Common, Trouble


class Pool(Common):
    """What pools share: which fields, and how many units must be left."""

    numbers: ClassVar[bool] = True
    """Whether the pool needs values that have a number."""

    field: str | None = None
    """The field to pool."""
    fields: Annotated[Seq[str], Field(min_length=1)] | None = None
    """The fields to pool; all that can be pooled where neither is given."""
    quorum: Annotated[int, Field(ge=1), Whole] = 1
    """The least number of units that must be left when some were skipped."""

    def problem(self) -> Trouble | None:
        """`field` or `fields`, not both."""
        if self.field is not None and self.fields is not None:
            return ("fields", "both `field` and `fields` are given", "keep one of them")
        return None

    def named(self) -> tuple[str, ...] | None:
        """The fields that were named, None for all that can be pooled."""
        return self.fields if self.field is None else (self.field,)

    def weighting(self) -> tuple[float, ...] | None:
        """A weight for each dependency, None where all weigh the same."""
        return None

    def gives(self, pooled: Record) -> Record:
        """The output's fields, from those that are pooled."""
        return Record(dict.fromkeys(pooled.fields, NUMBER))

    def pool(self, values: Sequence[Any], weights: Sequence[float] | None) -> Any:
        """One value from several. RowError when there is none, or one without a number."""
        raise AssertionError(f"{self.type_name} pools nothing")

    def settle(self, pooled: dict[str, Any]) -> dict[str, Any]:
        """The output, from each field's pooled value."""
        return pooled


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
    weights: Annotated[Seq[Annotated[float, Field(ge=0)]], Field(min_length=1)] | None = None
    """A weight for each unit's vote, in order of definition."""

    def weighting(self) -> tuple[float, ...] | None:
        """The weights."""
        return self.weights

    def gives(self, pooled: Record) -> Record:
        """The fields as they are."""
        return pooled

    def pool(self, values: Sequence[Any], weights: Sequence[float] | None) -> Any:
        """The value with most votes."""
        return statistics.mode(values) if weights is None else statistics.weighted_mode(values, weights)


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
