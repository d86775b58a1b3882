"""Units that call no model: pools (paper, appendix A.1), the pool of a rubric, and maps (paper, section 3.3)."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from pydantic import Field

from verdict_cli.config_model import Issue, KeyRule, NonEmptyText, NonEmptyTuple, PositiveInt
from verdict_cli.errors import RowError, UsageError
from verdict_cli.language.calibrations import PoolWeightsKey
from verdict_cli.language.expressions import summary_statistics
from verdict_cli.language.fields.types import INTEGER, NUMBER, Fields, RecordType, ScaleType, Values
from verdict_cli.language.scales.continuous import ContinuousScale
from verdict_cli.language.units.base import AbstainedError, Expressions, UnitBase
from verdict_cli.messages import JsonObject

Weights = Sequence[float] | None
"""The weight of each value; None where all weigh the same."""


class Pool(UnitBase):
    """Keys of every pool."""

    numbers: ClassVar[bool] = True
    """Whether the pool needs values that have a number."""

    field: str | None = None
    """The field to pool."""
    fields: NonEmptyTuple[str] | None = None
    """The fields to pool; all that can be pooled by default."""
    quorum: PositiveInt = 1
    """The minimum number of units that must remain when some were skipped."""
    empty: Any = None
    """The value where there is nothing to pool, because the list of `each` is empty or every unit is skipped: of each pooled
    field, or `{field: value}`. Without it an empty list fails the row."""

    key_rules = (
        KeyRule("fields", "field", (), "both `field` and `fields` are given", "keep one of them"),
    )

    @classmethod
    def positional_keys(cls, values: Sequence[Any]) -> JsonObject:
        """The names of the fields to pool, one by one or as one list."""
        names = values[0] if len(values) == 1 and isinstance(values[0], list | tuple) else values
        for name in names:
            if not isinstance(name, str):
                message = f"{cls.__name__} takes the names of the fields to pool, not {name!r:.80}"
                raise UsageError(message, hint=f"such as `{cls.__name__}('score')`")
        if len(names) == 1:
            return {"field": names[0]}
        return {"fields": list(names)} if names else {}

    def field_names(self) -> tuple[str, ...] | None:
        """The named fields, None for all that can be pooled."""
        return self.fields if self.field is None else (self.field,)

    def pool_weights(self) -> PoolWeightsKey | None:
        """A weight for each dependency, as it is written; None where all weigh the same."""
        return None

    def extra_field_names(self) -> tuple[str, ...]:
        """The names of the output fields that are computed over all pooled fields."""
        return ()

    def output_fields(self, pooled: RecordType) -> RecordType:
        """The output's fields, from those that are pooled."""
        return RecordType(dict.fromkeys(pooled.fields, NUMBER))

    def pool(self, values: Sequence[Any], weights: Weights, seed: int = 0) -> Any:
        """One value from several; ``seed`` depends on row and unit. RowError for no value, or one without a number.
        Raises AbstainedError where the unit abstains."""
        raise AssertionError(f"{self.type_name} pools nothing")

    def of_the_rest(self, pooled: Any, values: Sequence[Any]) -> Any:
        """The pooled value where other units were skipped, so that only these values are left."""
        return pooled

    def to_output(self, pooled: Values) -> Values:
        """The output, from each field's pooled value."""
        return pooled

    def extra_fields(
        self,
        pooled: Values,
        votes_by_field: Mapping[str, Sequence[Any]],
        weights: Weights,
    ) -> Values:
        """The fields that `extra_field_names` names, from the pooled values."""
        return {}


class MeanPoolUnit(Pool):
    """The mean."""

    unit: Literal["MeanPoolUnit"] = "MeanPoolUnit"
    """The unit's type."""
    weights: PoolWeightsKey | None = None
    """A weight for each unit that is pooled, in order of definition: a list, or a file that `verdict calibrate` wrote."""

    def pool_weights(self) -> PoolWeightsKey | None:
        return self.weights

    def pool(self, values: Sequence[Any], weights: Weights, seed: int = 0) -> float:
        """The mean, weighted where weights are given."""
        numbers = summary_statistics.as_numbers(values, "mean")
        return summary_statistics.weighted_mean(numbers, weights or [1.0] * len(numbers))


AGREEMENT = "agreement"
"""The output field with the share of the votes for the pooled value."""
MARGIN = "margin"
"""The output field with that share minus the share of the runner-up."""
Ties = Literal["first", "fail", "abstain", "random"]
"""What a vote does about a tie."""


class MedianPoolUnit(Pool):
    """The median."""

    unit: Literal["MedianPoolUnit"] = "MedianPoolUnit"
    """The unit's type."""

    def pool(self, values: Sequence[Any], weights: Weights, seed: int = 0) -> float:
        return summary_statistics.median(values)


