"""`RubricPoolUnit`: the points of a rubric that are earned, over its positive points. No model call."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from verdict_cli.config_model import Seq, Whole
from verdict_cli.errors import RowError
from verdict_cli.language.fields.types import INTEGER, NUMBER, RecordType, ScaleType
from verdict_cli.language.scales.continuous import ContinuousScale
from verdict_cli.language.units.base import UnitIssue
from verdict_cli.language.units.pools import Pool

OnMissing = Literal["fail", "zero", "ignore"]
"""What a criterion without a judgement does."""


class RubricPoolUnit(Pool):
    """The share of a rubric's points that the judgements of its criteria earn: `score`, `earned`, `possible`, `count`."""

    unit: Literal["RubricPoolUnit"] = "RubricPoolUnit"
    """The unit's type."""
    points: Annotated[str, Field(min_length=1)]
    """Expression for the points of each criterion, such as `criterion.points`: over the names of its `each`, `index` and `source`. Negative points count when the criterion is met."""
    field: str | None = None
    """The field that says whether a criterion is met: a boolean or a number from 0 to 1; the only such field by default."""
    fields: Annotated[Seq[str], Field(min_length=1)] | None = None
    """Not allowed: a rubric has one `field`."""
    quorum: Annotated[int, Field(ge=1), Whole] = 1
    """The minimum number of criteria that must have a judgement, where it is more than one."""
    clip: tuple[float, float] = (0.0, 1.0)
    """The least and the greatest score; a score beyond them becomes one of them."""
    on_missing: OnMissing = "fail"
    """What a criterion without a judgement (`on_failure: skip`, or null) does: `fail` the row, count as not met (`zero`), or be left out with its points (`ignore`). One that `when` skips is left out."""

    def validation_error(self) -> UnitIssue | None:
        """A rubric pools one field, and `clip` runs upwards."""
        if self.fields is not None:
            return ("fields", "a rubric has one judgement for each criterion", "name it: `field: score`")
        if self.clip[0] >= self.clip[1]:
            return ("clip", f"{self.clip[0]:g} is not below {self.clip[1]:g}", "such as `clip: [0, 1]`")
        return None

    def output_fields(self, pooled: RecordType) -> RecordType:
        """`score` on the scale of `clip`, `earned`, `possible` and `count`."""
        score = ScaleType(ContinuousScale(*self.clip))
        return RecordType({"score": score, "earned": NUMBER, "possible": NUMBER, "count": INTEGER})

    def grade(self, points: Sequence[float], met: Sequence[float]) -> dict[str, Any]:
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
            raise RowError(f"none of its {len(points)} criteria has positive points", hint=hint, kind="no-points")
        score = min(max(earned / possible, self.clip[0]), self.clip[1])
        return {"score": score, "earned": earned, "possible": possible, "count": len(points)}