class MedianFilterUnit(MedianPoolUnit):
    """The median, under the paper's name."""

    unit: Literal["MedianFilterUnit"] = "MedianFilterUnit"  # type: ignore[assignment]
    """The unit's type."""


class _Extreme(Pool):
    def output_fields(self, pooled: RecordType) -> RecordType:
        """The fields as they are: the largest value is one of the values."""
        return pooled


class MaxPoolUnit(_Extreme):
    """The maximum, as the paper says (the most frequent value is `ModePoolUnit`)."""

    unit: Literal["MaxPoolUnit"] = "MaxPoolUnit"
    """The unit's type."""

    def pool(self, values: Sequence[Any], weights: Weights, seed: int = 0) -> Any:
        summary_statistics.as_numbers(values, "max")
        return max(values)


class MinPoolUnit(_Extreme):
    """The minimum."""

    unit: Literal["MinPoolUnit"] = "MinPoolUnit"
    """The unit's type."""

    def pool(self, values: Sequence[Any], weights: Weights, seed: int = 0) -> Any:
        summary_statistics.as_numbers(values, "min")
        return min(values)


class ModePoolUnit(Pool):
    """The most frequent value; the earliest unit's of several."""

    numbers = False

    unit: Literal["ModePoolUnit"] = "ModePoolUnit"
    """The unit's type."""
    weights: PoolWeightsKey | None = None
    """A weight for each unit's vote, in order of definition: a list, or a file that `verdict calibrate` wrote."""

    agreement: bool = False
    """Whether the output also has `agreement`, the share of the votes for the pooled value, and `margin`, that share minus the runner-up's (0 is a tie); of several fields the lowest. `ties` adds them too."""
    ties: Ties | None = None
    """What to do where several values have the most votes: take the `first` unit's (the default), `fail` the row, `abstain`, or draw one at `random` (seeded by row and unit)."""

    def validation_error(self) -> Issue | None:
        """Weights of votes are at least 0."""
        if isinstance(self.weights, tuple) and min(self.weights) < 0:
            return Issue(
                "weights",
                f"the weight {min(self.weights):g} is below 0",
                "a vote weighs at least 0",
            )
        return super().validation_error()

    def pool_weights(self) -> PoolWeightsKey | None:
        return self.weights

    def extra_field_names(self) -> tuple[str, ...]:
        return (AGREEMENT, MARGIN) if self.agreement or self.ties is not None else ()

    def output_fields(self, pooled: RecordType) -> RecordType:
        """The fields as they are, and `agreement` and `margin` where they are wanted."""
        return RecordType({**pooled.fields, **dict.fromkeys(self.extra_field_names(), NUMBER)})

    def pool(self, values: Sequence[Any], weights: Weights, seed: int = 0) -> Any:
        """The most frequent value; where several are, what `ties` says."""
        weights = weights or [1.0] * len(values)
        if self.ties is None or self.ties == "first":
            return summary_statistics.weighted_mode(values, weights)
        votes = summary_statistics.tally(values, weights)
        most = max(weight for _, weight in votes)
        winners = [value for value, weight in votes if math.isclose(weight, most)]
        if len(winners) == 1:
            return winners[0]
        if self.ties == "abstain":
            raise AbstainedError
        if self.ties == "fail":
            tied = ", ".join(f"{value!r:.40}" for value in winners[:4])
            raise RowError(
                f"the vote is a tie between {tied}",
                hint="`ties: first` takes the first",
                kind="tie",
            )
        return random.Random(seed).choice(winners)

    def extra_fields(
        self,
        pooled: Values,
        votes_by_field: Mapping[str, Sequence[Any]],
        weights: Weights,
    ) -> Values:
        """The lowest share of the votes for a field's pooled value, and the lowest margin."""
        if not self.extra_field_names():
            return {}
        shares, margins = [], []
        for name, votes in votes_by_field.items():
            vote_weights = weights or [1.0] * len(votes)
            share = summary_statistics.weighted_mean(
                [float(vote == pooled[name]) for vote in votes], vote_weights
            )
            other_weights = [
                weight
                for value, weight in summary_statistics.tally(votes, vote_weights)
                if value != pooled[name]
            ]
            runner_up = max(other_weights, default=0.0) / math.fsum(vote_weights)
            shares.append(share)
            margins.append(0.0 if math.isclose(share, runner_up) else share - runner_up)
        return {AGREEMENT: min(shares), MARGIN: min(margins)}


class MeanVariancePoolUnit(Pool):
    """The mean and the sample variance: `mean`, `variance`, and both below the field's own name."""

    unit: Literal["MeanVariancePoolUnit"] = "MeanVariancePoolUnit"
    """The unit's type."""

    def output_fields(self, pooled: RecordType) -> RecordType:
        """`{field: {mean, variance}}`, and `mean` and `variance` beside it where one field is pooled."""
        both: Fields = {"mean": NUMBER, "variance": NUMBER}
        nested: Fields = dict.fromkeys(pooled.fields, RecordType(both))
        return RecordType({**both, **nested} if len(nested) == 1 else nested)

    def pool(self, values: Sequence[Any], weights: Weights, seed: int = 0) -> dict[str, float]:
        """Mean and sample variance (0 for one value)."""
        return {
            "mean": summary_statistics.mean(values),
            "variance": summary_statistics.variance(values),
        }

    def of_the_rest(self, pooled: Any, values: Sequence[Any]) -> Any:
        """One value that is left of several has no variance: 0 would say that the judges agree."""
        return {**pooled, "variance": None} if len(values) == 1 else pooled

    def to_output(self, pooled: Values) -> Values:
        """As `output_fields` says."""
        return {**next(iter(pooled.values())), **pooled} if len(pooled) == 1 else pooled


OnMissing = Literal["fail", "zero", "ignore"]
"""What a criterion without a judgement does."""


class RubricPoolUnit(Pool):
    """The share of a rubric's points that the judgements of its criteria earn: `score`, `earned`, `possible`, `count`."""

    unit: Literal["RubricPoolUnit"] = "RubricPoolUnit"
    """The unit's type."""
    points: NonEmptyText
    """Expression for the points of each criterion, such as `criterion.points`: over the names of its `each`, `index` and `source`. Negative points count when the criterion is met."""
    field: str | None = None
    """The field that says whether a criterion is met: a boolean or a number from 0 to 1; the only such field by default."""
    fields: NonEmptyTuple[str] | None = None
    """Not allowed: a rubric has one `field`."""
    quorum: PositiveInt = 1
    """The minimum number of criteria that must have a judgement, where it is more than one."""
    clip: tuple[float, float] = (0.0, 1.0)
    """The least and the greatest score; a score beyond them becomes one of them."""
    on_missing: OnMissing = "fail"
    """What a criterion without a judgement (`on_failure: skip`, or null) does: `fail` the row, count as not met (`zero`), or be left out with its points (`ignore`). One that `when` skips is left out."""

    positional = ("points",)

    @classmethod
    def positional_keys(cls, values: Sequence[Any]) -> JsonObject:
        """The points of each criterion."""
        return super(Pool, cls).positional_keys(values)

    def validation_error(self) -> Issue | None:
        """A rubric pools one field, and `clip` runs upwards."""
        if self.fields is not None:
            return Issue(
                "fields",
                "a rubric has one judgement for each criterion",
                "name it: `field: score`",
            )
        if self.clip[0] >= self.clip[1]:
            return Issue(
                "clip",
                f"{self.clip[0]:g} is not below {self.clip[1]:g}",
                "such as `clip: [0, 1]`",
            )
        return None

    def output_fields(self, pooled: RecordType) -> RecordType:
        """`score` on the scale of `clip`, `earned`, `possible` and `count`."""
        score = ScaleType(ContinuousScale(*self.clip))
        return RecordType({"score": score, "earned": NUMBER, "possible": NUMBER, "count": INTEGER})

    def grade(self, points: Sequence[float], met: Sequence[float]) -> Values:
        """The output, from the points of each criterion and how far it is met. RowError without positive points."""
        try:
            earned = math.fsum(worth * share for worth, share in zip(points, met, strict=True))
            possible = math.fsum(worth for worth in points if worth > 0)
        except (OverflowError, ValueError):
            earned = possible = math.inf
        if not math.isfinite(earned) or not math.isfinite(possible):
            raise RowError("the sum of these points is too large")
        if possible <= 0 or not math.isfinite(earned / possible):
            hint = "a rubric needs a criterion with positive points; `when` leaves out rows without one"
            raise RowError(
                f"none of its {len(points)} criteria has positive points",
                hint=hint,
                kind="no-points",
            )
        score = min(max(earned / possible, self.clip[0]), self.clip[1])
        return {"score": score, "earned": earned, "possible": possible, "count": len(points)}


class MapUnit(UnitBase):
    """Computes its fields from `outputs`, the list of its dependencies' outputs in order of definition."""

    unit: Literal["MapUnit"] = "MapUnit"
    """The unit's type."""
    expressions: Expressions = Field(alias="map")
    """An expression for each output field."""

    positional = ("map",)
